"""Counters that must not grow: what is growth, how much it takes, what heals it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.check import ONE_LOOK, Check, CheckResult, CheckVerdict, LookCount, LookDuration, OnUnknown
from agent.core.entry.check_state import HEALTHY, CheckState
from agent.core.entry.counter_check import CounterCheck
from agent.core.entry.kernel_log import EventRate
from agent.core.language.template import parse
from agent.core.language.value import Absent
from tests.core.builders import Known, step_check


def check(trip=ONE_LOOK, recover=None, **more):
    return Check("ecc", CounterCheck("errors"), failure_threshold=trip, recovery_threshold=recover, **more)


def evaluate_count(one, count):
    """What a look says at which the counter says this; `-` is a device to which the check does not apply."""
    if count == "-":
        return CheckResult(CheckVerdict.NOT_APPLICABLE)
    return one.evaluate(Known({"errors": Absent("no such file") if count is None else count, "slot": 7}))


def play(one, *counts, condition=HEALTHY):
    """Whether it fails after each look, a second after the one before."""
    said = []
    for now, count in enumerate(counts):
        condition, _ = step_check(one, condition, evaluate_count(one, count), float(now), 0.05)
        said.append(condition.failing)
    return "".join(".F"[failing] for failing in said)


@pytest.mark.parametrize(
    ("one", "counts", "failing"),
    [
        pytest.param(check(), [5, 5, 6, 6], "..FF", id="what there was before is nobody's fault"),
        pytest.param(check(), [5, 2, 2, 3], "...F", id="a counter that begins anew has not grown"),
        pytest.param(check(recover=LookDuration(2)), [5, 6, 6, 6, 6], ".FFF.", id="some time without growth"),
        pytest.param(check(recover=LookDuration(2)), [5, 6, 6, 7, 7, 7, 7], ".FFFFF.", id="from the last growth on"),
        pytest.param(check(recover=LookCount(2)), [5, 6, 6, 0, 0], ".FF..", id="or looks"),
        pytest.param(
            check(trip=LookCount(2), recover=ONE_LOOK), [1, 2, 2, 3, 4, 4], "....F.", id="growth in two looks"
        ),
        pytest.param(check(trip=EventRate(3, 10)), [1, 2, 2, 3, 3, 4], ".....F", id="so much within a time"),
        pytest.param(check(trip=EventRate(3, 10)), [1, 4], ".F", id="at once, too"),
        pytest.param(check(trip=EventRate(3, 2)), [1, 2, 3, 3, 3, 4, 5, 6], ".......F", id="but within it"),
        pytest.param(
            check(trip=EventRate(3, 9), recover=LookCount(1)), [1, 4, 4, 5, 6, 7], ".F...F", id="and then anew"
        ),
        pytest.param(check(), [5, None, 5, None, 6], ".F.FF", id="unknown is ill, and heals by itself"),
        pytest.param(check(), [5, None, 6], ".FF", id="growth that nobody saw counts"),
        pytest.param(check(on_unknown=OnUnknown.KEEP), [5, None, 6, None], "..FF", id="unknown is as it was"),
        pytest.param(check(on_unknown=OnUnknown.HEALTHY), [5, None, 6, None], "..FF", id="or well, but no cure"),
        pytest.param(check(), [5, "-", 6], "..F", id="it need not apply all the time"),
    ],
)
def test_course(one, counts, failing):
    assert play(one, *counts) == failing


def test_what_is_said():
    one = check()
    condition, _ = step_check(one, HEALTHY, evaluate_count(one, 3), 0, 1)
    condition, _ = step_check(one, condition, evaluate_count(one, 5), 1, 1)
    assert condition.reason == "errors grew from 3 to 5"
    own = check(reason=parse("card {slot} has {errors} errors"))
    condition, _ = step_check(own, CheckState(count=3), evaluate_count(own, 4), 0, 1)
    assert condition.reason == "card 7 has 4 errors"
    condition, _ = step_check(one, HEALTHY, evaluate_count(one, None), 0, 1)
    assert (condition.reason, condition.failing_as_unknown) == ("errors: no such file", True)


COUNTS = st.lists(st.none() | st.integers(0, 6), max_size=30)


@given(COUNTS, st.sampled_from([ONE_LOOK, LookCount(2), LookDuration(3), EventRate(2, 5), EventRate(4, 3)]))
def test_it_never_fails_for_what_did_not_grow(counts, trip):
    """Whatever alternates, vanishes and begins anew: as much growth as it takes was there."""
    one = check(trip=trip, on_unknown=OnUnknown.KEEP)
    failing = play(one, *counts)
    known = [count for count in counts if count is not None]
    growth = sum(max(0, after - before) for before, after in pairwise(known))
    if "F" in failing:
        assert growth >= (trip.number if isinstance(trip, (EventRate, LookCount)) else 1)
    if trip == ONE_LOOK:
        assert ("F" in failing) == (growth > 0)


@given(COUNTS)
def test_what_is_remembered_of_growth_is_bounded(counts):
    one, condition = check(trip=EventRate(4, 1e9), recover=ONE_LOOK), HEALTHY
    for now, count in enumerate(counts):
        condition, _ = step_check(one, condition, evaluate_count(one, count), float(now), 0.05)
        assert len(condition.recent_growth) < 4
