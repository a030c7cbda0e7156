import pytest

from agent.core.entry.cdi import (
    SpecError,
    SpecFile,
    is_qualified_name,
    make_annotation_key,
    merge_specs,
    parse_device_names,
)
from agent.core.language.value import Absent

EDITS = {"env": ["A=1"]}


def document(*names, kind="a.com/gpu", **more):
    return {
        "cdiVersion": "0.6.0",
        "kind": kind,
        "devices": [{"name": n, "containerEdits": EDITS} for n in names],
    } | more


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("nvidia.com/gpu=0", True),
        ("nvidia.com/gpu=GPU-1234:0_x.y", True),
        ("v/c=n", True),
        ("nvidia.com/gpu", False),
        ("gpu=0", False),
        ("nvidia.com/gpu=", False),
        ("nvidia.com/gpu=a/b", False),
        ("nvidia.com/gpu=a=b", False),
        ("nvidia.com/gpu=-a", False),
        ("nvidia.com/gpu=a-", False),
        ("1a.com/gpu=a", False),
        ("a.com/gpu.=a", False),
        ("a.com/x/gpu=a", False),
        ("a.com/gpu=a\n", False),
        ("", False),
    ],
)
def test_full_names(name, good):
    assert is_qualified_name(name) is good


def test_the_devices_of_a_spec():
    assert parse_device_names(document("0", "GPU-1:2")) == ("a.com/gpu=0", "a.com/gpu=GPU-1:2")
    assert parse_device_names(document(7)) == ("a.com/gpu=7",)  # as runtimes read a number here


@pytest.mark.parametrize(
    ("what", "fault"),
    [
        (None, "is no table of keys and values"),
        ([], "is no table of keys and values"),
        (document("0", cdiVersion=1), "has no cdiVersion"),
        (document("0", kind="gpu"), "kind 'gpu' is not vendor/class"),
        (document("0", kind=None), "kind None is not vendor/class"),
        (document(), "has no devices"),
        (document("0", devices="x"), "has no devices"),
        (document("0", devices=["x"]), "None is no name of a device"),
        (document("a/b"), "'a/b' is no name of a device"),
        (document("0", "0"), "has device a.com/gpu=0 twice"),
        (document("0", devices=[{"name": "0", "containerEdits": {}}]), "device 0 has no containerEdits"),
    ],
)
def test_what_is_no_spec(what, fault):
    with pytest.raises(SpecError) as error:
        parse_device_names(what)
    assert str(error.value) == fault.replace("a.com/gpu=0", "0")


def test_a_later_directory_goes_first_and_two_files_of_one_conflict():
    specs = merge_specs(
        ["/etc/cdi", "/run/cdi"],
        [
            SpecFile("/etc/cdi/a.json", ("v/c=1", "v/c=2", "v/c=3")),
            SpecFile("/etc/cdi/b.json", ("v/c=2", "v/c=3")),
            SpecFile("/run/cdi/c.json", ("v/c=1", "v/c=3")),
        ],
    )
    assert specs.find_file("v/c=1") == "/run/cdi/c.json"
    conflict = specs.find_file("v/c=2")
    assert conflict == Absent("is in both /etc/cdi/a.json and /etc/cdi/b.json, so no runtime knows which")
    assert isinstance(specs.find_file("v/c=3"), Absent)


def test_a_name_that_is_in_no_spec_says_where_it_was_looked_for_and_what_could_not_be_read():
    assert merge_specs(["/etc/cdi", "/run/cdi"], []).find_file("v/c=1") == Absent(
        "is in no CDI spec in /etc/cdi or /run/cdi"
    )
    assert merge_specs([], []).find_file("v/c=1") == Absent("is in no CDI spec in no directory")
    bad = [SpecFile(f"/etc/cdi/{name}.yaml", fault="has no devices") for name in "ab"]
    assert merge_specs(["/etc/cdi"], bad).find_file("v/c=1") == Absent(
        "is in no CDI spec in /etc/cdi; not read: /etc/cdi/a.yaml (and 1 more): has no devices"
    )
    assert merge_specs(["/etc/cdi"], []).find_file("v/c") == Absent("is no full name of a CDI device")


def test_the_key_of_an_annotation_is_the_resources_own_and_no_longer_than_it_may_be():
    assert make_annotation_key("example.com/gpu") == "cdi.k8s.io/device-agent_example.com_gpu"
    longest = f"{'a' * 40}.com/{'b' * 63}"
    keys = {make_annotation_key(longest), make_annotation_key(longest[:-1]), make_annotation_key("a.com/b")}
    assert len(keys) == 3
    assert all(len(key.removeprefix("cdi.k8s.io/")) <= 63 for key in keys)
