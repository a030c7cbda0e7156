"""The automaton of a check: tables, and against a second definition of it that reads the whole history."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.check import ONE_LOOK, Check, CheckResult, CheckVerdict, LookCount, LookDuration, OnUnknown
from agent.core.entry.check_state import HEALTHY, NEW, CheckState
from agent.core.entry.clause_check import ClauseCheck
from agent.core.struct import replace
from tests.core.builders import clause, step_check

APART = 0.05  # seconds
GOOD, BAD, NOTHING, BESIDE, AWAITED = (
    CheckResult(says, "why" if says is CheckVerdict.FAIL else "") for says in CheckVerdict
)
LETTERS = {"g": GOOD, "b": BAD, "n": NOTHING, "-": BESIDE, "a": AWAITED}


def check(trip=ONE_LOOK, recover=ONE_LOOK, every=None):
    return Check(
        "link",
        ClauseCheck(clause()),
        interval=every,
        failure_threshold=trip,
        recovery_threshold=recover,
        on_unknown=OnUnknown.UNHEALTHY,
    )


def play(one: Check, *looks: tuple[float, CheckResult], condition: CheckState = HEALTHY) -> list[bool]:
    """Whether it fails after each of the looks."""
    failing = []
    for now, outcome in looks:
        condition, again = step_check(one, condition, outcome, now, APART)
        assert again is None or again > now
        failing.append(condition.failing)
    return failing


def history(text: str, distance: float = 1.0) -> list[tuple[float, CheckResult]]:
    return [(number * distance, LETTERS[letter]) for number, letter in enumerate(text)]


@pytest.mark.parametrize(
    ("one", "distance", "looks", "failing"),
    [
        pytest.param(check(), 1, "gbbgbg", ".FF.F.", id="one look each way"),
        pytest.param(check(), 0.001, "gbgb", ".F.F", id="one look counts at once, however close"),
        pytest.param(check(trip=LookCount(2)), 1, "gbgbbg", "....F.", id="two looks in a row"),
        pytest.param(check(trip=LookCount(2)), 0.01, "bbbbbbbbb", ".....FFFF", id="close looks are one: 50 ms apart"),
        pytest.param(
            check(trip=LookCount(2), every=5.0), 1, "bbbbbbbb", ".....FFF", id="and with every, that far apart"
        ),
        pytest.param(check(trip=LookCount(2), every=5.0), 1, "bbbgbbbbbbb", ".........FF", id="any look ends a row"),
        pytest.param(check(trip=LookDuration(3)), 1, "bbbbbgb", "...FF..", id="a time"),
        pytest.param(check(trip=LookDuration(3)), 1, "bbgbbgbbb", ".........", id="a time begins anew"),
        pytest.param(check(trip=LookDuration(0)), 1, "bgb", "F.F", id="no time"),
        pytest.param(check(recover=LookDuration(3)), 1, "bggbgggg", "FFFFFFF.", id="recovery takes its time"),
        pytest.param(check(recover=LookCount(3)), 1, "bggbggg", "FFFFFF.", id="recovery takes looks"),
        pytest.param(check(recover=None), 1, "bgggg-gg", "FFFFFFFF", id="a latch"),
        pytest.param(check(recover=None), 1, "gg-g", "....", id="a latch that has not fallen"),
        pytest.param(check(trip=LookCount(2)), 1, "bnnbg", "...F.", id="what counts for no look ends no row"),
        pytest.param(check(recover=LookDuration(9)), 1, "b-b", "F.F", id="what does not apply does not fail"),
        pytest.param(check(trip=LookCount(2)), 1, "b-bb", "...F", id="and ends a row"),
    ],
)
def test_course(one, distance, looks, failing):
    assert "".join(".F"[f] for f in play(one, *history(looks, distance))) == failing


@pytest.mark.parametrize(
    ("one", "looks", "failing"),
    [
        pytest.param(
            check(trip=LookCount(3)), "bbgbbb", "FF...F", id="ill from the first look, well at the first good one"
        ),
        pytest.param(
            check(trip=LookCount(2), recover=LookCount(2)), "bbgg", "FFF.", id="and what takes as long has failed"
        ),
        pytest.param(check(trip=LookCount(2), recover=LookCount(2)), "gbb", "..F", id="what was well is borne with"),
        pytest.param(check(trip=LookDuration(3), recover=None), "bbbg", "FFF.", id="before it latches"),
        pytest.param(check(trip=LookDuration(3), recover=None), "bbbbg", "FFFFF", id="and then it does"),
        pytest.param(check(recover=None), "bg", "FF", id="at once if it takes one look"),
        pytest.param(check(trip=LookCount(2)), "nab", "..F", id="what says nothing is no beginning"),
        pytest.param(check(trip=LookCount(2)), "b-b", "F..", id="what does not apply is well"),
        pytest.param(check(trip=LookCount(2)), "-b", "..", id="from the first look, too"),
        pytest.param(check(trip=LookCount(2), recover=LookCount(2)), "bnbgg", "FFFF.", id="nor the end of a row"),
    ],
)
def test_how_it_begins(one, looks, failing):
    assert "".join(".F"[f] for f in play(one, *history(looks), condition=NEW)) == failing


@pytest.mark.parametrize(("trip", "again"), [(LookDuration(3), 3.0), (LookCount(2), None)])
def test_what_is_ill_from_the_first_look_is_looked_at_when_it_would_fail(trip, again):
    assert step_check(check(trip=trip), NEW, BAD, 0.0, APART)[1] == again


def test_nothing_new_is_said_of_what_was_ill_from_the_first_look():
    condition = NEW
    for now, reason in enumerate(("at 96", "at 97", "at 98")):
        condition, _ = step_check(
            check(trip=LookCount(2)), condition, CheckResult(CheckVerdict.FAIL, reason), now, APART
        )
        assert (condition.failing, condition.reason) == (True, "at 96")
    assert not condition.never_healthy


@pytest.mark.parametrize(
    ("one", "looks", "again"),
    [
        pytest.param(check(), "b", None, id="no time in it: events are enough"),
        pytest.param(check(trip=LookDuration(3)), "b", 3.0, id="a row becomes old enough"),
        pytest.param(check(trip=LookDuration(3)), "bb", 3.0, id="and from its beginning"),
        pytest.param(check(trip=LookDuration(3)), "bg", None, id="no row"),
        pytest.param(check(trip=LookDuration(3)), "bbbb", None, id="done"),
        pytest.param(check(recover=LookDuration(7)), "bg", 8.0, id="recovery"),
        pytest.param(check(recover=None), "bg", None, id="a latch waits for no time"),
        pytest.param(check(every=5.0), "gg", 6.0, id="every"),
        pytest.param(check(every=5.0, trip=LookCount(2)), "bb", 5.0, id="every, from the look that counted"),
        pytest.param(check(every=5.0, trip=LookDuration(2)), "b", 2.0, id="the sooner"),
        pytest.param(check(trip=LookCount(2)), "b", None, id="looks without every wait for the next event"),
        pytest.param(check(trip=LookDuration(1)), "bnn", None, id="what cannot be told is not asked for on and on"),
    ],
)
def test_next_time(one, looks, again):
    condition, said = HEALTHY, None
    for now, outcome in history(looks):
        condition, said = step_check(one, condition, outcome, now, APART)
    assert said == again


def test_the_reason_is_that_of_the_look_that_made_it_fail():
    """A thermometer of a failing device would be a line in the log at each look."""
    one = check(trip=LookCount(2))
    condition = HEALTHY
    for now, reason in enumerate(("at 96", "at 97", "at 98", "at ?")):
        condition, _ = step_check(one, condition, CheckResult(CheckVerdict.FAIL, reason), now, APART)
    assert condition == CheckState(True, "at 97")
    condition, _ = step_check(one, condition, GOOD, 9, APART)
    assert condition == HEALTHY


AFTER = st.one_of(
    st.builds(LookCount, st.integers(1, 4)), st.builds(LookDuration, st.sampled_from([0.0, 0.5, 2.0, 7.0]))
)
CHECKS = st.builds(check, AFTER, st.none() | AFTER, st.none() | st.sampled_from([0.5, 2.0]))
STEPS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.01, 0.25, 0.5, 1.0, 3.0]), st.sampled_from([GOOD, BAD, NOTHING, BESIDE])),
    max_size=40,
)


def space_looks(steps) -> list[tuple[float, CheckResult]]:
    now, looks = 0.0, []
    for passed, outcome in steps:
        now += passed
        looks.append((now, outcome))
    return looks


def by_history(one: Check, looks) -> bool:
    """The same, said by going back through everything that was ever seen."""
    failing, turned = False, 0
    for at, (now, outcome) in enumerate(looks):
        goal = one.recovery_threshold if failing else one.failure_threshold
        if outcome is BESIDE:
            failing, turned = failing and goal is None, at + 1
        row = []
        for when, seen in looks[turned : at + 1][::-1]:
            if seen is not NOTHING:
                if seen is not (GOOD if failing else BAD):
                    break
                row.insert(0, when)
        if not row or goal is None or outcome is NOTHING:
            continue
        counted, last = 0, -inf
        for when in row:
            if when >= last + (APART if one.interval is None else one.interval):
                counted, last = counted + 1, when
        if counted >= goal.number if isinstance(goal, LookCount) else now >= row[0] + goal.seconds:
            failing, turned = not failing, at + 1
    return failing


@given(CHECKS, STEPS)
def test_it_is_what_history_says(one, steps):
    looks = space_looks(steps)
    for end in range(len(looks) + 1):
        assert play(one, *looks[:end])[-1:] == [by_history(one, looks[:end])][: min(end, 1)]


@given(CHECKS, STEPS)
def test_from_the_second_look_on_a_beginning_makes_no_difference_to_what_is_well(one, steps):
    looks = space_looks([(1.0, GOOD), *steps])
    assert play(one, *looks, condition=NEW) == play(one, *looks)


@given(CHECKS, STEPS)
def test_only_a_contrary_look_turns_it(one, steps):
    before = False
    looks = space_looks(steps)
    for failing, (_, outcome) in zip(play(one, *looks), looks, strict=True):
        if failing is not before:
            assert outcome is BAD if failing else outcome in (GOOD, BESIDE)
        before = failing


@given(CHECKS, STEPS, STEPS)
def test_a_latch_never_heals(one, steps, later):
    one = replace(one, recovery_threshold=None)
    failing = play(one, *space_looks([*steps, *later]))
    assert "".join(".F"[f] for f in failing).lstrip(".").strip("F") == ""


@given(CHECKS, STEPS)
def test_it_never_turns_more_often_than_the_looks_allow(one, steps):
    """Each turn to failing takes its own looks, or its own time, and none of them serves twice."""
    looks = space_looks(steps)
    course = play(one, *looks)
    turns = sum(failing and not before for before, failing in zip([False, *course], course, strict=False))
    bad = [now for now, outcome in looks if outcome is BAD]
    if isinstance(one.failure_threshold, LookCount):
        assert turns * one.failure_threshold.number <= len(bad)
    elif one.failure_threshold.seconds:
        assert turns * one.failure_threshold.seconds <= (bad[-1] - bad[0] if bad else 0)


@given(CHECKS, STEPS, st.booleans())
def test_what_is_looked_at_when_it_wants_turns_in_its_time(one, steps, bad):
    """From any state, looks at just the times that it asks for bring it where the device is; `every` for rows."""
    condition, again, now = HEALTHY, None, 0.0
    for now, outcome in space_looks(steps):
        condition, again = step_check(one, condition, outcome, now, APART)
    one = replace(one, recovery_threshold=one.recovery_threshold or LookCount(1))
    outcome = BAD if bad else GOOD
    now += 10.0
    for _ in range(20):
        condition, again = step_check(one, condition, outcome, now, APART)
        now = now + APART if again is None else again
    assert condition.failing is bad


def make_numbered_looks(text: str, numbers: str) -> list[tuple[float, CheckResult]]:
    """Return looks with query results, each with its number."""
    looks = zip(text, numbers, strict=True)
    return [
        (n * APART / 100, replace(LETTERS[says], query_number=int(number))) for n, (says, number) in enumerate(looks)
    ]


@pytest.mark.parametrize(
    ("text", "numbers", "failing"),
    [
        pytest.param("bbbb", "1111", "....", id="looks at one answer are one look"),
        pytest.param("bbbb", "1123", "..FF", id="another answer is another look, however soon"),
        pytest.param("bgbb", "1234", "...F", id="a good one ends the row"),
        pytest.param("bbgggg", "123345", ".FFFF.", id="so is recovery counted"),
        pytest.param("baab", "1002", "...F", id="what is awaited is no look"),
    ],
)
def test_answers_are_counted_and_not_the_looks_at_them(text, numbers, failing):
    one = check(trip=LookCount(2), recover=LookCount(3))
    assert "".join("F" if one else "." for one in play(one, *make_numbered_looks(text, numbers))) == failing
