"""Limits: the number of IDs of a resource for one container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agent.core.entry.resource_spec import Limit
from agent.core.inventory.device import Device


class Excess(NamedTuple):
    """The reason why a request exceeds a limit. device: the ID of the device; empty if the reason is about all IDs."""

    text: str
    device: str = ""


def find_excess(limit: Limit, shares_by_device: Mapping[Device, Sequence[int]], count: int) -> Excess | None:
    """Return the reason why this number of IDs, shares of these devices, exceeds the limit; None if it does not."""
    if limit.per_container is not None and count > limit.per_container:
        return Excess(f"a container may have {limit.per_container} of these at most (limit.per_container), not {count}")
    if limit.distinct:
        for device, shares in shares_by_device.items():
            if len(shares) > 1:
                text = f"a container may have one share of a device (limit.distinct), not {len(shares)}"
                return Excess(f"{device.id}: {text}", device.id)
    return None
