"""Hardware: whether two host devices are one, whatever names lead to them, now or before a restart.

A device node says little of itself: udev names and links it, drivers number it anew, and it is made again. So it is
where it sits below /sys/devices; without a place there, its type and number. Of all other sources the key says it.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

_NUMBER = re.compile(r"[bc][0-9]+:[0-9]+")
_NODE_PREFIX = "node:"  # how the place of a node begins that sysfs tells


class ObservedDevice(Protocol):
    """What was seen of one host device; fields as of `HostDevice`."""

    @property
    def location(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def instance_id(self) -> str: ...


class Hardware(NamedTuple):
    """What tells one host device from others.

    seat: where a device node sits, without the numbers that the kernel deals; empty where nothing says it.
    number: type and number of that node; empty of what is no node, and of one that was seen before a reboot.
    """

    key: str
    location: str = ""
    node_number: str = ""

    def may_equal(self, other: Hardware) -> bool:
        """Whether nothing says that two device nodes are two devices."""
        if self.location and other.location:
            return self.location == other.location
        return not (self.node_number and other.node_number) or self.node_number == other.node_number

    @property
    def unique_ids(self) -> tuple[str, ...]:
        """What only one device has at a time. The number is one: a container may use whatever has it."""
        return (self.key, self.node_number) if self.node_number else (self.key,)


def identify_hardware(device: ObservedDevice) -> Hardware:
    """What tells this host device from others."""
    if not is_device_node(device):
        return Hardware(device.key)
    number = device.instance_id.partition(" ")[0]
    location = device.location if device.location.startswith(_NODE_PREFIX) else ""
    return Hardware(device.key, location, number if _NUMBER.fullmatch(number) else "")


def is_device_node(device: ObservedDevice) -> bool:
    """Whether source `node` saw it, whose names are those of device nodes."""
    return device.location.startswith((_NODE_PREFIX, "/"))


def get_key_without_number(device: ObservedDevice) -> str:
    """The key, unless it is the number of a node: then the path, which is no key of any device."""
    return device.location if device.key.startswith(_NODE_PREFIX) else device.key
