"""scan --words: what may be said of a source's devices."""

import json

import pytest

from agent.scanners import source_kinds
from tests.cli.conftest import device_agent


@pytest.fixture
def words(tree):
    for index, vendor in enumerate(("15b3", "8086", "10de", "1af4", "1d0f")):
        tree.pci(f"0000:3b:00.{index}", driver="vfio-pci", vendor=f"0x{vendor}\n", numa_node="1\n")
    npu = tree.class_device("/sys/devices/pci0000:00/0000:3b:00.0/npu/npu0", "npu", "npu0", 240, 0)
    tree.file(f"{npu}/state\x1b[2J", "ready")
    tree.file(f"{npu}/state", "ready")

    def ask(*more):
        done = device_agent("--root", str(tree.top), "scan", "--words", *more)
        return done.returncode, done.stdout, done.stderr

    return ask


def test_words_with_their_types_and_what_they_say_here(words):
    code, out, _ = words("pci")
    assert code == 0
    assert out.startswith("source pci: 5 devices here\n")
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in out.splitlines()[2:]}
    assert rows["vendor"] == "hex 15b3, 8086, 10de, … (5) vendor"
    assert rows["numa"] == "int 1 numa_node"
    assert rows["pf"].startswith("→")
    assert set(source_kinds.list_words("pci")) - {"udev"} <= set(rows)


def test_a_class_that_nobody_knows_shows_its_files_as_paths(words):
    code, out, _ = words("npu")
    assert code == 0
    assert 'other files: "./dev" "./state"\n' in out
    assert "\x1b" not in out
    said = json.loads(words("npu", "-o", "json")[1])
    assert said["devices"] == ["npu0"]
    assert {"word": "name", "type": "text", "kernel": "-", "here": ["npu0"]} in said["words"]


def test_what_a_device_says_is_escaped_once(tree):
    tree.class_device("/sys/devices/virtual/npu/a\x1b[2J", "npu")
    out = device_agent("--root", str(tree.top), "scan", "--words", "npu").stdout
    assert next(line.split()[2] for line in out.splitlines() if line.startswith("name ")) == r'"a\x1b[2J"'


@pytest.mark.parametrize(("name", "near"), [("pcie", "pci"), ("nqu", "npu"), ("..", ""), ("a/b", ""), ("", "")])
def test_what_is_no_source(words, name, near):
    code, out, err = words(name)
    assert (code, out) == (4, "")
    assert "no such source on this host" in err
    assert (f"nearest: {near}" in err) == bool(near)


@pytest.mark.parametrize(
    ("pattern", "count", "word"),
    [
        ("/dev/npu*", 1, "below_dev text npu0 –"),
        ("/sys/class/npu/npu{n:int}", 1, "n int 0 the pattern"),
        ("/dev/npu{n:int}", 1, "n int 0 the pattern"),
        ("/proc/npu/*", 0, "name text –"),
    ],
)
def test_a_pattern_is_a_source(words, pattern, count, word):
    code, out, _ = words(pattern)
    assert code == 0
    assert f": {count} device" in out.splitlines()[0]
    assert word in {" ".join(line.split()) for line in out.splitlines()}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("node", "write the path of the nodes: --words '/dev/video*'"),
        ("dir", "write the path of the directories: --words '/sys/class/npu/npu*'"),
        ("subsystem", "write the class or bus of the kernel: --words tty"),
        ("fixed", "it has no device on the host: its only word is name"),
        ("/dev/**", "** is not supported"),
        ("/dev/npu{n:float}", "float"),
    ],
)
def test_a_source_that_has_to_be_told_where(words, name, said):
    code, out, err = words(name)
    assert (code, out) == (2, "")
    assert said in err
    assert "nearest" not in err
