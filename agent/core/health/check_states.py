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

TOGETHER = 256  # devices that are looked at in one look because their time has come

T = TypeVar("T")

By: TypeAlias = Mapping[str, Mapping[str, Mapping[str, T]]]  # by entry, place and check
Failing: TypeAlias = By[str]


class DeviceRef(NamedTuple):
    """A device of an entry: by its key while it is there, by its place when it has left."""

    entry: str
    at: str


class DeviceCheckStates(Struct):
    """The conditions of one device, by check."""

    place: str
    conditions: Mapping[str, CheckState]


class CheckStates(Struct):
    """All of them, after a look.

    there: of devices that are there. left: of those that left while something failed.
    due: when one is to be looked at again without an event.
    well: where all was well when the last life ended; the first look is the next one at these, and no beginning.
    """

    there: Mapping[DeviceRef, DeviceCheckStates] = field(default_factory=dict)
    left: Mapping[DeviceRef, DeviceCheckStates] = field(default_factory=dict)
    due: Mapping[DeviceRef, float] = field(default_factory=dict)
    well: frozenset[DeviceRef] = frozenset()

    @property
    def next_at(self) -> float | None:
        """When the first device is to be looked at again."""
        return min(self.due.values(), default=None)

    def due_at(self, now: float) -> frozenset[str]:
        """The keys of devices that are to be looked at now, not more than one look should hold up others for.

        What waits longest comes first, the rest at the next look; from then on they are due at different times.
        """
        late = sorted((at, spot.at) for spot, at in self.due.items() if at <= now)
        return frozenset(islice(dict.fromkeys(key for _, key in late), TOGETHER))

    def find_undecided_keys(self) -> frozenset[str]:
        """The keys of the devices of which another look counts that says the same: one of their checks may turn."""
        return frozenset(
            spot.at
            for spot, ward in self.there.items()
            if any(condition.failing or condition.since is not None for condition in ward.conditions.values())
        )

    def failing(self) -> Failing:
        """What fails, and why."""
        wards = [*self.left.items(), *((DeviceRef(spot.entry, ward.place), ward) for spot, ward in self.there.items())]
        found: dict[str, dict[str, dict[str, str]]] = {}
        for place, ward in wards:
            for check, condition in ward.conditions.items():
                if condition.failing:
                    found.setdefault(place.entry, {}).setdefault(place.at, {})[check] = condition.reason
        return found

    def cleared(
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
                named = {name for name, one in ward.conditions.items() if one.failing and check in (None, name)}
                if named and concerns(spot, ward):
                    well = CheckState(cleared=upto)
                    healed = {name: well if name in named else one for name, one in ward.conditions.items()}
                    kept[spot] = replace(ward, conditions=healed)
                    names.update(named)
            return kept

        return replace(self, there=clear(self.there), left=clear(self.left)), frozenset(names)
