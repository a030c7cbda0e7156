"""What we write where others read, on a disk that is full and on one that nobody can write: whole, or not there."""

import json
import subprocess
import sys

import pytest

from tests.cli.conftest import TOP
from tests.namespaces import need_namespaces

CDI = """
from agent.core.entry.generated_cdi import make_header
from agent.host.root import Root
from agent.host.cdi_spec_file import SpecFiles
files = SpecFiles(Root(), PLACE, "me")
def write(size):
    files.put("device-agent_a.yaml", make_header("me") + b"x" * size)
"""
DEVINFO = """
from agent.core.entry.devinfo import DevInfo
from agent.host.devinfo_directory import DevInfoDirectory, DevInfoError
files = DevInfoDirectory(PLACE, STATE)
def write(size):
    try:
        files.write([DevInfo("a", "a-device.json", "x" * size)])
    except DevInfoError as error:
        raise OSError(0, str(error)) from None
"""
SCRIPT = """
import json, os, subprocess, sys
PLACE, STATE = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", PLACE], check=True)
{what}
def said(size):
    try:
        write(size)
    except OSError as error:
        return error.strerror
    return ""
def there():
    return {{name: os.path.getsize(os.path.join(PLACE, name)) for name in os.listdir(PLACE)}}
found = [said(1000), there(), said(1000000), there(), said(2000), there()]
subprocess.run(["mount", "-o", "remount,ro", PLACE], check=True)
print(json.dumps([*found, said(3000), there()]))
"""


@pytest.mark.parametrize("what", [CDI, DEVINFO], ids=["cdi", "devinfo"])
def test_what_was_there_stays_and_nothing_is_half_there(tmp_path, what):
    need_namespaces("--mount", tools=["mount"])
    place = tmp_path / "place"
    place.mkdir()
    words = [sys.executable, "-c", SCRIPT.format(what=what), str(place), str(tmp_path / "state")]
    done = subprocess.run(
        ["unshare", "--mount", *words], capture_output=True, text=True, cwd=TOP, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    first, one, full, still, again, two, frozen, last = json.loads(done.stdout)
    assert (first, again) == ("", "")
    assert full.endswith("No space left on device")
    assert frozen.endswith("Read-only file system")
    assert one == still  # as it was, and nothing beside it
    assert two == last
    assert [len(files) for files in (one, two)] == [1, 1]
    assert sum(two.values()) - sum(one.values()) == 1000
