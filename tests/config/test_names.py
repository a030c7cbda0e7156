"""Names with words, what adds to a resource, and what is said of a resource as a whole."""

import pytest

from agent.core.entry.resource_spec import Limit

PCI = 'source = "pci"\n'
HEAD = '[[resource]]\nname = "example.com/x"\n'


def load_entries(configure, *entries):
    text = "\n".join(f"[[resource]]\n{entry}" for entry in entries)
    return configure({"resources.d/a.toml": text})


def load_entry(configure, text):
    configuration = load_entries(configure, f'name = "example.com/x"\n{PCI}{text}')
    assert not configuration.findings, configuration.findings
    (spec,) = configuration.resources
    return spec


def mistakes(configure, *entries):
    return [(found.line, found.code, found.write) for found in load_entries(configure, *entries).findings]


def test_a_name_may_have_words_behind_its_slash(configure):
    (spec,) = load_entries(configure, f'name = "example.com/{{driver|upper}}-vf"\n{PCI}').resources
    assert spec.name == spec.name_template.source == "example.com/{driver|upper}-vf"
    assert load_entry(configure, "").name_template is None


@pytest.mark.parametrize(
    ("name", "code", "write"),
    [
        ("{driver}/x", "resource-name", 'write "example.com/{driver}/x"'),
        ("example.{driver}/x", "resource-name", 'write "example.com/{driver}/x"'),
        ("example.com/{drivr}", "unknown-word", "nearest: driver"),
        ("example.com/{nodes}", "resource-name", "take a word that says one thing"),
        ("example.com/{n}", "unknown-word", "device-agent scan --words pci shows its words"),
        ("example.com/{driver", "text", 'a literal brace is "{{"'),
        ("example.com/{driver}/y", "resource-name", 'write for example "example.com/{driver}"'),
        ("example.com/-{driver}", "resource-name", 'write for example "example.com/{driver}"'),
        ("kubernetes.io/{driver}", "resource-name", 'write for example "example.com/{driver}"'),
    ],
)
def test_a_name_that_the_kubelet_would_not_take(configure, name, code, write):
    assert mistakes(configure, f'name = "{name}"\n{PCI}') == [(2, code, write)]


def test_an_entry_adds_to_one_before_it(configure):
    first = f'name = "example.com/x"\n{PCI}registration = "watcher"\nlimit.distinct = true\nexpect = 3'
    adding = f'adds_to = "example.com/x"\n{PCI}topology = "none"'
    configuration = load_entries(configure, first, adding)
    assert configuration.is_valid
    owner, more = configuration.resources
    assert (owner.is_addition, more.is_addition, more.name) == (False, True, "example.com/x")
    assert (more.registration, more.limit, more.topology) == ("watcher", Limit(distinct=True), ())
    assert (owner.expect, more.expect) == (3, None)


def test_a_name_with_words_is_added_to_by_its_text(configure):
    first = f'name = "example.com/{{driver}}"\n{PCI}'
    adding = 'adds_to = "example.com/{driver}"\nsource = { subsystem = "net" }\nid = "{path_id}"'
    _, more = load_entries(configure, first, adding).resources
    assert more.is_addition
    assert more.name_template.source == "example.com/{driver}"


def test_what_is_added_to_stands_before(configure):
    entry, adding = f'name = "example.com/x"\n{PCI}', f'adds_to = "example.com/x"\n{PCI}'
    assert mistakes(configure, adding, entry) == [(2, "adds-to", "put this entry behind it")]
    assert mistakes(configure, adding.replace("/x", "/y"), entry) == [(2, "adds-to", "nearest: example.com/x")]
    assert mistakes(configure, entry, entry) == [(6, "duplicate-name", 'to add to it: adds_to = "example.com/x"')]


@pytest.mark.parametrize("key", ["slots = 2", "limit.distinct = true", "expect = 3", 'registration = "socket"'])
def test_what_is_of_the_whole_resource_is_not_said_by_what_adds(configure, key):
    entry, adding = f'name = "example.com/x"\n{PCI}', f'adds_to = "example.com/x"\n{PCI}{key}'
    assert mistakes(configure, entry, adding) == [(8, "adds-to", "write it where example.com/x is defined")]


def test_what_a_class_says_of_the_whole_resource_is_not_taken_over_by_what_adds(configure):
    of_class = 'about = "x"\nsource = "pci"\nlimit.distinct = true\nregistration = "watcher"\nname = "example.com/z"'
    entries = f'[[resource]]\nname = "example.com/x"\n{PCI}[[resource]]\nadds_to = "example.com/x"\nclass = "c"'
    configuration = configure({"classes/c.toml": of_class, "resources.d/a.toml": entries})
    assert configuration.is_valid
    more = configuration.resources[1]
    assert (more.name, more.limit, more.registration) == ("example.com/x", Limit(), "socket")


def test_what_adds_to_an_entry_with_an_error_is_left_out_with_it(configure):
    files = {
        "resources.d/a.toml": f'[[resource]]\nname = "example.com/x"\n{PCI}colour = "red"',
        "resources.d/b.toml": f'[[resource]]\nadds_to = "example.com/x"\n{PCI}',
    }
    assert configure(files).resources == ()


def test_shares_by_a_word(configure):
    by = load_entry(
        configure, 'replicas = { by = "driver", map = { "a*" = 2, "ab*" = 3, abc = 4 }, else = 1 }'
    ).share_map
    assert [by.find_count(text) for text in ("abc", "abd", "ax", "b")] == [4, 3, 2, 1]
    by = load_entry(configure, 'replicas = { by = "numa", map = { 0 = 2, 1 = 1 }, suffix = "::s" }')
    assert (by.shares, by.share_map.find_count("0"), by.share_map.find_count("2"), by.share_suffix) == (
        None,
        2,
        None,
        "::s",
    )
    by = load_entry(configure, 'replicas = { by = "vendor", map = { "0x15B3" = 2 } }').share_map
    assert by.find_count("15b3") == 2
    assert load_entry(configure, 'replicas = { by = "is_vf", map = { true = 2 } }').share_map.find_count("true") == 2


@pytest.mark.parametrize(
    ("text", "write"),
    [
        ('replicas = { by = "driver" }', "add map = { … = 4 }"),
        ("replicas = { map = { a = 4 } }", 'add by = "…"'),
        ('replicas = { by = "drivr", map = { a = 4 } }', "nearest: driver"),
        ('replicas = { by = "nodes", map = { a = 4 } }', "take a word that says one thing"),
        ('replicas = { by = "driver", map = { a = 0 } }', "write for example 4"),
        ('replicas = { by = "numa", map = { a = 1 } }', ""),
        ('replicas = { by = "driver", map = { "[" = 1 } }', 'write "[]"; a literal bracket is "[[]"'),
        ('replicas = { count = 2, suffix = "-" }', 'write "::", the default, or "::share-"'),
        ('replicas = { count = 2, suffix = "::1" }', 'write "::", the default, or "::share-"'),
        ('replicas = { by = "driver", map = { a = 999999 } }', "at most 119837"),
        ("slots = 2\nreplicas = 2", "write replicas = false, or leave slots out"),
        ('slots = { id = "{n}" }', "add count = 8"),
        ('slots = { count = 2, id = "x" }', 'write "{resource|digest:8}-{n}"'),
        ('slots = { count = 2, id = "{driver}-{n}" }', 'write "{resource|digest:8}-{n}"'),
        ("slots = 9999999", "at most 53773"),
        ('topology = "driver"', 'write "numa"'),
        ("wait.a = {}", "take it out, or say when it holds"),
        ("gate.a = {}", "take it out, or say when it holds"),
        ('gate.a = { driver = "x" }', "for a device write wait.a"),
        ('gate.a = { "./x" = "x" }', "for a device write wait.a"),
    ],
)
def test_mistakes(configure, text, write):
    (found,) = load_entries(configure, f'name = "example.com/x"\n{PCI}{text}').findings
    assert found.write == write
    assert found.severity.value == "error"


def test_slots(configure):
    slots = load_entry(configure, "slots = 8\nreplicas = 1").slots
    assert (slots.count, slots.id.source) == (8, "{resource|digest:8}-{n}")
    text = 'source = { subsystem = "net" }\nslots = { count = 2, id = "{resource|last:3}-{n}" }'
    (spec,) = load_entries(configure, f'name = "example.com/{{driver}}"\n{text}').resources
    assert spec.slots.count == 2
    assert spec.id == ()


def test_what_one_container_has_alone_need_not_be_told_apart(configure):
    give = "give.env.A = '{address}'"
    assert [code for _, code, _ in mistakes(configure, f'name = "a/b"\n{PCI}{give}')] == ["differs-between-devices"]
    assert load_entry(configure, f"limit.per_container = 1\n{give}").env
    alone = f'name = "a/b"\n{PCI}{give}\nslots = 2\nlimit.per_container = 1'
    assert [code for _, code, _ in mistakes(configure, alone)] == ["differs-between-devices"]


def test_the_rest(configure):
    spec = load_entry(configure, "topology = [1, 0]\nexpect = 2\nwait.a.driver = 'x'\ngate.b = { host.iommu = true }")
    assert (spec.topology, spec.expect) == ((0, 1), 2)
    assert [clause.name for clause in (*spec.wait, *spec.gate)] == ["wait.a", "gate.b"]
    assert load_entry(configure, 'topology = "none"').topology == ()
    assert load_entry(configure, 'topology = "number"').topology == "number"
