"""Specs of our own: what the CDI specification asks of them, and what makes them ours."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.cdi import is_qualified_name, parse_device_names
from agent.core.entry.generated_cdi import (
    MARK,
    build_spec,
    make_device_name,
    make_file_name,
    make_kind,
    parse_spec,
    render_spec,
)
from agent.core.grants.build_grant import build_grant, build_spec_edits
from agent.core.grants.container_edits import build_container_edits
from agent.core.grants.grant import GrantedMount, GrantedNode, GrantRefusedError, RereadDevice
from agent.core.inventory.device import MatchedPath
from tests.core.builders import cdi, env, give, make_listed, mount, node, spec

SCHEMA = json.loads((Path(__file__).parent / "cdi-schema.json").read_text())
OWNER = "/var/lib/device-agent"
FOO = "example.com/foo"


def make_granted_node(path, to=None, permissions="rw"):
    return GrantedNode(path, to or path, permissions, node(path))


def lowest_version(said):
    """As the library has it: specs-go/version.go, `MinimumRequiredVersion`."""
    every = [said.get("containerEdits", {}), *(one["containerEdits"] for one in said["devices"])]
    if "annotations" in said or "." in said["kind"].partition("/")[2]:
        return "0.6.0"
    names = (one["name"] for one in said["devices"])
    nodes = (each for one in every for each in one.get("deviceNodes", ()))
    if any(name[0].isdigit() for name in names) or any("hostPath" in each for each in nodes):
        return "0.5.0"
    return "0.4.0" if any("type" in each for one in every for each in one.get("mounts", ())) else "0.3.0"


def check(said):
    """What a runtime looks at before it takes a spec."""
    jsonschema.validate(said, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert len(parse_device_names(said)) == len(said["devices"])
    assert said["cdiVersion"] == lowest_version(said)
    assert all(any(one["containerEdits"].values()) for one in said["devices"])


ONE = build_container_edits([make_granted_node("/dev/npu0")], [], {})
CTL = build_container_edits([make_granted_node("/dev/npu0"), make_granted_node("/dev/npu_ctl")], [], {"A": "1"})
OTHER = build_container_edits([make_granted_node("/dev/npu1"), make_granted_node("/dev/npu_ctl")], [], {"A": "1"})
MOVED = build_container_edits(
    [make_granted_node("/dev/npu1", "/dev/npu", "r")], [GrantedMount("/opt/x", "/usr/x", read_only=True)], {}
)


@pytest.mark.parametrize(
    ("resource", "devices", "golden"),
    [
        (
            FOO,
            {"npu0": ONE},
            {
                "cdiVersion": "0.3.0",
                "kind": "device-agent.example.com/foo",
                "devices": [
                    {
                        "name": "npu0",
                        "containerEdits": {"deviceNodes": [{"path": "/dev/npu0", "permissions": "rw"}]},
                    }
                ],
            },
        ),
        (
            "example.com/f.oo",
            {"npu0": CTL, "npu1": OTHER},
            {
                "cdiVersion": "0.6.0",
                "kind": "device-agent.example.com/f.oo",
                "containerEdits": {
                    "env": ["A=1"],
                    "deviceNodes": [{"path": "/dev/npu_ctl", "permissions": "rw"}],
                },
                "devices": [
                    {"name": name, "containerEdits": {"deviceNodes": [{"path": f"/dev/{name}", "permissions": "rw"}]}}
                    for name in ("npu0", "npu1")
                ],
            },
        ),
        (
            FOO,
            {"0000:3b:00.0": MOVED},
            {
                "cdiVersion": "0.5.0",
                "kind": "device-agent.example.com/foo",
                "devices": [
                    {
                        "name": "0000:3b:00.0",
                        "containerEdits": {
                            "deviceNodes": [{"path": "/dev/npu", "hostPath": "/dev/npu1", "permissions": "r"}],
                            "mounts": [
                                {
                                    "hostPath": "/opt/x",
                                    "containerPath": "/usr/x",
                                    "options": ["rbind", "rprivate", "ro"],
                                }
                            ],
                        },
                    }
                ],
            },
        ),
        (
            FOO,
            {"a": ONE, "b": ONE},  # nothing would be left of either
            {
                "cdiVersion": "0.3.0",
                "kind": "device-agent.example.com/foo",
                "devices": [
                    {"name": name, "containerEdits": {"deviceNodes": [{"path": "/dev/npu0", "permissions": "rw"}]}}
                    for name in ("a", "b")
                ],
            },
        ),
    ],
)
def test_golden(resource, devices, golden):
    said = build_spec(resource, {make_device_name(resource, name): edits for name, edits in devices.items()})
    assert said == golden
    check(said)


RESOURCES = [FOO, "example.com/3d", "3dfx.com/x", "a" * 250 + ".io/x", "example.com/" + "x" * 63, "k8s.io/A.b-c_d"]


@pytest.mark.parametrize("resource", RESOURCES)
def test_any_resource_has_a_kind_and_a_file_of_its_own(resource):
    check(build_spec(resource, {make_device_name(resource, "a"): ONE}))
    vendor, class_ = make_kind(resource).split("/")
    assert len(vendor) <= 253
    assert len(class_) <= 63
    assert len(make_file_name(resource)) <= 255
    assert (
        len({make_kind(one) for one in RESOURCES}) == len({make_file_name(one) for one in RESOURCES}) == len(RESOURCES)
    )


@given(st.lists(st.from_regex(r"[A-Za-z0-9_.:@-]{1,63}", fullmatch=True), unique=True, min_size=2, max_size=4))
def test_any_id_has_a_name_of_its_own(ids):
    names = [make_device_name(FOO, one) for one in ids]
    assert all(map(is_qualified_name, names))
    assert len(set(names)) == len(ids)
    check(build_spec(FOO, dict.fromkeys(names, ONE)))


TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.lists(TEXTS, min_size=1, max_size=3), min_size=1))
def test_a_file_is_yaml_and_comes_back_as_it_was(values):
    devices = {
        make_device_name(FOO, name): build_container_edits(
            [], [GrantedMount(f"/{text}", f"/{text}", read_only=False) for text in texts], {}
        )
        for name, texts in values.items()
    }
    data = render_spec(build_spec(FOO, devices), OWNER)
    assert data.startswith(MARK)
    back = parse_spec(data, OWNER)
    assert back.keys() == devices.keys()
    for name, one in devices.items():  # what all have alike comes first
        assert {str(each) for each in back[name]["mounts"]} == {str(each) for each in one["mounts"]}
    assert yaml.safe_load(data) == json.loads(data.partition(b"\n")[2])


@pytest.mark.parametrize(
    ("data", "back"),
    [
        (b"", None),
        (b"# Written by somebody\n{}", None),
        (b'{"cdiVersion": "0.6.0"}', None),
        (render_spec(build_spec(FOO, {f"{make_kind(FOO)}=a": ONE}), "/other"), None),
        (render_spec(build_spec(FOO, {f"{make_kind(FOO)}=a": ONE}), OWNER)[:-20], {}),
        (render_spec([], OWNER), {}),
        (render_spec({"kind": 1, "devices": [3]}, OWNER), {}),
        (render_spec(build_spec(FOO, {f"{make_kind(FOO)}=a": ONE}), OWNER), {f"{make_kind(FOO)}=a": ONE}),
    ],
)
def test_what_is_ours(data, back):
    assert parse_spec(data, OWNER) == back


# ------------------------------------------------------------------- what of a grant it takes over


def make_reread(name, **more):
    at = node(f"/dev/{name}", minor=int(name[-1]))
    device = make_listed(name, nodes=(at,))
    fields = {"nodes": {at.path: at, "/dev/ctl": node("/dev/ctl")}, "mounts": {}}
    return RereadDevice(device, (), {"name": name}, **fields | more)


SPLIT = spec(
    FOO,
    nodes=(give("it", "/dev/{name}", in_spec=True), give("ctl", "/dev/ctl", optional=True, to="/dev/ctl{n}")),
    env=(env("ALL", "{name}", separator=","),),
    cdi=(cdi("example.com/card={name}"),),
    via="cdi",
)


def test_a_grant_has_the_rest():
    devices = [
        make_reread("npu0", cdi={"example.com/card=npu0": "/x"}),
        make_reread("npu1", cdi={"example.com/card=npu1": "/x"}),
    ]
    grant = build_grant(SPLIT, ["npu0", "npu1"], devices, 2)
    assert [one.container for one in grant.nodes] == ["/dev/ctl0", "/dev/ctl1"]
    assert grant.env == {"ALL": "npu0,npu1"}
    assert grant.cdi == (
        "example.com/card=npu0",
        "device-agent.example.com/foo=npu0",
        "example.com/card=npu1",
        "device-agent.example.com/foo=npu1",
    )
    assert build_spec_edits(SPLIT, devices[1], FOO) == {"deviceNodes": [{"path": "/dev/npu1", "permissions": "rw"}]}


def test_what_is_missing_is_refused_whoever_would_give_it():
    gone = make_reread("npu0", nodes={})
    for ask in (lambda: build_spec_edits(SPLIT, gone, FOO), lambda: build_grant(SPLIT, ["npu0"], [gone], 1)):
        with pytest.raises(GrantRefusedError, match="/dev/npu0"):
            ask()


def test_nothing_to_say_is_refused():
    entry = spec(FOO, nodes=(give("it", "/dev/gone", optional=True, in_spec=True),), via="cdi")
    with pytest.raises(GrantRefusedError, match="its CDI spec would be empty"):
        build_spec_edits(entry, make_reread("npu0"), FOO)


def test_one_variable_in_the_spec_and_besides_has_one_value():
    both = (env("A", "1", in_spec=True), env("A", "{name}"))
    with pytest.raises(GrantRefusedError, match="A would be both"):
        build_grant(spec(FOO, env=both, via="cdi"), ["npu0"], [make_reread("npu0")], 1)
    same = (env("A", "npu0", in_spec=True), env("A", "{name}"))
    assert build_grant(spec(FOO, env=same, via="cdi"), ["npu0"], [make_reread("npu0")], 1).env == {}


def test_what_is_not_text_is_refused():
    entry = spec(FOO, mounts=(mount("m", "/opt/*", in_spec=True),), via="cdi")
    odd = make_reread("npu0", mounts={"/opt/*": (MatchedPath("/opt/\udcff", "/opt/\udcff"),)})
    with pytest.raises(GrantRefusedError, match="not UTF-8"):
        build_spec_edits(entry, odd, FOO)
