"""A grant on the wire."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.grants.grant import Grant, GrantedMount, GrantedNode, GrantRefusedError
from agent.core.inventory.device import DeviceNode
from agent.kubelet.allocate_response import encode_allocate_response, format_allocate_response
from agent.kubelet.messages import v1beta1

NODE = DeviceNode("/dev/ttyUSB0", "c", 188, 0)
texts = st.sampled_from(["", "/dev/x", "ü", "€\n", "x" * 127, "y" * 300])
few = {"max_size": 2}
grants = st.builds(
    Grant,
    st.just("example.com/a"),
    nodes=st.lists(st.builds(GrantedNode, texts, texts, st.sampled_from(["r", "rwm"]), st.just(NODE)), **few).map(
        tuple
    ),
    env=st.dictionaries(texts, texts, **few),
    mounts=st.lists(st.builds(GrantedMount, texts, texts, read_only=st.booleans()), **few).map(tuple),
    annotations=st.dictionaries(texts, texts, **few),
    cdi=st.lists(texts, **few).map(tuple),
)


def naive(grant):
    """The answer for one container by generated code alone, as the table of the interface has it."""
    return v1beta1.ContainerAllocateResponse(
        envs=dict(grant.env),
        devices=[
            v1beta1.DeviceSpec(container_path=node.container, host_path=node.host, permissions=node.permissions)
            for node in grant.nodes
        ],
        mounts=[
            v1beta1.Mount(container_path=mount.container, host_path=mount.host, read_only=mount.read_only)
            for mount in grant.mounts
        ],
        annotations=dict(grant.annotations),
        cdi_devices=[v1beta1.CdiDevice(name=name) for name in grant.cdi],
    )


@given(st.lists(grants, min_size=1, **few))
def test_grants_are_those_of_the_generated_code(some):
    answer = encode_allocate_response(some)
    wanted = v1beta1.AllocateResponse(container_responses=[naive(grant) for grant in some])
    assert answer == bytes(wanted)
    assert v1beta1.AllocateResponse.FromString(answer) == wanted


def test_a_grant_as_json():
    node = GrantedNode("/dev/ttyUSB0", "/dev/modem", "rw", NODE)
    mount = GrantedMount("/opt/real", "/opt/x", read_only=True)
    grant = Grant("example.com/a", ("a",), (node,), {"A": "ü"}, (mount,), {"k": "v"}, ("example.com/a=0",))
    assert json.loads(format_allocate_response(grant)) == {
        "container_responses": [
            {
                "envs": {"A": "ü"},
                "mounts": [{"container_path": "/opt/x", "host_path": "/opt/real", "read_only": True}],
                "devices": [{"container_path": "/dev/modem", "host_path": "/dev/ttyUSB0", "permissions": "rw"}],
                "annotations": {"k": "v"},
                "cdi_devices": [{"name": "example.com/a=0"}],
            }
        ]
    }


@pytest.mark.parametrize(
    "given",
    [
        {"env": {"SERIAL": "\udcff"}},
        {"annotations": {"a": "\udcff"}},
        {"nodes": (GrantedNode("/dev/\udcff", "/dev/x", "rw", NODE),)},
        {"mounts": (GrantedMount("/\udcff", "/x", read_only=True),)},
        {"cdi": ("\udcff",)},
    ],
)
def test_bytes_that_are_no_text_are_refused_not_sent(given):
    with pytest.raises(GrantRefusedError, match="UTF-8"):
        encode_allocate_response([Grant("example.com/a", **given)])
