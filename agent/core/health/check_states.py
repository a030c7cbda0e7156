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

    def find_due_keys(self, now: float) -> frozenset[str]:
        """The keys of devices that are to be looked at now, not more than one look should hold up others for.

        What waits longest comes first, the rest at the next look; from then on they are due at different times.
        """
        late = sorted((at, spot.key_or_location) for spot, at in self.due_times.items() if at <= now)
        return frozenset(islice(dict.fromkeys(key for _, key in late), DUE_LIMIT))

    def find_undecided_keys(self) -> frozenset[str]:
        """The keys of the devices of which another look counts that says the same: one of their checks may turn."""
        return frozenset(
            spot.key_or_location
            for spot, ward in self.present_devices.items()
            if any(condition.failing or condition.since is not None for condition in ward.check_states.values())
        )

    def list_failures(self) -> FailureMap:
        """What fails, and why."""
        wards = [
            *self.absent_devices.items(),
            *((DeviceRef(spot.entry, ward.location), ward) for spot, ward in self.present_devices.items()),
        ]
        found: dict[str, dict[str, dict[str, str]]] = {}
        for place, ward in wards:
            for check, condition in ward.check_states.items():
                if condition.failing:
                    found.setdefault(place.entry, {}).setdefault(place.key_or_location, {})[check] = condition.reason
        return found

    def clear_checks(
        self, concerns: Callable[[DeviceRef, DeviceCheckStates], bool], check: str | None, upto: int = -1
    ) -> tuple[CheckStates, frozenset[str]]:
        """These without what a person clears, and the names of the checks that are cleared.

        concerns: whether it is about a device. check: the one check; None for all of them. upto: the last line that
        was read of the kernel log.
        """
        names: set[str] = set()

        def clear(wards: Mapping[DeviceRef, DeviceCheckStates]) -> dict[DeviceRef, DeviceCheckStates]:
            kept = {**wards}
            for spot, ward in wards.items():
                named = {name for name, one in ward.check_states.items() if one.failing and check in (None, name)}
                if named and concerns(spot, ward):
                    well = CheckState(cleared_line=upto)
                    healed = {name: well if name in named else one for name, one in ward.check_states.items()}
                    kept[spot] = replace(ward, check_states=healed)
                    names.update(named)
            return kept

        return replace(
            self, present_devices=clear(self.present_devices), absent_devices=clear(self.absent_devices)
        ), frozenset(names)
