"""Choosing: so many of some kinds that the sum of what each costs, and each two of them together, is the least."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import comb
from operator import add, mul, sub

from agent.core.struct import MutableStruct, Struct

EXACT_LIMIT = 12_870  # ways that are all gone through: 8 of 16
_MOST_TAKEN = 8 * EXACT_LIMIT  # devices in all these ways together, which is what going through them costs
_MOST_KINDS = 64  # whose costs by twos are all worked out
_STEPS = 6_000  # costs that a search without going through all may look at: a few milliseconds


class Costs(Struct):
    """What is to be chosen from, in the order that decides where all is equal.

    room: how many there are of each kind. alone: what each one of a kind costs. beside: what one costs beside another,
    by the first's kind; also beside one of its own. Both ways it is the same.
    """

    capacities: Sequence[int]
    own_costs: Sequence[int]
    get_pair_costs: Callable[[int], Sequence[int]]

    def compute_total(self, counts: Sequence[int]) -> int:
        """What it costs to take so many of each."""
        taken = [kind for kind, count in enumerate(counts) for _ in range(count)]
        rows = {kind: self.get_pair_costs(kind) for kind in set(taken)}
        total = sum(self.own_costs[kind] for kind in taken)
        return total + sum(rows[one][other] for n, one in enumerate(taken) for other in taken[:n])


def choose(costs: Costs, size: int) -> list[int]:
    """How many of each kind to take, `size` in all, of which there have to be as many.

    The least there is, and of equals the first in order, wherever the ways are few (`MOST`); else what a search finds
    that begins at many places and takes what costs least next.
    """
    if not is_exact(costs.capacities, size):
        return _search(costs, size)
    fewer = sum(costs.capacities) - size
    if size <= fewer:
        return _least(costs, size)
    return list(map(sub, costs.capacities, _least(_left(costs), fewer, leave=True)))


def is_exact(capacities: Sequence[int], size: int) -> bool:
    """Whether all ways to take so many are gone through."""
    fewer = min(size, sum(capacities) - size)  # leaving so many is as many ways
    if len(capacities) > _MOST_KINDS or fewer > _MOST_KINDS:
        return False
    kinds = sum(map(bool, capacities))
    if fewer <= kinds and comb(kinds, fewer) > EXACT_LIMIT:  # those of one of a kind alone
        return False
    half = len(capacities) // 2
    parts = (
        _ways(capacities, fewer)[fewer],
        sum(_ways(capacities[:half], fewer)),
        sum(_ways(capacities[half:], fewer)),
    )
    return max(parts) <= EXACT_LIMIT and max(parts) * fewer <= _MOST_TAKEN


def _ways(room: Sequence[int], size: int) -> list[int]:
    """In how many ways each number up to that one can be taken."""
    ways = [1] + [0] * size
    for most in room:
        ways = [sum(ways[max(0, count - most) : count + 1]) for count in range(size + 1)]
    return ways


def _left(costs: Costs) -> Costs:
    """What the others cost less by each that is left; two that are left were counted twice."""
    rows = [costs.get_pair_costs(kind) for kind in range(len(costs.capacities))]
    alone = [
        row[kind] - costs.own_costs[kind] - sum(map(mul, costs.capacities, row)) if costs.capacities[kind] else 0
        for kind, row in enumerate(rows)
    ]
    return Costs(costs.capacities, alone, rows.__getitem__)


def _least(costs: Costs, size: int, *, leave: bool = False) -> list[int]:
    """All ways gone through, each as one of the first kinds with one of the others. Of equals it is much of the first
    kinds; little, if these are to be left.
    """
    count = len(costs.capacities)
    base = min(size, max(costs.capacities, default=0)) + 1
    scale = base**count  # the least digits say the order: much of the first kinds goes before
    sign = 1 if leave else -1
    alone = [cost * scale + sign * base ** (count - 1 - kind) for kind, cost in enumerate(costs.own_costs)]
    rows = [[cost * scale for cost in costs.get_pair_costs(kind)] for kind in range(count)]
    lefts = _ways_of(range(count // 2), costs.capacities, alone, rows, size)
    rights = _ways_of(range(count // 2, count), costs.capacities, alone, rows, size)
    best: int | None = None
    picked: tuple[int, ...] = ()
    for number, right in enumerate(rights):
        left = lefts[size - number]
        if not left or not right:
            continue
        itself = [cost for _, cost in left]
        columns: dict[int, list[int]] = {}
        for taken, cost in right:
            for kind in taken:
                if kind not in columns:
                    beside = rows[kind].__getitem__
                    columns[kind] = [sum(map(beside, other)) for other, _ in left]
            totals = list(map(sum, zip(itself, *(columns[kind] for kind in taken), strict=True))) if taken else itself
            least = min(totals)
            if best is None or least + cost < best:
                best = least + cost
                picked = left[totals.index(least)][0] + taken
    counts = [0] * count
    for kind in picked:
        counts[kind] += 1
    return counts


def _ways_of(
    kinds: range, room: Sequence[int], alone: Sequence[int], rows: Sequence[Sequence[int]], size: int
) -> list[list[tuple[tuple[int, ...], int]]]:
    """The ways to take each number of some kinds, each with what it costs."""
    ways: list[list[tuple[tuple[int, ...], int]]] = [[((), 0)]]
    for _ in range(size):
        more: list[tuple[tuple[int, ...], int]] = []
        for taken, cost in ways[-1]:
            for kind in range(taken[-1] if taken else kinds.start, kinds.stop):
                if taken.count(kind) < room[kind]:
                    beside = rows[kind].__getitem__
                    more.append(((*taken, kind), cost + alone[kind] + sum(map(beside, taken))))
        ways.append(more)
    return ways


def _search(costs: Costs, size: int) -> list[int]:
    """The best of what is found from many beginnings, the first of which is what costs least by itself; then one after
    the other is changed for a better one.
    """
    known: dict[int, Sequence[int]] = {}

    def beside(kind: int) -> Sequence[int]:
        if kind not in known:
            known[kind] = costs.get_pair_costs(kind)
        return known[kind]

    order = sorted((kind for kind, room in enumerate(costs.capacities) if room), key=lambda kind: costs.own_costs[kind])
    beginnings = 1 if size == 1 else max(1, _STEPS // (len(order) * size))
    found = [_next_best(costs, size, begin, beside) for begin in order[:beginnings]]
    least = min(found, key=lambda one: one.cost)
    return _exchanged(least, costs, beside) if len(order) <= _MOST_KINDS else least.counts


class _Taken(MutableStruct):
    """So many of each kind; what they cost; and what one more of each would."""

    counts: list[int]
    cost: int
    more: list[int]

    def take(self, kind: int, row: Sequence[int]) -> None:
        """Take one more."""
        self.cost += self.more[kind]
        self.counts[kind] += 1
        self.more = list(map(add, self.more, row))

    def leave(self, kind: int, row: Sequence[int]) -> None:
        """Take one less."""
        self.more = list(map(sub, self.more, row))
        self.counts[kind] -= 1
        self.cost -= self.more[kind]


def _next_best(costs: Costs, size: int, begin: int, beside: Callable[[int], Sequence[int]]) -> _Taken:
    """One of `begin`, then always what costs least beside those taken; the rest in order where that takes too long."""
    taken = _Taken([0] * len(costs.capacities), 0, list(costs.own_costs))
    there = [kind for kind, room in enumerate(costs.capacities) if room]
    for n in range(size):
        if n * len(there) > _STEPS:
            for kind in _in_order(costs.capacities, taken.counts, size - n):
                taken.counts[kind] += 1
            break
        kind = begin if n == 0 else min(there, key=taken.more.__getitem__)
        if n == size - 1:
            taken.cost += taken.more[kind]
            taken.counts[kind] += 1
            break
        taken.take(kind, beside(kind))
        if taken.counts[kind] == costs.capacities[kind]:
            there.remove(kind)
    return taken


def _exchanged(taken: _Taken, costs: Costs, beside: Callable[[int], Sequence[int]]) -> list[int]:
    """The same with one exchanged for another, as often as that makes it cost less, within some steps."""
    counts = taken.counts
    rounds = _STEPS // (len(counts) * max(1, sum(counts))) // 4
    if not rounds:
        return counts
    taken = _Taken([0] * len(counts), 0, list(costs.own_costs))
    for kind, count in enumerate(counts):
        for _ in range(count):
            taken.take(kind, beside(kind))
    kinds = range(len(counts))
    for _ in range(rounds):
        before = taken.cost
        for kind in [kind for kind in kinds if taken.counts[kind]]:
            taken.leave(kind, beside(kind))
            free = (other for other in kinds if taken.counts[other] < costs.capacities[other])
            better = min(free, key=taken.more.__getitem__)
            if taken.more[better] >= taken.more[kind]:
                better = kind
            taken.take(better, beside(better))
        if taken.cost == before:
            break
    return taken.counts


def _in_order(room: Sequence[int], counts: Sequence[int], size: int) -> Iterator[int]:
    for kind, there in enumerate(room):
        for _ in range(min(there - counts[kind], size)):
            yield kind
            size -= 1
