"""`moves_into_pod`: what of a device moves, and of which it is said in vain."""

from __future__ import annotations

import pytest

HEAD = '[[resource]]\nname = "example.com/x"\nid = "{path_id}"\n'
SUBSYSTEM = 'source = { subsystem = "net" }\n'
CARRIED = ("netdev.name", "rdma.name")


@pytest.mark.parametrize(
    ("text", "moves"),
    [
        ('source = "net"', None),
        ('source = "net"\nmoves_into_pod = false', None),
        ('source = "net"\nmoves_into_pod = true', ()),
        ('source = "infiniband"\nmoves_into_pod = true', ()),
        (f"{SUBSYSTEM}moves_into_pod = true", ()),
        ('source = "pci"\nmoves_into_pod = true', CARRIED),
        ('source = "auxiliary"\nmoves_into_pod = true', CARRIED),
        ('class = "sriov-netdev"\nmatch.numa = 0', CARRIED),
        ('class = "sriov-netdev"\nmoves_into_pod = false', None),
    ],
)
def test_what_moves(configure, text, moves):
    made = configure({"resources.d/a.toml": HEAD + text})
    assert made.findings == ()
    assert made.resources[0].moved_words == moves


@pytest.mark.parametrize(
    ("text", "message", "write"),
    [
        (
            'source = "drm"',
            "a device of source drm stays on the host, and so does all that it carries",
            "leave moves_into_pod out",
        ),
        ('source = { node = "/dev/x[0-9]" }', "a device of source node stays on the host", "leave moves_into_pod out"),
        (
            'source = "pci"\ngroup = "slot"',
            "what moves into a pod is one host device, and group gives several host devices together",
            "write group = false, or moves_into_pod = false",
        ),
        (
            'source = "net"\nslots = 2',
            "what moves into a pod is one host device, and slots gives all devices together",
            "write slots = false, or moves_into_pod = false",
        ),
    ],
)
def test_errors(configure, text, message, write):
    id_ = "" if "slots" in text else HEAD
    head = id_ or HEAD.replace('id = "{path_id}"\n', "")
    made = configure({"resources.d/a.toml": f"{head}moves_into_pod = true\n{text}\n"})
    (finding,) = made.findings
    assert (finding.line, finding.code, finding.write) == (head.count("\n") + 1, "type", write)
    assert message in finding.message
