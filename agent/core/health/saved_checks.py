"""Saved checks: the part of the check states that the agent saves for its next start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeVar

from agent.core.changes import find_changes
from agent.core.entry.check_state import HEALTHY, CheckState
from agent.core.health.check_states import CheckMap, CheckStates, DeviceCheckStates, DeviceRef, FailureMap
from agent.core.struct import Struct, field, replace

T = TypeVar("T")


class SavedChecks(Struct):
    """Check states that outlast the agent process, by entry, location and check.

    failure_reasons: reasons of failing checks. latches: failing checks that only an administrator can clear.
    counter_values: last counter values. cleared_lines: numbers of the last cleared kernel log lines.
    healthy_locations: locations by entry where all checks passed. The last three are valid only for this boot.
    """

    failure_reasons: FailureMap = field(default_factory=dict)
    latches: CheckMap[bool] = field(default_factory=dict)
    counter_values: CheckMap[int] = field(default_factory=dict)
    cleared_lines: CheckMap[int] = field(default_factory=dict)
    healthy_locations: Mapping[str, AbstractSet[str]] = field(default_factory=dict)


class SavedChecksBuilder:
    """The saved checks, updated location by location. Unchanged devices cost nothing."""

    def __init__(self) -> None:
        self._present_devices: Mapping[DeviceRef, DeviceCheckStates] = {}
        self._absent_devices: Mapping[DeviceRef, DeviceCheckStates] = {}
        self._devices_by_location: dict[DeviceRef, dict[DeviceRef, DeviceCheckStates]] = {}  # who is in a place
        self._saved_locations: set[DeviceRef] = set()  # of which there may be more to note than that all is well
        self._saved_checks = SavedChecks()

    def update(self, check_states: CheckStates) -> SavedChecks:
        """Return the saved checks of these check states."""
        changed_locations: dict[DeviceRef, None] = {}
        for device_ref, (previous, current) in find_changes(
            self._present_devices, check_states.present_devices
        ).items():
            if previous is not None:
                location_ref = DeviceRef(device_ref.entry, previous.location)
                changed_locations[location_ref] = None
                del self._devices_by_location[location_ref][device_ref]
            if current is not None:
                location_ref = DeviceRef(device_ref.entry, current.location)
                changed_locations[location_ref] = None
                self._devices_by_location.setdefault(location_ref, {})[device_ref] = current
        changed_locations |= dict.fromkeys(find_changes(self._absent_devices, check_states.absent_devices))
        self._present_devices, self._absent_devices = check_states.present_devices, check_states.absent_devices
        if changed_locations:
            self._saved_checks = self._rebuild(changed_locations)
        return self._saved_checks

    def _rebuild(self, changed_locations: Iterable[DeviceRef]) -> SavedChecks:
        """Return the saved checks with these locations replaced.

        The previous value is not changed: a writer may use it.
        """
        previous = self._saved_checks
        healthy_locations = {entry: set(locations) for entry, locations in previous.healthy_locations.items()}
        failure_reasons, latches = _copy_values(previous.failure_reasons), _copy_values(previous.latches)
        counter_values, cleared_lines = _copy_values(previous.counter_values), _copy_values(previous.cleared_lines)
        for location_ref in changed_locations:
            present_devices = (
                list(self._devices_by_location[location_ref].values())
                if location_ref in self._devices_by_location
                else []
            )
            if len(present_devices) > 1:
                present_devices = [
                    device for _, device in sorted(self._devices_by_location[location_ref].items(), key=_get_device_ref)
                ]
            elif not present_devices:
                self._devices_by_location.pop(location_ref, None)
            all_devices = (
                [self._absent_devices[location_ref], *present_devices]
                if location_ref in self._absent_devices
                else present_devices
            )
            has_details = not all(map(_is_plain, all_devices))
            if has_details or location_ref in self._saved_locations:
                _set_values(
                    failure_reasons,
                    location_ref,
                    _collect_values(
                        all_devices, lambda state: state.reason if state.failing and not state.never_healthy else None
                    ),
                )
                _set_values(latches, location_ref, _collect_values(all_devices, lambda state: state.latched or None))
                _set_values(
                    counter_values,
                    location_ref,
                    _collect_values(all_devices if len(all_devices) == 1 else (), lambda state: state.count),
                )
                _set_values(
                    cleared_lines,
                    location_ref,
                    _collect_values(all_devices, lambda state: state.cleared_line if state.cleared_line >= 0 else None),
                )
                (self._saved_locations.add if has_details else self._saved_locations.discard)(location_ref)
            locations = healthy_locations.setdefault(location_ref.entry, set())
            (locations.add if present_devices and all(map(_is_healthy, present_devices)) else locations.discard)(
                location_ref.key_or_location
            )
        return SavedChecks(
            failure_reasons,
            latches,
            counter_values,
            cleared_lines,
            {entry: locations for entry, locations in healthy_locations.items() if locations},
        )


def _get_device_ref(item: tuple[DeviceRef, DeviceCheckStates]) -> DeviceRef:
    return item[0]


def _is_plain(device: DeviceCheckStates) -> bool:
    return all(state is HEALTHY for state in device.check_states.values())


def _is_healthy(device: DeviceCheckStates) -> bool:
    return bool(device.check_states) and not any(
        state.failing or state.never_healthy for state in device.check_states.values()
    )


def _copy_values(values: CheckMap[T]) -> dict[str, dict[str, Mapping[str, T]]]:
    return {entry: dict(locations) for entry, locations in values.items()}


def _collect_values(devices: Iterable[DeviceCheckStates], get_value: Callable[[CheckState], T | None]) -> dict[str, T]:
    """Return the value of each check state by check, without None."""
    return {
        check: value
        for device in devices
        for check, state in device.check_states.items()
        if (value := get_value(state)) is not None
    }


def _set_values(
    values: dict[str, dict[str, Mapping[str, T]]], location_ref: DeviceRef, check_values: Mapping[str, T]
) -> None:
    """Replace the values of a location."""
    if check_values:
        values.setdefault(location_ref.entry, {})[location_ref.key_or_location] = check_values
    elif location_ref.key_or_location in values.get(location_ref.entry, ()):
        del values[location_ref.entry][location_ref.key_or_location]
        if not values[location_ref.entry]:
            del values[location_ref.entry]


def restore_check_states(saved_checks: SavedChecks) -> CheckStates:
    """Return the check states at the start of the agent."""
    states: dict[DeviceRef, dict[str, CheckState]] = {}
    for entry, location, check, count in _iterate_values(saved_checks.counter_values):
        states.setdefault(DeviceRef(entry, location), {})[check] = CheckState(count=count)
    for entry, location, check, line in _iterate_values(saved_checks.cleared_lines):
        location_states = states.setdefault(DeviceRef(entry, location), {})
        location_states[check] = replace(location_states.get(check, HEALTHY), cleared_line=line)
    latched = {(entry, location, check) for entry, location, check, _ in _iterate_values(saved_checks.latches)}
    for entry, location, check, reason in _iterate_values(saved_checks.failure_reasons):
        location_states = states.pop(DeviceRef(entry, location), {})  # the last to be forgotten
        is_latched = (entry, location, check) in latched
        location_states[check] = replace(
            location_states.get(check, HEALTHY), failing=True, reason=reason, latched=is_latched
        )
        states[DeviceRef(entry, location)] = location_states
    healthy_refs = frozenset(
        DeviceRef(entry, location)
        for entry, locations in saved_checks.healthy_locations.items()
        for location in locations
    )
    return CheckStates(
        absent_devices={
            location_ref: DeviceCheckStates(location_ref.key_or_location, check_states)
            for location_ref, check_states in states.items()
        },
        healthy_refs=healthy_refs,
    )


def _iterate_values(values: CheckMap[T]) -> Iterator[tuple[str, str, str, T]]:
    for entry, locations in values.items():
        for location, checks in locations.items():
            for check, value in checks.items():
                yield entry, location, check, value
