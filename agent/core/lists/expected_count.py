"""Expecting: which entries have fewer devices than they should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.inventory import Inventory
from agent.core.lists.build_lists import DeviceLists


def find_missing_devices(specs: Sequence[ResourceSpec], look: Inventory, assembly: DeviceLists) -> Mapping[str, str]:
    """What there is, in words, of each entry that has fewer devices on the host than it expects; by name as written."""
    missing: dict[str, str] = {}
    for spec in specs:
        if spec.expect is None or spec.is_addition:
            continue
        there = _given(spec, look) if spec.slots else _listed(spec, assembly)
        if there < spec.expect:
            missing[spec.name] = f"{there} of {spec.expect} expected device{'s' * (spec.expect != 1)}"
    return missing


def _listed(spec: ResourceSpec, assembly: DeviceLists) -> int:
    names = [name for name, written in assembly.written.items() if (written or name) == spec.name]
    devices = (device for name in names if name in assembly.snapshots for device in assembly.snapshots[name].devices)
    return len({device.key for device in devices if device.gone_since is None})


def _given(spec: ResourceSpec, look: Inventory) -> int:
    return sum(len(found) for (name, text), found in look.candidates().items() if (text or name) == spec.name)
