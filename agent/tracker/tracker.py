"""The tracker: nudges in, snapshots out. It alone says when the host is looked at, and what follows from that.

A nudge only says what may have changed. The first nudge is followed at once, those that come within the settle time
after it together.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from agent.core.entry.resource import ResourceSpec
from agent.core.health.conditions import Conditions
from agent.core.health.drained import Drained
from agent.core.health.memory import Memory
from agent.core.inventory.away import Mover, moved, movers
from agent.core.inventory.device import Device, Snapshot
from agent.core.inventory.look import Look
from agent.core.inventory.rounds import Rounds
from agent.core.inventory.touched import EVERYTHING, Touched
from agent.core.kind import NOTICE, Kind, fields
from agent.core.language.printable import escape
from agent.core.lists.assemble import Assembly
from agent.core.lists.naming import Offers
from agent.core.lists.present import Held
from agent.core.report.metrics import KERNEL_LOG
from agent.core.report.tally import Tally
from agent.counts import Counts
from agent.host.cdi import SpecDirectories
from agent.host.root import Root
from agent.preparing import Preparing
from agent.registry import Registry
from agent.scanners.answers import UNASKED, Answers
from agent.specs.own_specs import OwnSpecs
from agent.tracker.checking import Checking
from agent.tracker.hearing import Hearing
from agent.tracker.lists import Lists
from agent.tracker.looking import Looking

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
        told: Mapping[str, Snapshot],
        *,
        fanned: Mapping[str, str] | None = None,
        memory: Memory | None = None,
        drained: Drained | None = None,
        settle: float,
        every: float,
        cdi: SpecDirectories | None = None,
        answers: Answers = UNASKED,
        preparing: Preparing | None = None,
        counts: Counts | None = None,
        own_specs: OwnSpecs | None = None,
        held: Callable[[], frozenset[str]],
        known: Callable[[], frozenset[str]] | None = None,
        published: Callable[[Mapping[str, Snapshot], Assembly], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.look = Look()
        self.specs = tuple(specs)
        self.directories: frozenset[str] = frozenset()
        self._settle = settle
        self._every = every
        self._clock = clock
        self._preparing = preparing
        self._own_specs = own_specs
        self._known = known or held
        self._looking = Looking(root, cdi, answers)
        self._lists = Lists(
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
        self._rounds = Rounds()
        self._checking = Checking(memory or Memory(), settle, drained or Drained())
        self._hearing = Hearing(root, self._checking, self.reassemble, clock)
        self._touched = EVERYTHING
        self._reassemble = False
        self._counts = counts or Counts()
        self._begun: float | None = None  # when what was not looked at yet began to be
        self._nudged = asyncio.Event()
        self._nudged.set()
        self._looked = asyncio.Event()

    def nudge(self, touched: Touched = EVERYTHING) -> None:
        """Say that something may have changed on the host."""
        self._touched |= touched
        if touched and self._begun is None:
            self._begun = time.monotonic()
        self._nudged.set()

    def rests_on(self, mark: str) -> bool:
        """Whether anything rests on an inquiry."""
        return bool(self.look.places.resting_on(mark))

    def rests_below(self, mark: str) -> bool:
        """Whether anything rests on what a probe says."""
        return self.look.places.rest_below(mark)

    def told(self, mark: str, *, changed: bool) -> None:
        """Say that there is an answer to an inquiry, and whether it is another than before."""
        keys = self.look.places.resting_on(mark)
        if changed or self._checking.restless(found for key in keys for found in self.look.offers(key)):
            self.nudge(Touched(frozenset({mark})))

    def reassemble(self) -> None:
        """Say that what pods hold may have changed; the host need not be looked at for that."""
        self._reassemble = True
        self._nudged.set()

    @property
    def assembly(self) -> Assembly:
        """The lists as last told."""
        return self._lists.assembly

    def drop(self, resource: str) -> None:
        """Forget the list of a resource that is served no more."""
        self._lists.drop(resource)

    def entry_of(self, resource: str) -> ResourceSpec | None:
        """The entry that a resource is of, as last told; not those that add to it."""
        written = self.assembly.written.get(resource)
        name = written or resource
        return None if written is None else next((spec for spec in self.specs if spec.name == name), None)

    def is_exclusive(self, device: Device) -> bool:
        """Return whether a grant of a listed device keeps other devices from pods."""
        return self.assembly.is_exclusive(device)

    def exclusive_devices(self) -> Iterator[tuple[str, Device]]:
        """Yield all such devices, each with its resource."""
        return self.assembly.exclusive_devices()

    @property
    def offers(self) -> Offers:
        """The candidates of the look, what fails as their fault."""
        return self._checking.offers

    @property
    def conditions(self) -> Conditions:
        """All conditions of checks, after the last look."""
        return self._checking.conditions

    @property
    def deaf(self) -> str:
        """Why the kernel log cannot be read, to which checks listen; empty if it can."""
        absent = self._checking.journal.absent
        return absent.reason if absent else ""

    @property
    def tally(self) -> Tally:
        """What was counted here and by all others."""
        self._counts.events[KERNEL_LOG] = self._hearing.lines
        self._counts.overruns[KERNEL_LOG] = self._hearing.overruns
        return self._counts.tally(self._checking.answers)

    @property
    def drained(self) -> Drained:
        """What a person has taken out of scheduling."""
        return self._checking.drained

    async def drain(self, drained: Drained) -> None:
        """Have all that taken out of scheduling, and nothing else; returns when the lists say so."""
        self._checking.drained = drained
        self.reassemble()
        await self.looked()

    @property
    def memory(self) -> Memory:
        """What the next life is to know of checks."""
        return self._checking.memory

    async def clear(self, resource: str, device: Device, check: str | None) -> frozenset[str]:
        """Have checks of a device that fail begin anew, and look at it again; which these were, by name.

        check: the one; None for all of them, and for what a device of several host devices has lost ("lost").
        """
        lost = check is None and self._lists.forget_lost(resource, device)
        self._reassemble |= lost
        entry = self.assembly.written.get(resource) or resource
        clearing = self._checking.clear(entry, device, check)
        await self.looked()
        cleared = await clearing | (frozenset({"lost"}) if lost else frozenset())
        if cleared:
            said = escape(", ".join(sorted(cleared)))
            extra = fields(Kind.CLEARED, resource=resource, device=device.id, check=said)
            log.log(NOTICE, "%s %s: cleared: %s", resource, escape(device.id), said, extra=extra)
        return cleared

    def configure(self, specs: Sequence[ResourceSpec]) -> None:
        """Have other entries put in force, together with the look that sees the host as they do."""
        self._wanted = tuple(specs)
        self.nudge(EVERYTHING)

    async def looked(self, touched: Touched = Touched()) -> None:  # noqa: B008  frozen
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
                self._touched = EVERYTHING
            self._touched |= Touched(keys=moved(self.look.movers, self._movers(self.specs)))
            due = self._rounds.due(self._wanted, loop.time())
            looked = self._checking.due(self._clock(), swept=self._touched.everything)
            self._touched |= Touched(sources=due, keys=looked)
            touched, self._touched = self._touched, Touched()
            begun, self._begun = self._begun, None
            reassemble, self._reassemble = self._reassemble, False
            done, self._looked = self._looked, asyncio.Event()
            before, specs = self.look, self.specs
            if touched:
                looked_at = loop.time()
                swept_at = looked_at if touched.everything else swept_at
                await self._look(touched)
                if self._preparing:
                    self._preparing.want(self.look.programs)
            own = self._own_specs.next_at if self._own_specs else None
            forget = any(at is not None and loop.time() >= at for at in (self.assembly.next_at, own))
            stirred = reassemble or self._checking.stirred
            if stirred or forget or self.look is not before or self.specs is not specs:
                self._checking.conclude(self.look, self.specs, self._clock())
                await self._lists.publish(self.look, self.specs, self.offers, begun)
            done.set()

    def _next(self, swept_at: float) -> float:
        """When there is something to do without a nudge: the sweep, the round of a source, something to forget."""
        own = self._own_specs.next_at if self._own_specs else None
        others = (self.assembly.next_at, self._checking.next_at, own)
        return min(swept_at + self._every, self._rounds.next_at, *(at for at in others if at is not None))

    async def _until_nudged(self, when: float) -> None:
        try:
            async with asyncio.timeout_at(when):
                await self._nudged.wait()
        except TimeoutError:
            return

    async def _look(self, touched: Touched) -> None:
        """Look, and put what is seen in force together with the entries that saw it."""
        wanted = self._wanted
        touched = touched if wanted is self.specs else EVERYTHING
        await self._hearing.follow(wanted, anew=touched.everything)
        began = time.monotonic()
        self.look, self.directories = await self._looking.look(
            wanted,
            self.look,
            touched,
            outcomes=self._preparing.outcomes if self._preparing else None,
            movers=self._movers(wanted),
        )
        self._counts.looks.observe(time.monotonic() - began)
        if self._own_specs and self._own_specs.directory and any(spec.via for spec in wanted):
            self.directories |= {self._own_specs.directory}
        self.specs = wanted

    def _movers(self, specs: Sequence[ResourceSpec]) -> Mapping[str, Mover]:
        """The devices that pods hold and that may be in them."""
        if not any(spec.moves is not None for spec in specs):
            return {}
        return movers(specs, self.assembly.snapshots, self.assembly.written, Held(self._known()).holds)
