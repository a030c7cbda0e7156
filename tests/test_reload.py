import itertools
from dataclasses import replace

import pytest

from agent.core.entry.resource import Source
from agent.core.language.clause import Origin
from agent.core.language.text import parse
from agent.reload import difference
from tests.core.building import cdi, clause, env, give, line, mount, spec

A, B, C, D, E = (spec(f"example.com/{letter}") for letter in "abcde")


def test_what_a_reload_does_with_each_resource_in_file_order():
    new = (E, replace(D, shares=4), replace(C, registration="watcher", shares=2), B)
    change = difference((A, B, C, D), new)
    assert change.unchanged == (B.name,)
    assert change.changed == (D.name,)
    assert change.moved == (C.name,)
    assert change.added == (E.name,)
    assert change.removed == (A.name,)
    assert str(change) == (
        "1 unchanged, 2 changed (example.com/d, example.com/c), 1 added (example.com/e), 1 removed (example.com/a)"
    )


def test_in_words_of_nothing():
    assert str(difference((), ())) == "no resources"
    assert str(difference((A,), (A,))) == "1 unchanged"


def test_every_resource_is_in_exactly_one_place():
    variants = (A, replace(A, shares=2), replace(A, registration="watcher"), B, C)
    for old, new in itertools.product(
        itertools.combinations(variants[2:], 2), itertools.combinations(variants[1:4:2], 2)
    ):
        change = difference(old, new)
        told = [*change.unchanged, *change.changed, *change.moved, *change.added, *change.removed]
        assert sorted(told) == sorted({one.name for one in (*old, *new)})


def test_order_and_place_in_the_file_are_no_difference():
    elsewhere = Origin("99-other.toml", 70, 3)
    full = replace(
        A,
        match=clause(line("vendor", "10de")),
        nodes=(give("n", "{node}"),),
        env=(env("X", "{id}"),),
        mounts=(mount("m", "/opt/m"),),
        cdi=(cdi("example.com/gpu=0"),),
    )
    moved = replace(
        full,
        origin=elsewhere,
        class_name="gpu",
        match=replace(full.match, origin=elsewhere, lines=(replace(full.match.lines[0], origin=elsewhere),)),
        nodes=(replace(full.nodes[0], origin=elsewhere),),
        env=(replace(full.env[0], origin=elsewhere),),
        mounts=(replace(full.mounts[0], origin=elsewhere),),
        cdi=(replace(full.cdi[0], origin=elsewhere),),
    )
    assert difference((full, B), (B, moved)).unchanged == (B.name, A.name)


@pytest.mark.parametrize(
    "fields",
    [
        {"source": Source("usb")},
        {"match": clause(line("vendor", "8086"))},
        {"exclude": (clause(line("vendor", "8086"), name="x"),)},
        {"id": (parse("{address}"),)},
        {"shares": 1},
        {"nodes": (give("n", "{node}"),)},
        {"env": (env("X", "1"),)},
    ],
)
def test_everything_else_is(fields):
    assert difference((A,), (replace(A, **fields),)).changed == (A.name,)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (give("n", "{node}"), give("n", "{node}", permissions="rwm")),
        (give("n", "{node}"), give("n", "{node}", optional=True)),
        (give("n", "{node}"), give("n", "{node}", "/dev/x")),
        (give("n", "{node}"), give("n", "{node}", each=True)),
    ],
)
def test_also_within_what_is_given(one, other):
    assert difference((replace(A, nodes=(one,)),), (replace(A, nodes=(other,)),)).changed == (A.name,)
    assert difference((replace(A, env=(env("X", "1"),)),), (replace(A, env=(env("X", "1", ","),)),)).changed
