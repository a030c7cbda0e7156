"""Choose a number of devices of some kinds with the lowest sum of own costs and pair costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import comb
from operator import add, mul, sub

from agent.core.struct import MutableStruct, Struct

EXACT_LIMIT = 12_870  # all choices are compared up to this number: 8 of 16
_EXACT_DEVICES_LIMIT = 8 * EXACT_LIMIT  # devices in all these choices: the cost of comparing them
_KINDS_LIMIT = 64  # kinds whose pair costs are all computed
_STEPS_LIMIT = 6_000  # costs that the search may read: a few milliseconds


class Costs(Struct):
    """The kinds to choose from, in the order that decides between equal costs.

    capacities: the number of devices of each kind. own_costs: the cost of one device of each kind.
    get_pair_costs: returns the costs of one device of a kind together with one of each kind, also of its own kind.
    The costs are symmetric.
    """

    capacities: Sequence[int]
    own_costs: Sequence[int]
    get_pair_costs: Callable[[int], Sequence[int]]

    def compute_total(self, counts: Sequence[int]) -> int:
        """Return the cost of a choice."""
        chosen_kinds = [kind for kind, count in enumerate(counts) for _ in range(count)]
        rows = {kind: self.get_pair_costs(kind) for kind in set(chosen_kinds)}
        total = sum(self.own_costs[kind] for kind in chosen_kinds)
        return total + sum(rows[kind_a][kind_b] for n, kind_a in enumerate(chosen_kinds) for kind_b in chosen_kinds[:n])


def choose(costs: Costs, size: int) -> list[int]:
    """Return the number of devices to take of each kind, `size` in all. At least `size` devices must exist.

    Up to EXACT_LIMIT choices the result has the lowest cost. If costs are equal, the first in order wins. Above that
    limit a greedy search with many starts finds a good choice.
    """
    if not is_exact(costs.capacities, size):
        return _search(costs, size)
    rest_size = sum(costs.capacities) - size
    if size <= rest_size:
        return _choose_exact(costs, size)
    return list(map(sub, costs.capacities, _choose_exact(_invert_costs(costs), rest_size, is_rest=True)))


def is_exact(capacities: Sequence[int], size: int) -> bool:
    """Return whether `choose` compares all choices of this size."""
    smaller_size = min(size, sum(capacities) - size)  # leaving this number has as many choices
    if len(capacities) > _KINDS_LIMIT or smaller_size > _KINDS_LIMIT:
        return False
    kinds = sum(map(bool, capacities))
    if smaller_size <= kinds and comb(kinds, smaller_size) > EXACT_LIMIT:  # choices with at most one device of a kind
        return False
    half = len(capacities) // 2
    parts = (
        _count_ways(capacities, smaller_size)[smaller_size],
        sum(_count_ways(capacities[:half], smaller_size)),
        sum(_count_ways(capacities[half:], smaller_size)),
    )
    return max(parts) <= EXACT_LIMIT and max(parts) * smaller_size <= _EXACT_DEVICES_LIMIT


def _count_ways(capacities: Sequence[int], size: int) -> list[int]:
    """Return the number of choices for each size up to this one."""
    ways = [1] + [0] * size
    for capacity in capacities:
        ways = [sum(ways[max(0, count - capacity) : count + 1]) for count in range(size + 1)]
    return ways


def _invert_costs(costs: Costs) -> Costs:
    """Return the costs of leaving devices out. A pair of left devices was counted twice."""
    rows = [costs.get_pair_costs(kind) for kind in range(len(costs.capacities))]
    own_costs = [
        row[kind] - costs.own_costs[kind] - sum(map(mul, costs.capacities, row)) if costs.capacities[kind] else 0
        for kind, row in enumerate(rows)
    ]
    return Costs(costs.capacities, own_costs, rows.__getitem__)


def _choose_exact(costs: Costs, size: int, *, is_rest: bool = False) -> list[int]:
    """Return the best of all choices: each combines a choice of the first half of the kinds with one of the second.

    If costs are equal, the choice with more devices of the first kinds wins. With `is_rest` it is the opposite.
    """
    count = len(costs.capacities)
    base = min(size, max(costs.capacities, default=0)) + 1
    scale = base**count  # the lowest digits keep the order: more of the first kinds wins
    sign = 1 if is_rest else -1
    own_costs = [cost * scale + sign * base ** (count - 1 - kind) for kind, cost in enumerate(costs.own_costs)]
    rows = [[cost * scale for cost in costs.get_pair_costs(kind)] for kind in range(count)]
    left_ways = _list_ways(range(count // 2), costs.capacities, own_costs, rows, size)
    right_ways = _list_ways(range(count // 2, count), costs.capacities, own_costs, rows, size)
    best_cost: int | None = None
    best_kinds: tuple[int, ...] = ()
    for number, right_way in enumerate(right_ways):
        left_way = left_ways[size - number]
        if not left_way or not right_way:
            continue
        left_costs = [cost for _, cost in left_way]
        columns: dict[int, list[int]] = {}
        for chosen_kinds, cost in right_way:
            for kind in chosen_kinds:
                if kind not in columns:
                    get_pair_cost = rows[kind].__getitem__
                    columns[kind] = [sum(map(get_pair_cost, left_kinds)) for left_kinds, _ in left_way]
            totals = (
                list(map(sum, zip(left_costs, *(columns[kind] for kind in chosen_kinds), strict=True)))
                if chosen_kinds
                else left_costs
            )
            least = min(totals)
            if best_cost is None or least + cost < best_cost:
                best_cost = least + cost
                best_kinds = left_way[totals.index(least)][0] + chosen_kinds
    counts = [0] * count
    for kind in best_kinds:
        counts[kind] += 1
    return counts


def _list_ways(
    kinds: range, capacities: Sequence[int], own_costs: Sequence[int], rows: Sequence[Sequence[int]], size: int
) -> list[list[tuple[tuple[int, ...], int]]]:
    """Return the choices of each size from some kinds, each with its cost."""
    ways: list[list[tuple[tuple[int, ...], int]]] = [[((), 0)]]
    for _ in range(size):
        longer_ways: list[tuple[tuple[int, ...], int]] = []
        for chosen_kinds, cost in ways[-1]:
            for kind in range(chosen_kinds[-1] if chosen_kinds else kinds.start, kinds.stop):
                if chosen_kinds.count(kind) < capacities[kind]:
                    get_pair_cost = rows[kind].__getitem__
                    longer_ways.append(
                        ((*chosen_kinds, kind), cost + own_costs[kind] + sum(map(get_pair_cost, chosen_kinds)))
                    )
        ways.append(longer_ways)
    return ways


def _search(costs: Costs, size: int) -> list[int]:
    """Return the best greedy choice of several starts, improved by exchanges. The cheapest kind is the first start."""
    get_pair_costs = cache(costs.get_pair_costs)
    order = sorted(
        (kind for kind, capacity in enumerate(costs.capacities) if capacity), key=lambda kind: costs.own_costs[kind]
    )
    start_count = 1 if size == 1 else max(1, _STEPS_LIMIT // (len(order) * size))
    choices = [_choose_greedily(costs, size, start, get_pair_costs) for start in order[:start_count]]
    best_choice = min(choices, key=lambda choice: choice.cost)
    return _improve_choice(best_choice, costs, get_pair_costs) if len(order) <= _KINDS_LIMIT else best_choice.counts


class _Choice(MutableStruct):
    """A choice: the count of each kind, the cost, and the cost of one more device of each kind."""

    counts: list[int]
    cost: int
    next_costs: list[int]

    def add_device(self, kind: int, row: Sequence[int]) -> None:
        """Add one device of a kind."""
        self.cost += self.next_costs[kind]
        self.counts[kind] += 1
        self.next_costs = list(map(add, self.next_costs, row))

    def remove_device(self, kind: int, row: Sequence[int]) -> None:
        """Remove one device of a kind."""
        self.next_costs = list(map(sub, self.next_costs, row))
        self.counts[kind] -= 1
        self.cost -= self.next_costs[kind]


def _choose_greedily(costs: Costs, size: int, start: int, get_pair_costs: Callable[[int], Sequence[int]]) -> _Choice:
    """Return a greedy choice: the start, then always the cheapest kind. Above the step limit, the rest in order."""
    choice = _Choice([0] * len(costs.capacities), 0, list(costs.own_costs))
    free_kinds = [kind for kind, capacity in enumerate(costs.capacities) if capacity]
    for n in range(size):
        if n * len(free_kinds) > _STEPS_LIMIT:
            for kind in free_kinds:
                count = min(costs.capacities[kind] - choice.counts[kind], size - sum(choice.counts))
                choice.counts[kind] += count
            break
        kind = start if n == 0 else min(free_kinds, key=choice.next_costs.__getitem__)
        if n == size - 1:
            choice.cost += choice.next_costs[kind]
            choice.counts[kind] += 1
            break
        choice.add_device(kind, get_pair_costs(kind))
        if choice.counts[kind] == costs.capacities[kind]:
            free_kinds.remove(kind)
    return choice


def _improve_choice(choice: _Choice, costs: Costs, get_pair_costs: Callable[[int], Sequence[int]]) -> list[int]:
    """Return the choice after exchanges of single devices that lower the cost, within the step limit."""
    counts = choice.counts
    rounds = _STEPS_LIMIT // (len(counts) * max(1, sum(counts))) // 4
    if not rounds:
        return counts
    choice = _Choice([0] * len(counts), 0, list(costs.own_costs))
    for kind, count in enumerate(counts):
        for _ in range(count):
            choice.add_device(kind, get_pair_costs(kind))
    for _ in range(rounds):
        previous_cost = choice.cost
        for kind in [kind for kind, count in enumerate(choice.counts) if count]:
            choice.remove_device(kind, get_pair_costs(kind))
            free_kinds = (other for other, limit in enumerate(costs.capacities) if choice.counts[other] < limit)
            best_kind = min(free_kinds, key=choice.next_costs.__getitem__)
            if choice.next_costs[best_kind] >= choice.next_costs[kind]:
                best_kind = kind
            choice.add_device(best_kind, get_pair_costs(best_kind))
        if choice.cost == previous_cost:
            break
    return choice.counts
