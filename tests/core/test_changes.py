"""Which of many are others than before, and that only these are computed again."""

from hypothesis import given
from hypothesis import strategies as st

from agent.core.changes import Stage, find_changed_objects, find_changes

THINGS = [[], [], []]  # equal, and not the same
SEQUENCES = st.lists(st.sampled_from(range(3)).map(THINGS.__getitem__), max_size=6)
MAPPINGS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(range(3)).map(THINGS.__getitem__))


@given(SEQUENCES, SEQUENCES)
def test_the_objects_that_only_one_of_two_sequences_has(before, now):
    left, right = find_changed_objects(before, now)
    for mine, others, found in ((before, now, left), (now, before, right)):
        only_here = [*map(id, mine)]
        alone = [number for number in only_here if number not in set(map(id, others))]
        assert [number for number in map(id, found) if number in alone] == alone
        assert len(found) <= len(mine)


@given(MAPPINGS, MAPPINGS)
def test_the_keys_whose_values_are_other_objects(before, now):
    changes = find_changes(before, now)
    for key in "abcd":
        old, new = before.get(key), now.get(key)
        assert (key in changes) == (old is not new)
        assert key not in changes or (changes[key][0] is old and changes[key][1] is new)


@given(st.lists(st.tuples(MAPPINGS, st.sampled_from(range(3))), max_size=6))
def test_a_stage_computes_only_what_has_another_input(steps):
    computed = []

    def compute(key, item, other):
        computed.append(key)
        return [key, id(item), id(other)]

    stage, items, other = Stage(compute), {}, None
    for new_items, number in steps:
        before, same_other, new_other = {**stage.values}, other is THINGS[number], THINGS[number]
        expected = set(new_items) if not same_other else find_changes(items, new_items).keys() & new_items.keys()
        computed.clear()
        values = stage.update(new_items, new_other)
        assert values == {key: [key, id(item), id(new_other)] for key, item in new_items.items()}
        assert set(computed) == expected
        assert len(computed) == len(expected)
        assert all(values[key] is before[key] for key in values if key not in expected)
        items, other = new_items, new_other
