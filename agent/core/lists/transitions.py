"""Transitions: what changed between two lists, as people want to read it, one line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from operator import is_
from typing import NamedTuple

from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.struct import Struct

BLIP_REASON = "gone and back between two looks: who had it open has it no more"
MAX_TRANSITION_LINES = 10  # more changes of one resource at once than this are one line


class Transition(Struct):
    """A device's way from one health to another; `old` is None for a new device, `new` for one that left.

    From Healthy to Healthy it is a blip: what is there now is not what was there.

    check: the check that fails now; empty if the health does not follow from a check.
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
        """Whether it was gone for so short a time that no list says so."""
        return self.old_health is self.new_health is Health.HEALTHY

    def __str__(self) -> str:
        """`resource id: old → new: reason`."""
        old = self.old_health.value if self.old_health else "new"
        new = self.new_health.value if self.new_health else "gone"
        return f"{self.resource} {self.id}: {old} → {new}" + (f": {self.reason}" if self.reason else "")


class TransitionRecord(NamedTuple):
    """A transition as it is remembered: when (monotonic seconds), from what to what, why, and by which check."""

    time: float
    old_health: Health | None
    new_health: Health | None
    reason: str
    check: str = ""


def find_transitions(before: DeviceList, after: DeviceList) -> Iterator[Transition]:
    """The transitions of one resource, in list order; unchanged devices give none."""
    former, later = _differing(before.devices, after.devices)
    same = set(map(id, former)).intersection(map(id, later))
    old = {_key(device): device for device in former if id(device) not in same}
    for device in later:
        if id(device) in same:
            continue
        at = device.location, device.key
        reason, check = str(device.reason), device.reason.check
        known = old.pop(_key(device), None)
        if known is None:
            yield Transition(after.resource, device.id, None, device.health, reason, *at, check)
        elif known.health is not device.health:
            reason = reason or f"back, was: {known.reason}"
            yield Transition(after.resource, device.id, known.health, device.health, reason, *at, check)
        elif device.health is Health.HEALTHY:
            if _replaced(known, device):
                yield Transition(after.resource, device.id, known.health, device.health, BLIP_REASON, *at)
        elif known.reason != device.reason:
            yield Transition(after.resource, device.id, known.health, device.health, reason, *at, check)
    for device in old.values():
        at = device.location, device.key
        yield Transition(after.resource, device.id, device.health, None, "no pod can hold it", *at)


def _replaced(before: Device, after: Device) -> bool:
    """Whether another thing stands where it or a part of it was. What was in a pod is not what it was, and the same."""
    if before.moved_words or after.moved_words:
        return False
    parts = {member.location: member.instance_id for member in before.members} or {before.location: before.instance_id}
    now = {member.location: member.instance_id for member in after.members} or {after.location: after.instance_id}
    return any(stamp and now.get(place, stamp) not in {stamp, ""} for place, stamp in parts.items())


def _differing(before: Sequence[Device], after: Sequence[Device]) -> tuple[Sequence[Device], Sequence[Device]]:
    """Both without what they begin and end with alike."""
    first = sum(takewhile(bool, map(is_, before, after)))
    before, after = before[first:], after[first:]
    last = sum(takewhile(bool, map(is_, reversed(before), reversed(after))))
    return before[: len(before) - last], after[: len(after) - last]


def _key(device: Device) -> tuple[str, bool, int]:
    return device.id, device.shares is None, device.first_share
