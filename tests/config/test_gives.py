"""What an entry gives besides nodes and variables, as it is compiled."""

from __future__ import annotations

import pytest

HEAD = '[[resource]]\nname = "example.com/x"\nsource = { node = "/dev/x[0-9]*" }\n'


def compile_give(configure, text):
    made = configure({"resources.d/a.toml": HEAD + text})
    assert made.findings == ()
    return made.resources[0]


def sources(texts):
    return [text.source for text in texts]


def test_mounts(configure):
    spec = compile_give(
        configure,
        "[resource.give.mounts]\n"
        'short = "/opt/{name}"\n'
        'libs  = { path = "/usr/lib/*.so", to = ["/a/", "/b/"], read_only = true, optional = true }\n'
        'own   = { path = "/run/{name}/s", to = "/run/s{n}" }\n',
    )
    short, libs, own = spec.mounts
    assert (short.name, short.path.source, short.container_paths, short.read_only, short.optional) == (
        *("short", "/opt/{name}", ()),
        *(False, False),
    )
    assert (libs.path.source, sources(libs.container_paths), libs.read_only, libs.optional) == (
        *("/usr/lib/*.so", ["/a/", "/b/"]),
        *(True, True),
    )
    assert sources(own.container_paths) == ["/run/s{n}"]
    assert spec.find_give_words() == {"name"}


def test_annotations(configure):
    spec = compile_give(
        configure,
        "[resource.give.annotations]\n"
        'plain = { value = "{id}", join = "," }\n'
        'ids   = { name = "example.com/ids", value = "{name}", join = "/" }\n'
        'each  = { name = "{resource}-{n}", value = "{name}" }\n',
    )
    assert [(one.key, one.name.source, one.value.source, one.separator) for one in spec.annotations] == [
        ("plain", "plain", "{id}", ","),
        ("ids", "example.com/ids", "{name}", "/"),
        ("each", "{resource}-{n}", "{name}", None),
    ]
    assert spec.env == ()


def test_cdi_devices(configure):
    spec = compile_give(
        configure,
        "[resource.give.cdi]\n"
        'one = "example.com/card={name}"\n'
        'two = { name = "example.com/card=all", via = "annotation", unchecked = true }\n',
    )
    assert [(one.key, one.name.source, one.via, one.unchecked) for one in spec.cdi] == [
        ("one", "example.com/card={name}", "field", False),
        ("two", "example.com/card=all", "annotation", True),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('give.mounts.a = "/x"', 'give.mounts.a = { path = "/x", read_only = true }'),
        ('give.annotations.a = "x"', 'give.annotations.a = "y"'),
        ('give.cdi.a = "x.y/z=1"', 'give.cdi.a = { name = "x.y/z=1", unchecked = true }'),
    ],
)
def test_what_is_given_is_a_part_of_what_an_entry_means(configure, one, other):
    assert compile_give(configure, one).drop_origin() != compile_give(configure, other).drop_origin()
    assert compile_give(configure, one).drop_origin() == compile_give(configure, f"\n{one}").drop_origin()


def test_a_class_gives_and_an_entry_takes_out(configure):
    made = configure(
        {
            "classes/c.toml": 'about = "x"\nsource = { node = "/dev/x" }\n[give.cdi]\na = "x.y/z=1"\nb = "x.y/z=2"\n',
            "resources.d/a.toml": '[[resource]]\nname = "a/b"\nclass = "c"\n'
            'give.cdi = { a = false, b = { via = "annotation" } }\n',
        }
    )
    (spec,) = made.resources
    assert [(one.key, one.via) for one in spec.cdi] == [("b", "annotation")]


def test_directories_of_cdi_specs(configure):
    made = configure({"agent.toml": 'paths.cdi = ["/opt/cdi"]\n'})
    assert (made.settings.paths.cdi, made.findings) == (("/opt/cdi",), ())


BY = """
about  = "x"
source = { node = "/dev/x[0-9]*" }
[options.by]
about = "how"
some_of = ["nodes", "env", "volumes", "cdi"]
default = ["nodes"]
[give.also.plain]
when = { options.by = { has = "nodes" } }
nodes = { gpu = "{node}" }
[give.also.runtime]
when = { options.by = { has = "env" } }
env = { DEVICES = { value = "{name}", join = "," } }
[give.also.volumes]
when = { options.by = { has = "volumes" } }
env = { DEVICES = "/var/run/x" }
mounts = { gpu = { path = "/dev/null", to = "/var/run/x/{name}" } }
[give.also.cdi]
when = { options.by = { has = "cdi" } }
cdi = { gpu = { name = "example.com/gpu={name}", when = { name = { like = "x1*" } } } }
"""


def by(configure, *chosen):
    answer = f"options.by = {list(chosen)}\n".replace("'", '"') if chosen else ""
    entry = f'[[resource]]\nname = "example.com/x"\nclass = "by"\n{answer}'
    return configure({"classes/by.toml": BY, "resources.d/a.toml": entry})


@pytest.mark.parametrize(
    ("chosen", "nodes", "mounts", "env", "cdi"),
    [
        ((), ["gpu"], [], [], []),
        (("env", "cdi"), [], [], ["{name}"], ["gpu"]),
        (("volumes", "nodes"), ["gpu"], ["gpu"], ["/var/run/x"], []),
    ],
)
def test_what_is_given_by_what_an_entry_chose_is_settled_at_load(configure, chosen, nodes, mounts, env, cdi):
    made = by(configure, *chosen)
    assert made.findings == ()
    (spec,) = made.resources
    assert [one.name for one in spec.nodes] == nodes
    assert [one.name for one in spec.mounts] == mounts
    assert [one.value.source for one in spec.env] == env
    assert [one.key for one in spec.cdi] == cdi
    assert [one.condition for one in (*spec.nodes, *spec.mounts, *spec.env)] == [None] * len(nodes + mounts + env)
    assert [[line.address for line in one.condition.lines] for one in spec.cdi] == [
        ["give.also.cdi.when.options.by", "give.also.cdi.cdi.gpu.when.name"] for _ in cdi
    ]


def test_two_values_that_hold_together_by_what_an_entry_chose(configure):
    (finding,) = by(configure, "env", "volumes").findings
    assert (finding.file, finding.line, finding.code) == ("classes/by.toml", 16, "duplicate-name")
    assert finding.message == "give.also.runtime.env.DEVICES has the name DEVICES too, and one would be lost"


@pytest.mark.parametrize(
    ("one", "other", "fine"),
    [
        ("all_given = true", "all_given = false", True),  # whether two hold together only a grant can tell
        ("all_given = true", "name = 'x1'", True),
        ("name = 'x1'", "name = 'x1'", False),
    ],
)
def test_two_values_on_conditions(configure, one, other, fine):
    a, b = f"{{ value = '1', when = {{ {one} }} }}", f"{{ name = 'A', value = '2', when = {{ {other} }} }}"
    made = configure({"resources.d/a.toml": f"{HEAD}give.env.A = {a}\ngive.env.B = {b}\n"})
    assert [finding.code for finding in made.findings] == ([] if fine else ["duplicate-name"])


def test_a_condition_is_a_clause_with_words_of_the_grant(configure):
    spec = compile_give(
        configure,
        "let.mine.take = 'x{mine:text}'\nlet.mine.of = 'name'\n"
        "[resource.give.nodes]\n"
        "a = { path = '{node}', to = '/dev/a{n}', when = { mine = '1', shares = 1 } }\n"
        "[resource.give.env]\n"
        "A = { value = '{given.a}', join = ',', when.given.a.exists = true, when.either = { a.asked = 2, b.n = 0 } }\n",
    )
    assert spec.find_give_words() == {"node", "mine"}
    assert [line.address for line in spec.env[0].condition.walk_lines()] == [
        "give.env.A.when.given.a",
        "give.env.A.when.either.a.asked",
        "give.env.A.when.either.b.n",
    ]


def test_one_word_for_the_nodes_of_one_name(configure):
    spec = compile_give(
        configure,
        "let.minor.take = 'x{minor:int}'\nlet.minor.of = 'name'\n"
        "[resource.give.also.old]\nwhen.minor.below = 5\nnodes.ctl = '/dev/old'\n"
        "[resource.give.also.new]\nwhen.minor.at_least = 5\nnodes.ctl = { path = '{node}', to = '/dev/new{n}' }\n"
        "[resource.give.env]\nCTL = { value = '{given.ctl}', join = ',' }\n",
    )
    assert [(one.name, one.path.source) for one in spec.nodes] == [("ctl", "/dev/old"), ("ctl", "{node}")]


def test_of_a_group_each_member_is_asked(configure):
    text = (
        '[[resource]]\nname = "a/b"\nsource = "pci"\ngroup = "iommu.group"\n'
        '[resource.give.nodes]\none = { path = "/dev/one", when = { driver = "x" } }\n'
        'all = { path = "/dev/all", when = { "/sys/x" = "x" } }\n'
    )
    made = configure({"resources.d/a.toml": text})
    assert made.findings == ()
    assert [(one.name, one.per_member) for one in made.resources[0].nodes] == [("one", True), ("all", False)]


def test_json(configure):
    spec = compile_give(
        configure,
        "[resource.give.env.INFO]\nkey = '{id}'\n"
        "json = { a = 'x{name}', b = { c = [1, '{given.x}'], d = true }, e = [{ f = 0.5 }] }\n"
        "[resource.give.nodes]\nx = { path = '{node}', optional = true }\n"
        "[resource.give.annotations]\none = { json = { a = '{name}' }, name = 'info-{n}' }\n",
    )
    (info,) = spec.env
    assert info.member_key.source == "{id}"
    assert [text.source for text in info.templates] == ["INFO", "x{name}", "{given.x}", "{id}"]
    assert info.value.write(lambda word: f"<{word}>") == (
        '{"a":"x<name>","b":{"c":[1,"<given.x>"],"d":true},"e":[{"f":0.5}]}'
    )
    assert spec.annotations[0].member_key is None


def test_json_merges_by_its_names(configure):
    made = configure(
        {
            "classes/c.toml": 'about = "x"\nsource = { node = "/dev/x" }\ngive.env.A.json = { a = "1", b.c = "2" }\n',
            "resources.d/a.toml": '[[resource]]\nname = "a/b"\nclass = "c"\ngive.env.A.json.b.d = "3"\n'
            '[[resource]]\nname = "a/c"\nclass = "c"\ngive.env.A = "text"\n',
        }
    )
    assert made.is_valid
    one, other = made.resources
    assert one.env[0].value.write(str) == '{"a":"1","b":{"c":"2","d":"3"}}'
    assert other.env[0].value.source == "text"


@pytest.mark.parametrize(
    "items", ['nodes = { a = "/dev/a", b = "/dev/b" }', 'vfio = true\nnodes.a = "/dev/a"\nenv.A = "1"']
)
def test_a_fault_in_the_condition_of_a_section_is_one_finding_however_many_items_it_has(configure, items):
    """The word is unknown to each item. The nodes that are known, and so the hint, differ between them."""
    text = f'[[resource]]\nname = "a.b/x"\nsource = "pci"\n[resource.give.also.s]\nwhen.given.n = "x"\n{items}\n'
    findings = configure({"resources.d/a.toml": text}).findings
    assert [(finding.code, finding.line) for finding in findings] == [("unknown-word", 5)]
