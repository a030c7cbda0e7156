"""`give.rdma`: which nodes of which RDMA device it means."""

from __future__ import annotations

import pytest

HEAD = '[[resource]]\nname = "example.com/hca"\nsource = "infiniband"\n'
DEFAULT = [("uverbs", False), ("umad", True), ("issm", True), ("rdma_cm", True)]


def compile_give(configure, text, head=HEAD):
    made = configure({"resources.d/a.toml": head + text})
    assert made.findings == ()
    return made.resources[0]


def sets(spec):
    return [(node.name.removeprefix("rdma."), node.optional) for node in spec.nodes]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("give.rdma = true", DEFAULT),
        ("give.rdma = {}", DEFAULT),
        ('give.rdma.optional = ["umad"]', [("uverbs", False), ("umad", True)]),
        ("give.rdma.optional = []", [("uverbs", False)]),
        (
            'give.rdma.required = ["uverbs", "rdma_cm"]',
            [("uverbs", False), ("umad", True), ("issm", True), ("rdma_cm", False)],
        ),
        ('give.rdma = { required = [], optional = ["ucm"] }', [("ucm", True)]),
        ("give.also.a = { when = { numa = 0 }, rdma = true }", DEFAULT),
    ],
)
def test_what_is_required_and_what_need_not_be_there(configure, text, expected):
    assert sets(compile_give(configure, text)) == expected


@pytest.mark.parametrize(
    ("source", "uverbs"),
    [
        ('"infiniband"', "{rdma.uverbs}"),
        ('"pci"', "{rdma.uverbs}"),
        ('"auxiliary"\nid = "{path_id}"', "{rdma.uverbs}"),
        ('"net"', "{pci.rdma.uverbs}"),
        ('{ subsystem = "npu" }\nid = "{pci.address}"', "{pci.rdma.uverbs}"),
    ],
)
def test_the_way_to_the_rdma_device(configure, source, uverbs):
    spec = compile_give(configure, "give.rdma = true", f'[[resource]]\nname = "example.com/hca"\nsource = {source}\n')
    assert [node.path.source for node in spec.nodes] == [
        uverbs,
        uverbs.replace("uverbs", "umad"),
        uverbs.replace("uverbs", "issm"),
        "/dev/infiniband/rdma_cm",
    ]
    assert all(node.container_paths == (node.path,) and node.permissions == "rw" for node in spec.nodes)


def test_permissions_and_when_are_of_all_of_them(configure):
    spec = compile_give(configure, 'give.rdma = { permissions = "wmr", when = { numa = 1 } }')
    assert {node.permissions for node in spec.nodes} == {"rwm"}
    assert all(node.condition is not None for node in spec.nodes)
    assert compile_give(configure, "give.rdma = { when = { numa = 1 } }").find_give_words() >= {
        "numa",
        "rdma.umad",
        "rdma.name",
    }


def test_what_the_entry_did_not_choose_gives_nothing(configure):
    spec = compile_give(
        configure,
        'options.with = { about = "x", one_of = ["rdma", "none"], value = "none" }\n'
        'give.rdma.when = { options.with = "rdma" }',
    )
    assert spec.nodes == ()


def test_of_a_group_each_host_device_gives_its_own(configure):
    spec = compile_give(configure, 'group = "pci.slot"\ngive.rdma = true')
    assert [node.per_member for node in spec.nodes] == [True, True, True, False]


@pytest.mark.parametrize(
    ("text", "code", "message", "write"),
    [
        (
            "give.rdma = { required = [], optional = [] }",
            "missing",
            "give.rdma gives nothing: both required and optional are empty",
            "write rdma = true, or take it out",
        ),
        ('give.rdma.permissions = "rx"', "permissions", "x is none of them", 'write "rw", the default, or "rwm"'),
        ('give.rdma.required = ["umda"]', "type", "required is a list of uverbs, umad", "umad"),
        ("give.rdma.when = {}", "type", "when says nothing", "take it out, or say when"),
        ("give.rdma.to = '/dev/x'", "unknown-key", "give.rdma has no such key", ""),
        ('give.env.A = "{given.rdma.uverb}"', "unknown-word", "give.nodes has no rdma.uverb", ""),
    ],
)
def test_errors(configure, text, code, message, write):
    (finding,) = configure({"resources.d/a.toml": HEAD + text}).findings
    assert (finding.line, finding.code) == (4, code)
    assert message in finding.message
    assert write in finding.write


def test_a_source_whose_devices_have_no_rdma_device(configure):
    text = '[[resource]]\nname = "example.com/x"\nsource = { fixed = ["a"] }\ngive.rdma = true\n'
    (finding,) = configure({"resources.d/a.toml": text}).findings
    assert (finding.line, finding.code) == (4, "type")
    assert finding.message == "give.rdma: a device of source fixed is nothing that has an RDMA device"
    assert finding.write == 'write source = "infiniband"'
