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
    cleared_checks: asyncio.Future[frozenset[str]]
    partners: frozenset[DeviceRef] = frozenset()

    def is_selected(self, device_ref: DeviceRef, device_states: DeviceCheckStates) -> bool:
        """Whether that is this device, or was where it is, or a partner of whose health its checks speak."""
        is_same_device = (
            device_ref.key_or_location in self.device.keys or device_states.location in self.device.locations
        )
        return device_ref in self.partners or (device_ref.entry == self.entry and is_same_device)


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
        self._changed_log_keys: set[LogKey] | None = set()
        self._evaluation = Evaluation(restore_check_states(saved_checks))
        self._saved_checks_builder = SavedChecksBuilder()
        self._clearings: list[_Clearing] = []
        self._look_distance_s = look_distance_s
        self._specs: Sequence[ResourceSpec] = ()
        self.result_counts: Counter[tuple[str, str]] = Counter()
        self._overlay = DrainOverlay()
        self.drains = drains

    @property
    def check_states(self) -> CheckStates:
        """All conditions, after the look that was concluded last."""
        return self._evaluation.check_states

    @property
    def saved_checks(self) -> SavedChecks:
        """What is known of what was looked at, told or not."""
        return self._saved_checks_builder.update(self._evaluation.check_states)

    @property
    def has_log_changes(self) -> bool:
        """Whether the kernel log spoke of somebody since the last conclusion."""
        return self._changed_log_keys is None or bool(self._changed_log_keys)

    def add_records(self, records: Iterable[LogRecord]) -> None:
        """Take what the kernel says."""
        for record in records:
            changed_keys = self.log_history.add_record(record)
            if self._changed_log_keys is not None:
                self._changed_log_keys |= changed_keys

    def set_log_error(self, error: Absent | None) -> None:
        """That the kernel log cannot be read, for that reason; or that it can."""
        if error != self.log_history.read_error:
            self.log_history.read_error = error
            self._changed_log_keys = None

    @property
    def next_at(self) -> float | None:
        """Monotonic seconds at which a device is to be looked at for its checks; None if none is."""
        return self._evaluation.check_states.next_at

    @property
    def candidates(self) -> ResourceCandidates:
        """The candidates of the look that was concluded last, what fails and what is drained as their fault."""
        return self._overlay.candidates

    def evaluate_checks(self, inventory: Inventory, specs: Sequence[ResourceSpec], current_time: float) -> None:
        """Have the checks say what a look says. The same look again is no other look."""
        entries = [
            name
            for spec in specs
            for name in (spec.name, *(key.name for join in spec.joins for key in join.list_partner_checks()))
        ]
        changed_log_keys, self._changed_log_keys = self._changed_log_keys, set()
        previous = self._evaluation
        self._evaluation = evaluate(
            previous,
            inventory.get_resource_candidates(),
            entries,
            current_time,
            self._look_distance_s,
            log_history=self.log_history,
            changed_log_keys=changed_log_keys,
        )
        if self._evaluation is not previous:
            self.result_counts.update(self._evaluation.result_counts)
        if specs is not self._specs:
            self._specs = specs
            check_names = {check.name for spec in specs for check in spec.list_checks()}
            self.result_counts = Counter(
                {key: count for key, count in self.result_counts.items() if key[0] in check_names}
            )
        self._overlay = apply_drains(self._overlay, self._evaluation.candidates, self.drains)

    def has_undecided_check(self, candidates: Iterable[Candidate]) -> bool:
        """Whether a check of one of these is about to turn: another answer counts, though it says the same."""
        present_devices = self._evaluation.check_states.present_devices
        for check_result in (check_result for candidate in candidates for check_result in list_checks(candidate)):
            device = present_devices.get(DeviceRef(check_result.entry, check_result.device_key))
            state = device.check_states.get(check_result.check.name) if device else None
            if state is None or state.never_healthy or state.since is not None:
                return True
        return False

    def take_due_keys(self, current_time: float, *, is_full_rescan: bool = False) -> frozenset[str]:
        """The keys of what is to be looked at now, also because a person has cleared something of it.

        swept: everything is; so what may turn when it says the same again is, too.
        """
        clearings, self._clearings = self._clearings, []
        keys: frozenset[str] = frozenset()
        for clearing_request in clearings:
            check_states, check_names = self._evaluation.check_states.clear_checks(
                clearing_request.is_selected, clearing_request.check, self.log_history.last_number
            )
            self._evaluation = replace(self._evaluation, check_states=check_states)
            clearing_request.cleared_checks.set_result(check_names)
            keys |= (
                frozenset(
                    (
                        *clearing_request.device.keys,
                        *(device_ref.key_or_location for device_ref in clearing_request.partners),
                    )
                )
                if check_names
                else frozenset()
            )
        undecided_keys = self._evaluation.check_states.find_undecided_keys() if is_full_rescan else frozenset[str]()
        return keys | undecided_keys | self._evaluation.check_states.find_due_keys(current_time)

    def clear(self, entry: str, device: Device, check: str | None) -> asyncio.Future[frozenset[str]]:
        """Have checks of a device begin anew at the next look; which of them failed.

        check: the one; None for all of them.
        """
        cleared_checks: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()
        self._clearings.append(
            _Clearing(entry, device, check, cleared_checks, self._evaluation.find_partner_refs(device.keys))
        )
        return cleared_checks
