"""Which of many are others than before."""

from hypothesis import given
from hypothesis import strategies as st

from agent.core.inventory.sequence_diff import trim_common_ends

THINGS = [[], [], []]  # equal, and not the same


@given(*[st.lists(st.sampled_from(range(3)).map(THINGS.__getitem__), max_size=6)] * 2)
def test_what_is_apart_has_no_common_beginning_and_no_common_end(before, now):
    left, right = trim_common_ends(before, now)
    same = [*map(id, left)], [*map(id, right)]
    assert not left or not right or (left[0] is not right[0] and left[-1] is not right[-1])
    assert len(before) - len(left) == len(now) - len(right)
    for n in range(len(before) + 1):
        if [*map(id, before[n : n + len(left)])] == same[0] and [*map(id, now[n : n + len(right)])] == same[1]:
            rest = [*before[:n], *before[n + len(left) :]], [*now[:n], *now[n + len(right) :]]
            if [*map(id, rest[0])] == [*map(id, rest[1])]:
                return
    raise AssertionError("what is left out is not common")
