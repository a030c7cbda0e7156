"""`group` as it is read from files: the words it brings, and what is wrong with it."""

import pytest

from agent.core.entry.group import GroupWord
from agent.core.language.value import ValueType

HEAD = '[[resource]]\nname = "example.com/x"\n'
PCI = HEAD + 'source = "pci"\n'
KIT = (
    HEAD
    + 'source = { subsystem = "usb" }\nid = "kit-{usb.hub}"\n[resource.group]\nby = "usb.hub"\n[resource.group.parts]\n'
    'dongle = { usb.vendor = "0403" }\nprogrammer = { usb.vendor = "1a86" }\n[resource.give]\n'
)


@pytest.fixture
def read(configure):
    """The one resource of a file, or the findings of it."""

    def load(text):
        found = configure({"resources.d/a.toml": text})
        return found.resources[0] if found.is_valid else found.findings

    return load


@pytest.mark.parametrize(
    ("group", "by", "claims"),
    [
        ('group = "iommu.group"', (GroupWord("iommu.group", ValueType.INT),), False),
        (
            'group = ["iommu.group", "slot"]',
            (GroupWord("iommu.group", ValueType.INT), GroupWord("slot", ValueType.TEXT)),
            False,
        ),
        ('group = { by = "vendor", claims = "all" }', (GroupWord("vendor", ValueType.HEX),), True),
        ('group = { by = "./serial", claims = "matched" }', (GroupWord("./serial", ValueType.TEXT),), False),
    ],
)
def test_what_puts_devices_together(read, group, by, claims):
    found = read(PCI + group)
    assert (found.group.words, found.group.includes_unmatched, found.group.member_clauses) == (by, claims, {})


def test_parts_are_words_of_every_text(read):
    found = read(
        KIT + 'nodes.all = { path = "{node}", to = "/dev/kit/" }\n'
        'nodes.dongle = { path = "/dev/{dongle.usb.port}", to = "/dev/dongle{n}" }\n'
        'env.SERIAL = { value = "{dongle.usb.serial}-{programmer}", join = "," }\n'
    )
    assert list(found.group.member_clauses) == ["dongle", "programmer"]
    assert [node.per_member for node in found.nodes] == [True, False]


def test_a_group_is_taken_out_by_false(configure):
    found = configure(
        {
            "classes/vfio.toml": 'about = "x"\nsource = "pci"\ngroup = { by = "iommu.group", claims = "all" }\n',
            "resources.d/a.toml": HEAD + 'class = "vfio"\ngroup = false\n',
            "resources.d/b.toml": '[[resource]]\nname = "example.com/y"\nclass = "vfio"\ngroup.claims = "matched"\n',
        }
    )
    assert found.is_valid, found.findings
    assert [bool(spec.group) for spec in found.resources] == [False, True]
    assert not found.resources[1].group.includes_unmatched


def test_all_members_are_a_list_with_a_group_and_without(read):
    for group in ("", 'group = "iommu.group"\n'):
        assert read(PCI + group + 'give.env.A = { value = "{matched.address}", join = "," }\n').env
        (wrong,) = read(PCI + group + 'give.env.A = "{members.address}"\n')
        assert (wrong.code, wrong.line) == ("differs-between-devices", 4 + bool(group))


def test_parts_that_nothing_keeps_apart_are_one_device_at_most(read):
    single = KIT.replace('by = "usb.hub"\n', "")
    assert read(single + 'env.SERIAL = "{dongle.usb.serial}"\n').group.words == ()
    wrong = read(KIT + 'env.SERIAL = "{dongle.usb.serial}"\n')[-1]
    assert wrong.code == "differs-between-devices"


# Lines behind an entry's head, so the first is line 4: line, column, marked text, code, hint.
def test_a_list_comes_out_element_by_element_where_n_is_in_its_place(read):
    text = HEAD + 'source = "usb"\ngive.nodes.t = { path = "{tty.node}", to = "/dev/ttyX{n}" }\n'
    assert read(text).nodes
    assert read(text + 'group = "hub"\n').nodes[0].per_member
    assert read(text + 'give.env.port = { name = "PORT_{n}", value = "{given.t}" }\n').env
    assert read(text + 'give.env.PORT = "{given.t}"\n')[0].code == "differs-between-devices"
    (wrong,) = read(text.replace("{n}", ""))
    assert wrong.code == "differs-between-devices"


WRONG = [
    ("group = {}", 4, 1, "group", "missing", 'write for example group = "iommu.group"'),
    ('slots = 4\ngroup = "slot"', 5, 1, "group", "type", "leave out group, or slots"),
    ("group = true", 4, 9, "true", "type", None),
    ("group = []", 4, 9, "[]", "type", None),
    ("group = [3]", 4, 9, "[3]", "type", None),
    ('group = { claims = "every", by = "slot" }', 4, 20, '"every"', "type", None),
    ('group = { by = "slot", part = {} }', 4, 24, "part", "unknown-key", "nearest: parts"),
    ('group = "iommu.grup"', 4, 16, "grup", "unknown-word", "nearest: group"),
    ('group = "{slot}"', 4, 10, "{slot}", "text", 'write "slot"'),
    ('group = "n"', 4, 10, "n", "unknown-word", "device-agent scan --words pci shows its words"),
    ('group = "iommu.members.address"', 4, 10, "iommu.members.address", "type", None),
    ('group.parts.x.vendro = "10de"', 4, 15, "vendro", "unknown-word", "nearest: vendor"),
    ("group.parts.x = {}", 4, 13, "x", "type", "say which devices are this part"),
    ('group.parts.x = "10de"', 4, 17, '"10de"', "type", None),
    ('group.parts.my-x.vendor = "10de"', 4, 13, "my-x", "type", "write letters, digits and _"),
    ('group.parts.pf.vendor = "10de"', 4, 13, "pf", "type", "give the part another name"),
    ('group.parts.members.vendor = "10de"', 4, 13, "members", "type", "give the part another name"),
    ('group = { claims = "all", parts.x.vendor = "10de" }', 4, 21, "all", "missing", "add by"),
    (
        'group = "slot"\nmatch.members = { exists = true }',
        5,
        7,
        "members",
        "unknown-word",
        "ask it where something is given, or in health",
    ),
    (
        'group.parts.x.vendor = "10de"\nexclude.y.x.device = "1"',
        5,
        13,
        "device",
        "unknown-word",
        "ask it where something is given, or in health",
    ),
    ('group.parts.x.vendor = "10de"\nid = "{x.vendro}"', 5, 10, "vendro", "unknown-word", "nearest: vendor"),
    (
        'group = "slot"\nid = "{matched.address}"',
        5,
        7,
        "{matched.address}",
        "type",
        "make it a word of one value, by let",
    ),
    ('group = "slot"\ngive.nodes.x = { path = "/dev/{device}", to = "/dev/x{n}" }', 5, 48, "/dev/x{n}", None, None),
]


@pytest.mark.parametrize(("text", "line", "column", "marked", "code", "hint"), WRONG)
def test_mistakes(configure, text, line, column, marked, code, hint):
    whole = PCI + text
    (found,) = configure({"resources.d/a.toml": whole}).findings
    assert code in {found.code, None}
    row = whole.splitlines()[found.line - 1]
    assert (found.line, found.column) == (line, column), found
    assert row[found.column - 1 :].startswith(marked)
    assert hint is None or found.write == hint


def test_two_entries_that_say_the_same_are_the_same_group_and_others_are_not(read):
    text = PCI + 'group = "slot"\nmatch = { vendor = "10de", driver = "x" }\n'
    same = PCI + 'match.driver = "x"\nmatch.vendor = "10de"\ngroup.by = "slot"\ngive.env.X = "1"\n'
    digest = read(text).group.digest
    assert read(same).group.digest == digest
    assert read(text.replace("10de", "8086")).group.digest != digest


def test_own_words_are_of_each_host_device(read):
    text = PCI + 'let.a = "./a"\nlet.b = { text = "{members.address}" }\ngroup.by = "a"\ngroup.parts.x = { a = "1" }\n'
    (wrong,) = read(text)
    assert (wrong.code, wrong.line) == ("unknown-word", 5)
    found = read(text.replace("{members.address}", "{a}") + 'id = "{x.b}-{b}"\n')
    assert found.group.words == (GroupWord("a", ValueType.TEXT),)


def test_a_part_has_no_name_of_an_own_word(read):
    (wrong,) = read(PCI + 'let.a = "./a"\ngroup.parts.a = { driver = "x" }\n')
    assert (wrong.code, wrong.line) == ("type", 5)


def test_a_join_is_of_each_host_device_too(read):
    join = 'join.card = { source = "drm", on = { pci.address = "X" }, optional = true }\n'
    (wrong,) = read(PCI + join.replace("X", "dongle.address") + 'group.parts.dongle = { driver = "x" }\n')
    assert (wrong.code, wrong.line) == ("unknown-word", 4)
    text = (
        PCI
        + join.replace("X", "address")
        + 'group = "slot"\ngive.nodes.x = { path = "{card.render}", to = "/dev/Y" }\n'
    )
    assert read(text.replace("Y", "dri/")).nodes[0].per_member
    assert read(text.replace("Y", "render{n}"))[0].code == "differs-between-devices"
    (wrong,) = read(PCI + join.replace("X", "address") + 'group.parts.card = { driver = "x" }\n')
    assert wrong.write == "give the part another name"
