"""The tracker: it decides when to look at the host, and publishes the device lists that follow.

A request only names paths that may have changed. The first request starts a look at once. Requests within the
debounce time after a look share the next look.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from agent.config.settings import LookSettings
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.health.check_states import CheckStates
from agent.core.health.drain_overlay import DrainSet
from agent.core.health.saved_checks import SavedChecks
from agent.core.inventory.device import Device
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet, SourceTimers
from agent.core.inventory.in_pod import diff_movable_devices
from agent.core.inventory.inventory import Inventory
from agent.core.language.safe_text import escape
from agent.core.lists.build_lists import DeviceLists
from agent.core.lists.resource_names import ResourceCandidates
from agent.core.message_id import NOTICE, MessageId, build_log_extra
from agent.core.report.counter_values import CounterValues
from agent.core.report.metrics import KERNEL_LOG
from agent.counters import Counters
from agent.prepare_runner import PrepareRunner
from agent.scanners.host_reader import HostView
from agent.tracker.check_evaluator import CheckEvaluator
from agent.tracker.kernel_log_reader import KernelLogReader
from agent.tracker.list_publisher import ListPublisher
from agent.tracker.look_thread import LookThread

log = logging.getLogger(__name__)


class Tracker:
    """The tracker of the host. It keeps the registry equal to the host.

    Args:
        host: the host.
        specs: the entries, in file order.
        check_evaluator: evaluates the checks of each look.
        list_publisher: builds and publishes the lists of each look.
        timing: the time between two looks, and between full rescans.
        prepare_runner: runs the prepare programs of entries; None: all programs count as run.
        counters: counts the durations of looks.
        clock: monotonic seconds for checks.

    Attributes:
        inventory, specs: the host at the last look, and the entries of this look. Both change together.
        directories: the directories where devices, mounts and CDI specs can appear.
    """

    def __init__(
        self,
        host: HostView,
        specs: Sequence[ResourceSpec],
        check_evaluator: CheckEvaluator,
        list_publisher: ListPublisher,
        *,
        timing: LookSettings,
        prepare_runner: PrepareRunner | None = None,
        counters: Counters | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.inventory = Inventory()
        self.specs = tuple(specs)
        self.directories: frozenset[str] = frozenset()
        self._timing = timing
        self._clock = clock
        self._prepare_runner = prepare_runner
        self._look_thread = LookThread(host)
        self._list_publisher = list_publisher
        self._check_evaluator = check_evaluator
        self._next_specs = self.specs
        self._source_timers = SourceTimers()
        self._kernel_log_reader = KernelLogReader(host.root, self._check_evaluator, self.request_lists, clock)
        self._dirty_set = ALL_DIRTY
        self._lists_requested = False
        self._counters = counters or Counters()
        self._change_began_at: float | None = None  # the begin of the oldest change that no look has seen
        self._work_event = asyncio.Event()
        self._work_event.set()
        self._look_event = asyncio.Event()

    def request_look(self, dirty_set: DirtySet = ALL_DIRTY) -> None:
        """Request a look at the dirty part of the host."""
        self._dirty_set |= dirty_set
        if dirty_set and self._change_began_at is None:
            self._change_began_at = time.monotonic()
        self._work_event.set()

    def needs_query(self, mark: str) -> bool:
        """Return whether a device depends on a query."""
        return bool(self.inventory.path_index.get_keys(mark))

    def needs_probe(self, mark: str) -> bool:
        """Return whether a device depends on reports of a probe."""
        return self.inventory.path_index.has_keys_below(mark)

    def report_change(self, mark: str, *, changed: bool) -> None:
        """Request a look for a new query result, if the result changed or still counts for a check."""
        keys = self.inventory.path_index.get_keys(mark)
        if changed or self._check_evaluator.has_undecided_check(
            candidate for key in keys for candidate in self.inventory.find_candidates(key)
        ):
            self.request_look(DirtySet(frozenset({mark})))

    def request_lists(self) -> None:
        """Request new lists without a look, for example after the held IDs changed."""
        self._lists_requested = True
        self._work_event.set()

    @property
    def device_lists(self) -> DeviceLists:
        """The lists of the last publication."""
        return self._list_publisher.device_lists

    def drop_list(self, resource: str) -> None:
        """Remove the list of a resource that is not served now."""
        self._list_publisher.drop_list(resource)

    def find_entry(self, resource: str) -> ResourceSpec | None:
        """Return the entry of a listed resource, or None. Entries that add devices to the resource do not count."""
        written = self.device_lists.written_names.get(resource)
        name = written or resource
        return None if written is None else next((spec for spec in self.specs if spec.name == name), None)

    @property
    def candidates(self) -> ResourceCandidates:
        """The candidates of the last look, with unhealthy reasons."""
        return self._check_evaluator.candidates

    @property
    def check_states(self) -> CheckStates:
        """The check states after the last look."""
        return self._check_evaluator.check_states

    @property
    def kernel_log_error(self) -> str:
        """The reason why kernel log checks cannot read the log, or an empty string."""
        absent = self._check_evaluator.log_history.read_error
        return absent.reason if absent else ""

    @property
    def counter_values(self) -> CounterValues:
        """The counters of the tracker and of all other parts."""
        self._counters.events[KERNEL_LOG] = self._kernel_log_reader.line_count
        self._counters.overruns[KERNEL_LOG] = self._kernel_log_reader.overruns
        return self._counters.build_values(self._check_evaluator.result_counts)

    @property
    def drains(self) -> DrainSet:
        """The drains of administrators."""
        return self._check_evaluator.drains

    async def set_drains(self, drains: DrainSet) -> None:
        """Replace all drains. Return after the lists contain them."""
        self._check_evaluator.drains = drains
        self.request_lists()
        await self.wait_for_look()

    @property
    def saved_checks(self) -> SavedChecks:
        """The saved checks for the next start of the agent."""
        return self._check_evaluator.saved_checks

    async def clear(self, resource: str, device: Device, check: str | None) -> frozenset[str]:
        """Clear failing checks of a device, look at it again, and return the names of the cleared checks.

        check: the name of the check; None for all checks and for missing members of a group device ("lost").
        """
        has_forgotten = check is None and self._list_publisher.forget_missing_members(resource, device)
        self._lists_requested |= has_forgotten
        entry = self.device_lists.written_names.get(resource) or resource
        clearing = self._check_evaluator.clear(entry, device, check)
        await self.wait_for_look()
        cleared_checks = await clearing | (frozenset({"lost"}) if has_forgotten else frozenset())
        if cleared_checks:
            check_names = escape(", ".join(sorted(cleared_checks)))
            extra = build_log_extra(MessageId.CLEARED, resource=resource, device=device.id, check=check_names)
            log.log(NOTICE, "%s %s: cleared: %s", resource, escape(device.id), check_names, extra=extra)
        return cleared_checks

    def configure(self, specs: Sequence[ResourceSpec]) -> None:
        """Activate other entries, together with the first look by these entries."""
        self._next_specs = tuple(specs)
        self.request_look(ALL_DIRTY)

    async def wait_for_look(self, dirty_set: DirtySet = DirtySet()) -> None:  # noqa: B008  frozen
        """Return after the lists of a look that began after this call are published."""
        self.request_look(dirty_set)
        await self._look_event.wait()

    async def run(self) -> None:
        """Run looks until cancelled."""
        try:
            await self._run_looks()
        finally:
            self._kernel_log_reader.close()

    async def _run_looks(self) -> None:
        loop = asyncio.get_running_loop()
        last_look, last_rescan = -self._timing.debounce_time, loop.time()
        while True:
            await self._wait_for_work(self._get_next_time(last_rescan))
            if (remaining_s := last_look + self._timing.debounce_time - loop.time()) > 0 and not self._lists_requested:
                await asyncio.sleep(remaining_s)
            self._work_event.clear()
            self._kernel_log_reader.poll()
            if loop.time() >= last_rescan + self._timing.rescan_interval:
                self._dirty_set = ALL_DIRTY
            self._dirty_set |= DirtySet(
                keys=diff_movable_devices(
                    self.inventory.movable_devices, self._list_publisher.find_movable_devices(self.specs)
                )
            )
            due_sources = self._source_timers.take_due_sources(self._next_specs, loop.time())
            due_keys = self._check_evaluator.take_due_keys(self._clock(), is_full_rescan=self._dirty_set.is_full_rescan)
            self._dirty_set |= DirtySet(sources=due_sources, keys=due_keys)
            dirty_set, self._dirty_set = self._dirty_set, DirtySet()
            changed_at, self._change_began_at = self._change_began_at, None
            lists_requested, self._lists_requested = self._lists_requested, False
            look_event, self._look_event = self._look_event, asyncio.Event()
            previous, specs = self.inventory, self.specs
            if dirty_set:
                last_look = loop.time()
                last_rescan = last_look if dirty_set.is_full_rescan else last_rescan
                await self._run_look(dirty_set)
                if self._prepare_runner:
                    self._prepare_runner.set_requests(self.inventory.prepare_requests)
            due_time = self._list_publisher.next_at
            is_due = due_time is not None and loop.time() >= due_time
            has_changes = lists_requested or self._check_evaluator.has_log_changes
            if has_changes or is_due or self.inventory is not previous or self.specs is not specs:
                self._check_evaluator.evaluate_checks(self.inventory, self.specs, self._clock())
                await self._list_publisher.publish(self.inventory, self.specs, self.candidates, changed_at)
            look_event.set()

    def _get_next_time(self, last_rescan: float) -> float:
        """Return the time of the next work without a request: rescan, source timer, check or retry."""
        times = (self._list_publisher.next_at, self._check_evaluator.next_at)
        return min(
            last_rescan + self._timing.rescan_interval,
            self._source_timers.next_at,
            *(time_due for time_due in times if time_due is not None),
        )

    async def _wait_for_work(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._work_event.wait()
        except TimeoutError:
            return

    async def _run_look(self, dirty_set: DirtySet) -> None:
        """Look at the host, then activate the entries of the look together with its inventory."""
        specs = self._next_specs
        dirty_set = dirty_set if specs is self.specs else ALL_DIRTY
        await self._kernel_log_reader.follow(specs, restart=dirty_set.is_full_rescan)
        started_at = time.monotonic()
        self.inventory, self.directories = await self._look_thread.run(
            specs,
            self.inventory,
            dirty_set,
            prepare_results=self._prepare_runner.outcomes if self._prepare_runner else None,
            movable_devices=self._list_publisher.find_movable_devices(specs),
        )
        self._counters.look_times.observe(time.monotonic() - started_at)
        self.specs = specs
