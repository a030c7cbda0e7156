"""Preferring: which of the offered ids a container had better get. Never fails, never depends on input order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from agent.core.entry.prefer import Rule
from agent.core.entry.resource import Limit
from agent.core.grants.choose import Costs, choose, is_exact
from agent.core.grants.stock import Stock
from agent.core.grants.weights import Kind, Weights
from agent.core.inventory.device import Form, Health, Snapshot, split_share
from agent.core.inventory.trait import Trait
from agent.core.language.value import natural

NO_LIMIT = Limit()


NOTHING = Stock(Snapshot(""))


def prefer(
    available: Iterable[str],
    must_include: Iterable[str],
    size: int,
    limit: Limit = NO_LIMIT,
    stock: Stock = NOTHING,
) -> tuple[str, ...]:
    """`size` ids, in natural order: all that must be included, then what the rules prefer beside those, within the
    limit. Where rules say nothing, the first in natural order.

    Empty where that is impossible: too few offered, too many forced, something forced that is not offered.
    """
    offered = set(available)
    forced = set(must_include)
    if not forced <= offered or not len(forced) <= size <= len(offered):
        return ()
    if limit.per_container is not None and size > limit.per_container:
        return ()
    shelves = _shelves(offered, forced, stock)
    room = [len(shelf.free) for shelf in shelves]
    if limit.distinct:
        if any(shelf.forced > 1 for shelf in shelves):
            return ()
        room = [min(free, 1 - shelf.forced) for free, shelf in zip(room, shelves, strict=True)]
    wanted = size - len(forced)
    if sum(room) < wanted:
        return ()
    chosen = list(forced)
    if wanted:
        for shelf, count in zip(shelves, _counts(shelves, room, wanted, size, stock.rules), strict=True):
            chosen += shelf.free[:count]
    return tuple(sorted(chosen, key=natural))


class _Shelf:
    """A device with those of its ids that are offered, in order: those that are forced, and the others."""

    __slots__ = ("alike", "forced", "free", "poor", "traits")

    def __init__(
        self, ids: list[str], traits: tuple[Trait, ...], alike: object, forced: set[str], *, poor: bool
    ) -> None:
        self.traits = traits
        self.alike = alike
        self.poor = poor
        self.forced = len(forced.intersection(ids)) if forced else 0
        self.free = [id for id in ids if id not in forced] if self.forced else ids  # noqa: A001  the API's own word


def _shelves(offered: set[str], forced: set[str], stock: Stock) -> list[_Shelf]:
    """The devices that are offered, in list order; behind them those that the list does not have by now."""
    others: dict[Form, list[str]] = {}
    if not offered <= stock.places.keys():
        for id in offered.difference(stock.places):  # noqa: A001  the API's own word
            others.setdefault(split_share(id)[0], []).append(id)
        offered = offered.intersection(stock.places)
    places = sorted(map(stock.places.__getitem__, offered))
    found = []
    begin = 0
    for n, end in enumerate(stock.ends):
        behind = bisect_left(places, end, begin)
        if behind > begin:
            ids = [stock.ids[place] for place in places[begin:behind]]
            poor = stock.snapshot.devices[n].health is not Health.HEALTHY
            found.append(_Shelf(ids, stock.traits[n], stock.alike[n], forced, poor=poor))
            begin = behind
    unlisted = sorted((sorted(ids, key=natural) for ids in others.values()), key=lambda ids: natural(ids[0]))
    return found + [_Shelf(ids, (), ids[0], forced, poor=True) for ids in unlisted]


def _counts(shelves: Sequence[_Shelf], room: Sequence[int], wanted: int, size: int, rules: Sequence[Rule]) -> list[int]:
    """How many ids to take of each device, besides those that are forced."""
    counts = [0] * len(shelves)
    groups = [[n] for n in range(len(shelves))] if is_exact(room, wanted) else _together(shelves)
    kinds = []
    for group in groups:
        first = shelves[group[0]]
        free, offered = room[group[0]], len(first.free) + first.forced
        for n in group[1:]:
            free += room[n]
            offered += len(shelves[n].free) + shelves[n].forced
        kinds.append(Kind(first.traits, free, offered, first.poor))
    weights = Weights(rules, kinds, size)
    alone = list(weights.alone)
    for kind, group in enumerate(groups):
        if size > wanted and (forced := sum(shelves[n].forced for n in group)):
            alone = [cost + forced * each for cost, each in zip(alone, weights.beside(kind), strict=True)]
    for kind, number in enumerate(choose(Costs([kind.room for kind in kinds], alone, weights.beside), wanted)):
        left = number
        for n in groups[kind]:
            counts[n] = min(left, room[n])
            left -= counts[n]
    return counts


def _together(shelves: Sequence[_Shelf]) -> list[list[int]]:
    """Those that no rule tells apart, in order of the first of each."""
    groups: dict[object, list[int]] = {}
    for n, shelf in enumerate(shelves):
        groups.setdefault((shelf.poor, shelf.alike), []).append(n)
    return list(groups.values())
