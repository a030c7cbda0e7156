"""Importing the configuration of other programs; what comes out is compared whole with a file beside what went in."""

import json
import tomllib

import pytest

from agent.cli.importing import PROGRAMS
from agent.cli.importing.toml_entry import ImportedEntry
from agent.config.load import load
from agent.config.toml.finding import Severity
from tests.cli.conftest import TOP, device_agent

IMPORTS = TOP / "tests/cli/imports"
FILES = sorted(path for path in IMPORTS.iterdir() if path.suffix in {".yaml", ".json"})


def run_import(path):
    return device_agent("import", path.name.partition("-")[0].partition(".")[0], str(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_comes_out(path):
    done = run_import(path)
    expected = path.with_suffix(".toml").read_text()
    assert done.stdout == expected
    resources = tomllib.loads(done.stdout).get("resource", [])
    names = [resource["name"] for resource in resources if "name" in resource]
    assert len(names) == len(set(names))
    assert {resource["adds_to"] for resource in resources if "adds_to" in resource} <= set(names)
    assert done.returncode == (1 if "#   not taken over" in expected else 0)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_comes_out_is_served(path, tmp_path):
    """Whatever stood in their file, ours has no mistake in it: what could not be taken over is a comment."""
    (tmp_path / "resources.d").mkdir()
    (tmp_path / "resources.d/a.toml").write_text(path.with_suffix(".toml").read_text())
    loaded = load(str(tmp_path))
    assert [finding for finding in loaded.findings if finding.severity is Severity.ERROR] == []
    assert len(loaded.resources) == path.with_suffix(".toml").read_text().count("[[resource]]")


def test_every_program_has_a_file_here():
    assert {path.name.partition("-")[0].partition(".")[0] for path in FILES} == set(PROGRAMS)


def test_what_changed_is_said_by_line():
    lines = run_import(IMPORTS / "squat.yaml").stderr.splitlines()
    assert lines[1].split(None, 4) == ["fuse", "line", "9", "count", "10 → replicas = 10"]
    assert lines[-1] == "6 of 7 taken over, 4 to check (marked CHECK in the TOML).   next: device-agent check"


def test_a_node_is_served_as_it_was(tmp_path):
    (tmp_path / "resources.d").mkdir()
    squat = IMPORTS / "squat-manifest.yaml"
    (tmp_path / "resources.d/squat.toml").write_text(device_agent("import", "squat", str(squat)).stdout)
    loaded = load(str(tmp_path))
    assert loaded.findings == ()
    (spec,) = loaded.resources
    assert (spec.name, spec.source.arguments, spec.nodes[0].permissions) == (
        "lab.example/video",
        ("/dev/video0",),
        "rwm",
    )


LAUGHTER = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("devices: [", "neither YAML nor JSON"),
        ("", "no device of generic-device-plugin in it"),
        ("kind: Pod", "no device of generic-device-plugin in it"),
        ("just text", "no device of generic-device-plugin in it"),
        ("devices: []", "no device of generic-device-plugin in it"),
        ("a: &a [*a]", "an alias that contains itself"),
        (LAUGHTER, "more than 100,000 values"),
        ("[" * 5000, "nested too deep"),
        ("\0", "neither YAML nor JSON"),
    ],
)
def test_what_is_none_of_theirs_is_said(text, said):
    done = device_agent("import", "squat", "-", given=text)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there_or_no_text(tmp_path):
    missing = device_agent("import", "squat", str(tmp_path / "x.yaml"))
    assert (missing.returncode, missing.stdout) == (4, "")
    assert "No such file" in missing.stderr
    (tmp_path / "junk").write_bytes(b"\xff\xfe\x00")
    junk = device_agent("import", "squat", str(tmp_path / "junk"))
    assert (junk.returncode, junk.stderr) == (1, f"device-agent import: {tmp_path}/junk: it is not UTF-8\n")
    (tmp_path / "junk").chmod(0)
    closed = device_agent("import", "squat", str(tmp_path / "junk"), nobody=True)
    assert (closed.returncode, closed.stdout) == (5, "")
    assert "ermission denied" in closed.stderr


def test_hostile_text_stays_text():
    name = 'x"]\n[[resource]]\x1b[2J'
    device = {"name": name, "groups": [{"paths": [{"path": "/dev/\u007f\u202e", "mountPath": "/a\\b"}]}]}
    done = device_agent("import", "squat", "-", given=json.dumps({"devices": [device]}))
    (resource,) = tomllib.loads(done.stdout)["resource"]
    assert resource["name"] == f"squat.ai/{name}"
    assert resource["source"] == {"node": "/dev/\u007f\u202e"}
    assert "\x1b" not in done.stdout + done.stderr


def test_long_tables_stand_under_their_own_headers():
    long = {f"key{index}": "x" * 30 for index in range(6)}
    entry = ImportedEntry("label", 1, tables=[{"name": "a.b/c", "give": {"nodes": {"n": long}, "env": {"A": "b"}}}])
    text = entry.format_toml()
    assert "[resource.give.nodes.n]" in text
    assert tomllib.loads(text) == {"resource": entry.tables}
