"""An addition of an entry narrows its class, for each section that selects devices.

Each row is tried on every machine and device that its words can tell apart: no device may be served by the entry that
is not served by what it uses, unless the entry overrides a named thing.
"""

from __future__ import annotations

from itertools import product

import pytest

from agent.core.language.logic import PLAIN
from agent.core.language.value import Absent, Value

WORDS: dict[str, tuple[Value, ...]] = {
    "driver": ("a", "b", "c"),
    "numa": (0, 1),
    "vendor": ("8086", "10de"),
    "host.arch": ("x", "y"),
    "host.kernel": ("6.1", "6.12"),
}
DEVICES = [dict(zip(WORDS, values, strict=True)) for values in product(*WORDS.values())]
AB = "{ a = { driver = 'a' }, b = { driver = 'b' } }"
AB_NUMA = "{ x = { numa = 0, driver = 'a' }, y = { driver = 'b' } }"
GATE = "{ x = { host.arch = 'x' }, y = { host.kernel = '6.1' } }"


class Known:
    """The facts of one device and its machine."""

    def __init__(self, facts):
        self._facts = facts

    def __call__(self, word: str) -> Value | Absent:
        return self._facts[word]

    def follow_relation(self, word: str):
        raise AssertionError(word)


def find_served_devices(configure, entry, **classes):
    """Return the numbers of the devices that the entry serves, or its findings if it has any."""
    files = {f"classes/{name}.toml": f'about = "x"\n{text}\n' for name, text in classes.items()}
    files["resources.d/a.toml"] = f'[[resource]]\nname = "example.com/x"\n{entry}\n'
    found = configure(files)
    if found.findings:
        return [(finding.code, finding.key_path_text) for finding in found.findings]
    (spec,) = found.resources

    def is_served(device) -> bool:
        facts = Known(device)
        kept_out = any(clause.evaluate(facts, PLAIN) for clause in (*spec.exclude, *spec.wait))
        return (
            spec.match.evaluate(facts, PLAIN) is True
            and not kept_out
            and all(gate.evaluate(facts, PLAIN) for gate in spec.gate)
        )

    return {number for number, device in enumerate(DEVICES) if is_served(device)}


def those(holds):
    return {number for number, device in enumerate(DEVICES) if holds(device)}


# What the class says, what the entry says, and which devices are served then.
NARROWS = [
    ("match.driver = 'a'", "match.numa = 0", lambda d: d["driver"] == "a" and d["numa"] == 0),
    (f"match.either = {AB}", "match.numa = 0", lambda d: d["driver"] in "ab" and d["numa"] == 0),
    (
        f"match.either = {AB}",  # names of its own: a line more
        "match.either = { first = { numa = 0 }, second = { vendor = '8086' } }",
        lambda d: d["driver"] in "ab" and (d["numa"] == 0 or d["vendor"] == "8086"),
    ),
    (f"match.either = {AB}", "match.either.only.numa = 0", lambda d: d["driver"] in "ab" and d["numa"] == 0),
    ("match.numa = 0", f"match.either = {AB}", lambda d: d["driver"] in "ab" and d["numa"] == 0),
    (
        f"match.either = {AB}",  # one is changed, one is new
        "match.either = { a.numa = 0, mine.vendor = '8086' }",
        lambda d: d["vendor"] == "8086" and (d["driver"] == "b" or (d["driver"] == "a" and d["numa"] == 0)),
    ),
    (f"match.either = {AB}", "match.either.a = false", lambda d: d["driver"] == "b"),
    (
        f"match.either.outer.either = {AB}",  # within an alternative
        "match.either.outer.either.mine.numa = 0",
        lambda d: d["driver"] in "ab" and d["numa"] == 0,
    ),
    ("match.driver = 'a'", "exclude.e.numa = 0", lambda d: d["driver"] == "a" and d["numa"] == 1),
    ("exclude.c.driver = 'a'", "exclude.e.numa = 0", lambda d: d["driver"] != "a" and d["numa"] == 1),
    (f"exclude.c.either = {AB}", "exclude.c.either.mine.numa = 0", lambda d: d["driver"] == "c" and d["numa"] == 1),
    (
        f"exclude.c.either.outer.either = {AB}",
        "exclude.c.either.outer.either.mine.numa = 0",
        lambda d: d["driver"] == "c" and d["numa"] == 1,
    ),
    ("wait.c.driver = 'a'", "wait.e.numa = 0", lambda d: d["driver"] != "a" and d["numa"] == 1),
    (f"wait.c.either = {AB}", "wait.c.either.mine.numa = 0", lambda d: d["driver"] == "c" and d["numa"] == 1),
    ("gate.c.host.arch = 'x'", "gate.c.host.kernel = '6.1'", lambda d: d["host.arch"] + d["host.kernel"] == "x6.1"),
    ("gate.c.host.arch = 'x'", "gate.e.host.kernel = '6.1'", lambda d: d["host.arch"] + d["host.kernel"] == "x6.1"),
    (
        f"gate.c.either = {GATE}",
        "gate.c.either.mine = { host.kernel = '6.12' }",
        lambda d: d["host.arch"] + d["host.kernel"] == "x6.12",
    ),
]


# How what is said comes to what the class says: files of classes, and the entry.
WAYS = {
    "entry": lambda base, own: (f'class = "c"\n{own}', {"c": base}),
    "class between": lambda base, own: ('class = "d"', {"c": base, "d": f'uses = ["c"]\n{own}'}),
    "part": lambda base, own: ('class = "c"\nuses = ["p"]', {"c": base, "p": f"part = true\n{own}"}),
}
CHANGES = ("either.a", "outer", "c.either")  # of a named thing of the class; a part beside it has none of them
NARROWING = [
    pytest.param(WAYS[way], *row, id=f"{way}: {row[1]} over {row[0]}")
    for way, row in product(WAYS, NARROWS)
    if way != "part" or not any(change in row[1] for change in (*CHANGES, "a.numa"))
]


@pytest.mark.parametrize(("way", "base", "own", "holds"), NARROWING)
def test_what_is_added_narrows(configure, way, base, own, holds):
    base = f'source = "pci"\n{base}'
    alone = find_served_devices(configure, 'class = "c"', c=base)
    entry, classes = way(base, own)
    found = find_served_devices(configure, entry, **classes)
    assert found == those(holds)
    assert found <= alone


# What the language lets an entry override, by its name: the result is what it says, wider or not.
OVERRIDES = [
    ("match.driver = 'a'", "match.driver = 'b'", lambda d: d["driver"] == "b"),
    (f"match.either = {AB}", "match.either.a.driver = 'c'", lambda d: d["driver"] in "bc"),
    ("match = { driver = 'a', numa = 0 }", "match = false", lambda d: True),
    ("exclude.c.driver = 'a'", "exclude.c = false", lambda d: True),
    ("exclude.c.driver = 'a'", "exclude.c.driver = 'b'", lambda d: d["driver"] != "b"),
    ("exclude.c.driver = 'a'", "exclude.c.numa = 0", lambda d: not (d["driver"] == "a" and d["numa"] == 0)),
    (f"exclude.c.either = {AB}", "exclude.c.either.a = false", lambda d: d["driver"] != "b"),
    ("exclude.c.driver = 'a'", "exclude = false", lambda d: True),
    ("wait.c.driver = 'a'", "wait.c = false", lambda d: True),
    ("wait.c.driver = 'a'", "wait.c.numa = 0", lambda d: not (d["driver"] == "a" and d["numa"] == 0)),
    ("gate.c.host.arch = 'x'", "gate.c = false", lambda d: True),
    (f"gate.c.either = {GATE}", "gate.c.either.y = false", lambda d: d["host.arch"] == "x"),
]


@pytest.mark.parametrize(("base", "own", "holds"), OVERRIDES, ids=[f"{row[1]} over {row[0]}" for row in OVERRIDES])
def test_a_named_thing_is_overridden(configure, base, own, holds):
    assert find_served_devices(configure, f'class = "c"\n{own}', c=f'source = "pci"\n{base}') == those(holds)


@pytest.mark.parametrize("gone", ["match.either = { a = false, b = false }", "match.either = {}"])
def test_an_either_without_alternatives_is_an_error(configure, gone):
    """Else the line would be gone, and everything would match."""
    base = f"match.either = {AB}" if "false" in gone else ""
    address = "resource[1].match.either" + (".b" if base else "")
    assert find_served_devices(configure, f'class = "c"\n{gone}', c=f'source = "pci"\n{base}') == [("missing", address)]


def test_alternatives_of_two_files_with_one_name_are_both_asked(configure):
    first = f"match.either = {AB_NUMA}"
    second = "match.either = { y = { vendor = '8086' }, z = { numa = 1 } }"
    found = find_served_devices(
        configure, 'class = "c"\nuses = ["p"]', c=f'source = "pci"\n{first}', p=f"part = true\n{second}"
    )
    assert found == those(
        lambda d: (
            ((d["numa"] == 0 and d["driver"] == "a") or d["driver"] == "b")
            and (d["vendor"] == "8086" or d["numa"] == 1)
        )
    )


@pytest.mark.parametrize("section", ["exclude", "wait"])
def test_two_used_classes_do_not_weaken_one_of_the_same_name(configure, section):
    """Their lines in one clause would keep out only what both keep out."""
    files = {"c": f"source = 'pci'\n{section}.e.driver = 'a'", "p": f"part = true\n{section}.e.numa = 0"}
    entry = 'class = "c"\nuses = ["p"]'
    assert find_served_devices(configure, entry, **files) == [("merge-conflict", "resource[1].uses")]
    decided = find_served_devices(configure, f"{entry}\n{section}.e.vendor = '10de'", **files)
    assert decided == those(lambda d: d["vendor"] == "8086")


@pytest.mark.parametrize("entry", ['class = "c"\nuses = ["d"]', 'class = "d"\nuses = ["c"]'])
def test_one_part_reached_twice_is_still_one(configure, entry):
    part = f"match.either = {AB}\nexclude.e.vendor = '10de'"
    change = "match.either.a = false\nexclude.e.driver = 'b'"
    found = find_served_devices(configure, entry, p=part, c='source = "pci"\nuses = ["p"]', d=f'uses = ["p"]\n{change}')
    assert found == those(lambda d: d["driver"] == "b" and d["vendor"] == "8086")


def test_two_addresses_of_a_class_that_says_either(configure):
    """Only a card that the class has, and at one of the two addresses."""
    either = "{ first = { pci.address = '0000:0c:00.0' }, second = { pci.address = '0000:1c:00.0' } }"
    found = configure({"resources.d/a.toml": f"[[resource]]\nclass = 'amd-gpu'\nmatch.either = {either}\n"})
    assert found.findings == ()
    match = found.resources[0].match
    cards = {"driver": "amdgpu", "device_name": "0000:0c:00.0"}, {"driver": "i915", "device_name": "0000:0c:00.0"}
    for card, address in product(cards, ("0000:0c:00.0", "0000:2c:00.0")):
        holds = card["driver"] == "amdgpu" and address == "0000:0c:00.0"
        assert match.evaluate(Known({**card, "pci.address": address}), PLAIN) is holds
