"""Conflicts of two entries: the warning, its position, and how to accept it."""

import pytest

from tests.config.marks import marked_by

FIRST = """[[resource]]
name = "a.example/first"
"""
SECOND = """[[resource]]
name = "a.example/second"
"""
PCI = 'source = "pci"\n'


def second(configure, first, then, code):
    """The findings of that code, all of which are the second entry's."""
    text = f"{FIRST}{first}\n{SECOND}{then}\n"
    found = [each for each in configure({"resources.d/a.toml": text}).findings if each.code != "unstable-id"]
    assert {finding.severity.value for finding in found} <= {"warning"}, found
    line = text[: text.index(SECOND)].count("\n")
    assert all(finding.line > line for finding in found)
    return [finding for finding in found if finding.code == code]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (PCI, PCI + 'match.vendor = "10de"'),
        (PCI + 'match.vendor = "10de"', PCI + 'match = { driver = "nvidia", vendor = "0x10DE" }'),
        (PCI + 'match.class = "03"', PCI + 'match.class = "0302"'),
        (PCI + 'match.address = "3b:00"', PCI + 'match.address = "0000:3b:00.1"'),
        (PCI + 'match.driver = ["a", "b"]', PCI + 'match.driver = "b"'),
        (PCI + 'match.driver = { like = "mlx5*" }', PCI + 'match.driver = "mlx5_core"'),
        (PCI + "match.driver = { exists = true }", PCI + 'match.driver = "ice"'),
        (PCI + 'match.either = { a.driver = "x", b.numa = 1 }', PCI + "match.numa = 1"),
        (PCI + 'exclude.a.driver = "x"', PCI + 'exclude.b = { driver = ["x", "y"] }'),
        (PCI + 'let.s = "./state"\nmatch.s = "a"', PCI + 'let.s = "./state"\nmatch.s = "a"'),
        (PCI + 'gate.g = { host.iommu = true }\nmatch.vendor = "10de"', PCI + 'match.vendor = "10de"'),
        (PCI + "group = 'slot'", PCI + "replicas = 2"),
    ],
)
def test_nothing_can_be_left_for_an_entry(configure, first, then):
    (finding,) = second(configure, first, then, "nothing-left")
    assert "all that it matches, a.example/first takes (resources.d/a.toml:1)" in finding.message
    assert marked_by(finding) in {"match", "resource"}
    assert not second(configure, first, then + "\naccept = { nothing-left = 'later' }", "nothing-left")


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (PCI + 'match.vendor = "10de"', PCI),
        (PCI + 'match.vendor = "10de"', PCI + 'match.vendor = "8086"'),
        (PCI + 'match.class = "0302"', PCI + 'match.class = "03"'),
        (PCI + 'match = { vendor = "10de", driver = "x" }', PCI + 'match.vendor = "10de"'),
        (PCI + 'exclude.a.driver = "x"', PCI + 'match.vendor = "10de"'),
        (PCI + 'exclude.a = { driver = ["x", "y"] }', PCI + 'exclude.b.driver = "x"'),
        (PCI + 'let.s = "./state"\nmatch.s = "a"', PCI + 'let.s = "./status"\nmatch.s = "a"'),
        (PCI + 'let = { s = "t", t = "./a" }\nmatch.s = "a"', PCI + 'let = { s = "t", t = "./b" }\nmatch.s = "a"'),
        (PCI + "slots = 4", PCI),
        (PCI, PCI + "slots = 4"),
        (PCI, 'source = "net"'),
        (
            'source = "usb"\nid = "{hub}"\ngroup = { by = "hub", parts.a.vendor = "0403" }',
            'source = "usb"\nmatch.vendor = "1234"',
        ),
    ],
)
def test_something_may_be_left_for_an_entry(configure, first, then):
    assert not second(configure, first, then, "nothing-left")


TTY = 'source = { node = "/dev/ttyUSB*" }\n'
SLOTS = 'slots = { count = 2, id = "{resource|env}-{n}" }'
NAMED = {
    "usb, tty": ('source = "usb"', TTY + 'id = "{usb.vendor}:{usb.product}-{usb.serial}"'),
    "tty, usb": (TTY + 'id = "{usb.port}"', 'source = "usb"\nid = "{port}"'),
    "an alternative": (TTY + 'id = ["x-{usb.port}", "{usb.serial}"]', 'source = "usb"\nid = ["{serial}", "{port}"]'),
    "pci, net": (PCI, 'source = "net"\nid = "{pci.address}"'),
    "filters": (PCI + 'id = "{address|upper}"', 'source = "net"\nid = "{pci.address|upper}"'),
    "a place": (TTY + 'id = "{path_id}"', 'source = { subsystem = "hidraw" }\nid = "{path_id}"'),
    "own words": (
        TTY + 'let.s = "usb.serial"\nid = "{s}"',
        'source = { subsystem = "hidraw" }\nlet.s = "usb.serial"\nid = "{s}"',
    ),
    "no word": ('source = { node = "/dev/a" }\nid = "it"', 'source = { node = "/dev/b" }\nid = "it"'),
    "slots": (TTY + 'slots = { count = 2, id = "s-{n}" }', PCI + 'slots = { count = 2, id = "s-{n}" }'),
}


@pytest.mark.parametrize("name", NAMED)
def test_two_entries_know_one_thing_by_one_id(configure, name):
    first, then = NAMED[name]
    (finding,) = second(configure, first, then, "same-id")
    assert finding.message.startswith("a.example/first (resources.d/a.toml:1) has the id ")
    assert finding.write.endswith(('-second"', '-{resource|digest:8}"'))
    assert marked_by(finding) == "id"
    assert not second(configure, first, then + "\naccept = { same-id = 'never both' }", "same-id")


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (PCI, PCI + 'match.vendor = "10de"'),  # one source: a thing goes to one of them
        (PCI, 'source = "net"'),  # ids of other sources than pci end in their names
        (PCI + 'id = "{address|upper}"', 'source = "net"\nid = "{pci.address}"'),
        (TTY + 'id = "{usb.serial}-tty"', 'source = "usb"\nid = "{serial}"'),
        (
            TTY + 'match.usb.vendor = "0403"\nid = "{usb.serial}"',
            'source = "usb"\nmatch.vendor = "1234"\nid = "{serial}"',
        ),
        (
            TTY + 'let.s = "usb.serial"\nid = "{s}"',
            'source = { subsystem = "hidraw" }\nlet.s = "usb.port"\nid = "{s}"',
        ),
        (TTY + "slots = 2", PCI + "slots = 2"),  # the name of the resource is in it
        (
            TTY + 'slots = { count = 2, id = "{resource|env}-{n}" }',
            PCI + 'slots = { count = 2, id = "{resource|env}-{n}" }',
        ),
    ],
)
def test_two_entries_have_ids_of_their_own(configure, first, then):
    assert not second(configure, first, then, "same-id")


A, B = 'source = { node = "/dev/a*" }\n', 'source = { node = "/dev/b*" }\n'
OPTION = "options.o = { about = 'x', type = 'path', default = '/a' }\n"
GIVEN = {
    "nodes": ("give.nodes.x = { path = '{node}', to = '/dev/x{n}' }",) * 2 + ("to", "path /dev/x{n}"),
    "a path": (
        "give.nodes.x = { path = '/dev/a', to = '/dev/x' }",
        "give.mounts.y = { path = '/run/x', to = '/dev/x' }",
        "to",
        "path /dev/x",
    ),
    "variables": ("give.env.X = { value = '{id}', join = ',' }",) * 2 + ("value", "variable X"),
    "numbered": ("give.env.x = { name = 'X_{n}', value = '{id}' }",) * 2 + ("name", "variable X_{n}"),
    "two values": ("give.env.X = '1'", "give.env.X = '2'", "value", "variable X"),
    "annotations": (
        "give.annotations.x = { name = 'a.b/c', value = '1' }",
        "give.annotations.x = { name = 'a.b/c', value = '2' }",
        "name",
        "annotation a.b/c",
    ),
    "an option": (
        OPTION + "give.mounts.x = { path = '/x', to = '{options.o}' }",
        "give.mounts.x = { path = '/y', to = '/a' }",
        "to",
        "path /a",
    ),
    "also": ("give.env.X = '1'", "give.also.y = { env.X = '2', when.numa = 1 }", "value", "variable X"),
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_container_with_both_gets_one_of_two_things(configure, name):
    first, then, _, what = GIVEN[name]
    (finding,) = second(configure, A + first, B + then, "collides")
    assert f"a.example/first (resources.d/a.toml:1) gives the {what} too" in finding.message
    assert finding.source_line == then
    assert not second(configure, A + first, B + then + "\naccept.collides = 'never both'", "collides")


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("give.nodes.x = '/dev/x'", "give.nodes.x = '/dev/x'"),
        ("give.nodes.x = { path = '/dev/y', to = '/dev/x' }",) * 2,
        ("give.nodes.x = '{node}'", "give.nodes.x = '{node}'"),
        ("give.nodes.x = { path = '{node}', to = '/dev/x/' }",) * 2,
        ("give.env.X = '1'", "give.env.X = '1'"),
        ("give.env.x = { name = '{resource|env}_X', value = '{id}', join = ',' }",) * 2,
        (
            OPTION + "give.mounts.x = { path = '/x', to = '{options.o}' }",
            "give.mounts.x = { path = '/y', to = '/b' }",
        ),
    ],
)
def test_a_container_gets_the_same_of_both_or_each_under_its_name(configure, first, then):
    assert not second(configure, A + first, B + then, "collides")


def test_one_resource_gives_one_thing_under_one_name(configure):
    text = f"{FIRST}{A}give.env.X = {{ value = '{{id}}', join = ',' }}\n"
    more = f"[[resource]]\nadds_to = 'a.example/first'\n{B}give.env.X = {{ value = '{{id}}', join = ',' }}\n"
    assert configure({"resources.d/a.toml": text + more}).findings == ()


def test_what_a_class_says_is_warned_of_at_the_entry(configure):
    text = "".join(f'[[resource]]\nname = "a.example/{each}"\nclass = "tty"\n' for each in "ab")
    found = configure({"resources.d/a.toml": text}).findings
    assert [(each.code, each.line, marked_by(each)) for each in found] == [
        ("nothing-left", 4, "resource"),
        ("collides", 4, "resource"),
    ]


UNSETTLED = [
    ("let.kind = { read = './kind', else = 'plain' }", "else"),
    ("let = { kind = 'model', model = { read = './kind', else = 'plain' } }", "else"),
    ("let.kind = { by = './kind', map = { a = 'b' }, if_absent = 'plain' }", "if_absent"),
    ("let = { kind = { text = 'x-{a}' }, a = { read = './kind', else = 'plain' } }", "else"),
]


@pytest.mark.parametrize(("let", "key"), UNSETTLED)
def test_a_name_that_says_something_else_until_a_word_is_there(configure, let, key):
    text = f'[[resource]]\nname = "a.example/{{kind}}"\n{PCI}{let}\n'
    (finding,) = configure({"resources.d/a.toml": text}).findings
    assert (finding.severity.value, finding.code, finding.line) == ("warning", "unsettled-name", 4)
    assert marked_by(finding) == key
    assert finding.write == "leave it out: a device waits for its name"
    accepted = f"{text}accept.unsettled-name = 'never late'\n"
    assert configure({"resources.d/a.toml": accepted}).findings == ()


@pytest.mark.parametrize(
    "let",
    [
        "let.kind = './kind'",
        "let.kind = { by = './kind', map = { a = 'b' }, else = 'plain' }",
        "let = { kind = './kind', other = { read = './other', else = 'plain' } }",
    ],
)
def test_a_name_whose_words_are_read(configure, let):
    text = f'[[resource]]\nname = "a.example/{{kind}}"\n{PCI}{let}\n'
    assert configure({"resources.d/a.toml": text}).findings == ()
