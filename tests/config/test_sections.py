"""Each section of the language: its short forms, its merge, and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.config.language.key_table import PLACES, VERBS
from agent.config.merge.class_library import ClassLibrary, Folder
from agent.config.merge.config_tree import Branch, Leaf, Node, RemovedValue
from agent.config.toml.document import parse
from agent.config.toml.file_position import FilePosition
from agent.config.toml.files import ConfigFiles
from agent.config.toml.finding import Finding


def plain(node: Node) -> object:
    """A tree as the table that it is; what was taken out is None."""
    match node:
        case Branch():
            return {name: plain(member) for name, member in node.members.items()}
        case Leaf():
            return node.value
        case RemovedValue():
            return None
    raise TypeError(node)


def merge_entry(text: str, directory: Path, **classes: str) -> tuple[dict[str, object], list[Finding]]:
    """Return the merged entry and its findings."""
    (directory / "classes").mkdir(exist_ok=True)
    for name, content in classes.items():
        (directory / "classes" / f"{name}.toml").write_text(content, encoding="utf-8")
    findings: list[Finding] = []
    shelf = ClassLibrary([Folder(str(directory / "classes"))], ConfigFiles(str(directory)), findings)
    document = parse("a.toml", f"[[resource]]\n{text}\n")
    sentence = shelf.merge_entry(FilePosition(document, ("resource", 0)), document.data["resource"][0], "entry")
    tree = plain(sentence.tree)
    assert isinstance(tree, dict)
    for key in ("class", "uses"):
        tree.pop(key, None)
    return tree, findings


SHORT = [
    ('let.x = "./f"', {"let": {"x": {"read": "./f"}}}),
    ('let.x = ["a", "b"]', {"let": {"x": {"first_of": ["a", "b"]}}}),
    ('let.x = { holds = { pf = { driver = "ice" } } }', {"let": {"x": {"holds": {"pf.driver": "ice"}}}}),
    ("replicas = 8", {"replicas": {"count": 8}}),
    ("slots = 8", {"slots": {"count": 8}}),
    ('source = "pci"', {"source": {"kind": "pci"}}),
    ('group = "hub"', {"group": {"by": "hub"}}),
    ('group = ["hub", "slot"]', {"group": {"by": ["hub", "slot"]}}),
    (
        'group.parts.a = { vendor = "1", pf = { driver = "x" } }',
        {"group": {"parts": {"a": {"vendor": "1", "pf.driver": "x"}}}},
    ),
    ('options.x = "y"', {"options": {"x": {"value": "y"}}}),
    ("options.x = false", {"options": {"x": {"value": False}}}),
    ('options.x = ["y"]', {"options": {"x": {"value": ["y"]}}}),
    ('give.vfio = "legacy"', {"give": {"vfio": {"backend": "legacy"}}}),
    ("give.vfio = true", {"give": {"vfio": {}}}),
    ("give.rdma = true", {"give": {"rdma": {}}}),
    ('give.cdi.a = "x.y/z=1"', {"give": {"cdi": {"a": {"name": "x.y/z=1"}}}}),
    ('give.mounts.a = "/opt/a"', {"give": {"mounts": {"a": {"path": "/opt/a"}}}}),
    ('give.annotations.a = "b"', {"give": {"annotations": {"a": {"value": "b"}}}}),
    (
        'give.also.a = { nodes.b = "/dev/b", when = { pf.driver = "x" } }',
        {"give": {"also": {"a": {"nodes": {"b": {"path": "/dev/b"}}, "when": {"pf.driver": "x"}}}}},
    ),
    ('give.devinfo.pci.pci-address = "{address}"', {"give": {"devinfo": {"pci": {"pci-address": "{address}"}}}}),
    (
        'give.env.A = { json.a.b = "c", key = "{id}" }',
        {"give": {"env": {"A": {"json": {"a": {"b": "c"}}, "key": "{id}"}}}},
    ),
    (
        'join.p = { source = "pci", on = { pci = { address = "x" } } }',
        {"join": {"p": {"source": {"kind": "pci"}, "on": {"pci.address": "x"}}}},
    ),
    (
        'join.p = { dir = "/sys/x", let.a = "./b", match = { pf = { driver = "x" } }, optional = true }',
        {
            "join": {
                "p": {"dir": "/sys/x", "let": {"a": {"read": "./b"}}, "match": {"pf.driver": "x"}, "optional": True}
            }
        },
    ),
    ('wait.a = { pf = { driver = "x" } }', {"wait": {"a": {"pf.driver": "x"}}}),
    ('gate.a = { host.modules = { has = "x" } }', {"gate": {"a": {"host.modules": {"has": "x"}}}}),
    (
        'match.either = { a = { pf = { driver = "x" } }, b.uio = { exists = true } }',
        {"match": {"either": {"a": {"pf.driver": "x"}, "b": {"uio": {"exists": True}}}}},
    ),
    (
        'health.a = { holds = { pf = { driver = "x" } }, when.name = "y", trip = "2 looks" }',
        {"health": {"a": {"holds": {"pf.driver": "x"}, "when": {"name": "y"}, "trip": "2 looks"}}},
    ),
    (
        'health.a = { log = "x {code:int}", only.code = 1, ignore.code = [2], latch.code = 3 }',
        {"health": {"a": {"log": "x {code:int}", "only": {"code": 1}, "ignore": {"code": [2]}, "latch": {"code": 3}}}},
    ),
    ('health.a = { rises = "x", latch = true }', {"health": {"a": {"rises": "x", "latch": True}}}),
    (
        'links.a = { dir = "./l*", on = { n = "kfd.number" }, let.n = "./n", cost = 5 }',
        {"links": {"a": {"dir": "./l*", "on": {"n": "kfd.number"}, "let": {"n": {"read": "./n"}}, "cost": 5}}},
    ),
    (
        'links.a.cost = { by = "n", map = { "11" = 10 }, else = 50 }',
        {"links": {"a": {"cost": {"by": "n", "map": {"11": 10}, "else": 50}}}},
    ),
    (
        'prepare.a = { run = ["/x"], when = { "/dev/x" = { exists = false } }, optional = true }',
        {"prepare": {"a": {"run": ["/x"], "when": {"/dev/x": {"exists": False}}, "optional": True}}},
    ),
    ('probe.a.run = ["/x", "-y"]', {"probe": {"a": {"run": ["/x", "-y"]}}}),
    ('prefer = [{ same = "numa" }]', {"prefer": [{"same": "numa"}]}),
    ("topology = [0, 1]", {"topology": [0, 1]}),
    ("limit = { per_container = 2, distinct = true }", {"limit": {"per_container": 2, "distinct": True}}),
    ("expect = 4\nmoves_into_pod = true", {"expect": 4, "moves_into_pod": True}),
]


@pytest.mark.parametrize(("text", "tree"), SHORT, ids=[row[0] for row in SHORT])
def test_short_forms_stand_for_the_whole(tmp_path, text, tree):
    assert merge_entry(text, tmp_path) == (tree, [])


# What is below: the class, the entry over it, and what comes of both.
OVER = [
    # Tables merge at every depth, and an open one as well.
    (
        'let.m = { by = "x", map = { a = "1" } }',
        'let.m.map = { b = "2" }',
        {"let": {"m": {"by": "x", "map": {"a": "1", "b": "2"}}}},
    ),
    (
        'give.env.A.json = { a = "1", b.c = "2" }',
        'give.env.A.json.b = { c = "3", d = "4" }',
        {"give": {"env": {"A": {"json": {"a": "1", "b": {"c": "3", "d": "4"}}}}}},
    ),
    ("give.rdma = true", 'give.rdma.optional = ["umad"]', {"give": {"rdma": {"optional": ["umad"]}}}),
    ('give.vfio = "legacy"', "give.vfio = true", {"give": {"vfio": {"backend": "legacy"}}}),
    ('group = { by = "a", claims = "all" }', 'group = "b"', {"group": {"by": "b", "claims": "all"}}),
    (
        'health.a = { holds.name = "x", every = "5s" }',
        'health.a.holds.driver = "y"',
        {"health": {"a": {"holds": {"name": "x", "driver": "y"}, "every": "5s"}}},
    ),
    (
        'match.either.a.driver = "x"',
        'match.either.b.driver = "y"',
        {"match": {"either": {"a": {"driver": "x"}}, "either 2": {"b": {"driver": "y"}}}},
    ),
    # One value: a test, `on`, `source`, lists.
    (
        'join.j = { source = "pci", on = { a = "b", c = "d" } }',
        'join.j.on = { a = "z" }',
        {"join": {"j": {"source": {"kind": "pci"}, "on": {"a": "z"}}}},
    ),
    ('prefer = [{ same = "a" }]', 'prefer = [{ near = "b" }]', {"prefer": [{"near": "b"}]}),
    # Another verb replaces the whole; the same one does not.
    ('let.a = { field = "x", of = "./f", type = "int" }', 'let.a.read = "./g"', {"let": {"a": {"read": "./g"}}}),
    ('let.a = { read = "./f", type = "int" }', 'let.a = "./g"', {"let": {"a": {"read": "./g", "type": "int"}}}),
    ('let.a = "./f"', 'let.a = ["b", "c"]', {"let": {"a": {"first_of": ["b", "c"]}}}),
    ('let.a = { probe = "p", field = "x" }', 'let.a.field = "y"', {"let": {"a": {"probe": "p", "field": "y"}}}),
    (
        'health.a = { log = "x", ignore.code = 1, every = "5s" }',
        'health.a.rises = "n"',
        {"health": {"a": {"rises": "n"}}},
    ),
    (
        'join.a = { dir = "/sys/x", on.a = "b" }',
        'join.a = { class = "c", on.d = "e" }',
        {"join": {"a": {"class": "c", "on": {"d": "e"}}}},
    ),
    ('replicas = { by = "a", map.b = 2 }', "replicas = 3", {"replicas": {"count": 3}}),
    ("replicas = 3", 'replicas = { by = "a", map.b = 2 }', {"replicas": {"by": "a", "map": {"b": 2}}}),
    (
        'give.env.A = { value = "x", join = "," }',
        'give.env.A = { json.a = "y" }',
        {"give": {"env": {"A": {"json": {"a": "y"}}}}},
    ),
    ('name = "a/b"', 'adds_to = "a/c"', {"adds_to": "a/c"}),
    ('adds_to = "a/c"', 'name = "a/b"', {"name": "a/b"}),
    # What `false` takes out.
    ('match.a = "x"', "match = false", {"match": None}),
    ('exclude.a.b = "x"', "exclude = false", {"exclude": None}),
    ('wait.a.b = "x"', "wait.a = false", {"wait": {"a": None}}),
    ('wait.a.b = "x"', "wait = false", {"wait": None}),
    ('gate.a.b = "x"', "gate = false", {"gate": None}),
    ('gate.a.b = "x"', "gate.a = false", {"gate": {"a": None}}),
    ('health.a.rises = "x"', "health.a = false", {"health": {"a": None}}),
    ('let.a = "./x"', "let.a = false", {"let": {"a": None}}),
    ('join.a.class = "x"', "join.a = false", {"join": {"a": None}}),
    ('links.a.dir = "./x"', "links.a = false", {"links": {"a": None}}),
    ('prepare.a.run = ["/x"]', "prepare.a = false", {"prepare": {"a": None}}),
    ('prestart.a.run = ["/x"]', "prestart.a = false", {"prestart": {"a": None}}),
    ('probe.a.run = ["/x"]', "probe.a = false", {"probe": {"a": None}}),
    (
        'match.either = { a.b = "x", c.d = "y" }',
        "match.either.a = false",
        {"match": {"either": {"a": None, "c": {"d": "y"}}}},
    ),
    ('give.mounts.a = "/x"', "give.mounts.a = false", {"give": {"mounts": {"a": None}}}),
    ('give.annotations.a = "x"', "give.annotations.a = false", {"give": {"annotations": {"a": None}}}),
    ('give.cdi.a = "x/y=z"', "give.cdi.a = false", {"give": {"cdi": {"a": None}}}),
    ('give.also.a.nodes.b = "/dev/b"', "give.also.a = false", {"give": {"also": {"a": None}}}),
    (
        'give.also.a.nodes.b = "/dev/b"',
        "give.also.a.nodes.b = false",
        {"give": {"also": {"a": {"nodes": {"b": None}}}}},
    ),
    ("give.vfio = true", "give.vfio = false", {"give": {"vfio": None}}),
    ("give.rdma = true", "give.rdma = false", {"give": {"rdma": None}}),
    ('give.devinfo.a = "x"', "give.devinfo = false", {"give": {"devinfo": None}}),
    ('group = "x"', "group = false", {"group": None}),
    ("slots = 3", "slots = false", {"slots": None}),
    ("replicas = 3", "replicas = false", {"replicas": None}),
    ('topology = "x"', "topology = false", {"topology": None}),
]


@pytest.mark.parametrize(("base", "own", "tree"), OVER, ids=[f"{row[1]} over {row[0]}" for row in OVER])
def test_an_entry_goes_over_its_class(tmp_path, base, own, tree):
    assert merge_entry(f'class = "c"\n{own}', tmp_path, c=f'about = "x"\n{base}') == (tree, [])


OUT = ["group", "slots", "match", "exclude", "wait", "gate", "topology", "replicas", "give.vfio", "give.rdma"]
OUT += ["give.devinfo", "let.a", "join.a", "health.a", "links.a", "prepare.a", "match.either.a", "give.also.a"]


@pytest.mark.parametrize("address", OUT)
def test_taking_out_what_is_not_there_is_an_error(tmp_path, address):
    _, (finding,) = merge_entry(f"{address} = false", tmp_path)
    assert (finding.line, finding.code) == (2, "nothing-to-take-out")


USED_TOGETHER = [
    ('let.a = "./x"', 'let.a.first_of = ["b"]', "let.a"),
    ('health.a.rises = "x"', 'health.a = { log = "y" }', "health.a"),
    ("give.vfio = true", 'give.vfio.backend = "auto"', None),
    ('options.x.about = "a"', 'options.x.about = "b"', "options.x.about"),
]


@pytest.mark.parametrize(("first", "second", "address"), USED_TOGETHER)
def test_two_used_classes_differ_only_where_both_say_it(tmp_path, first, second, address):
    classes = {"a": f'about = "x"\n{first}', "b": f'about = "x"\n{second}'}
    _, findings = merge_entry('uses = ["a", "b"]', tmp_path, **classes)
    assert [finding.message.rpartition("differ on ")[2] for finding in findings] == (
        [f"{address}; say it here"] if address else []
    )


def test_a_name_and_adds_to_exclude_each_other(tmp_path):
    _, (own,) = merge_entry('name = "a/b"\nadds_to = "a/c"', tmp_path)
    assert (own.line, own.code) == (3, "merge-conflict")
    classes = {"a": 'about = "x"\nname = "a/b"', "b": 'about = "x"\nadds_to = "a/c"'}
    _, (used,) = merge_entry('uses = ["a", "b"]', tmp_path, **classes)
    assert (used.file, used.code) == ("classes/b.toml", "merge-conflict")


# Lines behind `[[resource]]`, so the first is line 2; then: line, column, code, message or a piece of it, hint.
WRONG = [
    ("let.a.raed = 'x'", 7, "unknown-key", "a derived word has no such key", "nearest: read"),
    ("let.a = { helper = 'x' }", 11, "unknown-key", "", "write probe"),
    ("let.a = { pci_of = ['x', 'y'] }", 11, "unknown-key", "", "write kfd_address"),
    ("join.a.sorce = 'pci'", 8, "unknown-key", "a join has no such key", "nearest: source"),
    ("health.a.trp = 1", 10, "unknown-key", "a check has no such key", "nearest: trip"),
    ("group.clams = 'all'", 7, "unknown-key", "group has no such key", "nearest: claims"),
    ("links.a.cost.els = 1", 14, "unknown-key", "a cost has no such key", "nearest: else"),
    ("give.vfio.bakend = 'auto'", 11, "unknown-key", "give.vfio has no such key", "nearest: backend"),
    ("give.also.a.devinfo.b = 'x'", 13, "unknown-key", "give.also has no such key", "nearest: devinfo, of give"),
    ("give.cdi.a.vai = 'field'", 12, "unknown-key", "", "nearest: via"),
    ("options.a.one_off = ['x']", 11, "unknown-key", "", "nearest: one_of"),
    ("limit.per_contaner = 1", 7, "unknown-key", "", "nearest: per_container"),
    ("prepare.a.rnu = ['/x']", 11, "unknown-key", "", "nearest: run"),
    ("let = 'x'", 7, "type", "let is a table", "each has a name: let.NAME = …"),
    ("let.a = 5", 9, "type", "read is text", 'write "5"'),
    ("let.a = ['x', 5]", 9, "type", "first_of is a list of text", None),
    ("let.a = { read = 'x', type = 'number' }", 30, "type", "type is one of text, int", None),
    ("let.a = { read = 'x', field = 'y' }", 23, "type", "this has read and field", "leave one out"),
    ("health = true", 10, "type", "health is a table", "each has a name: health.NAME = …"),
    ("health.a = 'x'", 12, "type", "a is a table", "write a = { … }"),
    ("health.a = { rises = 'x', log = 'y' }", 27, "type", "this has rises and log", "leave one out"),
    ("health.a.trip = 2", 17, "type", "trip is looks", 'write "2 looks"'),
    ("health.a.trip = '3 in x'", 17, "type", "trip is looks", None),
    ("health.a.recover = 5", 20, "type", "recover is looks", 'write "5 looks"'),
    ("health.a.every = 5", 18, "type", "every is a time", 'write for example "5s"'),
    ("health.a.latch = 'yes'", 18, "type", "latch is true or false", "write true"),
    ("health.a.on_unknown = 'helthy'", 23, "type", "on_unknown is one of", 'write "healthy"'),
    ("health.a.run = '/x -y'", 16, "type", "run is a program and its arguments", None),
    ("health.a.holds = 'x'", 18, "type", "holds is a table", "write holds = { … }"),
    ("wait.a = 'x'", 10, "type", "a is a table", "each has a name: wait.NAME = { … }"),
    ("gate = 'x'", 8, "type", "gate is a table", "each has a name: gate.NAME = { … }"),
    ("match.either = 'x'", 16, "type", "either is a table", "each alternative has a name: either.NAME = { … }"),
    ("match.pf.either.a.driver = 'x'", 10, "type", "either stands by itself", "write the relation in each alternative"),
    ("group = 5", 9, "type", "by is text, or a list of text", 'write "…"'),
    ("group.claims = 'everything'", 16, "type", "claims is one of matched, all", None),
    ("slots = 0", 9, "type", "count is a whole number from 1", None),
    ("expect = 'four'", 10, "type", "expect is a whole number from 1", None),
    ("moves_into_pod = 'yes'", 18, "type", "moves_into_pod is true or false, without quotes", "write true"),
    ("limit = 2", 9, "type", "limit is a table", "write limit = { … }"),
    ("topology = 0", 12, "type", "topology is a word", None),
    ("topology = [-1]", 12, "type", "topology is a word", None),
    ("prefer = { same = 'numa' }", 10, "type", "prefer is a list of rules", 'write for example [{ same = "numa" }]'),
    ("prefer = [{ sam = 'numa' }]", 10, "type", "prefer is a list of rules", None),
    ("join.a.on = 'x'", 13, "type", "on is a table", "write on = { … }"),
    ("join.a.on.b = 5", 15, "type", "a word of ours stands here", 'write THEIRS = "ours"'),
    ("join.a = { source = 'pci', class = 'c' }", 28, "type", "this has source and class", "leave one out"),
    ("give.vfio = 5", 13, "type", "vfio is a table, or true", "write vfio = true"),
    ("give.vfio = 'fast'", 13, "type", "backend is one of auto", None),
    ("give.rdma = 'uverbs'", 13, "type", "rdma is a table, or true", "write rdma = true"),
    ("give.rdma.optional = ['umda']", 22, "type", "optional is a list of uverbs", None),
    ("give.cdi.a = 5", 14, "type", "name is text", 'write "5"'),
    ("give.cdi.a.via = 'file'", 18, "type", "via is one of field, annotation", None),
    (
        "give.mounts.a = { path = '/x', read_only = 1 }",
        44,
        "type",
        "read_only is true or false, without quotes",
        "write true",
    ),
    ("give.devinfo = 'x'", 16, "type", "devinfo is a table", "write devinfo = { … }"),
    ("give.also = 'x'", 13, "type", "also is a table", "each has a name: give.also.NAME = …"),
    ("links.a.cost = 'x'", 16, "type", "cost is a whole number", None),
    ("prepare.a.run = []", 17, "type", "run is a program and its arguments", None),
    ("prestart.a.timeout = 5", 22, "type", "timeout is a time", None),
    ("let.'a b' = 'x'", 5, "type", "a name is letters, digits, _ and -", "write for example my-part"),
    ("give.env.'A_{n}' = 'x'", 10, "type", "a name is letters", 'write NAME = { name = "A_{n}", value = "…" }'),
]


@pytest.mark.parametrize(("text", "column", "code", "message", "write"), WRONG, ids=[row[0] for row in WRONG])
def test_one_mistake(tmp_path, text, column, code, message, write):
    _, (finding,) = merge_entry(text, tmp_path)
    assert (finding.line, finding.column, finding.code) == (2, column, code)
    assert message in finding.message
    if write is not None:
        assert finding.write == write


OTHER_PLACES = {
    "by": "let.NAME",
    "count": "replicas",
    "dir": "source",
    "else": "let.NAME",
    "key": "give.env.NAME",
    "probe": "let.NAME",
    "run": "health.NAME",
    "source": "join.NAME",
    "timeout": "health.NAME",
    "when": "give.nodes.NAME",
}


@pytest.mark.parametrize(("key", "place"), OTHER_PLACES.items())
def test_a_key_of_several_other_places_is_of_the_first_in_the_table(tmp_path, key, place):
    _, (finding,) = merge_entry(f"limit.{key} = 1", tmp_path)
    assert finding.write == f"nearest: {key}, of {place}"


def test_the_tables_speak_of_the_same_language():
    assert not [(place, verb) for place, verbs in VERBS.items() for verb in verbs if verb not in PLACES[place].keys]
    keys = [key for place in PLACES.values() for key in place.keys.values()]
    shorts = [(key.inner_place, short) for key in keys for short in (key.short, key.short_list) if short]
    assert not [(place, short) for place, short in shorts if short not in PLACES[place].keys]
    inner = {key.inner_place for key in keys if key.inner_place}
    assert inner <= PLACES.keys()
    # Whatever has keys of its own is reached from an entry.
    assert PLACES.keys() - inner == {"file", "entry", "class", "source"}
