import itertools

import pytest

from agent.config.language.key_table import PLACES
from agent.config_diff import _CLAUSE_FIELDS, _KEYS, diff_config
from agent.core.entry.resource_spec import ResourceSpec, Source
from agent.core.language.clause import Origin
from agent.core.language.template import parse
from agent.core.struct import replace
from tests.core.builders import cdi, clause, env, give, line, mount, spec

A, B, C, D, E = (spec(f"example.com/{letter}") for letter in "abcde")


def test_what_a_reload_does_with_each_resource_in_file_order():
    new = (E, replace(D, shares=4), replace(C, registration="watcher", shares=2), B)
    change = diff_config((A, B, C, D), new)
    assert change.unchanged_names == (B.name,)
    assert change.changed_names == (D.name,)
    assert change.reregistered_names == (C.name,)
    assert change.added_names == (E.name,)
    assert change.removed_names == (A.name,)
    assert str(change) == (
        "1 unchanged, 2 changed (example.com/d, example.com/c), 1 added (example.com/e), 1 removed (example.com/a)"
    )


def test_in_words_of_nothing():
    assert str(diff_config((), ())) == "no resources"
    assert str(diff_config((A,), (A,))) == "1 unchanged"


def test_every_resource_is_in_exactly_one_place():
    variants = (A, replace(A, shares=2), replace(A, registration="watcher"), B, C)
    for old, new in itertools.product(
        itertools.combinations(variants[2:], 2), itertools.combinations(variants[1:4:2], 2)
    ):
        change = diff_config(old, new)
        told = [
            *change.unchanged_names,
            *change.changed_names,
            *change.reregistered_names,
            *change.added_names,
            *change.removed_names,
        ]
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
    assert diff_config((full, B), (B, moved)).unchanged_names == (B.name, A.name)


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
    assert diff_config((A,), (replace(A, **fields),)).changed_names == (A.name,)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (give("n", "{node}"), give("n", "{node}", permissions="rwm")),
        (give("n", "{node}"), give("n", "{node}", optional=True)),
        (give("n", "{node}"), give("n", "{node}", "/dev/x")),
        (give("n", "{node}"), give("n", "{node}", per_member=True)),
    ],
)
def test_also_within_what_is_given(one, other):
    assert diff_config((replace(A, nodes=(one,)),), (replace(A, nodes=(other,)),)).changed_names == (A.name,)
    assert diff_config((replace(A, env=(env("X", "1"),)),), (replace(A, env=(env("X", "1", ","),)),)).changed_names


def test_what_is_another_in_a_resource_is_said_with_its_place():
    old = replace(
        A,
        match=clause(line("vendor", "8086"), line("numa", 0)),
        env=(env("X", "{id}"), env("Y", "{id}")),
        shares=2,
    )
    new = replace(
        old,
        match=clause(line("vendor", "8087"), line("driver", "ice")),
        env=(env("X", "{id}"), env("Y", "{name}"), env("Z", "{id}")),
        shares=4,
    )
    said = diff_config((old, B), (new, B)).descriptions
    assert list(said) == [A.name]
    vendor, driver, numa, *others = said[A.name]
    assert vendor.startswith("match.vendor = ")
    assert " → " in vendor
    assert vendor.endswith(f" ({new.match.lines[0].origin})")
    assert driver.startswith("match.driver = ")
    assert ", new (" in driver
    assert numa.startswith("match.numa = ")
    assert numa.endswith(", removed")
    assert others == ["replicas", "give.env.Y", "give.env.Z"]
    assert diff_config((old, replace(B, is_addition=True, name=A.name)), (old,)).descriptions[A.name] == (
        "1 entry, 2 before",
    )


def test_every_field_of_an_entry_can_be_said():
    """A field that a file calls otherwise is said as there."""
    ours = {
        "derived_words",
        "joins",
        "checks",
        "moved_words",
        "shares",
        "share_map",
        "share_suffix",
        "name_template",
        "interval",
    }
    told = set(ResourceSpec.__struct_fields__) - _CLAUSE_FIELDS - set(_KEYS)
    assert set(_KEYS) >= ours
    assert told <= PLACES["entry"].keys.keys()
