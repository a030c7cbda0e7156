"""States of all checks of all devices.

A state belongs to a location of an entry: a device that returns has the same failures, and a latch applies to any
device at the location until an administrator clears it. A present device is found by its key, because two devices can
have one location (the nodes of a camera).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import NamedTuple, TypeAlias, TypeVar

from agent.core.entry.check_state import CheckState
from agent.core.struct import Struct, field, replace

DUE_LIMIT = 256  # devices that are looked at in one look because their time has come

T = TypeVar("T")

CheckMap: TypeAlias = Mapping[str, Mapping[str, Mapping[str, T]]]  # by entry, location and check


class DeviceRef(NamedTuple):
    """A device of an entry: by its key while it is present, by its location while it is absent."""

    entry: str
    key_or_location: str


class DeviceCheckStates(Struct):
    """The check states of one device, by check name."""

    location: str
    check_states: Mapping[str, CheckState]


class CheckStates(Struct):
    """The states of all checks after a look.

    present_devices: states of present devices. absent_devices: states of devices that left while a check failed.
    due_times: monotonic seconds of the next look that needs no event, by device.
    healthy_refs: locations that were healthy when the last agent process ended. For these, the first look continues the
        old row.
    """

    present_devices: Mapping[DeviceRef, DeviceCheckStates] = field(default_factory=dict)
    absent_devices: Mapping[DeviceRef, DeviceCheckStates] = field(default_factory=dict)
    due_times: Mapping[DeviceRef, float] = field(default_factory=dict)
    healthy_refs: frozenset[DeviceRef] = frozenset()

    @property
    def next_at(self) -> float | None:
        """The time of the first due look, in monotonic seconds; None if no look is due."""
        return min(self.due_times.values(), default=None)

    def find_due_keys(self, current_time: float) -> frozenset[str]:
        """Return the keys of devices that are due, at most `DUE_LIMIT` of them.

        The longest due devices come first. The others follow at the next look; from then on their times differ.
        """
        due_items = sorted(
            (due_time, device_ref.key_or_location)
            for device_ref, due_time in self.due_times.items()
            if due_time <= current_time
        )
        return frozenset(islice(dict.fromkeys(key for _, key in due_items), DUE_LIMIT))

    def find_undecided_keys(self) -> frozenset[str]:
        """Return the keys of devices for which an equal result still counts, because a check can change."""
        return frozenset(
            device_ref.key_or_location
            for device_ref, device in self.present_devices.items()
            if any(state.failing or state.since is not None for state in device.check_states.values())
        )

    def clear_checks(
        self, is_selected: Callable[[DeviceRef, DeviceCheckStates], bool], check: str | None, last_line: int = -1
    ) -> tuple[CheckStates, frozenset[str]]:
        """Return the states after an administrator cleared checks, and the names of the cleared checks.

        is_selected: returns whether a device is to be cleared. check: the name of the check; None for all checks.
        last_line: the number of the last kernel log line that was read.
        """
        names: set[str] = set()

        def clear(devices: Mapping[DeviceRef, DeviceCheckStates]) -> dict[DeviceRef, DeviceCheckStates]:
            cleared_devices = {**devices}
            for device_ref, device in devices.items():
                failing_names = {
                    name for name, state in device.check_states.items() if state.failing and check in (None, name)
                }
                if failing_names and is_selected(device_ref, device):
                    cleared_state = CheckState(cleared_line=last_line)
                    check_states = {
                        name: cleared_state if name in failing_names else state
                        for name, state in device.check_states.items()
                    }
                    cleared_devices[device_ref] = replace(device, check_states=check_states)
                    names.update(failing_names)
            return cleared_devices

        return replace(
            self, present_devices=clear(self.present_devices), absent_devices=clear(self.absent_devices)
        ), frozenset(names)
