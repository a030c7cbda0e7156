"""Expecting: which entries have fewer devices than they should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.inventory import Inventory
from agent.core.lists.build_lists import DeviceLists


def find_missing_devices(specs: Sequence[ResourceSpec], inventory: Inventory, lists: DeviceLists) -> Mapping[str, str]:
    """What there is, in words, of each entry that has fewer devices on the host than it expects; by name as written."""
    missing: dict[str, str] = {}
    for spec in specs:
        if spec.expect is None or spec.is_addition:
            continue
        there = _given(spec, inventory) if spec.slots else _listed(spec, lists)
        if there < spec.expect:
            missing[spec.name] = f"{there} of {spec.expect} expected device{'s' * (spec.expect != 1)}"
    return missing


def _listed(spec: ResourceSpec, assembly: DeviceLists) -> int:
    names = [name for name, written in assembly.written_names.items() if (written or name) == spec.name]
    devices = (device for name in names if name in assembly.lists for device in assembly.lists[name].devices)
    return len({device.key for device in devices if device.absent_since is None})


def _given(spec: ResourceSpec, look: Inventory) -> int:
    return sum(
        len(found) for (name, text), found in look.get_resource_candidates().items() if (text or name) == spec.name
    )
