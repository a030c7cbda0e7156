"""Joins from TOML: what they are compiled to, and every mistake with its place."""

import pytest

from agent.core.language.value import ValueType
from tests.config.marks import marked_by

HEAD = '[[resource]]\nname = "example.com/x"\nsource = "pci"\n'
FPGA = HEAD + (
    "[resource.join.mgmt]\n"
    'source = "pci"\n'
    'on = { slot = "slot" }\n'
    'match = { "./mgmt_pf" = { exists = true } }\n'
    'let = { instance = { read = "./instance", type = "int" } }\n'
    "optional = true\n"
)


def load(configure, text, **files):
    named = {f"{name.replace('__', '/')}.toml": content for name, content in files.items()}
    return configure({"resources.d/a.toml": text, **named})


def test_a_join_is_where_to_look_for_whom_and_by_what(configure):
    text = (
        FPGA.replace('source = "pci"\non', 'source = { kind = "pci", every = "5s" }\non')
        + '[resource.give.env]\nINSTANCE = { value = "{mgmt.instance}", join = "," }\n'
    )
    found = load(configure, text)
    assert found.is_valid
    (spec,) = found.resources
    (join,) = spec.joins
    assert (join.name, join.key_words, join.optional, str(join.pool.source)) == ("mgmt", ("slot",), True, "pci")
    assert join.pool.keys == (("slot", ValueType.TEXT),)
    assert join.pool.match.lines[0].word == "./mgmt_pf"
    assert set(join.pool.derived_words) == {"instance"}
    assert spec.derived_words["mgmt.instance"].join == join
    assert spec.source_intervals == ((join.pool.source, 5.0),)
    assert spec.sources == (spec.source, join.pool.source)


def test_a_join_may_be_of_any_source_and_need_a_let_and_another_join(configure):
    text = HEAD + (
        'let.render = { read = "./minor", type = "int" }\n'
        "[resource.join.kfd]\n"
        'dir = "/sys/class/kfd/kfd/topology/nodes/*"\n'
        'on = { drm_minor = "render" }\n'
        'let.drm_minor = { field = "drm_render_minor", of = "./properties", type = "int" }\n'
        'let.serial = "./serial"\n'
        "[resource.join.usb_board]\n"
        'source = { subsystem = "usb" }\n'
        "on = { udev.ID_SERIAL = 'kfd.serial' }\n"
        "[resource.match]\n"
        "kfd.drm_minor = { at_least = 128 }\n"
        '"usb_board/state" = "on"\n'
        "usb_board = { exists = true }\n"
    )
    found = load(configure, text)
    assert found.is_valid
    (spec,) = found.resources
    kfd, board = spec.joins
    assert kfd.pool.source.kind == "dir"
    assert board.key_words == ("kfd.serial",)
    assert {"kfd.drm_minor", "kfd.serial", "usb_board/state", "usb_board"} < set(spec.derived_words)


CLASS = (
    'about = "x"\nsource = "pci"\nid = "{address}"\n'
    '[options.depth]\nabout = "how deep"\ndefault = 3\ntype = "int"\n'
    '[let]\nserial = "./serial"\nboard_state = "{board.slot}"\n'
    '[join.board]\nsource = "pci"\non = { slot = "serial" }\noptional = true\n'
)


def test_a_class_brings_its_source_its_words_and_its_joins(configure):
    text = CLASS.replace('board_state = "{board.slot}"', "board_slot = { read = 'board.slot' }")
    entry = HEAD + (
        '[resource.join.card]\nclass = "c"\non = { serial = "driver" }\n'
        "let.color = './color'\nmatch.board_slot = { exists = true }\n"
        "[resource.match]\ncard.board_slot = 'x'\ncard.options.depth = 3\ncard.color = 'red'\n"
    )
    found = load(configure, entry, classes__c=text)
    assert found.is_valid
    (join,) = found.resources[0].joins
    assert [nested.name for nested in join.pool.joins] == ["board"]
    assert {"serial", "board_slot", "color", "board.slot", "options.depth"} <= set(join.pool.derived_words)


def test_a_join_of_an_entry_has_its_overrides(configure):
    entry = (
        '[[resource]]\nname = "example.com/vf"\nsource = "pci"\n'
        '[resource.join.owner]\nresource = "example.com/x"\non = { address = "address" }\nmatch.color = "red"\n'
    )
    later = HEAD + 'let.color = "./paint"\n'
    found = configure({"resources.d/a.toml": entry, "resources.d/b.toml": later})
    assert found.is_valid
    assert set(found.resources[0].joins[0].pool.derived_words) == {"color"}


def test_below_proc_a_join_may_be_the_pci_function(configure):
    text = (
        '[[resource]]\nname = "example.com/x"\nsource = { dir = "/proc/driver/x/*" }\nid = "{pci.address}"\n'
        'let.slot = { read = "./address", type = "pci" }\n[resource.join.pci]\nsource = "pci"\n'
        'on = { address = "slot" }\n'
    )
    found = load(configure, text)
    assert found.is_valid
    assert found.resources[0].derived_words["pci.address"].word == "address"
    taken = load(configure, HEAD + '[resource.join.pci]\nsource = "pci"\n')
    assert [finding.code for finding in taken.findings] == ["taken"]


def test_a_join_may_look_below_the_device_or_what_belongs_to_it(configure):
    text = HEAD + (
        '[resource.join.region]\ndir = "pf/fpga_region/region{region:int}"\n[resource.join.meter]\n'
        'dir = "./meters/{region.region}-*/m{meter:int}"\non = { meter = "vf_index" }\n'
        '[resource.join.deeper]\ndir = "region/deep*"\n'
    )
    found = load(configure, text)
    assert found.is_valid, found.findings
    (spec,) = found.resources
    region, meter, deeper = spec.joins
    assert str(region.pool.source) == "dir pf/fpga_region/region{region:int}"
    assert spec.sources == (spec.source,)  # nothing of it is listed: each device has its own
    assert meter.key_words == ("vf_index",)
    assert deeper.pool.directory.path.join == region


# What stands in `[resource.join.x]` from line 5 on; then line, column, marked text, code, hint.
MISTAKES = [
    ('on = { slot = "slot" }', 4, 16, "x", "missing", 'write for example source = "pci"'),
    ('source = "pcie"', 5, 11, "pcie", "type", "nearest: pci"),
    ('source = "pci"\ndir = "/proc/x"', 6, 1, "dir", "type", "leave one out"),
    ('source = "pci"\non = { slto = "slot" }', 6, 8, "slto", "unknown-word", "nearest: slot"),
    ('source = "pci"\non = { slot = "slto" }', 6, 16, "slto", "unknown-word", "nearest: slot"),
    ('source = "pci"\non = { slot = "vf_index" }', 6, 15, '"vf_index"', "type", "take words of one type"),
    ('source = "pci"\non = { nodes = "node" }', 6, 16, '"node"', "type", "take another word"),
    ('source = "pci"\non = { slot = 3 }', 6, 15, "3", "type", 'write THEIRS = "ours"'),
    ('source = "pci"\nmatch = { vendor = 8086 }', 6, 20, "8086", "hex-id", 'write "8086"'),
    ('source = "pci"\nlet.vendor = "./v"', 6, 5, "vendor", "taken", "take another name"),
    ('source = "pci"\noptional = "yes"', 6, 12, '"yes"', "type", None),
    ('source = { kind = "pci", every = "5" }', 5, 34, '"5"', "type", 'write for example "5s"'),
    ('class = "kvmm"', 5, 10, "kvmm", "unknown-class", "nearest: kvm"),
    ('resource = "example.com/y"', 5, 13, "example.com/y", "unknown-resource", "nearest: example.com/x"),
    ('resource = "example.com/x"', 5, 13, "example.com/x", "cycle", "leave one of the joins out"),
    ('dir = "pff/x*"', 5, 8, "pff/x*", "unknown-word", "nearest: pf"),
    ('dir = ["./a", "/sys/b"]', 5, 7, '["./a", "/sys/b"]', "type", "make a join of each"),
    ('dir = "./**"', 5, 10, "**", "glob", None),
    ('dir = "./x{a:flot}"', 5, 11, "{a:flot}", "glob", None),
    ('dir = "./x{a}"', 5, 12, "a", "unknown-word", None),
    ('dir = "./x{name:int}"', 5, 11, "{name:int}", "taken", "take another name"),
    ('source = "pci"\n[resource.match]\nx.drivr = "a"', 7, 3, "drivr", "unknown-word", "nearest: driver"),
    (
        'source = "pci"\n[resource.give.env]\nA = { value = "{x.drivr}", join = "," }',
        7,
        19,
        "drivr",
        "unknown-word",
        None,
    ),
    (
        'class = "kvm"\n[resource.match]\nx.healthy = true',
        7,
        3,
        "healthy",
        "unknown-word",
        "say it in a wait, in holds, when or reason of a check, or in a when of what is given",
    ),
    ('source = "pci"\non = { slot = "x.slot" }', 4, 16, "x", "cycle", "have one of them rest on something else"),
    (
        'source = "pci"\non = { slot = "a" }\n[resource.let]\na = { read = "x.slot" }',
        8,
        1,
        "a",
        "cycle",
        "have one of them rest on something else",
    ),
]


@pytest.mark.parametrize(
    ("lines", "line", "column", "marked", "code", "write"), MISTAKES, ids=[row[0] for row in MISTAKES]
)
def test_a_mistake_in_a_join(configure, lines, line, column, marked, code, write):
    text = HEAD + "[resource.join.x]\n" + lines + "\n"
    findings = load(configure, text).findings
    assert [(finding.line, finding.code) for finding in findings] == [(line, code)], findings
    (finding,) = findings
    assert (finding.column, marked_by(finding)) == (column, marked), finding
    if write is not None:
        assert finding.write == write


def test_a_class_that_joins_itself_is_a_cycle(configure):
    text = 'about = "x"\nsource = "pci"\n[join.twin]\nclass = "c"\non = { slot = "slot" }\n'
    found = configure({"classes/c.toml": text})
    assert {finding.code for finding in found.findings} == {"cycle"}
    assert "c → c" in found.findings[0].message


def test_two_entries_that_look_for_one_partner_in_one_way_share_its_index(configure):
    second = FPGA.replace("example.com/x", "example.com/y").replace("mgmt]", "control]")
    found = load(configure, FPGA + second)
    assert found.is_valid
    one, two = (spec.joins[0] for spec in found.resources)
    assert one.pool == two.pool
    assert hash(one.pool) == hash(two.pool)
    assert found.resources[0].drop_origin() != found.resources[1].drop_origin()


def test_what_only_follows_from_a_mistake_in_a_word_is_not_said(configure):
    text = (
        HEAD + '[resource.join.one]\nsource = "pci"\nlet.a = { red = "./x", type = "pci" }\n'
        '[resource.join.two]\nsource = "pci"\non = { address = "one.a" }\n[resource.match]\ntwo.numa = 1\n'
    )
    assert {finding.line for finding in load(configure, text).findings} == {6}
