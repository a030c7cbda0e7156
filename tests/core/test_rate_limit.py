"""Pacing of lists: never more than five in a second, never a third of a second late."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent.core.rate_limit import INTERVAL, RateLimit


def send(wishes):
    """When messages go out that are wished for at those moments, each once the one before has gone."""
    pace, now, out = RateLimit(), 0.0, []
    for gap in wishes:
        now += gap
        wait = pace.get_delay(now)
        assert 0 <= wait <= INTERVAL + 1e-9
        now += wait
        assert not pace.get_delay(now)
        pace = pace.add_message(now)
        out.append(now)
    return out


@given(st.lists(st.floats(0, 2) | st.just(0.0), max_size=60))
def test_no_second_has_more_than_five(wishes):
    out = send(wishes)
    for sixth in range(5, len(out)):
        assert out[sixth] - out[sixth - 5] > 1.0


def test_two_at_once_then_one_every_third_of_a_second():
    out = send([0.0] * 6)
    assert out[:2] == [0.0, 0.0]
    assert all(abs(b - a - INTERVAL) < 1e-5 for a, b in pairwise(out[1:]))


def test_after_a_quiet_time_the_burst_is_back():
    assert send([0.0, 0.0, 5.0, 0.0])[2:] == [5.0, 5.0]
