"""Parse the IDs of an Allocate request: devices and the requested shares of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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
    for id in ids:  # noqa: A001  the API's own word
        share_of_device = device_list.find_device(id)
        if share_of_device is None:
            raise GrantRefusedError(
                RefusalCause.UNKNOWN_ID,
                f"{device_list.resource}: no device {id!r} is listed",
                device=split_share(id)[0][0],
            )
        device, share = share_of_device
        if healthy and device.health is not Health.HEALTHY:
            since_text = format_since(device_list.resource, device.id)
            text = f"{device_list.resource} {device.id}: Unhealthy{since_text}: {device.reason}"
            raise GrantRefusedError(RefusalCause.UNHEALTHY, text, device=device.id)
        shares.setdefault(device, []).extend(() if share is None else (share,))
    return {device: tuple(sorted(shares[device])) for device in sorted(shares, key=make_list_sort_key)}
