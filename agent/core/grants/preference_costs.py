"""Weights: what rules say of devices that are to be chosen from, as one number each and one for each two of them.

Each rule is a level above all that follow it, so that the first decides and the next breaks ties. After the rules comes
what `same` leaves open: of equal groups that with the most free devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from operator import add
from typing import NamedTuple

from agent.core.entry.prefer import PreferRule, WordRule
from agent.core.inventory.affinity import Affinity, LinkDistances, PciePath
from agent.core.language.value import format_scalar, make_sort_key

# How far from each other two functions are on PCI Express, as the known device plugins tell it apart.
SAME_BOARD, SAME_SWITCH, SAME_PORT, SAME_COMPLEX, SAME_NODE, FAR = 0, 10, 20, 30, 40, 50

_MOST_LINKS = 6_000  # that are looked at for one row: a few milliseconds


class EqualDevices(NamedTuple):
    """Devices, or shares of one device, that no rule tells apart: what they are preferred by, how many may be taken of
    them and how many are offered. poor: what is offered is not known to be Healthy, and is taken last.
    """

    affinities: tuple[Affinity, ...]
    capacity: int
    offered_count: int
    is_unhealthy: bool = False


class PreferenceCosts:
    """What a kind costs by itself and beside another."""

    def __init__(self, rules: Sequence[PreferRule], kinds: Sequence[EqualDevices], size: int) -> None:
        """`size`: how many are taken at most, for one level to stand above all sums of the next."""
        levels = [level for level in _levels(rules, kinds) if level.tells]
        scale = 1
        self.own_costs = [0] * len(kinds)
        self._levels: list[tuple[int, _Level]] = []
        for level in reversed(levels):
            self._levels.append((scale, level))
            self.own_costs = [cost + scale * each for cost, each in zip(self.own_costs, level.alone, strict=True)]
            scale *= 1 + size * level.spread + size * size * level.far
        self._count = len(kinds)

    def compute_pair_costs(self, kind: int) -> list[int]:
        """What one of that kind costs beside one of each."""
        return self.compute_group_costs({kind: 1})

    def compute_group_costs(self, taken: Mapping[int, int]) -> list[int]:
        """What one of each costs beside so many of some kinds."""
        row = [0] * self._count
        for scale, level in self._levels:
            if level.far:
                level.add_beside(taken, scale, row)
        return row


class _Level:
    """One rule. far: the most that two can cost, more than the least; 0 where it says nothing of two."""

    def __init__(self, alone: Sequence[int], far: int = 0) -> None:
        least = min(alone, default=0)
        self.alone = [cost - least for cost in alone]
        self.spread = max(self.alone, default=0)
        self.far = far

    @property
    def tells(self) -> bool:
        """Whether it tells any two ways apart."""
        return bool(self.spread or self.far)

    def add_beside(self, taken: Mapping[int, int], scale: int, row: list[int]) -> None:
        """Add to each of a row what it costs beside so many of some kinds, so many times."""


class _Keys:
    """What each kind is of; levels of one rule share them."""

    def __init__(self, keys: Sequence[object]) -> None:
        self.keys = keys

    @cached_property
    def of(self) -> Mapping[object, Sequence[int]]:
        """The kinds by their keys."""
        found: dict[object, list[int]] = {}
        for kind, key in enumerate(self.keys):
            found.setdefault(key, []).append(kind)
        return found


class _Alike(_Level):
    """Two of one key cost so much beside each other, and others nothing."""

    def __init__(self, alone: Sequence[int], keys: _Keys, cost: int, *, far: bool) -> None:
        """`far`: whether there are several keys."""
        super().__init__(alone, int(far))
        self._keys, self._cost = keys, cost

    def add_beside(self, taken: Mapping[int, int], scale: int, row: list[int]) -> None:
        counts: dict[object, int] = {}
        for kind, count in taken.items():
            key = self._keys.keys[kind]
            counts[key] = counts.get(key, 0) + count
        for key, count in counts.items():
            cost = scale * self._cost * count
            for kind in self._keys.of[key]:
                row[kind] += cost


class _Apart(_Level):
    """How far two are from each other: by their nodes, and nearer if they are below one root complex."""

    def __init__(self, seats: Sequence[PciePath]) -> None:
        super().__init__([0] * len(seats), FAR if len(set(seats)) > 1 else 0)
        self._seats = seats
        self._numa = [seat.numa for seat in seats]
        self._complexes = _Keys([seat.path[:1] for seat in seats])

    @cached_property
    def _near(self) -> Mapping[tuple[int, ...], set[tuple[int, ...]]]:
        """Which sets of nodes have one in common with which."""
        having: dict[int, set[tuple[int, ...]]] = {}
        for numa in set(self._numa):
            for node in numa:
                having.setdefault(node, set()).add(numa)
        return {numa: set().union(*map(having.__getitem__, numa)) for numa in set(self._numa)}

    def add_beside(self, taken: Mapping[int, int], scale: int, row: list[int]) -> None:
        nodes: dict[tuple[int, ...], int] = {}
        for kind, count in taken.items():
            nodes[self._numa[kind]] = nodes.get(self._numa[kind], 0) + scale * count
        far, nearer = FAR * sum(nodes.values()), FAR - SAME_NODE
        by_node = {
            numa: far - nearer * sum(map(nodes.__getitem__, near & nodes.keys())) for numa, near in self._near.items()
        }
        row[:] = map(add, row, map(by_node.__getitem__, self._numa))
        for kind, count in taken.items():
            seat = self._seats[kind]
            row[kind] -= scale * count * _of_nodes(seat.numa, seat.numa)
            for other in self._complexes.of[seat.path[:1]] if seat.path else ():
                if other != kind:
                    beside = self._seats[other]
                    row[other] += (
                        scale * count * (compute_pcie_distance(seat, beside) - _of_nodes(seat.numa, beside.numa))
                    )


class _Linked(_Level):
    """How far the links lead; what no link leads to is farther than any."""

    def __init__(self, ends: Sequence[LinkDistances]) -> None:
        known = [end for end in ends if end.distances]
        self._least = min((end.min_distance for end in known), default=0)
        self._none = max((end.max_distance for end in known), default=-1) + 1
        super().__init__([0] * len(ends), self._none - self._least if known else 0)
        self._ends = ends
        self._names = [end.name for end in ends]

    def add_beside(self, taken: Mapping[int, int], scale: int, row: list[int]) -> None:
        none = self._none
        every = 1 + len(taken) * len(row) // _MOST_LINKS  # of very many beside very many one in so many stands for all
        for kind, count in islice(taken.items(), 0, None, every):
            name, far = self._ends[kind].name, self._ends[kind].distances
            costs = [far.get(other, none) for other in self._names]
            if name is not None:  # a link that only the other side tells of leads here as well
                theirs = [other.distances.get(name, none) for other in self._ends]
                costs = list(map(min, costs, theirs))
            times = scale * count * every
            costs[kind] = self._least
            row[:] = [cost + times * (each - self._least) for cost, each in zip(row, costs, strict=True)]


def generalize_affinity(trait: Affinity) -> Affinity:
    """What of a trait is the same for all that no rule tells apart: functions behind one bridge sit in one place."""
    if not isinstance(trait, PciePath) or len(trait.path) < 2:
        return trait
    *above, own = trait.path
    return PciePath((*above, own.rpartition(".")[0] if _is_complex(above[-1]) else ""), trait.numa)


def compute_pcie_distance(one: PciePath, other: PciePath) -> int:
    """How far two devices are from each other on PCI Express."""
    if one == other and one.path:
        return SAME_BOARD
    there = sum(1 for _ in _common(one.path, other.path))
    beyond = max(len(one.path), len(other.path)) - there
    if there:
        alike = one.path[there - 1]
        if beyond == 1 and (len(one.path) == len(other.path)):
            slot = one.path[-1].rpartition(".")[0] == other.path[-1].rpartition(".")[0]
            return SAME_BOARD if slot or not _is_complex(alike) else SAME_COMPLEX
        if beyond == 0:
            return SAME_BOARD
        if _is_complex(alike):
            return SAME_COMPLEX
        deep = there > 1 and not _is_complex(one.path[there - 2])
        return SAME_SWITCH if deep and beyond <= 2 else SAME_PORT  # two steps: a port of the switch, and the device
    return _of_nodes(one.numa, other.numa)


def _of_nodes(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return FAR if set(one).isdisjoint(other) else SAME_NODE


def _common(one: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    for step, same in zip(one, other, strict=False):
        if step != same:
            return
        yield step


def _is_complex(step: str) -> bool:
    return step.startswith("pci")


def _levels(rules: Sequence[PreferRule], kinds: Sequence[EqualDevices]) -> Iterator[_Level]:
    yield _Level([int(kind.is_unhealthy) for kind in kinds])
    nothing = [0] * len(kinds)
    last: list[_Level] = []
    for n, rule in enumerate(rules):
        traits = [kind.affinities[n] if n < len(kind.affinities) else None for kind in kinds]
        if not isinstance(rule, WordRule):
            if rule.links is None:
                yield _Apart([trait if isinstance(trait, PciePath) else PciePath() for trait in traits])
            else:
                yield _Linked([trait if isinstance(trait, LinkDistances) else LinkDistances() for trait in traits])
            continue
        if rule.verb == "order":
            ranks = {trait: rank for rank, trait in enumerate(sorted(set(traits), key=_order))}
            yield _Level([ranks[trait] for trait in traits])
            continue
        keys: list[object] = [(n, i) if trait is None else trait for i, trait in enumerate(traits)]
        free: dict[object, int] = {}
        for key, kind in zip(keys, kinds, strict=True):
            free[key] = free.get(key, 0) + kind.offered_count
        most, index = max(free.values(), default=0), _Keys(keys)
        far = len(free) > 1 and most > 1  # keys that nobody shares say nothing of two
        if rule.verb == "same":
            yield _Alike(nothing, index, -1, far=far)
            last.append(_Level([0 if trait is None else -free[trait] for trait in traits]))
        elif rule.verb == "packed":
            # Taking n of a key with f free costs f + (f-1) + …, as if each were chosen by what is free by then.
            alone = [most + 1 if trait is None else free[key] for key, trait in zip(keys, traits, strict=True)]
            yield _Alike(alone, index, -1, far=far)
            yield _Alike(nothing, index, -1, far=far)
        else:
            alone = [most if trait is None else most - free[key] for key, trait in zip(keys, traits, strict=True)]
            yield _Alike(alone, index, 1, far=far)
            yield _Alike(nothing, index, 1, far=far)
    yield from last


def _order(trait: Affinity) -> tuple[int, str]:
    if trait is None:
        return 1, ""
    elements = trait if isinstance(trait, tuple) else (trait,)
    return 0, make_sort_key(" ".join(format_scalar(element) for element in elements if isinstance(element, (str, int))))
