"""The conditions of all checks of all devices, and what of them outlasts the agent; `conclude` steps them.

A condition belongs to a place of an entry: when a device comes back it is as ill as it was, and a latch holds for
whatever stands there until a person clears it. While the device is there it is found by its key, for two
devices can be in one place (the nodes of a camera).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, TypeAlias, TypeVar

from agent.core.health.condition import HEALTHY, Condition

TOGETHER = 256  # devices that are looked at in one look because their time has come

T = TypeVar("T")

By: TypeAlias = Mapping[str, Mapping[str, Mapping[str, T]]]  # by entry, place and check
Failing: TypeAlias = By[str]


@dataclass(frozen=True, slots=True)
class Memory:
    """What one life of the agent knows of checks that the next one has to.

    failing: the reasons. latched: of those, which only a person makes healthy because of what the kernel log said.
    counted: what counters said last, cleared: the last lines of the kernel log that are cleared, well: the places, by
    entry, where all was well; these are of this boot.
    """

    failing: Failing = field(default_factory=dict)
    latched: By[bool] = field(default_factory=dict)
    counted: By[int] = field(default_factory=dict)
    cleared: By[int] = field(default_factory=dict)
    well: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Spot(NamedTuple):
    """A device of an entry: by its key while it is there, by its place when it has left."""

    entry: str
    at: str


@dataclass(frozen=True, slots=True)
class Ward:
    """The conditions of one device, by check."""

    place: str
    conditions: Mapping[str, Condition]


@dataclass(frozen=True, slots=True)
class Conditions:
    """All of them, after a look.

    there: of devices that are there. left: of those that left while something failed.
    due: when one is to be looked at again without an event.
    well: where all was well when the last life ended; the first look is the next one at these, and no beginning.
    """

    there: Mapping[Spot, Ward] = field(default_factory=dict)
    left: Mapping[Spot, Ward] = field(default_factory=dict)
    due: Mapping[Spot, float] = field(default_factory=dict)
    well: frozenset[Spot] = frozenset()

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

    def restless(self) -> frozenset[str]:
        """The keys of the devices of which another look counts that says the same: one of their checks may turn."""
        return frozenset(
            spot.at
            for spot, ward in self.there.items()
            if any(condition.failing or condition.since is not None for condition in ward.conditions.values())
        )

    def failing(self) -> Failing:
        """What fails, and why."""
        wards = [*self.left.items(), *((Spot(spot.entry, ward.place), ward) for spot, ward in self.there.items())]
        return _noted(wards, lambda condition: condition.reason if condition.failing else None)

    def memory(self) -> Memory:
        """What the next life of the agent is to know. Of most devices that is that all is well, which costs little."""
        of: dict[Spot, int] = {}
        well: dict[Spot, bool] = {}
        others: list[tuple[Spot, Ward]] = []
        for spot, ward in self.there.items():
            place = Spot(spot.entry, ward.place)
            of[place] = of.get(place, 0) + 1
            plain = all(map(_plain, ward.conditions.values()))
            fine = plain or not any(one.failing or one.early for one in ward.conditions.values())
            well[place] = fine and bool(ward.conditions) and well.get(place, True)
            others += [] if plain else [(place, ward)]
        known = [*self.left.items(), *others]
        counted = [(place, ward) for place, ward in known if of.get(place, 0) + (place in self.left) == 1]
        healthy: dict[str, list[str]] = {}
        for place, fine in well.items():
            if fine:
                healthy.setdefault(place.entry, []).append(place.at)
        return Memory(
            _noted(known, lambda one: one.reason if one.failing and not one.early else None),
            _noted(known, lambda one: one.latched or None),
            _noted(counted, lambda one: one.count),
            _noted(known, lambda one: one.cleared if one.cleared >= 0 else None),
            healthy,
        )

    def cleared(
        self, concerns: Callable[[Spot, Ward], bool], check: str | None, upto: int = -1
    ) -> tuple[Conditions, frozenset[str]]:
        """These without what a person clears, and the names of the checks that are cleared.

        concerns: whether it is about a device. check: the one check; None for all of them. upto: the last line that
        was read of the kernel log.
        """
        names: set[str] = set()

        def clear(wards: Mapping[Spot, Ward]) -> dict[Spot, Ward]:
            kept = {**wards}
            for spot, ward in wards.items():
                named = {name for name, one in ward.conditions.items() if one.failing and check in (None, name)}
                if named and concerns(spot, ward):
                    well = Condition(cleared=upto)
                    healed = {name: well if name in named else one for name, one in ward.conditions.items()}
                    kept[spot] = replace(ward, conditions=healed)
                    names.update(named)
            return kept

        return replace(self, there=clear(self.there), left=clear(self.left)), frozenset(names)


def _plain(condition: Condition) -> bool:
    return condition is HEALTHY


def _noted(wards: Iterable[tuple[Spot, Ward]], pick: Callable[[Condition], T | None]) -> By[T]:
    """What is picked of conditions, by entry, place and check."""
    found: dict[str, dict[str, dict[str, T]]] = {}
    for place, ward in wards:
        for check, condition in ward.conditions.items():
            if (picked := pick(condition)) is not None:
                found.setdefault(place.entry, {}).setdefault(place.at, {})[check] = picked
    return found


def remembered(memory: Memory) -> Conditions:
    """The conditions at start, from what the last life knew."""
    left: dict[Spot, dict[str, Condition]] = {}
    for entry, place, check, count in _each(memory.counted):
        left.setdefault(Spot(entry, place), {})[check] = Condition(count=count)
    for entry, place, check, line in _each(memory.cleared):
        known = left.setdefault(Spot(entry, place), {})
        known[check] = replace(known.get(check, HEALTHY), cleared=line)
    latched = {(entry, place, check) for entry, place, check, _ in _each(memory.latched)}
    for entry, place, check, reason in _each(memory.failing):
        known = left.pop(Spot(entry, place), {})  # the last to be forgotten
        held = (entry, place, check) in latched
        known[check] = replace(known.get(check, HEALTHY), failing=True, reason=reason, latched=held)
        left[Spot(entry, place)] = known
    well = frozenset(Spot(entry, place) for entry, places in memory.well.items() for place in places)
    return Conditions(left={spot: Ward(spot.at, conditions) for spot, conditions in left.items()}, well=well)


def _each(noted: By[T]) -> Iterator[tuple[str, str, str, T]]:
    for entry, places in noted.items():
        for place, checks in places.items():
            for check, said in checks.items():
                yield entry, place, check, said
