"""Drains over the candidates of a look."""

from hypothesis import given
from hypothesis import strategies as st

from agent.core.health.drain_overlay import Drain, DrainOverlay, DrainSet
from agent.core.inventory.device import Health
from agent.core.lists.build_lists import build_lists
from agent.core.reason import Reason, ReasonCause
from agent.core.struct import replace
from tests.core.builders import candidate, host, look_at, make_check_reason, spec

A, B = "example.com/a", "example.com/b"
OF = (A, "")
RMA = Drain("RMA 2231", 1.0)
ONE, TWO, BROKEN = (candidate(host(name), name) for name in ("one", "two", "broken"))
BROKEN = replace(BROKEN, unhealthy_reason=make_check_reason("heat", "95"))
SEEN = {OF: {one.device.key: one for one in (ONE, TWO, BROKEN)}}


def faults(made):
    return {one.ids[0]: str(one.unhealthy_reason) for found in made.values() for one in found.values()}


def test_a_place_is_drained_whatever_else_is_the_matter_and_nothing_else_is_copied():
    made = DrainOverlay().update(SEEN, DrainSet({"one": RMA, "broken": Drain("", 2.0)}))
    assert faults(made) == {"one": "drained: RMA 2231", "two": "", "broken": "drained"}
    assert made[OF]["key two"] is TWO


def test_a_resource_is_drained_with_all_that_comes_to_it():
    overlay, drains = DrainOverlay(), DrainSet(resources={A: RMA})
    made = overlay.update(SEEN, drains)
    assert set(faults(made).values()) == {"drained: RMA 2231"}
    new = candidate(host("new"), "new")
    later = overlay.update({OF: {**SEEN[OF], "key new": new}}, drains)
    assert faults(later)["new"] == "drained: RMA 2231"
    assert all(later[OF][key] is one for key, one in made[OF].items())
    other = DrainOverlay().update(SEEN, DrainSet(resources={B: RMA}))
    assert all(other[OF][key] is one for key, one in SEEN[OF].items())


def test_nothing_drained_is_the_very_same():
    assert DrainOverlay().update(SEEN, DrainSet()) is SEEN


def test_giving_back_a_resource_leaves_what_was_drained_by_itself():
    drained = DrainSet().add_resource(A, RMA).add_locations({"one"}, RMA)
    assert drained.remove_resource(A) == DrainSet({"one": RMA})
    assert drained.remove_locations({"one"}) == DrainSet(resources={A: RMA})
    assert drained.find_drain(A, ("two",)) is drained.resources[A]
    assert not DrainSet()


def test_it_is_unhealthy_and_nothing_else_of_it_changes():
    look, entry = look_at(ONE, TWO), spec()
    told = build_lists(look, (entry,), frozenset(), {}, 0.0)
    overlay = DrainOverlay()
    made = overlay.update(look.get_resource_candidates(), DrainSet({"one": RMA}))
    after = build_lists(
        look, (entry,), frozenset(), told.lists, 1.0, candidates=made, unchanged_lists=told.unchanged_lists
    )
    one, two = after.lists[A].devices
    assert (one.health, one.reason) == (Health.UNHEALTHY, Reason(ReasonCause.DRAIN, "RMA 2231"))
    assert two is told.lists[A].devices[1]
    back = overlay.update(look.get_resource_candidates(), DrainSet())
    again = build_lists(
        look, (entry,), frozenset(), after.lists, 2.0, candidates=back, unchanged_lists=after.unchanged_lists
    )
    assert again.lists[A] == told.lists[A]


NAMES = ("one", "two", "broken", "other")
STEPS = st.lists(
    st.tuples(st.sets(st.sampled_from(NAMES)), st.booleans(), st.sets(st.sampled_from(NAMES))), min_size=1, max_size=6
)


@given(STEPS)
def test_step_by_step_is_the_same_as_all_at_once(steps):
    """And what did not change from one step to the next is the same object."""
    known = {name: candidate(host(name), name) for name in NAMES}
    overlay, seen, how, made = DrainOverlay(), {}, DrainSet(), {}
    for drained, whole, there in steps:
        found = {f"key {name}": known[name] for name in sorted(there)}
        seen = {OF: found} if seen.get(OF) != found else seen
        now = DrainSet(dict.fromkeys(sorted(drained), RMA), {A: RMA} if whole else {})
        is_same, how = now == how, how if now == how else now
        before, made = made.get(OF, {}), overlay.update(seen, how)
        assert made == DrainOverlay().update(seen, how)
        if is_same:
            assert all(made[OF][key] is one for key, one in before.items() if key in made[OF])
