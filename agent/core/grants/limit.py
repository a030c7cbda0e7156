"""Limits: what of a resource one container may have together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.core.entry.resource_spec import Limit
from agent.core.inventory.device import Device


def exceeded(limit: Limit, asked: Mapping[Device, Sequence[int]], count: int) -> str:
    """Why so many ids, shares of these devices, are too much for one container; empty if they are not."""
    if limit.per_container is not None and count > limit.per_container:
        return f"a container may have {limit.per_container} of these at most (limit.per_container), not {count}"
    if limit.distinct:
        for device, shares in asked.items():
            if len(shares) > 1:
                return f"{device.id}: a container may have one share of a device (limit.distinct), not {len(shares)}"
    return ""
