"""One IOMMU group is one pod's, over all resources."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.resource_spec import VfioGive
from agent.core.grants.exclusive_grants import ExclusiveGrants, find_listed_holder
from agent.core.inventory.candidate import make_candidate as candidate_of
from agent.core.inventory.device import HostDevice
from agent.core.inventory.member_facts import wrap_single_member
from agent.core.lists.build_lists import build_lists
from agent.core.struct import replace
from tests.core.builders import (
    HERE,
    Facts,
    candidate,
    clause,
    core_facts,
    host,
    line,
    lists,
    look_at,
    make_listed,
    spec,
)

A, B = "example.com/a", "example.com/b"
SPECS = (spec(A), spec(B))


def member(name, *group, resource=A, **more):
    """A function that VFIO gives, with the others of its group."""
    return candidate(
        host(name), name, resource=resource, exclusive_keys=tuple(f"key {other}" for other in group), **more
    )


def build(*candidates, held=(), before=None, settled=None, confirmed=None):
    held = frozenset(held)
    known = held if confirmed is None else frozenset(confirmed)
    return build_lists(
        look_at(*candidates), SPECS, held, before or {}, 0.0, unchanged_lists=settled, confirmed_ids=known
    )


def reasons(assembly):
    return {device.id: str(device.reason) for list_ in assembly.lists.values() for device in list_.devices}


def format_exclusion(name, resource=A):
    return f"a pod holds its IOMMU group, as {resource} {name}"


def test_while_a_pod_has_one_all_others_of_the_group_are_unhealthy_in_every_resource():
    group = member("x", "y", "z"), member("y", "x", "z"), member("z", "x", "y", resource=B), member("w", resource=B)
    free = build(*group)
    assert set(reasons(free).values()) == {""}
    now = build(*group, held=["x"], before=free.lists, settled=free.unchanged_lists)
    assert reasons(now) == {"x": "", "y": format_exclusion("x"), "z": format_exclusion("x"), "w": ""}
    again = build(*group, held=["x"], before=now.lists, settled=now.unchanged_lists)
    assert again.lists == now.lists
    after = build(*group, before=again.lists, settled=again.unchanged_lists)
    assert after.lists == free.lists


def test_what_is_given_otherwise_is_of_the_group_too():
    plain = candidate(host("y"), "y", resource=B)
    assert reasons(build(member("x", "y"), plain, held=["x"])) == {"x": "", "y": format_exclusion("x")}
    assert reasons(build(member("x", "y"), plain, held=["y"])) == {"x": format_exclusion("y", B), "y": ""}


def test_what_pods_hold_stays_as_it_is():
    group = member("x", "y"), member("y", "x")
    assert reasons(build(*group, held=["x", "y"])) == {"x": "", "y": ""}


def test_what_is_unhealthy_by_itself_says_why():
    assert reasons(build(member("x", "y"), member("y", "x", fault="no node"), held=["x"]))["y"] == "no node"


def test_a_device_that_an_entry_takes_no_more_still_has_its_group():
    before = lists(replace(build(member("x", "y")).lists[A]))
    assert reasons(build(member("y", "x"), held=["x"], before=before))["y"] == format_exclusion("x")


@pytest.mark.parametrize(
    ("confirmed", "excluded"),
    [
        ([], {}),
        (["x"], {"y": "x", "z": "x"}),
        (["z"], {"x": "z", "y": "z"}),
        (["x", "y"], {"z": "x"}),
        (["x", "y", "z"], {}),
        (["w"], {}),
    ],
)
def test_in_doubt_only_confirmed_ids_exclude_and_are_excluded_by_none(confirmed, excluded):
    """In doubt all listed IDs are held: that keeps them listed, and makes no holder of them."""
    resources = {"x": A, "y": A, "z": B, "w": B}
    group = member("x", "y", "z"), member("y", "x", "z"), member("z", "x", "y", resource=B), member("w", resource=B)
    made = build(*group, held="wxyz", confirmed=confirmed)
    assert reasons(made) == {
        name: format_exclusion(excluded[name], resources[excluded[name]]) if name in excluded else ""
        for name in resources
    }
    again = build(*group, held="wxyz", confirmed=confirmed, before=made.lists, settled=made.unchanged_lists)
    assert again.lists == made.lists
    free = build(*group, before=again.lists, settled=again.unchanged_lists)
    assert set(reasons(free).values()) == {""}


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ([member("x", "y")], [candidate(host("x"), "x"), candidate(host("y"), "y", resource=B)]),
        ([member("x", "y")], [candidate(host("y"), "y", resource=B)]),
        ([member("x", "y")], [candidate(host("x"), "other", resource=B), candidate(host("y"), "y", resource=B)]),
    ],
    ids=["given otherwise now", "absent", "of another entry now"],
)
def test_what_a_pod_was_granted_excludes_until_its_release_whatever_the_device_is_now(before, now):
    first = build(*before, held="x", confirmed="x")
    for doubt in "xy", "x":
        made = build(*now, held=doubt, confirmed="x", before=first.lists, settled=first.unchanged_lists)
        for _ in range(2):
            assert reasons(made)["y"] == format_exclusion("x")
            made = build(*now, held=doubt, confirmed="x", before=made.lists, settled=made.unchanged_lists)
        assert "y" in reasons(made)
        after = build(*now, before=made.lists, settled=made.unchanged_lists)
        assert reasons(after)["y"] == ""


def test_a_device_that_another_one_shuts_is_exclusive_too():
    made = build(member("x", "y"), candidate(host("y"), "y", resource=B), candidate(host("w"), "w", resource=B))
    devices = [device for list_ in made.lists.values() for device in list_.devices]
    assert {device.id: made.is_exclusive(device) for device in devices} == {"x": True, "y": True, "w": False}


def test_which_are_of_a_group_is_read_where_vfio_gives():
    device = HostDevice("pci", "pci:0000:01:00.0", "0000:01:00.0", "0000:01:00.0")
    members = ("0000:00:01.0", "0000:01:00.0", "0000:01:00.1")
    reader = Facts({device.key: {"iommu.members": members, "driver": "vfio-pci"}})

    def shut(*gives):
        entry = spec(vfio=gives)
        return candidate_of(
            entry, device, wrap_single_member(core_facts.Facts(entry, device, reader)), reader
        ).exclusive_keys

    others = ("pci:0000:00:01.0", "pci:0000:01:00.1")
    assert shut() == ()
    assert shut(VfioGive(HERE)) == others
    assert shut(VfioGive(HERE, clause(line("driver", "vfio-pci")))) == others
    assert shut(VfioGive(HERE, clause(line("driver", "i40e")))) == ()


@given(st.data())
def test_no_two_pods_can_get_what_is_of_one_group(data):
    """Whatever is held, of each group all that is Healthy and free is so beside what is held."""
    names = [f"{index}" for index in range(8)]
    group_of = {name: data.draw(st.integers(0, 2), label=f"group of {name}") for name in names}
    resource_of = {name: data.draw(st.sampled_from([A, B]), label=f"resource of {name}") for name in names}
    by_vfio = {name: data.draw(st.booleans(), label=f"{name} by VFIO") for name in names}
    group = {one: [other for other in names if other != one and group_of[other] == group_of[one]] for one in names}
    found = [member(name, *(group[name] if by_vfio[name] else ()), resource=resource_of[name]) for name in names]
    before, settled = {}, {}
    for _ in range(3):
        held = data.draw(st.sets(st.sampled_from(names)), label="held")
        doubt = data.draw(st.booleans(), label="in doubt")
        listed = names if doubt else held
        made = build(*found, held=listed, confirmed=held, before=before, settled=settled)
        before, settled = made.lists, made.unchanged_lists
        for name, why in reasons(made).items():
            tied = [other for other in group[name] if by_vfio[name] or by_vfio[other]]
            assert bool(why) == (name not in held and not held.isdisjoint(tied)), (name, why)


# Before any list says so


def device(name, *group):
    return make_listed(name, exclusive_keys=tuple(f"key {other}" for other in group))


X, Y = device("x", "y"), device("y", "x")


def test_a_grant_keeps_others_away_at_once_and_until_it_is_released():
    grants = ExclusiveGrants()
    assert grants.find_holder([X], ["x"], frozenset()) == ""
    grants.add_grant(A, [X], ["x"])
    assert grants.find_holder([Y], ["y"], frozenset({"x"})) == f"{A} x"
    assert grants.find_holder([device("w")], ["w"], frozenset({"x"})) == ""
    assert grants.find_holder([make_listed("y")], ["y"], frozenset({"x"})) == f"{A} x"  # given otherwise
    assert grants.find_holder([Y], ["y"], frozenset()) == ""
    assert grants.find_holder([Y], ["y"], frozenset({"x"})) == ""  # what was released is forgotten


def test_what_is_granted_together_can_be_granted_again():
    grants = ExclusiveGrants()
    assert grants.find_holder([X, Y], ["x", "y"], frozenset()) == ""
    grants.add_grant(A, [X, Y], ["x", "y"])
    for ids in (["x", "y"], ["y"], ["x"]):
        assert grants.find_holder([X, Y][: len(ids)], ids, frozenset({"x", "y"})) == ""


def test_the_same_container_again():
    grants = ExclusiveGrants()
    grants.add_grant(A, [X], ["x"])
    assert grants.find_holder([X], ["x"], frozenset({"x"})) == ""


@pytest.mark.parametrize(
    ("asked", "ids", "held", "holder"),
    [
        (X, "x", "", ""),
        (X, "x", "y", "y"),
        (X, "x", "z", "z"),
        (X, "x", "w", ""),
        (X, "x", "xy", ""),
        (X, "xy", "y", ""),
        (make_listed("z"), "z", "x", "x"),
        (make_listed("z"), "z", "y", ""),
        (make_listed("w"), "w", "xyz", ""),
    ],
)
def test_what_is_held_in_a_list_keeps_others_away_though_nobody_granted_it_in_this_life(asked, ids, held, holder):
    x, y, z = device("x", "y", "z"), device("y", "x"), make_listed("z")
    shown = [(A, x), (A, y), (B, z), (B, make_listed("w"))]
    asked = {"x": x}.get(asked.id, asked)
    found = find_listed_holder(asked, [*ids], shown, frozenset(held))
    assert found == (holder and f"{B if holder == 'z' else A} {holder}")


class Asked:
    """Held ids that know which of them were asked for."""

    def __init__(self, *ids):
        self.ids, self.asked = ids, set()

    def __contains__(self, id):  # noqa: A002  the API's own word
        self.asked.add(id)
        return id in self.ids


def test_a_request_looks_at_no_more_than_it_touches():
    """However many grants there are, and whatever pods hold, only those of its own group are looked at."""
    grants = ExclusiveGrants()
    for number in range(100):
        grants.add_grant(A, [device(f"a{number}", f"b{number}")], [f"a{number}"])
    held = Asked(*(f"a{number}" for number in range(100)))
    assert grants.find_holder([device("b7", "a7")], ["b7"], held) == f"{A} a7"
    assert held.asked == {"a7", "b7"}
    assert grants.find_holder([device("c", "d")], ["c"], held) == ""
    assert held.asked == {"a7", "b7"}


def test_what_is_granted_anew_is_known_by_its_newest_group():
    grants = ExclusiveGrants()
    grants.add_grant(A, [device("x", "y")], ["x"])
    grants.add_grant(A, [device("x", "z")], ["x"])
    assert grants.find_holder([Y], ["y"], frozenset({"x"})) == f"{A} x"  # which shuts x itself
    assert grants.find_holder([make_listed("y")], ["y"], frozenset({"x"})) == ""
    assert grants.find_holder([make_listed("z")], ["z"], frozenset({"x"})) == f"{A} x"
