"""Merging: classes used, values overridden, each value with the place it came from."""

from __future__ import annotations

import pytest

from agent.core.entry.resource_spec import Source
from agent.core.language.operators import Equals, Exists

ENTRY = "resources.d/a.toml"


def load_resource(configure, entry: str, **classes: str):
    """The only resource of a configuration without findings."""
    files = {f"classes/{name}.toml": f'about = "x"\n{text}' for name, text in classes.items()}
    found = configure({ENTRY: f'[[resource]]\nname = "example.com/x"\n{entry}\n', **files})
    assert found.findings == ()
    (resource,) = found.resources
    return resource


def findings(configure, entry: str, **classes: str):
    files = {f"classes/{name}.toml": f'about = "x"\n{text}' for name, text in classes.items()}
    return configure({ENTRY: f'[[resource]]\nname = "example.com/x"\n{entry}\n', **files}).findings


def test_short_forms_are_what_they_stand_for(configure):
    short = load_resource(
        configure, 'source = "pci"\nreplicas = 8\ngive = { nodes = { a = "/dev/a" }, env = { B = "b" } }'
    )
    full = load_resource(
        configure,
        'source = { kind = "pci" }\nreplicas = { count = 8 }\n'
        'give = { nodes = { a = { path = "/dev/a" } }, env = { B = { value = "b" } } }',
    )
    assert short.source == full.source == Source("pci")
    assert short.shares == full.shares == 8
    assert [(node.name, node.path, node.container_paths, node.permissions, node.optional) for node in short.nodes] == [
        (node.name, node.path, node.container_paths, node.permissions, node.optional) for node in full.nodes
    ]
    assert [(env.key, env.name, env.value, env.separator) for env in short.env] == [
        (env.key, env.name, env.value, env.separator) for env in full.env
    ]


def test_a_short_form_in_the_class_merges_with_a_long_one_in_the_entry(configure):
    resource = load_resource(
        configure,
        'class = "c"\ngive.nodes.a.permissions = "mr"',
        c='source = "pci"\ngive.nodes.a = "/dev/a"',
    )
    (node,) = resource.nodes
    assert (node.path.source, node.permissions) == ("/dev/a", "rm")
    assert str(node.origin) == "classes/c.toml:3"


def test_class_then_uses_then_the_entry_and_every_line_knows_its_place(configure):
    resource = load_resource(
        configure,
        'class = "c"\nuses = ["p"]\nmatch.driver = "entry"\nmatch.pf.driver = "ice"',
        c='source = "pci"\nmatch = { driver = "class", vendor = "8086", pf = { exists = true } }',
        p='match.device = "0442"',
    )
    lines = {line.address: (line.source_text, str(line.origin), line.origin.column) for line in resource.match.lines}
    assert lines == {
        "match.driver": ('"entry"', f"{ENTRY}:5", 7),
        "match.vendor": ('"8086"', "classes/c.toml:3", 29),
        "match.pf": ("{ exists = true }", "classes/c.toml:3", 46),
        "match.device": ('"0442"', "classes/p.toml:2", 7),
        "match.pf.driver": ('"ice"', f"{ENTRY}:6", 10),
    }
    assert resource.class_name == "c"
    assert str(resource.origin) == f"{ENTRY}:1"


def test_a_relation_and_a_word_of_it_are_two_facts(configure):
    resource = load_resource(configure, 'source = "pci"\nmatch = { pf = { driver = "ice", "./sriov_numvfs" = "4" } }')
    assert [(line.word, line.test) for line in resource.match.lines] == [
        ("pf.driver", Equals("ice")),
        ("pf/sriov_numvfs", Equals("4")),
    ]
    both = load_resource(
        configure, 'class = "c"\nmatch.pf.driver = "ice"', c='source = "pci"\nmatch.pf = { exists = true }'
    )
    assert [(line.word, line.test) for line in both.match.lines] == [("pf", Exists(True)), ("pf.driver", Equals("ice"))]


def test_paths_have_one_form_so_that_an_entry_replaces_them(configure):
    resource = load_resource(configure, 'class = "c"\nmatch."././a//b" = "2"', c='source = "pci"\nmatch."./a/b" = "1"')
    assert [(line.word, line.test) for line in resource.match.lines] == [("./a/b", Equals("2"))]


def test_lists_tests_and_sources_are_replaced_whole(configure):
    resource = load_resource(
        configure,
        'class = "c"\nsource = { node = "/dev/b" }\nid = "{name}"\nmatch.name = { like = "b*" }',
        c='source = { node = ["/dev/a", "/dev/c"] }\nid = ["{node}", "{name}"]\n'
        'match.name = { not = "x", exists = true }',
    )
    assert resource.source == Source("node", ("/dev/b",))
    assert [text.source for text in resource.id] == ["{name}"]
    assert [line.source_text for line in resource.match.lines] == ['{ like = "b*" }']


def test_about_is_never_inherited_and_does_not_conflict(configure):
    assert load_resource(configure, 'class = "a"\nuses = ["b"]', a='source = "pci"', b="part = true").source == Source(
        "pci"
    )


CONFLICT = {"a": 'source = "pci"\nreplicas = 2', "b": "replicas = 3"}


def test_two_used_classes_that_differ_are_an_error(configure):
    (finding,) = findings(configure, 'class = "a"\nuses = ["b"]', **CONFLICT)
    assert (finding.file, finding.line, finding.column, finding.code) == (ENTRY, 4, 8, "merge-conflict")
    assert finding.message == "classes/a.toml:3 and classes/b.toml:2 differ on replicas.count; say it here"


def test_unless_the_entry_says_it(configure):
    assert load_resource(configure, 'class = "a"\nuses = ["b"]\nreplicas = 4', **CONFLICT).shares == 4


def test_unless_they_say_the_same(configure):
    assert (
        load_resource(configure, 'class = "a"\nuses = ["b"]', a='source = "pci"\nreplicas = 2', b="replicas = 2").shares
        == 2
    )


def test_the_same_part_reached_twice_is_one_part(configure):
    parts = {"p": 'replicas = 2\nmatch.driver = "x"\nexclude.e.driver = "y"'}
    resource = load_resource(
        configure, 'class = "a"\nuses = ["b"]', a='uses = ["p"]\nsource = "pci"', b='uses = ["p"]', **parts
    )
    assert resource.shares == 2


def test_a_change_wins_over_the_untouched_value_whatever_the_order(configure):
    parts = {"p": "replicas = 2", "b": 'uses = ["p"]'}
    changed = 'uses = ["p"]\nsource = "pci"\nreplicas = 3'
    assert load_resource(configure, 'class = "a"\nuses = ["b"]', a=changed, **parts).shares == 3
    assert load_resource(configure, 'class = "b"\nuses = ["a"]', a=changed, **parts).shares == 3


def test_two_changes_of_one_value_conflict(configure):
    (finding,) = findings(
        configure,
        'class = "a"\nuses = ["b"]',
        p="replicas = 2",
        a='uses = ["p"]\nsource = "pci"\nreplicas = 3',
        b='uses = ["p"]\nreplicas = 4',
    )
    assert finding.code == "merge-conflict"


def test_what_one_way_took_out_the_other_does_not_bring_back(configure):
    classes = {
        "p": 'exclude.e.driver = "y"\ngive.nodes.n = "/dev/n"\ngive.env.E = "e"',
        "a": 'uses = ["p"]\nsource = "pci"\nexclude.e = false\ngive = { nodes.n = false, env.E = false }',
        "b": 'uses = ["p"]',
    }
    for entry in ('class = "a"\nuses = ["b"]', 'class = "b"\nuses = ["a"]'):
        resource = load_resource(configure, entry, **classes)
        assert (resource.exclude, resource.nodes, resource.env) == ((), (), ())


def test_taking_out_on_one_way_and_changing_on_the_other_conflict(configure):
    (finding,) = findings(
        configure,
        'class = "a"\nuses = ["b"]',
        p='exclude.e.driver = "y"',
        a='uses = ["p"]\nsource = "pci"\nexclude.e = false',
        b='uses = ["p"]\nexclude.e.driver = "z"',
    )
    assert (finding.code, finding.message.rpartition("differ on ")[2]) == ("merge-conflict", "exclude.e; say it here")


def test_false_takes_out_and_what_was_taken_out_can_be_said_anew(configure):
    classes = {"c": 'source = "pci"\nmatch.driver = "x"\nexclude = { a.driver = "a", b.driver = "b" }'}
    resource = load_resource(configure, 'class = "c"\nmatch = false\nexclude.a = false', **classes)
    assert resource.match.lines == ()
    assert [clause.name for clause in resource.exclude] == ["exclude.b"]
    assert load_resource(configure, 'class = "c"\nexclude = false', **classes).exclude == ()
    classes["d"] = 'uses = ["c"]\nexclude.a = false'
    again = load_resource(configure, 'class = "d"\nexclude.a.driver = "z"', **classes)
    assert {(clause.name, clause.lines[0].source_text) for clause in again.exclude} == {
        ("exclude.b", '"b"'),
        ("exclude.a", '"z"'),
    }


def test_taking_out_what_is_not_there_is_an_error(configure):
    (finding,) = findings(configure, 'class = "c"\ngive.nodes.b = false', c='source = "pci"\ngive.nodes.a = "/dev/a"')
    assert (finding.line, finding.column, finding.code) == (4, 12, "nothing-to-take-out")


def test_false_in_a_clause_is_a_test(configure):
    resource = load_resource(configure, 'class = "c"\nmatch.is_vf = false', c='source = "pci"\nmatch.is_vf = true')
    assert [line.test for line in resource.match.lines] == [Equals(False)]


def test_classes_that_need_each_other(configure):
    found = findings(configure, 'class = "a"\nreplicas = "x"', a='uses = ["b"]', b='uses = ["a"]')
    assert [(finding.file, finding.line, finding.code) for finding in found] == [
        ("classes/b.toml", 2, "cycle"),
        (ENTRY, 4, "type"),
    ]
    assert found[0].message == "a → b → a: each needs the other"


def test_a_mistake_in_a_class_is_said_once_and_where_it_is(configure):
    files = {
        "classes/c.toml": 'about = "x"\nsource = "pci"\nmatch.vendro = "1"\n',
        ENTRY: '[[resource]]\nname = "a/b"\nclass = "c"\n[[resource]]\nname = "a/c"\nclass = "c"\n',
        "resources.d/b.toml": '[[resource]]\nname = "a/d"\nsource = "pci"\n',
    }
    found = configure(files)
    assert [(finding.file, finding.line, finding.code) for finding in found.findings] == [
        ("classes/c.toml", 3, "unknown-word")
    ]
    assert [resource.name for resource in found.resources] == ["a/d"]


def test_a_word_that_an_entrys_source_lacks_is_reported_where_it_is_written(configure):
    (finding,) = findings(
        configure, 'class = "c"\nsource = { node = "/dev/x" }', c='source = "pci"\nmatch.vendor = "1"'
    )
    assert (finding.file, finding.line, finding.code) == ("classes/c.toml", 3, "unknown-word")


@pytest.mark.parametrize(
    "faulty",
    ['registration = "sockets"', 'part = "yes"', 'give.nodes.a = { path = "/dev/kvm", optional = "yes" }'],
)
def test_a_key_on_which_nothing_depends_hides_no_other_error(configure, faulty):
    """The entry also has no name, no ID, and a word that is unknown."""
    text = f'[[resource]]\nsource = {{ dir = "/sys/class/npu/*" }}\nmatch.nowhere = "x"\n{faulty}\n'
    found = configure({"resources.d/a.toml": text})
    assert sorted(finding.code for finding in found.findings) == ["missing", "missing", "type", "unknown-word"]
