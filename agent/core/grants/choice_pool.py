"""The devices to choose from, with the values by which rules prefer them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from agent.core.entry.prefer import PreferRule
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.grants.preference_costs import generalize_affinity
from agent.core.inventory.affinity import Affinity
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import DeviceList, Health


class ChoicePool:
    """The device list of a resource, prepared once for many choices.

    ids: in list order, which is natural order. positions: the position of each ID. ends: the position after the last ID
    of
    each device. affinities: the values by which rules rank each device. unhealthy_flags: the device is not Healthy.
    kind_numbers: equal for devices that every rule treats alike.
    """

    def __init__(
        self,
        device_list: DeviceList,
        rules: Sequence[PreferRule] = (),
        affinities: Mapping[str, tuple[Affinity, ...]] | None = None,
    ) -> None:
        """`traits`: by the key of each device, one for each of the rules."""
        self.device_list = device_list
        self.rules = tuple(rules)
        self.affinities = [(affinities or {}).get(device.key, ()) for device in device_list.devices]
        self.unhealthy_flags = [device.health is not Health.HEALTHY for device in device_list.devices]
        self.kind_numbers = _number_kinds(self.affinities, self.unhealthy_flags)
        self.ids = [id for device in device_list.devices for id in device.list_ids()]  # noqa: A001  the API's own word
        self.positions = {id: n for n, id in enumerate(self.ids)}  # noqa: A001
        self.ends = list(accumulate(map(len, device_list.devices)))


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
        candidate = candidates.get(device.key)
        if candidate is not None:
            entry_rules = specs[candidate.entry].prefer
            ordered_affinities = (
                candidate.affinities
                if entry_rules == spec.prefer
                else _reorder_affinities(spec.prefer, entry_rules, candidate.affinities)
            )
            affinities[device.key] = ordered_affinities
    return ChoicePool(device_list, spec.prefer, affinities)


def _reorder_affinities(
    rules: Sequence[PreferRule], entry_rules: Sequence[PreferRule], affinities: Sequence[Affinity]
) -> tuple[Affinity, ...]:
    """Return the affinities of a device of another entry, in the order of the rules of the resource."""
    return tuple(affinities[entry_rules.index(rule)] if rule in entry_rules else None for rule in rules)


def _number_kinds(affinities: Sequence[tuple[Affinity, ...]], unhealthy_flags: Sequence[bool]) -> list[int]:
    """Return equal numbers for devices that every rule treats alike.

    Devices without the word of a rule are never alike.
    """
    numbers: dict[object, int] = {}
    keys = (
        (n if None in device_affinities else tuple(map(generalize_affinity, device_affinities)), unhealthy_flags[n])
        for n, device_affinities in enumerate(affinities)
    )
    return [numbers.setdefault(key, len(numbers)) for key in keys]
