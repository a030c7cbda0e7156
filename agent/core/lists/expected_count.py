"""Find entries that have fewer devices than `expect` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.inventory import Inventory
from agent.core.lists.build_lists import DeviceLists


def find_missing_devices(specs: Sequence[ResourceSpec], inventory: Inventory, lists: DeviceLists) -> Mapping[str, str]:
    """Return a text about the devices on the host for each entry that expects more, by written name."""
    missing: dict[str, str] = {}
    for spec in specs:
        if spec.expect is None or spec.is_addition:
            continue
        count = _count_candidates(spec, inventory) if spec.slots else _count_listed_devices(spec, lists)
        if count < spec.expect:
            missing[spec.name] = f"{count} of {spec.expect} expected device{'s' * (spec.expect != 1)}"
    return missing


def _count_listed_devices(spec: ResourceSpec, lists: DeviceLists) -> int:
    names = [name for name, written_name in lists.written_names.items() if (written_name or name) == spec.name]
    devices = (device for name in names if name in lists.lists for device in lists.lists[name].devices)
    return len({device.key for device in devices if device.absent_since is None})


def _count_candidates(spec: ResourceSpec, inventory: Inventory) -> int:
    return sum(
        len(candidates)
        for (name, written_name), candidates in inventory.get_resource_candidates().items()
        if (written_name or name) == spec.name
    )
