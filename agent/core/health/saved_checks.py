"""Saved checks: the part of the check states that the agent saves for its next start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeVar

from agent.core.changes import Stage, has_changed
from agent.core.entry.check_state import HEALTHY, CheckState
from agent.core.health.check_states import CheckMap, CheckStates, DeviceCheckStates, DeviceRef
from agent.core.struct import Struct, field, replace

T = TypeVar("T")


class SavedChecks(Struct):
    """Check states that outlast the agent process, by entry, location and check.

    failure_reasons: reasons of failing checks. latches: failing checks that only an administrator can clear.
    counter_values: last counter values. cleared_lines: numbers of the last cleared kernel log lines.
    healthy_locations: locations by entry where all checks passed. The last three are valid only for this boot.
    """

    failure_reasons: CheckMap[str] = field(default_factory=dict)
    latches: CheckMap[bool] = field(default_factory=dict)
    counter_values: CheckMap[int] = field(default_factory=dict)
    cleared_lines: CheckMap[int] = field(default_factory=dict)
    healthy_locations: Mapping[str, AbstractSet[str]] = field(default_factory=dict)


class _LocationStates(NamedTuple):
    """The part of one device. `check_states` is empty if no state needs to be saved."""

    location_ref: DeviceRef
    is_healthy: bool
    check_states: Mapping[str, CheckState]


class SavedChecksBuilder:
    """The saved checks. Only devices with other states are read again."""

    def __init__(self) -> None:
        self._present_devices: Stage[DeviceRef, DeviceCheckStates, _LocationStates] = Stage(_select_states)
        self._inputs: tuple[object, ...] = ()
        self._saved_checks = SavedChecks()

    def update(self, check_states: CheckStates) -> SavedChecks:
        """Return the saved checks of these check states."""
        present_devices = self._present_devices.update(check_states.present_devices)
        absent_devices = check_states.absent_devices
        inputs = present_devices, absent_devices
        if not has_changed(self._inputs, inputs):
            return self._saved_checks
        self._inputs = inputs
        unhealthy_refs = {device.location_ref for device in present_devices.values() if not device.is_healthy}
        healthy_locations: dict[str, set[str]] = {}
        for (entry, location), is_healthy, _ in present_devices.values():
            if is_healthy:
                healthy_locations.setdefault(entry, set()).add(location)
        for entry, location in unhealthy_refs:
            healthy_locations.get(entry, set()).discard(location)
        states = [(location_ref, device.check_states) for location_ref, device in absent_devices.items()]
        states += [
            (device.location_ref, device.check_states)
            for _, device in sorted(item for item in present_devices.items() if item[1].check_states)
        ]
        saved_refs = {location_ref for location_ref, _ in states}
        all_refs = (device.location_ref for device in present_devices.values())
        counts = Counter([*absent_devices, *(ref for ref in all_refs if ref in saved_refs)])
        self._saved_checks = SavedChecks(
            _collect_values(states, lambda state: state.reason if state.failing and not state.never_healthy else None),
            _collect_values(states, lambda state: state.latched or None),
            _collect_values([item for item in states if counts[item[0]] == 1], lambda state: state.count),
            _collect_values(states, lambda state: state.cleared_line if state.cleared_line >= 0 else None),
            {entry: locations for entry, locations in healthy_locations.items() if locations},
        )
        return self._saved_checks


def _select_states(device_ref: DeviceRef, device: DeviceCheckStates) -> _LocationStates:
    states = device.check_states.values()
    is_healthy = bool(states) and not any(state.failing or state.never_healthy for state in states)
    needs_save = any(state is not HEALTHY for state in states)
    return _LocationStates(
        DeviceRef(device_ref.entry, device.location), is_healthy, device.check_states if needs_save else {}
    )


def _collect_values(
    states: Iterable[tuple[DeviceRef, Mapping[str, CheckState]]], get_value: Callable[[CheckState], T | None]
) -> CheckMap[T]:
    """Return the values that are not None. Of two devices at one location, the later one counts."""
    values: dict[str, dict[str, dict[str, T]]] = {}
    for (entry, location), check_states in states:
        for check, state in check_states.items():
            if (value := get_value(state)) is not None:
                values.setdefault(entry, {}).setdefault(location, {})[check] = value
    return values


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
        location_states = states.pop(DeviceRef(entry, location), {})  # the last location that the limit removes
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
