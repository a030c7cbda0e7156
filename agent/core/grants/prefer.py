"""Choose the preferred IDs for a container. Never fails, and does not depend on the input order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import add

from agent.core.entry.prefer import PreferRule
from agent.core.entry.resource_spec import Limit, ResourceSpec
from agent.core.grants.choose import Costs, choose, is_exact
from agent.core.grants.preference_costs import EqualDevices, PreferenceCosts, generalize_affinity
from agent.core.inventory.affinity import Affinity
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import DeviceList, Health, split_share
from agent.core.language.value import make_sort_key
from agent.core.struct import Struct

NO_LIMIT = Limit()


class ChoicePool:
    """The device list of a resource, prepared once for many choices.

    ids: in list order, which is natural order. positions: the position of each ID. device_numbers: the number of the
    device of each ID. affinities: the values by which rules rank each device. unhealthy_flags: the device is not
    Healthy. kinds: equal for devices that every rule treats alike.
    """

    def __init__(
        self,
        device_list: DeviceList,
        rules: Sequence[PreferRule] = (),
        affinities: Mapping[str, tuple[Affinity, ...]] | None = None,
    ) -> None:
        """`affinities`: by the key of each device, one for each of the rules."""
        self.device_list = device_list
        self.rules = tuple(rules)
        self.affinities = [(affinities or {}).get(device.key, ()) for device in device_list.devices]
        self.unhealthy_flags = [device.health is not Health.HEALTHY for device in device_list.devices]
        # A device without the word of a rule is like no other.
        self.kinds: list[Hashable] = [
            (n if None in values else tuple(map(generalize_affinity, values)), is_unhealthy)
            for n, (values, is_unhealthy) in enumerate(zip(self.affinities, self.unhealthy_flags, strict=True))
        ]
        self.ids = [id for device in device_list.devices for id in device.list_ids()]  # noqa: A001  the API's own word
        self.positions = {id: n for n, id in enumerate(self.ids)}  # noqa: A001
        self.device_numbers = [n for n, device in enumerate(device_list.devices) for _ in range(len(device))]


def build_choice_pool(
    device_list: DeviceList,
    spec: ResourceSpec | None,
    candidates: Mapping[str, Candidate],
    specs: Sequence[ResourceSpec],
) -> ChoicePool:
    """Return the choice pool of a device list, with the affinities of the candidates."""
    if spec is None or not spec.prefer:
        return ChoicePool(device_list)
    affinities: dict[str, tuple[Affinity, ...]] = {}
    for device in device_list.devices:
        if (candidate := candidates.get(device.key)) is not None:
            values, entry_rules = candidate.affinities, specs[candidate.entry].prefer
            if entry_rules != spec.prefer:  # the device is of an entry that adds to the resource
                values = tuple(values[entry_rules.index(rule)] if rule in entry_rules else None for rule in spec.prefer)
            affinities[device.key] = values
    return ChoicePool(device_list, spec.prefer, affinities)


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
    devices = _group_by_device(sorted(map(positions.__getitem__, offered_ids)), chosen, names, pool)
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


class _OfferedDevice(Struct):
    """A device with available IDs.

    number: its number in the list, or None if the list no longer contains it. free_positions: the list positions of its
    other IDs, in order. forced_count: the number of its IDs that must be included.
    """

    number: int | None
    free_positions: Sequence[int]
    forced_count: int


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


def _group_by_device(
    positions: Sequence[int], chosen: set[int], names: Sequence[str], pool: ChoicePool
) -> list[_OfferedDevice]:
    """Return the available devices in list order, then those that the list no longer contains."""
    groups: dict[Hashable, list[int]] = {}
    listed_count = len(pool.ids)
    for position in positions:
        is_listed = position < listed_count
        groups.setdefault(pool.device_numbers[position] if is_listed else split_share(names[position])[0], []).append(
            position
        )
    devices: list[_OfferedDevice] = []
    for key, group in groups.items():
        free_positions = [position for position in group if position not in chosen] if chosen else group
        number = key if isinstance(key, int) else None
        devices.append(_OfferedDevice(number, free_positions, len(group) - len(free_positions)))
    return devices


def _choose_counts(
    devices: Sequence[_OfferedDevice], capacities: Sequence[int], missing_count: int, size: int, pool: ChoicePool
) -> Sequence[int]:
    """Return the number of IDs to take of each device, without those that must be included."""
    groups_by_kind: dict[Hashable, list[int]] = {}
    has_all_choices = is_exact(capacities, missing_count)
    for n, device in enumerate(devices):
        is_alone = has_all_choices or device.number is None
        groups_by_kind.setdefault(n if is_alone else pool.kinds[device.number or 0], []).append(n)
    groups = list(groups_by_kind.values())
    kinds = []
    forced_counts: dict[int, int] = {}
    for kind, group in enumerate(groups):
        if forced_count := sum(devices[n].forced_count for n in group):
            forced_counts[kind] = forced_count
        capacity = sum(capacities[n] for n in group)
        offered_count = sum(len(devices[n].free_positions) for n in group) + forced_count
        number = devices[group[0]].number
        if number is None:
            kinds.append(EqualDevices((), capacity, offered_count, is_unhealthy=True))
        else:
            kinds.append(EqualDevices(pool.affinities[number], capacity, offered_count, pool.unhealthy_flags[number]))
    costs = PreferenceCosts(pool.rules, kinds, size)
    own_costs = list(map(add, costs.own_costs, costs.compute_group_costs(forced_counts)))
    kind_counts = choose(Costs([kind.capacity for kind in kinds], own_costs, costs.compute_pair_costs), missing_count)
    counts = [0] * len(devices)
    for group, kind_count in zip(groups, kind_counts, strict=True):
        remaining_count = kind_count
        for n in group if remaining_count else ():
            counts[n] = min(remaining_count, capacities[n])
            remaining_count -= counts[n]
    return counts
