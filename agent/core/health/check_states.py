"""The conditions of all checks of all devices; `conclude` steps them, and `memory` says what outlasts the agent.

A condition belongs to a place of an entry: when a device comes back it is as ill as it was, and a latch holds for
whatever stands there until a person clears it. While the device is there it is found by its key, for two
devices can be in one place (the nodes of a camera).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import NamedTuple, TypeAlias, TypeVar

from agent.core.health.check_state import CheckState
from agent.core.struct import Struct, field, replace

DUE_LIMIT = 256  # devices that are looked at in one look because their time has come

T = TypeVar("T")

CheckMap: TypeAlias = Mapping[str, Mapping[str, Mapping[str, T]]]  # by entry, place and check
FailureMap: TypeAlias = CheckMap[str]


class DeviceRef(NamedTuple):
    """A device of an entry: by its key while it is there, by its place when it has left."""

    entry: str
    key_or_location: str


class DeviceCheckStates(Struct):
    """The conditions of one device, by check."""

    location: str
    check_states: Mapping[str, CheckState]


class CheckStates(Struct):
    """All of them, after a look.

    there: of devices that are there. left: of those that left while something failed.
    due: when one is to be looked at again without an event.
    well: where all was well when the last life ended; the first look is the next one at these, and no beginning.
    """

    present_devices: Mapping[DeviceRef, DeviceCheckStates] = field(default_factory=dict)
    absent_devices: Mapping[DeviceRef, DeviceCheckStates] = field(default_factory=dict)
    due_times: Mapping[DeviceRef, float] = field(default_factory=dict)
    healthy_refs: frozenset[DeviceRef] = frozenset()

    @property
    def next_at(self) -> float | None:
        """When the first device is to be looked at again."""
        return min(self.due_times.values(), default=None)

    def find_due_keys(self, current_time: float) -> frozenset[str]:
        """The keys of devices that are to be looked at now, not more than one look should hold up others for.

        What waits longest comes first, the rest at the next look; from then on they are due at different times.
        """
        due_items = sorted(
            (due_time, device_ref.key_or_location)
            for device_ref, due_time in self.due_times.items()
            if due_time <= current_time
        )
        return frozenset(islice(dict.fromkeys(key for _, key in due_items), DUE_LIMIT))

    def find_undecided_keys(self) -> frozenset[str]:
        """The keys of the devices of which another look counts that says the same: one of their checks may turn."""
        return frozenset(
            device_ref.key_or_location
            for device_ref, device in self.present_devices.items()
            if any(state.failing or state.since is not None for state in device.check_states.values())
        )

    def list_failures(self) -> FailureMap:
        """What fails, and why."""
        devices = [
            *self.absent_devices.items(),
            *(
                (DeviceRef(device_ref.entry, device.location), device)
                for device_ref, device in self.present_devices.items()
            ),
        ]
        failures: dict[str, dict[str, dict[str, str]]] = {}
        for location_ref, device in devices:
            for check, state in device.check_states.items():
                if state.failing:
                    failures.setdefault(location_ref.entry, {}).setdefault(location_ref.key_or_location, {})[check] = (
                        state.reason
                    )
        return failures

    def clear_checks(
        self, is_selected: Callable[[DeviceRef, DeviceCheckStates], bool], check: str | None, last_line: int = -1
    ) -> tuple[CheckStates, frozenset[str]]:
        """These without what a person clears, and the names of the checks that are cleared.

        concerns: whether it is about a device. check: the one check; None for all of them. upto: the last line that
        was read of the kernel log.
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
