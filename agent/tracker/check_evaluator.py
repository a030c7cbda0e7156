"""Checking: the conditions of all checks while the agent runs, and the persons who clear some.

What is cleared is cleared just before a look, so that no look that began earlier can undo it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from agent.core.entry.kernel_log_check import LogRecord
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.health.check_states import CheckStates, DeviceCheckStates, DeviceRef
from agent.core.health.drain_overlay import DrainOverlay, DrainSet, apply_drains
from agent.core.health.evaluation import Evaluation, evaluate
from agent.core.health.kernel_log import KernelLogHistory, LogKey
from agent.core.health.saved_checks import SavedChecks, SavedChecksBuilder, restore_check_states
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device
from agent.core.inventory.inventory import Inventory
from agent.core.inventory.partner_health import list_checks
from agent.core.language.value import Absent
from agent.core.lists.resource_names import ResourceCandidates
from agent.core.struct import Struct, replace


class _Clearing(Struct):
    """That a person clears checks of a device; `done` is told which of them failed."""

    entry: str
    device: Device
    check: str | None
    done: asyncio.Future[frozenset[str]]
    partners: frozenset[DeviceRef] = frozenset()

    def concerns(self, spot: DeviceRef, ward: DeviceCheckStates) -> bool:
        """Whether that is this device, or was where it is, or a partner of whose health its checks speak."""
        ours = spot.key_or_location in self.device.keys or ward.location in self.device.locations
        return spot in self.partners or (spot.entry == self.entry and ours)


class CheckEvaluator:
    """Knows what fails.

    Args:
        memory: what the last life knew.
        apart: seconds between looks that count as two.
        drained: what a person has taken out of scheduling.

    Attributes:
        journal: what was heard in the kernel log.
        answers: what checks have said at looks, by name and result, so often.
    """

    def __init__(self, saved_checks: SavedChecks, look_distance_s: float, drains: DrainSet) -> None:
        self.log_history = KernelLogHistory()
        self._stirred: set[LogKey] | None = set()
        self._concluded = Evaluation(restore_check_states(saved_checks))
        self._remembering = SavedChecksBuilder()
        self._clearing: list[_Clearing] = []
        self._apart = look_distance_s
        self._specs: Sequence[ResourceSpec] = ()
        self.result_counts: Counter[tuple[str, str]] = Counter()
        self._overlay = DrainOverlay()
        self.drains = drains

    @property
    def check_states(self) -> CheckStates:
        """All conditions, after the look that was concluded last."""
        return self._concluded.check_states

    @property
    def saved_checks(self) -> SavedChecks:
        """What is known of what was looked at, told or not."""
        return self._remembering.update(self._concluded.check_states)

    @property
    def has_log_changes(self) -> bool:
        """Whether the kernel log spoke of somebody since the last conclusion."""
        return self._stirred is None or bool(self._stirred)

    def add_records(self, records: Iterable[LogRecord]) -> None:
        """Take what the kernel says."""
        for record in records:
            told = self.log_history.add_record(record)
            if self._stirred is not None:
                self._stirred |= told

    def set_log_error(self, why: Absent | None) -> None:
        """That the kernel log cannot be read, for that reason; or that it can."""
        if why != self.log_history.read_error:
            self.log_history.read_error = why
            self._stirred = None

    @property
    def next_at(self) -> float | None:
        """Monotonic seconds at which a device is to be looked at for its checks; None if none is."""
        return self._concluded.check_states.next_at

    @property
    def candidates(self) -> ResourceCandidates:
        """The candidates of the look that was concluded last, what fails and what is drained as their fault."""
        return self._overlay.candidates

    def evaluate_checks(self, look: Inventory, specs: Sequence[ResourceSpec], now: float) -> None:
        """Have the checks say what a look says. The same look again is no other look."""
        entries = [
            name
            for spec in specs
            for name in (spec.name, *(one.name for join in spec.joins for one in join.list_partner_checks()))
        ]
        stirred, self._stirred = self._stirred, set()
        before = self._concluded
        self._concluded = evaluate(
            before,
            look.get_resource_candidates(),
            entries,
            now,
            self._apart,
            log_history=self.log_history,
            changed_log_keys=stirred,
        )
        if self._concluded is not before:
            self.result_counts.update(self._concluded.result_counts)
        if specs is not self._specs:
            self._specs = specs
            kept = {check.name for spec in specs for check in spec.list_checks()}
            self.result_counts = Counter({one: count for one, count in self.result_counts.items() if one[0] in kept})
        self._overlay = apply_drains(self._overlay, self._concluded.candidates, self.drains)

    def has_undecided_check(self, candidates: Iterable[Candidate]) -> bool:
        """Whether a check of one of these is about to turn: another answer counts, though it says the same."""
        there = self._concluded.check_states.present_devices
        for one in (one for candidate in candidates for one in list_checks(candidate)):
            ward = there.get(DeviceRef(one.entry, one.device_key))
            condition = ward.check_states.get(one.check.name) if ward else None
            if condition is None or condition.never_healthy or condition.since is not None:
                return True
        return False

    def take_due_keys(self, now: float, *, swept: bool = False) -> frozenset[str]:
        """The keys of what is to be looked at now, also because a person has cleared something of it.

        swept: everything is; so what may turn when it says the same again is, too.
        """
        clearing, self._clearing = self._clearing, []
        keys: frozenset[str] = frozenset()
        for one in clearing:
            conditions, cleared = self._concluded.check_states.clear_checks(
                one.concerns, one.check, self.log_history.last_number
            )
            self._concluded = replace(self._concluded, check_states=conditions)
            one.done.set_result(cleared)
            keys |= (
                frozenset((*one.device.keys, *(spot.key_or_location for spot in one.partners)))
                if cleared
                else frozenset()
            )
        restless = self._concluded.check_states.find_undecided_keys() if swept else frozenset[str]()
        return keys | restless | self._concluded.check_states.find_due_keys(now)

    def clear(self, entry: str, device: Device, check: str | None) -> asyncio.Future[frozenset[str]]:
        """Have checks of a device begin anew at the next look; which of them failed.

        check: the one; None for all of them.
        """
        done: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()
        self._clearing.append(_Clearing(entry, device, check, done, self._concluded.find_partner_refs(device.keys)))
        return done
