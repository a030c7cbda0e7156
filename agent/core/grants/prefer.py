"""Preferring: which of the offered ids a container had better get. Never fails, never depends on input order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import add
from typing import NamedTuple

from agent.core.entry.resource_spec import Limit
from agent.core.grants.choice_pool import ChoicePool
from agent.core.grants.choose import Costs, choose, is_exact
from agent.core.grants.preference_costs import EqualDevices, PreferenceCosts
from agent.core.inventory.device import DeviceList, ShareBase, split_share
from agent.core.language.value import make_sort_key

NO_LIMIT = Limit()
EMPTY_POOL = ChoicePool(DeviceList(""))


def prefer(
    available: Iterable[str],
    must_include: Iterable[str],
    size: int,
    limit: Limit = NO_LIMIT,
    pool: ChoicePool = EMPTY_POOL,
) -> tuple[str, ...]:
    """`size` ids, in list order: all that must be included, then what the rules prefer beside those, within the
    limit. Where rules say nothing, the first in list order.

    Empty where that is impossible: too few offered, too many forced, something forced that is not offered.
    """
    offered = set(available)
    forced = set(must_include)
    if not forced <= offered or not len(forced) <= size <= len(offered):
        return ()
    if limit.per_container is not None and size > limit.per_container:
        return ()
    names, place_of = _named(offered, pool)
    taken = set(map(place_of.__getitem__, forced))
    shelves = _shelves(sorted(map(place_of.__getitem__, offered)), taken, names, pool)
    room = [len(shelf.free) for shelf in shelves]
    if limit.distinct:
        if any(shelf.forced > 1 for shelf in shelves):
            return ()
        room = [min(free, 1 - shelf.forced) for free, shelf in zip(room, shelves, strict=True)]
    wanted = size - len(forced)
    if sum(room) < wanted:
        return ()
    if wanted:
        counts = room if sum(room) == wanted else _counts(shelves, room, wanted, size, pool)
        taken.update(*(shelf.free[:count] for shelf, count in zip(shelves, counts, strict=True)))
    return tuple(map(names.__getitem__, sorted(taken)))


class _Shelf(NamedTuple):
    """A device of which ids are offered: how many of them are forced, and the places of the others, in order.

    number: of the device in the list; none if the list does not have it by now. alike: equal for those that no rule
    tells apart.
    """

    number: int | None
    free: Sequence[int]
    forced: int
    alike: int


def _named(offered: set[str], stock: ChoicePool) -> tuple[Sequence[str], Mapping[str, int]]:
    """All names with their places: those of the list, and behind them those that it does not have by now."""
    if offered <= stock.positions.keys():
        return stock.ids, stock.positions
    others = sorted(
        offered - stock.positions.keys(), key=lambda name: (make_sort_key(split_share(name)[0][0]), make_sort_key(name))
    )
    names = [*stock.ids, *others]
    return names, {name: place for place, name in enumerate(names)}


def _shelves(places: Sequence[int], taken: set[int], names: Sequence[str], stock: ChoicePool) -> list[_Shelf]:
    """The devices that are offered, in list order; behind them those that the list does not have by now."""
    found: list[_Shelf] = []
    begin, single = 0, len(stock.ends) == len(stock.ids)
    while begin < len(places):
        first = places[begin]
        if first >= len(stock.ids):
            break
        number = first if single else bisect_right(stock.ends, first)
        behind = begin + 1 if single else bisect_left(places, stock.ends[number], begin)
        found.append(_shelf(number, places[begin:behind], taken, stock.kind_numbers[number]))
        begin = behind
    unlisted: dict[ShareBase, list[int]] = {}
    for place in places[begin:]:
        unlisted.setdefault(split_share(names[place])[0], []).append(place)
    return found + [_shelf(None, own, taken, -1 - n) for n, own in enumerate(unlisted.values())]


def _shelf(number: int | None, places: Sequence[int], taken: set[int], alike: int) -> _Shelf:
    if taken and not taken.isdisjoint(places):
        free = [place for place in places if place not in taken]
        return _Shelf(number, free, len(places) - len(free), alike)
    return _Shelf(number, places, 0, alike)


def _counts(shelves: Sequence[_Shelf], room: Sequence[int], wanted: int, size: int, stock: ChoicePool) -> Sequence[int]:
    """How many ids to take of each device, besides those that are forced."""
    groups = [[n] for n in range(len(shelves))] if is_exact(room, wanted) else _together(shelves)
    kinds = []
    forced: dict[int, int] = {}
    for kind, group in enumerate(groups):
        free = offered = there = 0
        for n in group:
            free += room[n]
            offered += len(shelves[n].free)
            there += shelves[n].forced
        if there:
            forced[kind] = there
        device = shelves[group[0]].number
        if device is None:
            kinds.append(EqualDevices((), free, offered + there, is_unhealthy=True))
        else:
            kinds.append(EqualDevices(stock.affinities[device], free, offered + there, stock.unhealthy_flags[device]))
    weights = PreferenceCosts(stock.rules, kinds, size)
    alone = list(map(add, weights.own_costs, weights.compute_group_costs(forced))) if forced else weights.own_costs
    counts = [0] * len(shelves)
    for kind, number in enumerate(
        choose(Costs([kind.capacity for kind in kinds], alone, weights.compute_pair_costs), wanted)
    ):
        left = number
        for n in groups[kind] if left else ():
            counts[n] = min(left, room[n])
            left -= counts[n]
    return counts


def _together(shelves: Sequence[_Shelf]) -> list[list[int]]:
    """Those that no rule tells apart, in order of the first of each."""
    groups: dict[int, list[int]] = {}
    for n, shelf in enumerate(shelves):
        groups.setdefault(shelf.alike, []).append(n)
    return list(groups.values())
