"""Choose the preferred IDs for a container. Never fails, and does not depend on the input order."""

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
    """Return `size` IDs in list order: all of `must_include`, then those that the rules prefer, within the limit.

    If no rule decides, the first in list order win. The result is empty if this is impossible: too few IDs are
    available, too many must be included, or one of them is not available.
    """
    offered_ids = set(available)
    forced_ids = set(must_include)
    if not forced_ids <= offered_ids or not len(forced_ids) <= size <= len(offered_ids):
        return ()
    if limit.per_container is not None and size > limit.per_container:
        return ()
    names, positions = _map_names(offered_ids, pool)
    chosen = set(map(positions.__getitem__, forced_ids))
    devices = _build_offered_devices(sorted(map(positions.__getitem__, offered_ids)), chosen, names, pool)
    capacities = [len(device.free_positions) for device in devices]
    if limit.distinct:
        if any(device.forced_count > 1 for device in devices):
            return ()
        capacities = [
            min(capacity, 1 - device.forced_count) for capacity, device in zip(capacities, devices, strict=True)
        ]
    missing_count = size - len(forced_ids)
    if sum(capacities) < missing_count:
        return ()
    if missing_count:
        counts = (
            capacities
            if sum(capacities) == missing_count
            else _choose_counts(devices, capacities, missing_count, size, pool)
        )
        chosen.update(*(device.free_positions[:count] for device, count in zip(devices, counts, strict=True)))
    return tuple(map(names.__getitem__, sorted(chosen)))


class _OfferedDevice(NamedTuple):
    """A device with available IDs.

    number: its number in the list, or None if the list no longer contains it. free_positions: the list positions of its
    other IDs, in order. forced_count: the number of its IDs that must be included. kind_number: equal for devices that
    every rule treats alike.
    """

    number: int | None
    free_positions: Sequence[int]
    forced_count: int
    kind_number: int


def _map_names(offered_ids: set[str], pool: ChoicePool) -> tuple[Sequence[str], Mapping[str, int]]:
    """Return all IDs and their positions: first those of the list, then those that the list no longer contains."""
    if offered_ids <= pool.positions.keys():
        return pool.ids, pool.positions
    unlisted_names = sorted(
        offered_ids - pool.positions.keys(),
        key=lambda name: (make_sort_key(split_share(name)[0][0]), make_sort_key(name)),
    )
    names = [*pool.ids, *unlisted_names]
    return names, {name: position for position, name in enumerate(names)}


def _build_offered_devices(
    positions: Sequence[int], chosen: set[int], names: Sequence[str], pool: ChoicePool
) -> list[_OfferedDevice]:
    """Return the available devices in list order, then those that the list no longer contains."""
    devices: list[_OfferedDevice] = []
    start, has_single_ids = 0, len(pool.ends) == len(pool.ids)
    while start < len(positions):
        first_position = positions[start]
        if first_position >= len(pool.ids):
            break
        number = first_position if has_single_ids else bisect_right(pool.ends, first_position)
        end = start + 1 if has_single_ids else bisect_left(positions, pool.ends[number], start)
        devices.append(_make_offered_device(number, positions[start:end], chosen, pool.kind_numbers[number]))
        start = end
    unlisted: dict[ShareBase, list[int]] = {}
    for position in positions[start:]:
        unlisted.setdefault(split_share(names[position])[0], []).append(position)
    return devices + [
        _make_offered_device(None, device_positions, chosen, -1 - n)
        for n, device_positions in enumerate(unlisted.values())
    ]


def _make_offered_device(
    number: int | None, positions: Sequence[int], chosen: set[int], kind_number: int
) -> _OfferedDevice:
    if chosen and not chosen.isdisjoint(positions):
        free_positions = [position for position in positions if position not in chosen]
        return _OfferedDevice(number, free_positions, len(positions) - len(free_positions), kind_number)
    return _OfferedDevice(number, positions, 0, kind_number)


def _choose_counts(
    devices: Sequence[_OfferedDevice], capacities: Sequence[int], missing_count: int, size: int, pool: ChoicePool
) -> Sequence[int]:
    """Return the number of IDs to take of each device, without those that must be included."""
    groups = [[n] for n in range(len(devices))] if is_exact(capacities, missing_count) else _group_by_kind(devices)
    kinds = []
    forced_counts: dict[int, int] = {}
    for kind, group in enumerate(groups):
        capacity = free_count = forced_count = 0
        for n in group:
            capacity += capacities[n]
            free_count += len(devices[n].free_positions)
            forced_count += devices[n].forced_count
        if forced_count:
            forced_counts[kind] = forced_count
        device_number = devices[group[0]].number
        if device_number is None:
            kinds.append(EqualDevices((), capacity, free_count + forced_count, is_unhealthy=True))
        else:
            kinds.append(
                EqualDevices(
                    pool.affinities[device_number],
                    capacity,
                    free_count + forced_count,
                    pool.unhealthy_flags[device_number],
                )
            )
    costs = PreferenceCosts(pool.rules, kinds, size)
    own_costs = (
        list(map(add, costs.own_costs, costs.compute_group_costs(forced_counts))) if forced_counts else costs.own_costs
    )
    counts = [0] * len(devices)
    for kind, number in enumerate(
        choose(Costs([kind.capacity for kind in kinds], own_costs, costs.compute_pair_costs), missing_count)
    ):
        remaining_count = number
        for n in groups[kind] if remaining_count else ():
            counts[n] = min(remaining_count, capacities[n])
            remaining_count -= counts[n]
    return counts


def _group_by_kind(devices: Sequence[_OfferedDevice]) -> list[list[int]]:
    """Return groups of devices that every rule treats alike, in the order of the first of each group."""
    groups: dict[int, list[int]] = {}
    for n, device in enumerate(devices):
        groups.setdefault(device.kind_number, []).append(n)
    return list(groups.values())
