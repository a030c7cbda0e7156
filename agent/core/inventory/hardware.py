"""Hardware identity: whether two host devices are one under different names, now or before a restart.

A device node alone does not identify hardware: udev names and links it, drivers number it again, and it can be made
again. So its location below /sys/devices counts. Without a location there, its type and number count. For all other
sources the device key counts.
"""

from __future__ import annotations

import re
from typing import Protocol

from agent.core.struct import Struct

_NUMBER = re.compile(r"[bc][0-9]+:[0-9]+")
_NODE_PREFIX = "node:"  # the prefix of node locations that come from sysfs


class ObservedDevice(Protocol):
    """The recorded fields of one host device, as in `HostDevice`."""

    @property
    def location(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def instance_id(self) -> str: ...


class Hardware(Struct):
    """The values that identify one host device.

    location: the location of a device node, without the numbers that the kernel assigns. Empty if it is unknown.
    node_number: type and number of the node. Empty for other devices, and for a node recorded before a reboot.
    """

    key: str
    location: str = ""
    node_number: str = ""

    def may_equal(self, other: Hardware) -> bool:
        """Return whether no value shows that two device nodes are different."""
        if self.location and other.location:
            return self.location == other.location
        return not (self.node_number and other.node_number) or self.node_number == other.node_number

    @property
    def unique_ids(self) -> tuple[str, ...]:
        """The values that only one device has at a time.

        The node number is one of them, because a container can use any node with this number.
        """
        return (self.key, self.node_number) if self.node_number else (self.key,)


def identify_hardware(device: ObservedDevice) -> Hardware:
    """Return the values that identify a host device."""
    if not is_device_node(device):
        return Hardware(device.key)
    number = device.instance_id.partition(" ")[0]
    location = device.location if device.location.startswith(_NODE_PREFIX) else ""
    return Hardware(device.key, location, number if _NUMBER.fullmatch(number) else "")


def is_device_node(device: ObservedDevice) -> bool:
    """Return whether the source `node` found the device. Its names are paths of device nodes."""
    return device.location.startswith((_NODE_PREFIX, "/"))


def get_key_without_number(device: ObservedDevice) -> str:
    """Return the device key, or the location if the key is a node number.

    A location is no key of any device.
    """
    return device.location if device.key.startswith(_NODE_PREFIX) else device.key
