"""Evaluation step: step the check states of one look. Each state is stepped once, also if several devices need it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from functools import partial

from agent.core.entry.check import CheckVerdict, StepContext, set_change_time
from agent.core.entry.check_results import DeviceCheckResult, resolve_partners
from agent.core.entry.check_state import HEALTHY, NEW, CheckState
from agent.core.health.check_states import CheckStates, DeviceCheckStates, DeviceRef
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.check_run import (
    FailureReason,
    find_partner_wait,
    find_unhealthy_partners,
    list_checks,
)
from agent.core.reason import NO_REASON, Reason
from agent.core.struct import replace

OK, FAILING = "ok", "failing"
_ABSENT_LIMIT = 10_000  # locations of absent devices whose failing checks are kept


class EvaluationStep:
    """One step of all check states.

    removed: the previous candidates of devices that were part of the look or are absent. added: their current
    candidates.
    """

    def __init__(
        self,
        previous: CheckStates,
        removed: Iterable[Candidate],
        added: Iterable[Candidate],
        context: StepContext,
    ) -> None:
        self._present_devices = {**previous.present_devices}
        self._absent_devices = {**previous.absent_devices}
        self._due_times = {**previous.due_times}
        self._healthy_refs = previous.healthy_refs
        self._context = context
        self._stepped_states: dict[tuple[DeviceRef, str], CheckState] = {}
        # The states before the step, of devices that were part of the look.
        self._previous_states: dict[DeviceRef, Mapping[str, CheckState]] = {}
        self._changed_refs: dict[DeviceRef, None] = {}
        self.result_counts: Counter[tuple[str, str]] = Counter()
        self._removed_refs = dict.fromkeys(
            DeviceRef(item.entry, item.device_key) for candidate in removed for item in list_checks(candidate)
        )
        self._current_locations = {
            DeviceRef(item.entry, item.device_key): item.location
            for candidate in added
            for item in list_checks(candidate)
        }
        self._unchecked_refs = {
            DeviceRef(item.written_name or item.resource, key)
            for item in added
            if not item.check_results
            for key in item.keys
        }

    def remove_absent_devices(self, referenced: Container[object]) -> None:
        """Remove devices that are absent. Call before the evaluation: a device can be present under another key.

        referenced: devices whose states other candidates still use.
        """
        for device_ref in self._removed_refs:
            if device_ref in referenced and device_ref not in self._current_locations:
                continue  # candidates that were not part of the look still use it
            self._due_times.pop(device_ref, None)
            if device_ref in self._unchecked_refs:
                self._present_devices.pop(device_ref, None)
            elif (
                device_ref in self._present_devices
                and self._current_locations.get(device_ref) != self._present_devices[device_ref].location
            ):
                self._save_absent_device(device_ref)

    def take_changed_refs(self) -> tuple[DeviceRef, ...]:
        """Return the devices whose health changed since the last call."""
        changed_refs, self._changed_refs = self._changed_refs, {}
        return tuple(changed_refs)

    def evaluate_candidate(self, candidate: Candidate, *, is_look: bool = True) -> Candidate:
        """Return the candidate with its unhealthy reason and its partner conditions.

        is_look: the candidate was part of the look. False: only a kernel log line or a partner changed.
        """
        return add_check_reasons(candidate, partial(self._step_checks, is_look=is_look))

    def _step_checks(self, check_results: Iterable[DeviceCheckResult], *, is_look: bool) -> Reason:
        """Step these checks and return the reason of the first failing check."""
        reason = NO_REASON
        for check_result in check_results:
            resolved_result = resolve_partners(
                check_result,
                find_unhealthy_partners(check_result.partners, partial(self._step_checks, is_look=is_look)),
            )
            device_ref = DeviceRef(check_result.entry, check_result.device_key)
            state = self._step_check_once(device_ref, resolved_result, is_look=is_look)
            if state is None:
                reason = reason or check_result.make_failure_reason(resolved_result.result.reason)
            elif state.failing:
                reason = reason or check_result.make_failure_reason(state.reason)
        return reason

    def _step_check_once(
        self, device_ref: DeviceRef, check_result: DeviceCheckResult, *, is_look: bool
    ) -> CheckState | None:
        """Return the state of a check, stepped once in a step; None before the first answer of a query."""
        name = check_result.check.name
        if (device_ref, name) in self._stepped_states:
            return self._stepped_states[device_ref, name]
        self._add_device(device_ref, check_result.location)
        if is_look and device_ref not in self._previous_states:
            self._previous_states[device_ref] = self._present_devices[device_ref].check_states
            # Checks that the entry no longer has lose their states.
            self._present_devices[device_ref] = DeviceCheckStates(check_result.location, {})
            self._due_times.pop(device_ref, None)
        device = self._present_devices[device_ref]
        known_state = self._previous_states.get(device_ref, device.check_states).get(name)
        if known_state is None and DeviceRef(device_ref.entry, check_result.location) in self._healthy_refs:
            known_state = HEALTHY
        if known_state in (None, NEW) and check_result.result.verdict is CheckVerdict.PENDING:
            # With this state the location is not saved as healthy.
            self._present_devices[device_ref] = DeviceCheckStates(
                check_result.location, {**device.check_states, name: NEW}
            )
            return None
        previous = known_state or NEW
        check = check_result.check
        is_stepped = is_look or check.criterion.has_own_events or bool(check_result.partners)
        state, due_time = previous, None
        if is_stepped:
            state, due_time = check.criterion.step(check, previous, check_result.result, self._context)
        state = set_change_time(state, previous, self._context.current_time)
        if is_look:
            self._count_result(check_result, state)
        if device.check_states.get(name) is not state:
            self._present_devices[device_ref] = DeviceCheckStates(
                check_result.location, {**device.check_states, name: state}
            )
        if due_time is not None:
            self._due_times[device_ref] = min(due_time, self._due_times.get(device_ref, due_time))
        if state.failing != previous.failing:
            self._changed_refs[device_ref] = None
        if is_stepped:
            self._stepped_states[device_ref, name] = state
        return state

    def _count_result(self, check_result: DeviceCheckResult, state: CheckState) -> None:
        """Count the result of a check."""
        verdict = check_result.result.verdict
        if check_result.result.unknown_cause is not None:
            self.result_counts[check_result.check.name, check_result.result.unknown_cause.value] += 1
        elif verdict is CheckVerdict.PASS or verdict is CheckVerdict.FAIL:
            is_decided_by_state = check_result.check.criterion.is_decided_by_state
            is_failing = state.failing if is_decided_by_state else verdict is CheckVerdict.FAIL
            self.result_counts[check_result.check.name, FAILING if is_failing else OK] += 1

    def build_check_states(self, entries: frozenset[str]) -> CheckStates:
        """Return all check states after the step."""
        absent_devices = {
            device_ref: device for device_ref, device in self._absent_devices.items() if device_ref.entry in entries
        }
        for device_ref in list(absent_devices)[: max(0, len(absent_devices) - _ABSENT_LIMIT)]:
            del absent_devices[device_ref]
        return CheckStates(self._present_devices, absent_devices, self._due_times)

    def _add_device(self, device_ref: DeviceRef, location: str) -> None:
        """Add a present device, with the states that were saved for its location."""
        if device_ref not in self._present_devices:
            self._present_devices[device_ref] = self._absent_devices.pop(
                DeviceRef(device_ref.entry, location), DeviceCheckStates(location, {})
            )

    def _save_absent_device(self, device_ref: DeviceRef) -> None:
        """Save failing and cleared checks of a device that is absent now. Rows are not saved."""
        device = self._present_devices.pop(device_ref)
        failing_states = {
            name: CheckState(
                state.failing,
                state.reason,
                latched=state.latched,
                cleared_line=state.cleared_line,
                changed_at=state.changed_at,
            )
            for name, state in device.check_states.items()
            if (state.failing and not state.never_healthy) or state.cleared_line >= 0
        }
        if failing_states:
            location_ref = DeviceRef(device_ref.entry, device.location)
            previous = self._absent_devices.pop(location_ref, DeviceCheckStates(device.location, {}))
            self._absent_devices[location_ref] = DeviceCheckStates(
                device.location, {**previous.check_states, **failing_states}
            )


def add_check_reasons(candidate: Candidate, find_failure_reason: FailureReason) -> Candidate:
    """Return the candidate with its unhealthy reason, its not-ready reason and its unhealthy partners."""
    reason = find_failure_reason(candidate.check_results)
    not_ready_reason, unhealthy_partners = find_partner_wait(candidate.dependents, find_failure_reason)
    unhealthy_reason = candidate.unhealthy_reason or reason
    not_ready_reason = candidate.not_ready_reason or not_ready_reason
    current = (candidate.unhealthy_reason, candidate.not_ready_reason, candidate.unhealthy_partners)
    if (unhealthy_reason, not_ready_reason, unhealthy_partners) == current:
        return candidate
    return replace(
        candidate,
        unhealthy_reason=unhealthy_reason,
        not_ready_reason=not_ready_reason,
        unhealthy_partners=unhealthy_partners,
    )
