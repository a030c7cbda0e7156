"""Limits: what of a resource one container may have together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agent.core.entry.resource_spec import Limit
from agent.core.inventory.device import Device


class Excess(NamedTuple):
    """Why a request exceeds a limit. device: the ID of the device that it is about; empty if it is about all."""

    text: str
    device: str = ""


def find_excess(limit: Limit, shares_by_device: Mapping[Device, Sequence[int]], count: int) -> Excess | None:
    """Return why so many ids, shares of these devices, are too much for one container; None if they are not."""
    if limit.per_container is not None and count > limit.per_container:
        return Excess(f"a container may have {limit.per_container} of these at most (limit.per_container), not {count}")
    if limit.distinct:
        for device, shares in shares_by_device.items():
            if len(shares) > 1:
                text = f"a container may have one share of a device (limit.distinct), not {len(shares)}"
                return Excess(f"{device.id}: {text}", device.id)
    return None
