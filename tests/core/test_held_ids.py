import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.backoff import Backoff
from agent.core.entry.resource_spec import Limit
from agent.core.grants.held_ids import SURE_SECONDS, HeldIdHistory, restore_held_ids
from agent.core.grants.prefer import prefer

NONE = frozenset()


def test_a_grant_is_held_at_once():
    assert HeldIdHistory().add_grants({"a": 0.0}).ids == {"a"}


def test_a_named_id_is_held_for_as_long_as_it_is_named():
    holding = HeldIdHistory().apply_answer(frozenset("a"), 0.0)
    for now in range(0, 1000, 50):
        holding = holding.apply_answer(frozenset("a"), float(now))
        assert holding.ids == {"a"}


@pytest.mark.parametrize(
    ("answers", "held"),
    [
        ([10.0], True),
        ([10.0, 200.0], True),  # the first came too soon after the grant to say anything
        ([60.0, 119.0], True),
        ([60.0, 120.0], False),
        ([60.0, 90.0, 120.0], False),
        ([500.0], True),
    ],
)
def test_two_answers_far_enough_apart_free_an_id(answers, held):
    holding = HeldIdHistory().add_grants({"a": 0.0})
    for now in answers:
        holding = holding.apply_answer(NONE, now)
    assert ("a" in holding.ids) is held


def test_an_answer_that_names_it_or_another_grant_begins_anew():
    start = HeldIdHistory().add_grants({"a": 0.0}).apply_answer(NONE, 100.0)
    assert "a" in start.apply_answer(frozenset("a"), 130.0).apply_answer(NONE, 170.0).ids
    assert "a" in start.add_grants({"a": 130.0}).apply_answer(NONE, 180.0).apply_answer(NONE, 240.0).ids
    assert "a" not in start.apply_answer(NONE, 160.0).ids


def test_what_an_earlier_life_knew_is_held_until_two_answers():
    holding = restore_held_ids(["a", "b"])
    assert holding.ids == {"a", "b"}
    holding = holding.apply_answer(frozenset("b"), 0.0).apply_answer(frozenset("b"), SURE_SECONDS)
    assert holding.ids == {"b"}


def test_nothing_is_kept_of_what_is_free():
    holding = HeldIdHistory().add_grants({"a": 0.0}).apply_answer(NONE, 100.0).apply_answer(NONE, 200.0)
    assert holding == HeldIdHistory()


NAMES = st.sets(st.sampled_from("abcdef"))


@given(NAMES, NAMES, st.integers(-1, 7), st.randoms(use_true_random=False))
def test_preference_is_satisfied_or_empty_and_never_depends_on_order(available, forced, size, chance):
    def shuffled(names):
        return chance.sample(sorted(names), len(names))

    chosen = prefer(shuffled(available), shuffled(forced), size)
    assert chosen == prefer(shuffled(available), shuffled(forced), size)
    if forced <= available and len(forced) <= size <= len(available):
        assert len(set(chosen)) == len(chosen) == size
        assert forced <= set(chosen) <= available
    else:
        assert chosen == ()


def test_the_others_are_the_first_in_natural_order():
    assert prefer(["x10", "x9", "x2", "x01", "x1"], ["x10"], 3) == ("x01", "x1", "x10")


SHARES = [f"{device}::{share}" for device in ("a", "b", "c") for share in (0, 1)]


@pytest.mark.parametrize(
    ("limit", "forced", "size", "chosen"),
    [
        (Limit(distinct=True), [], 2, ("a::0", "b::0")),
        (Limit(distinct=True), ["b::1"], 3, ("a::0", "b::1", "c::0")),
        (Limit(distinct=True), [], 4, ()),
        (Limit(distinct=True), ["a::0", "a::1"], 2, ()),
        (Limit(per_container=2), [], 2, ("a::0", "a::1")),
        (Limit(per_container=2), [], 3, ()),
    ],
)
def test_preference_keeps_within_a_limit(limit, forced, size, chosen):
    for available in (SHARES, SHARES[::-1]):
        assert prefer(available, forced, size, limit) == chosen


def test_waiting_grows_to_its_ceiling_and_begins_anew():
    again = Backoff(1.0, 5.0)
    waits = []
    for _ in range(5):
        waits.append(again.compute_delay(0.0))
        again = again.add_failure()
    assert waits == [0.0, 1.0, 2.0, 4.0, 5.0]
    assert again.compute_delay(1.0) == pytest.approx(4.0)
    assert again.reset().compute_delay(0.5) == 0.0


def test_waiting_for_ever_is_no_overflow():
    assert Backoff(1.0, 60.0, failures=10**6).compute_delay(0.0) == 60.0
