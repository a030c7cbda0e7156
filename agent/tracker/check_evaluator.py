"""Evaluator of all checks while the agent runs, with the requests of administrators to clear checks.

A request is applied directly before a look, so that no earlier look can undo it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from agent.core.entry.kernel_log import KernelLogHistory, LogKey, LogRecord
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.health.check_states import CheckStates, DeviceCheckStates, DeviceRef
from agent.core.health.drain_overlay import DrainOverlay, DrainSet
from agent.core.health.evaluation import Evaluation, evaluate
from agent.core.health.saved_checks import SavedChecks, SavedChecksBuilder, restore_check_states
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.check_run import list_checks
from agent.core.inventory.device import Device
from agent.core.inventory.inventory import Inventory
from agent.core.language.value import Absent
from agent.core.lists.resource_names import ResourceCandidates
from agent.core.struct import Struct, replace


class _Clearing(Struct):
    """A request to clear checks of a device. `cleared_checks` gets the names of the checks that failed."""

    entry: str
    device: Device
    check: str | None
    cleared_checks: asyncio.Future[frozenset[str]]
    partners: frozenset[DeviceRef] = frozenset()

    def is_selected(self, device_ref: DeviceRef, device_states: DeviceCheckStates) -> bool:
        """Return whether this is the device, a device at its location, or a partner whose health it checks."""
        is_same_device = (
            device_ref.key_or_location in self.device.keys or device_states.location in self.device.locations
        )
        return device_ref in self.partners or (device_ref.entry == self.entry and is_same_device)


class CheckEvaluator:
    """The evaluator of all checks.

    Args:
        saved_checks: the check states of the last agent process.
        look_distance_s: seconds between two looks that both count.
        drains: the drains of administrators.

    Attributes:
        log_history: the history of the kernel log.
        result_counts: the number of check results, by name and result.
        candidates: the candidates of the last evaluation, with failures and drains as unhealthy reasons.
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
        self._drain_overlay = DrainOverlay()
        self.drains = drains
        self.candidates: ResourceCandidates = {}

    @property
    def check_states(self) -> CheckStates:
        """The check states after the last evaluation."""
        return self._evaluation.check_states

    @property
    def saved_checks(self) -> SavedChecks:
        """The saved checks after the last evaluation, also of devices that are not listed yet."""
        return self._saved_checks_builder.update(self._evaluation.check_states)

    @property
    def has_log_changes(self) -> bool:
        """Return whether a kernel log line matched a key since the last evaluation."""
        return self._changed_log_keys is None or bool(self._changed_log_keys)

    def add_records(self, records: Iterable[LogRecord]) -> None:
        """Add lines of the kernel log."""
        for record in records:
            changed_keys = self.log_history.add_record(record)
            if self._changed_log_keys is not None:
                self._changed_log_keys |= changed_keys

    def set_log_error(self, error: Absent | None) -> None:
        """Set the reason why the kernel log cannot be read; None if the log can be read."""
        if error != self.log_history.read_error:
            self.log_history.read_error = error
            self._changed_log_keys = None

    @property
    def next_at(self) -> float | None:
        """Monotonic seconds of the next look that a check needs; None if no check needs one."""
        return self._evaluation.check_states.next_at

    def evaluate_checks(self, inventory: Inventory, specs: Sequence[ResourceSpec], current_time: float) -> None:
        """Evaluate the checks of an inventory. The same inventory again is not a new look."""
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
        self.candidates = self._drain_overlay.update(self._evaluation.candidates, self.drains)

    def has_undecided_check(self, candidates: Iterable[Candidate]) -> bool:
        """Return whether an equal result of one of these candidates still counts."""
        present_devices = self._evaluation.check_states.present_devices
        for check_result in (check_result for candidate in candidates for check_result in list_checks(candidate)):
            device = present_devices.get(DeviceRef(check_result.entry, check_result.device_key))
            state = device.check_states.get(check_result.check.name) if device else None
            if state is None or state.never_healthy or state.since is not None:
                return True
        return False

    def take_due_keys(self, current_time: float, *, is_full_rescan: bool = False) -> frozenset[str]:
        """Apply the requests to clear, and return the keys of devices that the next look must read.

        is_full_rescan: also return devices for which an equal result still counts.
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
        """Clear checks of a device before the next look. The future returns the names of the checks that failed.

        check: the name of the check; None for all checks.
        """
        cleared_checks: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()
        self._clearings.append(
            _Clearing(entry, device, check, cleared_checks, self._evaluation.find_partner_refs(device.keys))
        )
        return cleared_checks
