"""What is requested: from ids of the kubelet's to devices and the shares of each."""

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
    """The devices that ids mean with the shares asked of each, in list order; the order of `ids` makes no difference.

    since: says since when a device of a resource has the health it has, behind a blank; nothing if that is not known.

    Raises:
        Refused: an id that is not listed, or, where only `healthy` ones may be asked for, that is not Healthy.
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
