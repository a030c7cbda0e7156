"""The tracker: nudges in, snapshots out. It alone says when the host is looked at, and what follows from that.

A nudge only says what may have changed. The first nudge is followed at once, those that come within the settle time
after it together.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.health.check_states import CheckStates
from agent.core.health.drain_overlay import DrainSet
from agent.core.health.saved_checks import SavedChecks
from agent.core.inventory.device import Device, DeviceList
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.inventory.in_pod import MovableDevice, diff_movable_devices, find_movable_devices
from agent.core.inventory.inventory import Inventory
from agent.core.inventory.source_timers import SourceTimers
from agent.core.language.safe_text import escape
from agent.core.lists.build_lists import DeviceLists
from agent.core.lists.list_inputs import HeldIds
from agent.core.lists.resource_names import ResourceCandidates
from agent.core.message_id import NOTICE, MessageId, fields
from agent.core.report.counter_values import CounterValues
from agent.core.report.metrics import KERNEL_LOG
from agent.counters import Counters
from agent.host.cdi_specs import SpecDirectories
from agent.host.root import Root
from agent.prepare_runner import PrepareRunner
from agent.registry import Registry
from agent.scanners.query_source import NO_AGENT, QuerySource
from agent.specs.generated_specs import GeneratedSpecs
from agent.tracker.check_evaluator import CheckEvaluator
from agent.tracker.kernel_log_reader import KernelLogReader
from agent.tracker.list_publisher import ListPublisher
from agent.tracker.look_thread import LookThread

log = logging.getLogger(__name__)


class Tracker:
    """Keeps the registry true to the host.

    Args:
        specs: the entries, in file order.
        told: the lists of the last life. fanned: those of them whose names came out of words, as these are written.
        memory: what is remembered of checks.
        drained: what a person had taken out of scheduling.
        settle: seconds within which nudges become one look.
        every: seconds between sweeps.
        cdi: where CDI specs are, if not where runtimes look by default.
        answers: who knows what programs, services and probes have told.
        own_specs: who writes CDI specs of our own.
        preparing: who runs what entries want to have been run; None if nobody does, and it counts as run.
        held: the ids that pods may hold, asked at each assembly.
        known: those of them that somebody said so of; the same if it is not said.
        counts: told how long looks take.
        published: called after each assembly, with the old lists and the new.
        clock: the monotonic seconds by which checks and lists are judged.

    Attributes:
        look, specs: the host as last seen, and the entries that saw it so; they change together.
        directories: those where devices, mounts and CDI specs may come and go.
    """

    def __init__(
        self,
        root: Root,
        registry: Registry,
        specs: Sequence[ResourceSpec],
        told: Mapping[str, DeviceList],
        *,
        fanned: Mapping[str, str] | None = None,
        memory: SavedChecks | None = None,
        drained: DrainSet | None = None,
        settle: float,
        every: float,
        cdi: SpecDirectories | None = None,
        answers: QuerySource = NO_AGENT,
        preparing: PrepareRunner | None = None,
        counts: Counters | None = None,
        own_specs: GeneratedSpecs | None = None,
        held: Callable[[], frozenset[str]],
        known: Callable[[], frozenset[str]] | None = None,
        published: Callable[[Mapping[str, DeviceList], DeviceLists], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.look = Inventory()
        self.specs = tuple(specs)
        self.directories: frozenset[str] = frozenset()
        self._settle = settle
        self._every = every
        self._clock = clock
        self._preparing = preparing
        self._own_specs = own_specs
        self._known = known or held
        self._looking = LookThread(root, cdi, answers)
        self._lists = ListPublisher(
            registry,
            self.specs,
            told,
            fanned or {},
            own_specs=own_specs,
            held=held,
            known=self._known,
            published=published,
            clock=clock,
        )
        self._wanted = self.specs
        self._rounds = SourceTimers()
        self._checking = CheckEvaluator(memory or SavedChecks(), settle, drained or DrainSet())
        self._hearing = KernelLogReader(root, self._checking, self.reassemble, clock)
        self._touched = ALL_DIRTY
        self._reassemble = False
        self._counts = counts or Counters()
        self._begun: float | None = None  # when what was not looked at yet began to be
        self._nudged = asyncio.Event()
        self._nudged.set()
        self._looked = asyncio.Event()

    def nudge(self, touched: DirtySet = ALL_DIRTY) -> None:
        """Say that something may have changed on the host."""
        self._touched |= touched
        if touched and self._begun is None:
            self._begun = time.monotonic()
        self._nudged.set()

    def needs_query(self, mark: str) -> bool:
        """Whether anything rests on an inquiry."""
        return bool(self.look.path_index.get_keys(mark))

    def needs_probe(self, mark: str) -> bool:
        """Whether anything rests on what a probe says."""
        return self.look.path_index.has_keys_below(mark)

    def report_change(self, mark: str, *, changed: bool) -> None:
        """Say that there is an answer to an inquiry, and whether it is another than before."""
        keys = self.look.path_index.get_keys(mark)
        if changed or self._checking.restless(found for key in keys for found in self.look.find_candidates(key)):
            self.nudge(DirtySet(frozenset({mark})))

    def reassemble(self) -> None:
        """Say that what pods hold may have changed; the host need not be looked at for that."""
        self._reassemble = True
        self._nudged.set()

    @property
    def assembly(self) -> DeviceLists:
        """The lists as last told."""
        return self._lists.assembly

    def drop(self, resource: str) -> None:
        """Forget the list of a resource that is served no more."""
        self._lists.drop(resource)

    def entry_of(self, resource: str) -> ResourceSpec | None:
        """The entry that a resource is of, as last told; not those that add to it."""
        written = self.assembly.written_names.get(resource)
        name = written or resource
        return None if written is None else next((spec for spec in self.specs if spec.name == name), None)

    def is_exclusive(self, device: Device) -> bool:
        """Return whether a grant of a listed device keeps other devices from pods."""
        return self.assembly.is_exclusive(device)

    def exclusive_devices(self) -> Iterator[tuple[str, Device]]:
        """Yield all such devices, each with its resource."""
        return self.assembly.find_exclusive_devices()

    @property
    def offers(self) -> ResourceCandidates:
        """The candidates of the look, what fails as their fault."""
        return self._checking.offers

    @property
    def conditions(self) -> CheckStates:
        """All conditions of checks, after the last look."""
        return self._checking.conditions

    @property
    def deaf(self) -> str:
        """Why the kernel log cannot be read, to which checks listen; empty if it can."""
        absent = self._checking.journal.absent
        return absent.reason if absent else ""

    @property
    def tally(self) -> CounterValues:
        """What was counted here and by all others."""
        self._counts.events[KERNEL_LOG] = self._hearing.lines
        self._counts.overruns[KERNEL_LOG] = self._hearing.overruns
        return self._counts.build_values(self._checking.answers)

    @property
    def drained(self) -> DrainSet:
        """What a person has taken out of scheduling."""
        return self._checking.drained

    async def drain(self, drained: DrainSet) -> None:
        """Have all that taken out of scheduling, and nothing else; returns when the lists say so."""
        self._checking.drained = drained
        self.reassemble()
        await self.looked()

    @property
    def memory(self) -> SavedChecks:
        """What the next life is to know of checks."""
        return self._checking.memory

    async def clear(self, resource: str, device: Device, check: str | None) -> frozenset[str]:
        """Have checks of a device that fail begin anew, and look at it again; which these were, by name.

        check: the one; None for all of them, and for what a device of several host devices has lost ("lost").
        """
        lost = check is None and self._lists.forget_lost(resource, device)
        self._reassemble |= lost
        entry = self.assembly.written_names.get(resource) or resource
        clearing = self._checking.clear(entry, device, check)
        await self.looked()
        cleared = await clearing | (frozenset({"lost"}) if lost else frozenset())
        if cleared:
            said = escape(", ".join(sorted(cleared)))
            extra = fields(MessageId.CLEARED, resource=resource, device=device.id, check=said)
            log.log(NOTICE, "%s %s: cleared: %s", resource, escape(device.id), said, extra=extra)
        return cleared

    def configure(self, specs: Sequence[ResourceSpec]) -> None:
        """Have other entries put in force, together with the look that sees the host as they do."""
        self._wanted = tuple(specs)
        self.nudge(ALL_DIRTY)

    async def looked(self, touched: DirtySet = DirtySet()) -> None:  # noqa: B008  frozen
        """Return when a look that began after this call, at what may have changed too, is assembled and published."""
        self.nudge(touched)
        await self._looked.wait()

    async def run(self) -> None:
        """Follow nudges, until cancelled."""
        try:
            await self._follow()
        finally:
            self._hearing.close()

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        looked_at, swept_at = -self._settle, loop.time()
        while True:
            await self._until_nudged(self._next(swept_at))
            if (early := looked_at + self._settle - loop.time()) > 0 and not self._reassemble:
                await asyncio.sleep(early)
            self._nudged.clear()
            self._hearing.poll()
            if loop.time() >= swept_at + self._every:
                self._touched = ALL_DIRTY
            self._touched |= DirtySet(keys=diff_movable_devices(self.look.movable_devices, self._movers(self.specs)))
            due = self._rounds.take_due_sources(self._wanted, loop.time())
            looked = self._checking.due(self._clock(), swept=self._touched.is_full_rescan)
            self._touched |= DirtySet(sources=due, keys=looked)
            touched, self._touched = self._touched, DirtySet()
            begun, self._begun = self._begun, None
            reassemble, self._reassemble = self._reassemble, False
            done, self._looked = self._looked, asyncio.Event()
            before, specs = self.look, self.specs
            if touched:
                looked_at = loop.time()
                swept_at = looked_at if touched.is_full_rescan else swept_at
                await self._look(touched)
                if self._preparing:
                    self._preparing.set_requests(self.look.prepare_requests)
            own = self._own_specs.retry_at if self._own_specs else None
            forget = any(at is not None and loop.time() >= at for at in (self.assembly.next_at, own))
            stirred = reassemble or self._checking.stirred
            if stirred or forget or self.look is not before or self.specs is not specs:
                self._checking.conclude(self.look, self.specs, self._clock())
                await self._lists.publish(self.look, self.specs, self.offers, begun)
            done.set()

    def _next(self, swept_at: float) -> float:
        """When there is something to do without a nudge: the sweep, the round of a source, something to forget."""
        own = self._own_specs.retry_at if self._own_specs else None
        others = (self.assembly.next_at, self._checking.next_at, own)
        return min(swept_at + self._every, self._rounds.next_at, *(at for at in others if at is not None))

    async def _until_nudged(self, when: float) -> None:
        try:
            async with asyncio.timeout_at(when):
                await self._nudged.wait()
        except TimeoutError:
            return

    async def _look(self, touched: DirtySet) -> None:
        """Look, and put what is seen in force together with the entries that saw it."""
        wanted = self._wanted
        touched = touched if wanted is self.specs else ALL_DIRTY
        await self._hearing.follow(wanted, anew=touched.is_full_rescan)
        began = time.monotonic()
        self.look, self.directories = await self._looking.look(
            wanted,
            self.look,
            touched,
            outcomes=self._preparing.outcomes if self._preparing else None,
            movers=self._movers(wanted),
        )
        self._counts.look_times.observe(time.monotonic() - began)
        if self._own_specs and self._own_specs.directory and any(spec.via for spec in wanted):
            self.directories |= {self._own_specs.directory}
        self.specs = wanted

    def _movers(self, specs: Sequence[ResourceSpec]) -> Mapping[str, MovableDevice]:
        """The devices that pods hold and that may be in them."""
        if not any(spec.moved_words is not None for spec in specs):
            return {}
        return find_movable_devices(
            specs, self.assembly.lists, self.assembly.written_names, HeldIds(self._known()).is_held
        )
