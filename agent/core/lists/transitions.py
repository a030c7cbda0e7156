"""Transitions: the changes between two lists, one line each for people."""

from __future__ import annotations

from collections.abc import Iterator

from agent.core.changes import find_changed_objects
from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.struct import Struct

BLIP_REASON = "gone and back between two looks: who had it open has it no more"
MAX_TRANSITION_LINES = 10  # if one resource has more changes at once, they are one line


class Transition(Struct):
    """The change of the health of a device. `old_health` is None for a new device, `new_health` for a removed one.

    From Healthy to Healthy it is a blip: other hardware is there now.

    check: the check that fails now. Empty if the health does not depend on a check.
    """

    resource: str
    id: str
    old_health: Health | None
    new_health: Health | None
    reason: str
    location: str = ""
    key: str = ""
    check: str = ""

    @property
    def is_blip(self) -> bool:
        """Return whether the device was absent for so short a time that no list shows it."""
        return self.old_health is self.new_health is Health.HEALTHY

    def __str__(self) -> str:
        """Return `resource id: old → new: reason`."""
        old_text = self.old_health.value if self.old_health else "new"
        new_text = self.new_health.value if self.new_health else "gone"
        return f"{self.resource} {self.id}: {old_text} → {new_text}" + (f": {self.reason}" if self.reason else "")


class TransitionRecord(Struct):
    """A recorded transition: time (monotonic seconds), both healths, reason, and check."""

    time: float
    old_health: Health | None
    new_health: Health | None
    reason: str
    check: str = ""


def find_transitions(old_list: DeviceList, new_list: DeviceList) -> Iterator[Transition]:
    """Yield the transitions of one resource, in list order. Unchanged devices give none."""
    old_devices, new_devices = find_changed_objects(old_list.devices, new_list.devices)
    remaining_devices = {_make_key(device): device for device in old_devices}
    for device in new_devices:
        at = device.location, device.key
        reason, check = str(device.reason), device.reason.check
        old_device = remaining_devices.pop(_make_key(device), None)
        if old_device is None:
            yield Transition(new_list.resource, device.id, None, device.health, reason, *at, check)
        elif old_device.health is not device.health:
            reason = reason or f"back, was: {old_device.reason}"
            yield Transition(new_list.resource, device.id, old_device.health, device.health, reason, *at, check)
        elif device.health is Health.HEALTHY:
            if _is_replaced(old_device, device):
                yield Transition(new_list.resource, device.id, old_device.health, device.health, BLIP_REASON, *at)
        elif old_device.reason != device.reason:
            yield Transition(new_list.resource, device.id, old_device.health, device.health, reason, *at, check)
    for device in remaining_devices.values():
        at = device.location, device.key
        yield Transition(new_list.resource, device.id, device.health, None, "no pod can hold it", *at)


def _is_replaced(old_device: Device, new_device: Device) -> bool:
    """Return whether other hardware is at the location of the device or of a member.

    A device that was in a pod may have another instance id and is still the same.
    """
    if old_device.moved_words or new_device.moved_words:
        return False
    old_instances = {member.location: member.instance_id for member in old_device.members} or {
        old_device.location: old_device.instance_id
    }
    new_instances = {member.location: member.instance_id for member in new_device.members} or {
        new_device.location: new_device.instance_id
    }
    return any(
        instance_id and new_instances.get(location, instance_id) not in {instance_id, ""}
        for location, instance_id in old_instances.items()
    )


def _make_key(device: Device) -> tuple[str, bool, int]:
    return device.id, device.shares is None, device.first_share
