"""Compute the costs of the preference rules: one number for each kind of device and one for each pair.

Each rule is a level above all later rules: the first rule decides, and the next one breaks ties. After all rules,
`same` prefers the group with the most free devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, takewhile
from operator import add

from agent.core.entry.prefer import PreferRule, WordRule
from agent.core.inventory.affinity import Affinity, LinkDistances, PciePath
from agent.core.language.value import format_scalar, make_sort_key
from agent.core.struct import Struct

# The distance of two functions on PCI Express, in the steps that known device plugins use.
SAME_BOARD, SAME_SWITCH, SAME_PORT, SAME_COMPLEX, SAME_NODE, FAR = 0, 10, 20, 30, 40, 50

_LINKS_LIMIT = 6_000  # links that are read for one row: a few milliseconds


class EqualDevices(Struct):
    """Devices, or shares of one device, that every rule treats alike.

    affinities: the values by which rules rank them. capacity: the number that can be chosen. offered_count: the number
    that is offered. is_unhealthy: they are not known to be Healthy and are chosen last.
    """

    affinities: tuple[Affinity, ...]
    capacity: int
    offered_count: int
    is_unhealthy: bool = False


class PreferenceCosts:
    """The costs of each kind alone and together with other kinds."""

    def __init__(self, rules: Sequence[PreferRule], kinds: Sequence[EqualDevices], size: int) -> None:
        """Build the levels. size: the largest choice; it keeps one level above all sums of the next."""
        levels = [level for level in _build_levels(rules, kinds) if level.has_effect]
        scale = 1
        self.own_costs = [0] * len(kinds)
        self._levels: list[tuple[int, _Level]] = []
        for level in reversed(levels):
            self._levels.append((scale, level))
            self.own_costs = [
                cost + scale * level_cost for cost, level_cost in zip(self.own_costs, level.own_costs, strict=True)
            ]
            scale *= 1 + size * level.spread + size * size * level.pair_spread
        self._count = len(kinds)

    def compute_pair_costs(self, kind: int) -> list[int]:
        """Return the costs of one device of this kind together with one of each kind."""
        return self.compute_group_costs({kind: 1})

    def compute_group_costs(self, counts: Mapping[int, int]) -> list[int]:
        """Return the costs of one device of each kind together with these counts of kinds."""
        row = [0] * self._count
        for scale, level in self._levels:
            if level.pair_spread:
                level.add_pair_costs(counts, scale, row)
        return row


class _Level:
    """The costs of one rule. pair_spread: the highest pair cost minus the lowest. 0 if the rule ignores pairs."""

    def __init__(self, own_costs: Sequence[int], pair_spread: int = 0) -> None:
        least = min(own_costs, default=0)
        self.own_costs = [cost - least for cost in own_costs]
        self.spread = max(self.own_costs, default=0)
        self.pair_spread = pair_spread

    @property
    def has_effect(self) -> bool:
        """Return whether the rule can decide between two choices."""
        return bool(self.spread or self.pair_spread)

    def add_pair_costs(self, kind_counts: Mapping[int, int], scale: int, row: list[int]) -> None:
        """Add to each kind of the row its pair costs with these counts of kinds, times the scale."""


class _SameKeyLevel(_Level):
    """Pairs with equal keys have a fixed cost. Other pairs cost nothing."""

    def __init__(self, own_costs: Sequence[int], keys: Sequence[object], cost: int, *, has_several_keys: bool) -> None:
        """Build the level. has_several_keys: the keys differ, so pairs can differ."""
        super().__init__(own_costs, int(has_several_keys))
        self._keys, self._cost, self._kinds_by_key = keys, cost, _group_kinds(keys)

    def add_pair_costs(self, kind_counts: Mapping[int, int], scale: int, row: list[int]) -> None:
        counts: dict[object, int] = {}
        for kind, count in kind_counts.items():
            counts[self._keys[kind]] = counts.get(self._keys[kind], 0) + count
        for key, count in counts.items():
            for kind in self._kinds_by_key[key]:
                row[kind] += scale * self._cost * count


class _PcieLevel(_Level):
    """The distance of a pair: by NUMA nodes, and shorter below one root complex."""

    def __init__(self, paths: Sequence[PciePath]) -> None:
        super().__init__([0] * len(paths), FAR if len(set(paths)) > 1 else 0)
        self._paths = paths
        self._numa = [path.numa for path in paths]
        self._kinds_by_complex = _group_kinds([path.path[:1] for path in paths])

    @cached_property
    def _adjacent_nodes(self) -> Mapping[tuple[int, ...], set[tuple[int, ...]]]:
        """Return for each set of NUMA nodes the sets that share a node with it."""
        nodes_by_number: dict[int, set[tuple[int, ...]]] = {}
        for numa in set(self._numa):
            for node in numa:
                nodes_by_number.setdefault(node, set()).add(numa)
        return {numa: set().union(*map(nodes_by_number.__getitem__, numa)) for numa in set(self._numa)}

    def add_pair_costs(self, kind_counts: Mapping[int, int], scale: int, row: list[int]) -> None:
        nodes: dict[tuple[int, ...], int] = {}
        for kind, count in kind_counts.items():
            nodes[self._numa[kind]] = nodes.get(self._numa[kind], 0) + scale * count
        far_cost, saving = FAR * sum(nodes.values()), FAR - SAME_NODE
        by_node = {
            numa: far_cost - saving * sum(map(nodes.__getitem__, adjacent & nodes.keys()))
            for numa, adjacent in self._adjacent_nodes.items()
        }
        row[:] = map(add, row, map(by_node.__getitem__, self._numa))
        for kind, count in kind_counts.items():
            path = self._paths[kind]
            row[kind] -= scale * count * _compute_node_distance(path.numa, path.numa)
            for other in self._kinds_by_complex[path.path[:1]] if path.path else ():
                if other != kind:
                    other_path = self._paths[other]
                    saving = _compute_node_distance(path.numa, other_path.numa) - compute_pcie_distance(
                        path, other_path
                    )
                    row[other] -= scale * count * saving


class _LinkLevel(_Level):
    """The distance of a pair by its links. A pair without a link is farther than any link."""

    def __init__(self, ends: Sequence[LinkDistances]) -> None:
        linked_ends = [end for end in ends if end.distances]
        self._min_distance = min((end.min_distance for end in linked_ends), default=0)
        self._unlinked_distance = max((end.max_distance for end in linked_ends), default=-1) + 1
        super().__init__([0] * len(ends), self._unlinked_distance - self._min_distance if linked_ends else 0)
        self._ends = ends
        self._names = [end.name for end in ends]

    def add_pair_costs(self, kind_counts: Mapping[int, int], scale: int, row: list[int]) -> None:
        unlinked_distance = self._unlinked_distance
        step = 1 + len(kind_counts) * len(row) // _LINKS_LIMIT  # of very many kinds, one in `step` represents all
        for kind, count in islice(kind_counts.items(), 0, None, step):
            name, distances = self._ends[kind].name, self._ends[kind].distances
            costs = [distances.get(other, unlinked_distance) for other in self._names]
            if name is not None:  # a link that only the other side reports counts too
                reverse_costs = [other.distances.get(name, unlinked_distance) for other in self._ends]
                costs = list(map(min, costs, reverse_costs))
            factor = scale * count * step
            costs[kind] = self._min_distance
            row[:] = [
                cost + factor * (distance - self._min_distance) for cost, distance in zip(row, costs, strict=True)
            ]


def generalize_affinity(affinity: Affinity) -> Affinity:
    """Return the part of an affinity that is equal for all devices of a kind: functions below one bridge are alike."""
    if not isinstance(affinity, PciePath) or len(affinity.path) < 2:
        return affinity
    *above, last_step = affinity.path
    return PciePath((*above, last_step.rpartition(".")[0] if _is_complex(above[-1]) else ""), affinity.numa)


def compute_pcie_distance(path_a: PciePath, path_b: PciePath) -> int:
    """Return the distance of two devices on PCI Express, from SAME_BOARD to FAR."""
    steps_a, steps_b = path_a.path, path_b.path
    common_count = sum(1 for _ in takewhile(lambda steps: steps[0] == steps[1], zip(steps_a, steps_b, strict=False)))
    if not common_count:
        return _compute_node_distance(path_a.numa, path_b.numa)
    remaining_count = max(len(steps_a), len(steps_b)) - common_count
    is_below_complex = _is_complex(steps_a[common_count - 1])
    if remaining_count == 0:
        return SAME_BOARD
    if remaining_count == 1 and len(steps_a) == len(steps_b):
        is_same_slot = steps_a[-1].rpartition(".")[0] == steps_b[-1].rpartition(".")[0]
        return SAME_BOARD if is_same_slot or not is_below_complex else SAME_COMPLEX
    if is_below_complex:
        return SAME_COMPLEX
    # Two steps: a port of the switch, and the device.
    is_below_switch = common_count > 1 and not _is_complex(steps_a[common_count - 2])
    return SAME_SWITCH if is_below_switch and remaining_count <= 2 else SAME_PORT


def _compute_node_distance(nodes_a: tuple[int, ...], nodes_b: tuple[int, ...]) -> int:
    return FAR if set(nodes_a).isdisjoint(nodes_b) else SAME_NODE


def _is_complex(step: str) -> bool:
    return step.startswith("pci")


def _group_kinds(keys: Sequence[object]) -> Mapping[object, Sequence[int]]:
    """Return the kinds of each key."""
    kinds: dict[object, list[int]] = {}
    for kind, key in enumerate(keys):
        kinds.setdefault(key, []).append(kind)
    return kinds


def _build_levels(rules: Sequence[PreferRule], kinds: Sequence[EqualDevices]) -> Iterator[_Level]:
    yield _Level([int(kind.is_unhealthy) for kind in kinds])
    zero_costs = [0] * len(kinds)
    last_levels: list[_Level] = []
    for n, rule in enumerate(rules):
        affinities = [kind.affinities[n] if n < len(kind.affinities) else None for kind in kinds]
        if not isinstance(rule, WordRule):
            if rule.links is None:
                yield _PcieLevel([value if isinstance(value, PciePath) else PciePath() for value in affinities])
            else:
                yield _LinkLevel(
                    [value if isinstance(value, LinkDistances) else LinkDistances() for value in affinities]
                )
            continue
        if rule.verb == "order":
            ranks = {affinity: rank for rank, affinity in enumerate(sorted(set(affinities), key=_make_order_key))}
            yield _Level([ranks[affinity] for affinity in affinities])
            continue
        keys: list[object] = [(n, i) if affinity is None else affinity for i, affinity in enumerate(affinities)]
        free_counts: dict[object, int] = {}
        for key, kind in zip(keys, kinds, strict=True):
            free_counts[key] = free_counts.get(key, 0) + kind.offered_count
        max_free = max(free_counts.values(), default=0)
        has_several_keys = len(free_counts) > 1 and max_free > 1  # keys with one kind each do not affect pairs
        if rule.verb == "same":
            yield _SameKeyLevel(zero_costs, keys, -1, has_several_keys=has_several_keys)
            last_levels.append(_Level([0 if affinity is None else -free_counts[affinity] for affinity in affinities]))
            continue
        # Taking n devices of a key with f free costs f + (f-1) + …: each by the number that is free at its turn.
        # `balanced` is the opposite of `packed`. An absent value comes last in both.
        sign, base, absent_cost = (-1, 0, max_free + 1) if rule.verb == "packed" else (1, max_free, max_free)
        own_costs = [
            absent_cost if affinity is None else base - sign * free_counts[key]
            for key, affinity in zip(keys, affinities, strict=True)
        ]
        yield _SameKeyLevel(own_costs, keys, sign, has_several_keys=has_several_keys)
        yield _SameKeyLevel(zero_costs, keys, sign, has_several_keys=has_several_keys)
    yield from last_levels


def _make_order_key(affinity: Affinity) -> tuple[int, str]:
    if affinity is None:
        return 1, ""
    elements = affinity if isinstance(affinity, tuple) else (affinity,)
    return 0, make_sort_key(" ".join(format_scalar(element) for element in elements if isinstance(element, (str, int))))
