"""`give.via`: what a CDI spec of our own says, and what it cannot, as it depends on the container."""

import pytest

from tests.config.marks import marked_by

HEAD = '[[resource]]\nname = "example.com/x"\nsource = { node = "/dev/x[0-9]*" }\n'


def load(configure, give):
    return configure({"resources.d/a.toml": f"{HEAD}[resource.give]\n{give}\n"})


def in_spec(configure, give, via="cdi"):
    found = load(configure, f'via = "{via}"\n{give}\n')
    assert found.findings == ()
    (spec,) = found.resources
    assert spec.via == (via if via != "kubelet" else "")
    named = [*spec.nodes, *spec.mounts, *spec.env]
    return {getattr(one, "name", None) if not hasattr(one, "key") else one.key for one in named if one.in_spec}


ALL = """
nodes.own = "{node}"
nodes.ctl = "/dev/x_ctl"
nodes.counted = { path = "/dev/x_ctl", to = "/dev/c{n}" }
mounts.all = "/opt/x"
mounts.counted = { path = "/opt/y", to = "/opt/y{n}" }
env.ONE = "1"
env.OF_ID = { name = "ID_{id|env}", value = "{name}" }
env.JOINED = { value = "{name}", join = "," }
env.COUNTED = { name = "X_{n}", value = "{name}" }
env.ASKED = "{asked}"
env.PERCENT = "{share_percent}"
env.WHEN = { value = "1", when = { all_given = true } }
env.WHERE = { name = "AT_{id|env}", value = "{given.own}" }
env.ELSEWHERE = { name = "AT_{n}", value = "{given.counted}" }
annotations.a = { name = "example.com/a", value = "1" }
"""


@pytest.mark.parametrize("via", ["cdi", "cdi-annotation"])
def test_what_is_the_same_for_every_container(configure, via):
    assert in_spec(configure, ALL, via) == {"own", "ctl", "all", "ONE", "OF_ID", "PERCENT", "WHERE"}


def test_nothing_unless_it_is_asked_for(configure):
    assert in_spec(configure, ALL, "kubelet") == set()
    (spec,) = load(configure, ALL).resources
    assert spec.via == ""
    assert not any(one.in_spec for one in spec.nodes)


def test_an_entry_says_it_of_a_class(configure):
    entry = '[[resource]]\nname = "example.com/kvm"\nclass = "kvm"\ngive.via = "cdi"\n'
    found = configure({"resources.d/a.toml": entry})
    assert found.findings == ()
    assert [one.in_spec for one in found.resources[0].nodes] == [True]
    assert (
        found.resources[0].drop_origin()
        != configure({"resources.d/a.toml": entry.replace("cdi", "kubelet")}).resources[0].drop_origin()
    )


@pytest.mark.parametrize(
    ("give", "marked", "code", "write"),
    [
        ('via = "cid"\nnodes.own = "{node}"', '"cid"', "type", 'write "cdi"'),
        ("via = true\nnodes.own = '{node}'", "true", "type", 'write "kubelet"'),
        (
            'via = "cdi"\nenv.A = { value = "{name}", join = "," }',
            '"cdi"',
            "nothing-in-spec",
            'write "kubelet", the default',
        ),
        ('via = "cdi"', '"cdi"', "nothing-in-spec", 'write "kubelet", the default'),
        (
            'via = "cdi"\nnodes.own = { path = "{node}", to = "/dev/x{n}" }',
            '"cdi"',
            "nothing-in-spec",
            'write "kubelet", the default',
        ),
        (
            'nodes.own = "{node}"\nalso.a = { via = "cdi", when.name = "x1", nodes.b = "/dev/y" }',
            "via",
            "unknown-key",
            None,
        ),
    ],
)
def test_mistakes(configure, give, marked, code, write):
    (finding,) = load(configure, give).findings
    assert (marked_by(finding).strip('"'), finding.code) == (marked.strip('"'), code)
    if write is not None:
        assert finding.write == write
