"""A round: the conditions of the checks of what was looked at, or spoken of, each stepped once whoever asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from functools import partial

from agent.core.entry.check import CheckVerdict
from agent.core.entry.check_results import DeviceCheckResult, resolve_partners
from agent.core.entry.counter_check import CounterCheck
from agent.core.entry.kernel_log_check import Log
from agent.core.health.check_state import HEALTHY, NEW, CheckState, set_change_time, step_check, step_log_check
from agent.core.health.check_states import CheckStates, DeviceCheckStates, DeviceRef
from agent.core.health.kernel_log import KernelLogHistory
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.partner_health import find_partner_wait, find_unhealthy_partners, list_checks
from agent.core.reason import NO_REASON, Reason
from agent.core.struct import replace

OK, FAILING = "ok", "failing"
_LEFT_LIMIT = 10_000  # places of which it is remembered what failed there when the device left


class EvaluationStep:
    """One stepping of conditions.

    gone, come: the candidates as they were, of devices that were looked at or are there no more, and as they are.
    times: now, and how far looks lie apart that count as two.
    """

    def __init__(
        self,
        before: CheckStates,
        gone: Iterable[Candidate],
        come: Iterable[Candidate],
        journal: KernelLogHistory,
        times: tuple[float, float],
    ) -> None:
        self._there = {**before.present_devices}
        self._left = {**before.absent_devices}
        self._due = {**before.due_times}
        self._well = before.healthy_refs
        self._now, self._apart = times
        self._journal = journal
        self._done: dict[tuple[DeviceRef, str], CheckState] = {}
        self._looked: dict[DeviceRef, Mapping[str, CheckState]] = {}  # the conditions before, of what was looked at
        self._turned: dict[DeviceRef, None] = {}
        self.result_counts: Counter[tuple[str, str]] = Counter()
        self._gone = dict.fromkeys(DeviceRef(one.entry, one.device_key) for each in gone for one in list_checks(each))
        self._now_at = {
            DeviceRef(one.entry, one.device_key): one.location for each in come for one in list_checks(each)
        }
        self._unchecked = {
            DeviceRef(one.written_name or one.resource, key)
            for one in come
            if not one.check_results
            for key in one.keys
        }

    def remove_absent_devices(self, kept: Container[object]) -> None:
        """Have those leave that are there no more, before any comes: a device may be there under another key.

        kept: the conditions that anybody has still.
        """
        for spot in self._gone:
            if spot in kept and spot not in self._now_at:
                continue  # others have it, who were not looked at
            self._due.pop(spot, None)
            if spot in self._unchecked:
                self._there.pop(spot, None)
            elif spot in self._there and self._now_at.get(spot) != self._there[spot].location:
                self._leave(spot)

    def take_changed_refs(self) -> tuple[DeviceRef, ...]:
        """Whose health turned since this was asked last."""
        turned, self._turned = self._turned, {}
        return tuple(turned)

    def evaluate_candidate(self, candidate: Candidate, *, looked: bool = True) -> Candidate:
        """A candidate with what fails as its fault, and what hangs on partners.

        looked: it was looked at, and not only spoken of.
        """
        verdict = partial(self._concluded, looked=looked)
        reason = verdict(candidate.check_results)
        waits, ailing = find_partner_wait(candidate.dependents, verdict)
        fault, waits = candidate.unhealthy_reason or reason, candidate.not_ready_reason or waits
        if (fault, waits, ailing) == (
            candidate.unhealthy_reason,
            candidate.not_ready_reason,
            candidate.unhealthy_partners,
        ):
            return candidate
        return replace(candidate, unhealthy_reason=fault, not_ready_reason=waits, unhealthy_partners=ailing)

    def _concluded(self, checked: Iterable[DeviceCheckResult], *, looked: bool) -> Reason:
        """Step the conditions of these checks; the reason of the first that fails."""
        reason = NO_REASON
        for one in checked:
            known = resolve_partners(
                one, find_unhealthy_partners(one.partners, partial(self._concluded, looked=looked))
            )
            spot = DeviceRef(one.entry, one.device_key)
            condition = self._condition(spot, known, looked=looked)
            if condition is None:
                reason = reason or one.make_failure_reason(known.result.reason)
            elif condition.failing:
                reason = reason or one.make_failure_reason(condition.reason)
        return reason

    def _condition(self, spot: DeviceRef, one: DeviceCheckResult, *, looked: bool) -> CheckState | None:
        """The condition of a check after it, stepped once in a round whoever asks; none before the first answer."""
        name = one.check.name
        if (spot, name) in self._done:
            return self._done[spot, name]
        self._come(spot, one.location)
        if looked and spot not in self._looked:
            self._looked[spot] = self._there[spot].check_states
            self._there[spot] = DeviceCheckStates(one.location, {})  # of what it has now
            self._due.pop(spot, None)
        ward = self._there[spot]
        known = self._looked.get(spot, ward.check_states).get(name)
        if known is None and DeviceRef(spot.entry, one.location) in self._well:
            known = HEALTHY
        if known in (None, NEW) and one.result.verdict is CheckVerdict.PENDING:
            self._there[spot] = DeviceCheckStates(
                one.location, {**ward.check_states, name: NEW}
            )  # nor is it well for the next life
            return None
        before = known or NEW
        condition, again = self._stepped(one, before, looked=looked)
        condition = set_change_time(condition, before, self._now)
        if looked:
            self._count(one, condition)
        if ward.check_states.get(name) is not condition:
            self._there[spot] = DeviceCheckStates(one.location, {**ward.check_states, name: condition})
        if again is not None:
            self._due[spot] = min(again, self._due.get(spot, again))
        if condition.failing != before.failing:
            self._turned[spot] = None
        if looked or one.check.log is not None or one.partners:
            self._done[spot, name] = condition
        return condition

    def _count(self, one: DeviceCheckResult, condition: CheckState) -> None:
        """Count what a check says: of what is counted or listened to, that is how it stands."""
        says = one.result.verdict
        if one.result.unknown_cause is not None:
            self.result_counts[one.check.name, one.result.unknown_cause.value] += 1
        elif says is CheckVerdict.PASS or says is CheckVerdict.FAIL:
            told = (
                condition.failing if isinstance(one.check.criterion, CounterCheck | Log) else says is CheckVerdict.FAIL
            )
            self.result_counts[one.check.name, FAILING if told else OK] += 1

    def _stepped(self, one: DeviceCheckResult, before: CheckState, *, looked: bool) -> tuple[CheckState, float | None]:
        if one.check.log is not None:
            return step_log_check(one.check, before, one.result, self._journal, self._now)
        if looked or one.partners:
            return step_check(one.check, before, one.result, self._now, self._apart)
        return before, None

    def build_check_states(self, entries: frozenset[str]) -> CheckStates:
        """All conditions after it."""
        left = {spot: ward for spot, ward in self._left.items() if spot.entry in entries}
        for spot in list(left)[: max(0, len(left) - _LEFT_LIMIT)]:
            del left[spot]
        return CheckStates(self._there, left, self._due)

    def _come(self, spot: DeviceRef, place: str) -> None:
        """Have the conditions there of a device that is at a place now."""
        if spot not in self._there:
            self._there[spot] = self._left.pop(DeviceRef(spot.entry, place), DeviceCheckStates(place, {}))

    def _leave(self, spot: DeviceRef) -> None:
        """Remember what fails of a device that is there no more, and what is cleared; rows do not last."""
        ward = self._there.pop(spot)
        failing = {
            name: CheckState(
                one.failing, one.reason, latched=one.latched, cleared_line=one.cleared_line, changed_at=one.changed_at
            )
            for name, one in ward.check_states.items()
            if (one.failing and not one.never_healthy) or one.cleared_line >= 0
        }
        if failing:
            place = DeviceRef(spot.entry, ward.location)
            before = self._left.pop(place, DeviceCheckStates(ward.location, {}))
            self._left[place] = DeviceCheckStates(ward.location, {**before.check_states, **failing})
