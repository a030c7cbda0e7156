"""What of the conditions the next life of the agent is to know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeVar

from agent.core.health.check_state import HEALTHY, CheckState
from agent.core.health.check_states import CheckMap, CheckStates, DeviceCheckStates, DeviceRef, FailureMap
from agent.core.struct import Struct, field, replace

T = TypeVar("T")


class SavedChecks(Struct):
    """What one life of the agent knows of checks that the next one has to.

    failing: the reasons. latched: of those, which only a person makes healthy because of what the kernel log said.
    counted: what counters said last, cleared: the last lines of the kernel log that are cleared, well: the places, by
    entry, where all was well; these are of this boot.
    """

    failure_reasons: FailureMap = field(default_factory=dict)
    latches: CheckMap[bool] = field(default_factory=dict)
    counter_values: CheckMap[int] = field(default_factory=dict)
    cleared_lines: CheckMap[int] = field(default_factory=dict)
    healthy_locations: Mapping[str, AbstractSet[str]] = field(default_factory=dict)


class SavedChecksBuilder:
    """What is remembered, place by place: where nothing changed since it was asked last nothing is gone through."""

    def __init__(self) -> None:
        self._there: Mapping[DeviceRef, DeviceCheckStates] = {}
        self._left: Mapping[DeviceRef, DeviceCheckStates] = {}
        self._at: dict[DeviceRef, dict[DeviceRef, DeviceCheckStates]] = {}  # who is in a place
        self._odd: set[DeviceRef] = set()  # of which there may be more to note than that all is well
        self._memory = SavedChecks()

    def update(self, now: CheckStates) -> SavedChecks:
        """What the next life is to know of these."""
        stale: dict[DeviceRef, None] = {}
        for spot, was, ward in _changes(self._there, now.present_devices):
            if was is not None:
                place = DeviceRef(spot.entry, was.location)
                stale[place] = None
                del self._at[place][spot]
            if ward is not None:
                place = DeviceRef(spot.entry, ward.location)
                stale[place] = None
                self._at.setdefault(place, {})[spot] = ward
        stale |= {place: None for place, _, _ in _changes(self._left, now.absent_devices)}
        self._there, self._left = now.present_devices, now.absent_devices
        if stale:
            self._memory = self._anew(stale)
        return self._memory

    def _anew(self, stale: Iterable[DeviceRef]) -> SavedChecks:
        """The same, but for these places. What was given before is not touched: who has it may write it just now."""
        before = self._memory
        well = {entry: set(places) for entry, places in before.healthy_locations.items()}
        failing, latched = _copied(before.failure_reasons), _copied(before.latches)
        counted, cleared = _copied(before.counter_values), _copied(before.cleared_lines)
        for place in stale:
            there = list(self._at[place].values()) if place in self._at else []
            if len(there) > 1:
                there = [ward for _, ward in sorted(self._at[place].items(), key=_first)]
            elif not there:
                self._at.pop(place, None)
            every = [self._left[place], *there] if place in self._left else there
            odd = not all(map(_is_plain, every))
            if odd or place in self._odd:
                _note(
                    failing,
                    place,
                    _picked(every, lambda one: one.reason if one.failing and not one.never_healthy else None),
                )
                _note(latched, place, _picked(every, lambda one: one.latched or None))
                _note(counted, place, _picked(every if len(every) == 1 else (), lambda one: one.count))
                _note(cleared, place, _picked(every, lambda one: one.cleared_line if one.cleared_line >= 0 else None))
                (self._odd.add if odd else self._odd.discard)(place)
            places = well.setdefault(place.entry, set())
            (places.add if there and all(map(_is_well, there)) else places.discard)(place.key_or_location)
        return SavedChecks(
            failing, latched, counted, cleared, {entry: places for entry, places in well.items() if places}
        )


class _Change(NamedTuple):
    """Of one spot: what was there, and what is; none if there is none."""

    spot: DeviceRef
    was: DeviceCheckStates | None
    now: DeviceCheckStates | None


def _changes(
    before: Mapping[DeviceRef, DeviceCheckStates], now: Mapping[DeviceRef, DeviceCheckStates]
) -> Iterator[_Change]:
    """Where they differ; what did not change is the same object."""
    if before is now:
        return
    come = [_Change(spot, before.get(spot), ward) for spot, ward in now.items() if before.get(spot) is not ward]
    if len(before) + sum(one.was is None for one in come) > len(now):
        yield from (_Change(spot, ward, None) for spot, ward in before.items() if spot not in now)
    yield from come


def _first(item: tuple[DeviceRef, DeviceCheckStates]) -> DeviceRef:
    return item[0]


def _is_plain(ward: DeviceCheckStates) -> bool:
    return all(one is HEALTHY for one in ward.check_states.values())


def _is_well(ward: DeviceCheckStates) -> bool:
    return bool(ward.check_states) and not any(one.failing or one.never_healthy for one in ward.check_states.values())


def _copied(noted: CheckMap[T]) -> dict[str, dict[str, Mapping[str, T]]]:
    return {entry: dict(places) for entry, places in noted.items()}


def _picked(wards: Iterable[DeviceCheckStates], pick: Callable[[CheckState], T | None]) -> dict[str, T]:
    """What is picked of conditions, by check."""
    return {
        check: picked
        for ward in wards
        for check, condition in ward.check_states.items()
        if (picked := pick(condition)) is not None
    }


def _note(noted: dict[str, dict[str, Mapping[str, T]]], place: DeviceRef, picked: Mapping[str, T]) -> None:
    """Have that noted of a place, and nothing else."""
    if picked:
        noted.setdefault(place.entry, {})[place.key_or_location] = picked
    elif place.key_or_location in noted.get(place.entry, ()):
        del noted[place.entry][place.key_or_location]
        if not noted[place.entry]:
            del noted[place.entry]


def restore_check_states(memory: SavedChecks) -> CheckStates:
    """The conditions at start, from what the last life knew."""
    left: dict[DeviceRef, dict[str, CheckState]] = {}
    for entry, place, check, count in _each(memory.counter_values):
        left.setdefault(DeviceRef(entry, place), {})[check] = CheckState(count=count)
    for entry, place, check, line in _each(memory.cleared_lines):
        known = left.setdefault(DeviceRef(entry, place), {})
        known[check] = replace(known.get(check, HEALTHY), cleared_line=line)
    latched = {(entry, place, check) for entry, place, check, _ in _each(memory.latches)}
    for entry, place, check, reason in _each(memory.failure_reasons):
        known = left.pop(DeviceRef(entry, place), {})  # the last to be forgotten
        held = (entry, place, check) in latched
        known[check] = replace(known.get(check, HEALTHY), failing=True, reason=reason, latched=held)
        left[DeviceRef(entry, place)] = known
    well = frozenset(DeviceRef(entry, place) for entry, places in memory.healthy_locations.items() for place in places)
    return CheckStates(
        absent_devices={spot: DeviceCheckStates(spot.key_or_location, conditions) for spot, conditions in left.items()},
        healthy_refs=well,
    )


def _each(noted: CheckMap[T]) -> Iterator[tuple[str, str, str, T]]:
    for entry, places in noted.items():
        for place, checks in places.items():
            for check, said in checks.items():
                yield entry, place, check, said
