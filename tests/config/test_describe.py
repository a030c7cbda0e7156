"""Descriptions: the whole language as sentences, each clause with its position; replaced and removed values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.config.describe.class_manual import build_manual, format_manual
from agent.config.describe.description_clause import format_value
from agent.config.describe.descriptions import (
    Description,
    NoDescriptionError,
    convert_to_json,
    describe_config,
    find_descriptions,
)
from agent.config.describe.entry_text import list_clauses
from agent.config.describe.text_layout import render_description
from agent.config.load import SHIPPED, LoadedConfig, load, load_with_entries
from agent.config.merge.config_tree import Branch, Leaf
from agent.core.language.safe_text import count_columns

LANGUAGE = Path(__file__).parent / "language"


def whole(found: LoadedConfig, width: int | None = None) -> str:
    return "\n\n".join("\n".join(render_description(reading, width)) for reading in describe_config(found)) + "\n"


def test_the_whole_language_is_read_back_as_it_was_agreed():
    """Whoever changes a sentence changes the page that it stands on, and reads it."""
    assert (
        whole(load_with_entries(str(LANGUAGE))).splitlines() == (LANGUAGE / "aloud.txt").read_text("utf-8").splitlines()
    )


def values(branch: Branch, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """All values of a sentence with their addresses, lists taken apart; switches have no text of their own."""
    for name, node in branch.members.items():
        if isinstance(node, Branch):
            yield from values(node, (*path, name))
        elif isinstance(node, Leaf):
            yield from (((*path, name), item) for item in items(node.value) if not isinstance(item, bool))


def items(of: object) -> Iterator[object]:
    if isinstance(of, dict):
        of = list(of.values())
    if isinstance(of, list):
        for item in of:
            yield from items(item)
    else:
        yield of


def test_no_value_is_passed_over():
    found = load_with_entries(str(LANGUAGE))
    sentences = [found.library.get_class(name) for name in found.local_class_names] + [
        entry.merged_entry for entry in found.entries
    ]
    unsaid = {
        path
        for sentence in sentences
        for said in ["\n".join(clause.text for clause in list_clauses(sentence.tree))]
        for path, item in values(sentence.tree)
        if format_value(item) not in said
    }
    # The reason is what a check says when it fails; a map is shortened; the title has what it is about.
    assert {path for path in unsaid if path[-1] not in {"about", "uses", "class", "reason"} and "map" not in path} == {
        ("source",)  # said as "RDMA device"
    }


def test_every_clause_is_there_with_its_place_however_narrow_it_is():
    found = load_with_entries(str(LANGUAGE))
    for width in (40, 80, 200):
        text = whole(found, width)
        for reading in describe_config(found):
            for said in reading.clauses:
                if said.spot:
                    origin = said.spot.origin
                    assert f"{origin.file.rpartition('/')[2]}:{origin.line}" in text
        assert sorted(text.split()) == sorted(whole(found).split())
    words = max(count_columns(word) for word in whole(found).split())
    assert all(count_columns(line) <= max(80, words + 40) for line in whole(found, 80).splitlines())


def sentence(tmp_path: Path, entry: str, **classes: str) -> list[str]:
    """The clauses of one entry over classes, each as `text | note | place`."""
    (tmp_path / "resources.d").mkdir()
    (tmp_path / "classes").mkdir()
    for name, text in classes.items():
        (tmp_path / "classes" / f"{name}.toml").write_text(f'about = "every {name}"\n{text}\n', encoding="utf-8")
    (tmp_path / "resources.d" / "a.toml").write_text(f"[[resource]]\n{entry}\n", encoding="utf-8")
    (reading,) = [
        reading for reading in describe_config(load_with_entries(str(tmp_path), classes=())) if reading.kind == "entry"
    ]
    return [line(reading, index) for index in range(len(reading.clauses))]


def line(reading: Description, index: int) -> str:
    said = reading.clauses[index]
    at = f"{said.spot.origin.file.rpartition('/')[2]}:{said.spot.origin.line}" if said.spot else ""
    return " | ".join(filter(None, ("  " * said.level + said.text, said.note, at)))


SAID = [
    # Sources.
    (
        'source = { fixed = ["a", "b"] }',
        ["Every of a, b, always there | a.toml:2", "known as {name} (default) | a.toml:2"],
    ),
    (
        'source = { every = "5s", fixed = ["a"] }',
        ["Every of a, always there, looked for every 5s | a.toml:2", "known as {name} (default) | a.toml:2"],
    ),
    ('source = { subsystem = "npu", every = "5s" }', ["Every npu device, looked for every 5s | a.toml:2"]),
    # Tests.
    ('match.a = { not = ["x", "y"] }', ["whose a is not x or y | a.toml:2"]),
    ('match.a = { not = { contains = "x" } }', ["whose it is not so that a contains x | a.toml:2"]),
    ('match.a = { like = "a*", not = "ab" }', ["whose a is like a* and a is not ab | a.toml:2"]),
    ("match.a = { at_least = 3 }", ["whose a is at least 3 | a.toml:2"]),
    ('match.a = { has_any = ["x", "y"] }', ["whose a has any of x, y | a.toml:2"]),
    ('match.a = { every = { like = "x*" } }', ["whose every one of a is like x* | a.toml:2"]),
    ('match.a = { none = { b.c = "x", d = 2 } }', ["whose none of a has b.c x and d 2 | a.toml:2"]),
    (
        'match.a = { any = { b = { like = "x" }, c = 1 } }',
        ["whose one of a is one whose b is like x and c is 1 | a.toml:2"],
    ),
    ("match.a = { count = { at_most = 2 } }", ["whose the number of a is at most 2 | a.toml:2"]),
    ('match.a = ["x", { like = "y*" }]', ["whose a is x or like y* | a.toml:2"]),
    # Own words.
    ('let.a = { read_all = "./x*", type = "int" }', ["  its a (list of int) is all that ./x* say | a.toml:2"]),
    ('let.a = { holds = { b = "c" } }', ["  its a (bool) is whether b is c | a.toml:2"]),
    ('let.a = { name_of = "./x*" }', ["  its a (text) is the name of ./x* | a.toml:2"]),
    (
        'let.a = { by = "b", map.c = 1, else = 2, if_absent = 3, type = "int" }',
        ["  its a (int) is by b: c is 1, else 2, 3 without b | a.toml:2"],
    ),
    (
        'let.a = { read = "./b", type = "int" }\nlet.c = ["a", "d"]',
        ["  its a (int) is what ./b says | a.toml:2", "  its c (int) is the first there is of a, d | a.toml:3"],
    ),
    ('let.a = ["a"]', ["  its a is the first there is of a | a.toml:2"]),
    ('join.a = { resource = "b/c", on.d = "e" }', ["  its a is the device of b/c whose d is our e | a.toml:2"]),
    # What is left.
    ("group.parts.a.b = 1", ["together | a.toml:2", "  one a whose b is 1 | a.toml:2"]),
    ("slots = 4", ["in 4 slots of the whole, known as {resource|digest:8}-{n} (default) | a.toml:2"]),
    ("replicas = 1", []),
    ('replicas = { by = "a", map.b = 2, else = 1 }', ["in 2 shares if a is b, else 1 share | a.toml:2"]),
    ('topology = "none"', ["near nothing: no NUMA node is told | a.toml:2"]),
    ("topology = [0, 1]", ["near NUMA node 0 and 1 | a.toml:2"]),
    ("expect = 4", ["expecting 4 devices | a.toml:2"]),
    ('registration = "watcher"', ["registered by the plugin watcher | a.toml:2"]),
    ('accept.unstable-id = "so be it"', ["accepting unstable-id: so be it | a.toml:2"]),
    ('options.x = { about = "y", one_of = ["a"] }', ["option x, which the entry says (a) | a.toml:2"]),
    ('prestart.a.run = ["/x", "-y"]', ["before a container starts, run /x -y | a.toml:2"]),
    ('probe.a.run = ["/x"]', ["the probe a is /x | a.toml:2"]),
    ("moves_into_pod = true", ["which may move into the pod | a.toml:2"]),
    ('give.via = "kubelet"', ["all of it by the kubelet | a.toml:2"]),
    (
        'give.via = "cdi"',
        ["all of it that is the same for every container by a CDI spec of our own, named in the field | a.toml:2"],
    ),
    ('give.annotations.a = "b"', ["annotate a = b | a.toml:2"]),
    ('give.rdma = { required = [], optional = ["umad"] }', ["give the RDMA nodes umad if there | a.toml:2"]),
    (
        'give.cdi.a = { name = "x", unchecked = true }',
        ["name the CDI device x (field), whether or not a spec has it | a.toml:2"],
    ),
    (
        "give.also.a.rdma = true",
        ["and also | a.toml:2", "  give the RDMA nodes uverbs, and umad issm rdma_cm if there | a.toml:2"],
    ),
    # Checks.
    (
        'health.a = { rises = "b", recover = "never" }',
        ["healthy while a: b does not grow; never well again by itself | a.toml:2"],
    ),
    ('health.a = { run = ["/x"], timeout = "1s" }', ["healthy while a: /x ends well within 1s | a.toml:2"]),
    (
        'health.a = { socket = "/x", latch = true, when.b = "c" }',
        ["healthy while a: the service at /x says so, until cleared by a person, asked when b is c | a.toml:2"],
    ),
    (
        'health.a = { rises = "x", on_unknown = "keep" }',
        ["healthy while a: x does not grow; as it was while unknown | a.toml:2"],
    ),
    ('health.a = { probe = "b", trip = 1 }', ["healthy while a: the probe b says so; failing after 1 look | a.toml:2"]),
]


@pytest.mark.parametrize(("entry", "said"), SAID, ids=[row[0] for row in SAID])
def test_a_clause(tmp_path, entry, said):
    first, *others = sentence(tmp_path, entry)
    found = [first, *others] if entry.startswith("source") else others
    assert found == said


OVER = [
    ('name = "a/b"', 'name = "a/b"\nreplicas = 1', ["called a/b | a.toml:3"]),
    (
        "exclude.a.b = 1\nwait.a.b = 1",
        "exclude.a.c = 2\nwait.a.b = 3",
        [
            "except a: b is 1 | c.toml:3",
            "  and c is 2 | a.toml:3",
            "not yet while a: b is 3 | [instead of 1, c.toml:4] | a.toml:4",
        ],
    ),
    ("replicas = 8", "replicas = 1", ["in 1 share each | [instead of 8, c.toml:3] | a.toml:3"]),
    ("moves_into_pod = true", "moves_into_pod = false", ["which stay on the host | a.toml:3"]),
    (
        'health.a = { holds.b = "x", trip = "2s" }',
        'health.a = { holds.c = "y", recover = "5s" }',
        [
            "healthy while a: b is x; failing after 2s | c.toml:3",
            "  and c is y | a.toml:3",
            "  well again after 5s | a.toml:3",
        ],
    ),
    (
        'health.a = { rises = "b", reason = "x" }',
        'health.a.reason = "y"',
        ["healthy while a: b does not grow | c.toml:3", "  saying y | [instead of x, c.toml:3] | a.toml:3"],
    ),
    (
        'let.a = { read = "./b", type = "int" }',
        'let.a.field = "c"\nlet.a.of = "./d"',
        ['  its a (text) is the field "c" of ./d | [instead of ./b, c.toml:3] | a.toml:3'],
    ),
    (
        'give.nodes.a = "/dev/a"\nwait.w.x = 1',
        "give.nodes.a = false\nwait = false",
        [
            "without give.nodes.a | [which was at c.toml:3] | a.toml:3",
            "without wait | [which was at c.toml:4] | a.toml:4",
        ],
    ),
    (
        'prefer = [{ same = "a" }]',
        'prefer = [{ same = "b" }, { near = "c" }]',
        ["prefer same b, then near c | [instead of same a, c.toml:3] | a.toml:3"],
    ),
]


@pytest.mark.parametrize(("base", "own", "said"), OVER, ids=[f"{row[1]} over {row[0]}" for row in OVER])
def test_what_an_entry_changes_is_said_beside_what_it_was(tmp_path, base, own, said):
    found = sentence(tmp_path, f'class = "c"\n{own}', c=f'source = "pci"\n{base}')
    kept = ("Every PCI", "known as {address}")
    assert [clause for clause in found if not clause.startswith(kept)] == said


def entries(tmp_path: Path, text: str) -> LoadedConfig:
    (tmp_path / "resources.d").mkdir()
    (tmp_path / "resources.d" / "a.toml").write_text(text, encoding="utf-8")
    return load_with_entries(str(tmp_path))


def test_entries_are_picked_by_resource_by_place_and_classes_by_name(tmp_path):
    text = '[[resource]]\nname = "a/b"\nclass = "kvm"\n[[resource]]\nname = "a/c"\nclass = "kvm"\nreplicas = 2\n'
    found = entries(tmp_path, text)
    assert [
        reading.title for reading in find_descriptions(found, ["a/b", "a.toml:4", "resources.d/a.toml:1", "kvm"])
    ] == [
        "entry resources.d/a.toml:1: as class kvm says, called a/b",
        "entry resources.d/a.toml:4: /dev/kvm, a hundred times",
        "entry resources.d/a.toml:1: as class kvm says, called a/b",
        "class kvm: /dev/kvm, a hundred times",
    ]
    with pytest.raises(NoDescriptionError) as error:
        find_descriptions(found, ["a/bb"])
    assert error.value.nearest == "a/b"


ONE = '[[resource]]\nname = "a/b"\nsource = "pci"\n'
EARLIER = [
    (ONE, "of which a/b (a.toml:1) takes its own first"),
    (ONE + 'match.vendor = "8086"\n', "of which a/b (a.toml:1) takes its own first"),
    (ONE + ONE.replace("a/b", "a/d"), "of which a/b (a.toml:1) and a/d (a.toml:4) take theirs first"),
    (ONE + 'match.vendor = "10de"\n', ""),
    (ONE.replace('"pci"', '"net"'), ""),
    (ONE + "slots = 4\n", ""),
]


@pytest.mark.parametrize(("before", "said"), EARLIER)
def test_what_earlier_entries_take_is_said(tmp_path, before, said):
    last = '[[resource]]\nname = "a/c"\nsource = "pci"\nmatch.vendor = ["8086", "15b3"]\n'
    *_, reading = describe_config(entries(tmp_path, before + last))
    assert [clause.text for clause in reading.clauses if clause.text.startswith("of which")] == ([said] if said else [])


def test_what_would_move_the_cursor_is_shown_not_done(tmp_path):
    found = entries(tmp_path, '[[resource]]\nname = "a\\u001b[31m"\nabout = "\\u202ex"\nsource = "pci"\n')
    text = whole(found)
    assert r"\x1b[31m" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert convert_to_json(find_descriptions(found, ["a.toml:1"])[0])["about"] == "\u202ex"


@pytest.mark.parametrize("name", sorted(path.stem for path in Path(SHIPPED).glob("*.toml")))
def test_the_example_of_a_shipped_class_serves(tmp_path, name):
    one = build_manual(load_with_entries(str(tmp_path / "none")), name)
    assert (one.name, one.is_local) == (name, False)
    (tmp_path / "resources.d").mkdir()
    beside = 'source = "pci"\n' if one.is_base_class else ""
    (tmp_path / "resources.d" / "a.toml").write_text(f"{one.example}\n{beside}", encoding="utf-8")
    found = load(str(tmp_path))
    assert [finding.message for finding in found.findings] == []
    assert len(found.resources) == 1


@pytest.mark.parametrize("name", sorted(path.stem for path in Path(SHIPPED).glob("*.toml")))
def test_what_a_shipped_class_advises_can_be_pasted(tmp_path, name):
    """Each piece of TOML at the top of its file, in an entry that uses it; probes are agent.toml's."""
    one = build_manual(load_with_entries(str(tmp_path / "none")), name)
    (tmp_path / "resources.d").mkdir()
    for index, (toml, text) in enumerate(one.notes):
        if toml:
            said = {line.partition("=")[0].strip() for line in text.splitlines()}
            entry = [line for line in one.example.splitlines() if line.partition("=")[0].strip() not in said]
            beside = 'source = "pci"\n' if one.is_base_class and "source" not in said else ""
            whole = "\n".join((*entry, text, beside))
            (tmp_path / "resources.d" / f"{index}.toml").write_text(whole, encoding="utf-8")
            found = [each for each in load(str(tmp_path)).findings if each.severity == "error"]
            assert [each.message for each in found if each.code != "unknown-probe"] == [], text
            (tmp_path / "resources.d" / f"{index}.toml").unlink()


def test_the_example_answers_what_a_class_asks(tmp_path):
    (tmp_path / "classes").mkdir()
    text = 'about = "x"\nname = "a/b"\nsource = "pci"\noptions.o = { about = "how", one_of = ["p", "q"] }\n'
    (tmp_path / "classes" / "c.toml").write_text(text, encoding="utf-8")
    one = build_manual(load_with_entries(str(tmp_path)), "c")
    assert one.example == '[[resource]]\nclass = "c"\noptions.o = "p"'
    assert ("options", "o, which the entry says (p | q): how") in one.sections
    assert format_manual(one, 60)[-1] == '              options.o = "p"'
