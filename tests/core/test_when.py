"""What is given only where a clause holds: for the list, and for a grant."""

import pytest

from agent.core.entry.fact_copy import FactCopy, copy_related_facts
from agent.core.grants.build_grant import build_grant
from agent.core.grants.grant import GrantRefusedError, RefusalCause, RereadDevice, RereadMember
from agent.core.inventory.candidate import make_candidate
from agent.core.inventory.device import MatchedPath
from agent.core.language.clause import Clause
from agent.core.language.operators import Exists, Quantifier, RelationItems
from agent.core.language.value import Absent, ValueType
from tests.core.builders import HERE, cdi, clause, env, give, host, line, make_listed, mount, node, spec

BLUE = clause(line("color", "blue"), name="give.when")
ALL = clause(line("all_given", True, ValueType.BOOL), name="give.when")
UNREAD = Absent("permission denied", unreadable=True)
PENDING = Absent("udev is not done with it", pending=True)


class Facts:
    def __init__(self, facts, each=None):
        self._facts, self._each = facts, each or {}

    def __call__(self, word):
        return self._facts.get(word, Absent("no such file"))

    def follow_relation(self, word):
        return self._each.get(word, Absent("no such file"))


class Host:
    cdi_directories = ()

    def __init__(self, *there):
        self._there = there

    def find_node(self, path):
        return node(path) if path in self._there else Absent("no such file")

    def find_paths(self, pattern):
        return (MatchedPath(pattern, pattern),) if pattern in self._there else Absent("no such file")

    def find_cdi_spec(self, name):
        return "spec" if name in self._there else Absent("is in no CDI spec")


EVERYTHING = {
    "nodes": (give("n", "/dev/n", condition=BLUE),),
    "mounts": (mount("m", "/m", condition=BLUE),),
    "cdi": (cdi("a.b/c=d", condition=BLUE),),
    "env": (env("E", "1", condition=BLUE),),
    "annotations": (env("a", "1", condition=BLUE),),
}


def build_candidate(entry, facts, *there):
    return make_candidate(entry, host("p"), Facts(facts), Host(*there))


@pytest.mark.parametrize("section", ["nodes", "mounts", "cdi"])
def test_what_is_not_given_is_not_required(section):
    entry = spec(**{section: EVERYTHING[section]})
    assert str(build_candidate(entry, {"color": "red"}).unhealthy_reason) == ""
    assert str(build_candidate(entry, {}).unhealthy_reason) == ""  # as in match, an absent word meets nothing
    missing = {"nodes": "/dev/n: no such file", "mounts": "/m: no such file", "cdi": "a.b/c=d is in no CDI spec"}
    assert str(build_candidate(entry, {"color": "blue"}).unhealthy_reason) == missing[section]
    assert str(build_candidate(entry, {"color": "blue"}, "/dev/n", "/m", "a.b/c=d").unhealthy_reason) == ""


def test_only_nodes_that_are_given_are_listed():
    entry = spec(nodes=(give("n", "/dev/n", condition=BLUE), give("o", "/dev/o", optional=True, condition=BLUE)))
    assert build_candidate(entry, {"color": "red"}, "/dev/n", "/dev/o").nodes == ()
    assert len(build_candidate(entry, {"color": "blue"}, "/dev/n", "/dev/o").nodes) == 2


@pytest.mark.parametrize("section", EVERYTHING)
@pytest.mark.parametrize("why", [UNREAD, PENDING])
def test_what_cannot_be_told_makes_unhealthy(section, why):
    entry = spec(**{section: EVERYTHING[section]})
    found = build_candidate(entry, {"color": why}, "/dev/n", "/m", "a.b/c=d").unhealthy_reason
    assert str(found) == f"match.color: absent ({why.reason})"


def test_what_only_a_grant_can_tell_is_required_until_then():
    entry = spec(
        nodes=(give("n", "/dev/n", condition=ALL), give("o", "/dev/o", condition=clause(*ALL.lines, *BLUE.lines)))
    )
    assert str(build_candidate(entry, {"color": "red"}).unhealthy_reason) == "/dev/n: no such file"
    assert str(build_candidate(entry, {"color": "red"}, "/dev/n").unhealthy_reason) == ""
    assert str(build_candidate(entry, {"color": "blue"}, "/dev/n").unhealthy_reason) == "/dev/o: no such file"


def make_reread(name, facts, *there, **more):
    nodes = {path: node(path) for path in there if path.startswith("/dev/")}
    return RereadDevice(
        make_listed(name, nodes=tuple(nodes.values())),
        (),
        facts,
        nodes,
        mounts={path: (MatchedPath(path, path),) for path in there},
        cdi=dict.fromkeys(there, "spec"),
        **more,
    )


def list_given(grant):
    return (
        [one.container for one in grant.nodes] + [one.container for one in grant.mounts],
        list(grant.cdi) + list(grant.env) + list(grant.annotations),
    )


def test_a_grant_has_what_holds_of_each_device():
    entry = spec(**EVERYTHING)
    there = ("/dev/n", "/m", "a.b/c=d")
    assert list_given(build_grant(entry, ["1"], [make_reread("1", {"color": "red"})], 1)) == ([], [])
    assert list_given(build_grant(entry, ["1"], [make_reread("1", {"color": "blue"}, *there)], 1)) == (
        ["/dev/n", "/m"],
        ["a.b/c=d", "E", "a"],
    )
    entry = spec(nodes=(give("n", "/dev/n{n}", condition=BLUE),), env=(env("N_{n}", "{given.n}"),))
    both = [make_reread("1", {"color": "red"}), make_reread("2", {"color": "blue"}, "/dev/n1")]
    assert build_grant(entry, ["1", "2"], both, 2).env == {"N_1": "/dev/n1"}  # a number is the device's


@pytest.mark.parametrize(("offered", "said"), [(1, {"A": "all"}), (2, {"A": "some"})])
def test_words_of_the_grant(offered, said):
    some = clause(line("all_given", False, ValueType.BOOL))
    entry = spec(env=(env("A", "all", condition=ALL), env("A", "some", condition=some)))
    assert build_grant(entry, ["1"], [make_reread("1", {})], offered).env == said


def test_where_a_node_came_out_is_a_word_of_a_clause():
    there = clause(line("given.n", None, ValueType.PATH, Exists(True)))
    entry = spec(nodes=(give("n", "/dev/n", condition=BLUE),), env=(env("A", "1", condition=there),))
    assert build_grant(entry, ["1"], [make_reread("1", {"color": "blue"}, "/dev/n")], 1).env == {"A": "1"}
    assert build_grant(entry, ["1"], [make_reread("1", {"color": "red"})], 1).env == {}


def test_of_two_nodes_of_one_name_the_first_that_is_given_is_meant():
    red = clause(line("color", "red"))
    entry = spec(
        nodes=(
            give("n", "/dev/a", condition=BLUE),
            give("n", "/dev/b", condition=red),
            give("n", "/dev/c", condition=red),
        ),
        env=(env("N", "{given.n}"),),
    )
    assert build_grant(entry, ["1"], [make_reread("1", {"color": "blue"}, "/dev/a")], 1).env == {"N": "/dev/a"}
    assert build_grant(entry, ["1"], [make_reread("1", {"color": "red"}, "/dev/b", "/dev/c")], 1).env == {"N": "/dev/b"}


def test_two_values_of_one_variable_are_refused_where_both_hold():
    entry = spec(env=(env("A", "1", condition=BLUE), env("A", "2", condition=ALL)))
    assert build_grant(entry, ["1"], [make_reread("1", {"color": "blue"})], 2).env == {"A": "1"}
    with pytest.raises(GrantRefusedError) as error:
        build_grant(entry, ["1"], [make_reread("1", {"color": "blue"})], 1)
    assert error.value.cause is RefusalCause.CONFLICT
    assert "A would be both 1 and 2" in error.value.text


def test_what_cannot_be_told_is_refused():
    with pytest.raises(GrantRefusedError) as error:
        build_grant(spec(env=(env("A", "1", condition=BLUE),)), ["1"], [make_reread("1", {"color": UNREAD})], 1)
    assert error.value.cause is RefusalCause.UNHEALTHY
    assert "match.color: absent (permission denied)" in error.value.text


def test_nodes_and_mounts_of_a_group_are_asked_of_each_member():
    entry = spec(
        nodes=(give("n", "/dev/{x}", per_member=True, condition=BLUE),),
        mounts=(mount("m", "/{x}", per_member=True, condition=BLUE),),
    )
    facts = [{"x": "1", "color": "blue"}, {"x": "2", "color": "red"}]
    one = make_reread(
        "1",
        facts[1],
        "/dev/1",
        "/dev/2",
        "/1",
        "/2",
        members=tuple(RereadMember(each, is_match=True) for each in facts),
    )
    assert list_given(build_grant(entry, ["1"], [one], 1))[0] == ["/dev/1", "/1"]


def test_a_clause_on_things_is_asked_of_what_was_read():
    inner = Clause("", (line("name", "x"), line("state", "up")), HERE)
    nested = Clause("", (line("sub", None, test=RelationItems(Quantifier.ANY, "sub", inner)),), HERE)
    whens = [
        clause(line("port", None, test=RelationItems(Quantifier.ANY, "port", inner))),
        clause(line("port", None, test=RelationItems(Quantifier.EVERY, "port", nested))),
    ]
    ports = [{"name": "x", "state": "down"}, {"name": "x", "state": "up"}]
    facts = Facts({}, {"port": tuple(Facts(port, {"sub": (Facts(port),)}) for port in ports)})
    found = copy_related_facts(whens, facts)
    assert found["port"][1] == FactCopy(
        {"name": "x", "state": "up", "sub": Absent("no such file")}, {"sub": (FactCopy(ports[1], {}),)}
    )
    entry = spec(env=(env("A", "1", condition=whens[0]), env("B", "1", condition=whens[1])))
    assert build_grant(entry, ["1"], [make_reread("1", {}, related_facts=found)], 1).env == {"A": "1"}
    assert build_grant(entry, ["1"], [make_reread("1", {}, related_facts={"port": Absent("none")})], 1).env == {}


def test_what_clauses_ask_is_read_anew():
    entry = spec(**EVERYTHING)
    assert entry.find_give_words() == {"color"}
    assert spec(env=(env("A", "1", condition=ALL),)).find_give_words() == set()


def test_a_clause_is_a_part_of_what_an_entry_means():
    assert spec(env=(env("A", "1", condition=BLUE),)).drop_origin() != spec(env=(env("A", "1"),)).drop_origin()
