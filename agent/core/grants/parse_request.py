"""Parse the IDs of an Allocate request: devices and the requested shares of each, within the limit of the entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agent.core.entry.resource_spec import Limit
from agent.core.grants.grant import GrantRefusedError, RefusalCause
from agent.core.inventory.device import Device, DeviceList, Health, make_list_sort_key, split_share


def parse_ids(
    device_list: DeviceList,
    ids: Sequence[str],
    *,
    healthy: bool = True,
    format_since: Callable[[str, str], str] = lambda *_: "",
) -> Mapping[Device, tuple[int, ...]]:
    """Return the devices of the IDs with the requested shares, in list order. The order of `ids` does not matter.

    Args:
        device_list: the list of the resource.
        ids: the requested IDs.
        healthy: only Healthy devices are allowed.
        format_since: returns the start of the current health as text after a blank, or an empty string if unknown.

    Raises:
        GrantRefusedError: an ID is not in the list, or its device is not Healthy.
    """
    shares: dict[Device, list[int]] = {}
    resource = device_list.resource
    for id in ids:  # noqa: A001  the API's own word
        share_of_device = device_list.find_device(id)
        if share_of_device is None:
            text = f"{resource}: no device {id!r} is listed"
            raise GrantRefusedError(RefusalCause.UNKNOWN_ID, text, device=split_share(id)[0][0])
        device, share = share_of_device
        if healthy and device.health is not Health.HEALTHY:
            text = f"{resource} {device.id}: Unhealthy{format_since(resource, device.id)}: {device.reason}"
            raise GrantRefusedError(RefusalCause.UNHEALTHY, text, device=device.id)
        shares.setdefault(device, []).extend(() if share is None else (share,))
    return {device: tuple(sorted(shares[device])) for device in sorted(shares, key=make_list_sort_key)}


def check_limit(resource: str, limit: Limit, shares_by_device: Mapping[Device, Sequence[int]], count: int) -> None:
    """Raise GrantRefusedError if this number of IDs, shares of these devices, exceeds the limit."""
    if limit.per_container is not None and count > limit.per_container:
        text = f"{resource}: a container can have at most {limit.per_container} IDs (limit.per_container), not {count}"
        raise GrantRefusedError(RefusalCause.LIMIT, text)
    for device, shares in shares_by_device.items():
        if limit.distinct and len(shares) > 1:
            text = f"{device.id}: a container can have one share of a device (limit.distinct), not {len(shares)}"
            raise GrantRefusedError(RefusalCause.LIMIT, f"{resource}: {text}", device=device.id)
