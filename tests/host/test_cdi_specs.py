import json
import os
import sys

import pytest

from agent.core.language.value import Absent
from agent.host import cdi_specs
from agent.host.cdi_specs import SpecDirectories

YAML = """\
---
cdiVersion: "0.5.0"
kind: nvidia.com/gpu
containerEdits:
  env: [A=1]
devices:
  - name: 0
    containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}
  - name: "all"
    containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}
"""


def spec(*names, kind="a.com/gpu"):
    devices = [{"name": name, "containerEdits": {"env": ["A=1"]}} for name in names]
    return json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": devices})


@pytest.fixture
def old(tree):
    """Writes a spec that was there for long already."""

    def write(path, text):
        tree.file(path, text)
        past = tree.at(path).stat().st_mtime - 3600
        os.utime(tree.at(path), (past, past))

    return write


def test_json_and_yaml_and_nothing_else(tree):
    tree.file("/etc/cdi/a.json", spec("0"))
    tree.file("/etc/cdi/b.yaml", YAML)
    for name in ("c.yml", "d.json.tmp", "e", "below/f.json"):
        tree.file(f"/etc/cdi/{name}", spec("9"))
    specs = SpecDirectories().read(tree.root)
    assert specs.paths == {
        "a.com/gpu=0": "/etc/cdi/a.json",
        "nvidia.com/gpu=0": "/etc/cdi/b.yaml",
        "nvidia.com/gpu=all": "/etc/cdi/b.yaml",
    }
    assert specs.faults == {}


def test_directories_of_ones_own_the_later_first(tree):
    tree.file("/opt/a/x.json", spec("0", "1"))
    tree.file("/opt/b/x.json", spec("0"))
    tree.file("/etc/cdi/x.json", spec("2"))
    specs = SpecDirectories(["/opt/a", "/opt/missing", "/opt/b"]).read(tree.root)
    assert specs.paths == {"a.com/gpu=0": "/opt/b/x.json", "a.com/gpu=1": "/opt/a/x.json"}
    assert isinstance(specs.find_file("a.com/gpu=2"), Absent)


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("x.json", "{", "is no JSON: Expecting property name"),
        ("x.json", b"\xff", "is no JSON: 'utf-8' codec"),
        ("x.json", "[" * 100_000, "is no JSON: "),
        ("x.json", spec(), "has no devices"),
        ("x.yaml", "a: [", "is no YAML: line "),
        ("x.yaml", b"a: \xff\xfe", "is no YAML: "),
        ("x.yaml", "a: " + "[" * 5_000, "is no YAML: "),
        ("x.yaml", "", "is no table of keys and values"),
        ("x.yaml", "a: &x [*x]", "is no YAML: line 1: "),
        ("x.yaml", "!!python/object/apply:os.system [exit]", "is no table of keys and values"),
    ],
)
def test_a_file_that_is_no_spec_says_why_and_costs_only_itself(tree, name, text, fault):
    tree.file(f"/etc/cdi/{name}", text)
    tree.file("/etc/cdi/good.json", spec("0"))
    specs = SpecDirectories().read(tree.root)
    assert specs.faults[f"/etc/cdi/{name}"].startswith(fault)
    assert specs.paths == {"a.com/gpu=0": "/etc/cdi/good.json"}


def test_what_is_no_file_or_too_large_is_not_read(tree, monkeypatch):
    monkeypatch.setattr(cdi_specs, "LIMIT", 1 << 20)
    os.makedirs(tree.at("/etc/cdi/dir.json"))
    os.mkfifo(tree.at("/etc/cdi/fifo.json"))
    tree.file("/etc/cdi/large.json", b" " * ((1 << 20) + 1))
    assert SpecDirectories().read(tree.root).faults == {
        "/etc/cdi/dir.json": "is a directory",
        "/etc/cdi/fifo.json": "is a FIFO",
        "/etc/cdi/large.json": "has more than 1 MiB",
    }


def test_a_file_is_read_again_once_it_changes_and_not_before(tree, old, monkeypatch):
    directories = SpecDirectories()
    old("/etc/cdi/a.json", spec("0"))
    monkeypatch.setattr(tree.root.__class__, "get_age", lambda root, path: 60.0)
    parsed = []
    parse = cdi_specs._parse
    monkeypatch.setattr(cdi_specs, "_parse", lambda path, data: parsed.append(path) or parse(path, data))
    first = directories.read(tree.root)
    assert directories.read(tree.root) is first
    assert parsed == ["/etc/cdi/a.json"]
    tree.file("/etc/cdi/a.json", spec("1"))
    assert directories.read(tree.root).paths == {"a.com/gpu=1": "/etc/cdi/a.json"}
    tree.at("/etc/cdi/a.json").unlink()
    assert directories.read(tree.root).paths == {}
    assert parsed == ["/etc/cdi/a.json"] * 2


def test_a_file_that_has_just_changed_is_read_again_in_any_case(tree):
    directories = SpecDirectories()
    tree.file("/etc/cdi/a.json", spec("0"))
    before = tree.at("/etc/cdi/a.json").stat()
    directories.read(tree.root)
    tree.file("/etc/cdi/a.json", spec("1"))
    os.utime(tree.at("/etc/cdi/a.json"), ns=(before.st_atime_ns, before.st_mtime_ns))
    assert directories.read(tree.root).paths == {"a.com/gpu=1": "/etc/cdi/a.json"}


def test_yaml_is_imported_by_those_who_have_such_a_spec_alone(tree, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)  # importing it fails
    tree.file("/etc/cdi/a.json", spec("0"))
    assert SpecDirectories().read(tree.root).paths
    tree.file("/etc/cdi/b.yaml", YAML)
    with pytest.raises(ImportError):
        SpecDirectories().read(tree.root)
