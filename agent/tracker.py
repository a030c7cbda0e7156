"""The tracker: nudges in, snapshots out. It alone looks at the host and says what each resource offers.

A nudge only says what may have changed; looking is one function over the host, run in a thread of its own so that a
device that is slow or dead cannot stop the event loop. The first nudge is followed at once, those that come within the
settle time after it together.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from agent.checking import Checking
from agent.core.entry.program import Command
from agent.core.entry.resource import ResourceSpec
from agent.core.health.conditions import Conditions, Memory
from agent.core.health.drained import Drained
from agent.core.inventory.away import Mover, moved, movers
from agent.core.inventory.device import Device, Snapshot
from agent.core.inventory.look import NOTHING_MOVES, Listing, Look, look
from agent.core.inventory.rounds import Rounds
from agent.core.inventory.touched import EVERYTHING, Touched
from agent.core.language.printable import escape
from agent.core.lists.assemble import Assembly, assemble
from agent.core.lists.draft import Held
from agent.core.lists.lost import forgotten
from agent.core.lists.naming import Fanned, Offers, whose
from agent.core.report.metrics import KERNEL_LOG
from agent.core.report.tally import Tally
from agent.counts import Counts
from agent.hearing import Hearing
from agent.host.aside import begin
from agent.host.cdi import SpecDirectories
from agent.host.root import Root
from agent.own_specs import OwnSpecs, with_faults
from agent.preparing import Preparing
from agent.registry import Registry
from agent.scanners import catalog
from agent.scanners.reading import UNASKED, Answers, HostReader

DELIVERY_SECONDS = 1.0  # how long a list that lost a device may take before the list that gains it goes out anyway
SILENT_SECONDS = 2.0  # a file that a look is still reading after so long will not answer soon

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

    Attributes:
        look, specs: the host as last seen, and the entries that saw it so; they change together.
        assembly: the lists as last told.
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
    ) -> None:
        self.look = Look()
        self.specs = tuple(specs)
        names = {name: Fanned(written) for name, written in (fanned or {}).items()}
        self.assembly = Assembly(dict(told), written=whose(self.specs, names), fanned=names)
        self.directories: frozenset[str] = frozenset()
        self.events = 0
        self._root = Root(root.prefix or "/")  # its own, so that only its looks are in `asked`
        self._registry = registry
        self._settle = settle
        self._every = every
        self._cdi = cdi
        self._answers = answers
        self._preparing = preparing
        self._own_specs = own_specs
        self._held = held
        self._known = known or held
        self._published = published
        self._wanted = self.specs
        self._rounds = Rounds()
        self._checking = Checking(memory or Memory(), settle, drained or Drained())
        self._hearing = Hearing(self._root, self._checking, self.reassemble)
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
        self.events += bool(touched)
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

    def drop(self, resource: str) -> None:
        """Forget the list of a resource that is served no more."""
        self.assembly = replace(
            self.assembly,
            snapshots={name: list_ for name, list_ in self.assembly.snapshots.items() if name != resource},
        )

    def entry_of(self, resource: str) -> ResourceSpec | None:
        """The entry that a resource is of, as last told; not those that add to it."""
        written = self.assembly.written.get(resource)
        name = written or resource
        return None if written is None else next((spec for spec in self.specs if spec.name == name), None)

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
        self._counts.overruns[KERNEL_LOG] = self._hearing.overruns
        return self._counts.tally(self.events, self._checking.answers)

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
        lost = self._forget_lost(resource, device) if check is None else frozenset()
        entry = self.assembly.written.get(resource) or resource
        clearing = self._checking.clear(entry, device, check)
        await self.looked()
        cleared = await clearing | lost
        if cleared:
            log.info("%s %s: cleared: %s", resource, escape(device.id), escape(", ".join(sorted(cleared))))
        return cleared

    def _forget_lost(self, resource: str, device: Device) -> frozenset[str]:
        """Forget what a device has lost."""
        lists = self.assembly.snapshots
        list_ = forgotten(lists[resource], device, self._held()) if resource in lists else None
        if list_ is None:
            return frozenset()
        self.assembly = replace(self.assembly, snapshots={**lists, resource: list_})
        self._reassemble = True
        return frozenset({"lost"})

    def configure(self, specs: Sequence[ResourceSpec]) -> None:
        """Have other entries put in force, together with the look that sees the host as they do."""
        self._wanted = tuple(specs)
        self.nudge(EVERYTHING)

    async def looked(self) -> None:
        """Return when a look that began after this call is assembled and published."""
        self.nudge(Touched())
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
            self._touched |= Touched(sources=due, keys=self._checking.due(time.monotonic()))
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
                await self._publish(begun)
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
        """Look, and put what is seen in force together with the entries that saw it.

        A file that keeps the look waiting is passed over, and everything is looked at again without it: dead hardware
        costs its own facts, and the others some seconds, once. A look that is only slow is waited for.
        """
        wanted = self._wanted
        touched = touched if wanted is self.specs else EVERYTHING
        await self._hearing.follow(wanted, anew=touched.everything)
        asked: set[str] = set()
        began = time.monotonic()
        outcomes = self._preparing.outcomes if self._preparing else None
        looking = self._begin_look(wanted, touched, outcomes)
        try:
            while not (await asyncio.wait([looking], timeout=SILENT_SECONDS))[0]:
                now = set(self._root.asked.values()) - self._root.silent
                if silent := now & asked:
                    self._pass_over(silent)
                    looking.cancel()
                    looking = self._begin_look(wanted, EVERYTHING, outcomes)
                asked = now - silent
            self.look, self.directories = looking.result()
            self._counts.looks.observe(time.monotonic() - began)
            if self._own_specs and self._own_specs.directory and any(spec.via for spec in wanted):
                self.directories |= {self._own_specs.directory}
        finally:
            looking.cancel()
        self.specs = wanted

    def _begin_look(
        self, specs: Sequence[ResourceSpec], touched: Touched, outcomes: Mapping[Command, str] | None
    ) -> asyncio.Future[tuple[Look, frozenset[str]]]:
        take = partial(take_look, answers=self._answers, outcomes=outcomes, movers=self._movers(specs))
        return begin(take, self._root, specs, self.look, touched, self._cdi)

    def _movers(self, specs: Sequence[ResourceSpec]) -> Mapping[str, Mover]:
        """The devices that pods hold and that may be in them."""
        if not any(spec.moves is not None for spec in specs):
            return {}
        return movers(specs, self.assembly.snapshots, self.assembly.written, Held(self._known()).holds)

    def _pass_over(self, silent: set[str]) -> None:
        """Leave alone what does not answer, until the one read that waits for it returns."""
        for path in sorted(silent):
            log.error("%s: does not answer; it is passed over until it does", escape(path))
        self._root.silent |= silent

    async def _publish(self, begun: float | None) -> None:
        """Tell the registry what there is now; a device that moves leaves its old list before it joins the new.

        begun: when the change began that this tells.
        """
        self._checking.conclude(self.look, self.specs, time.monotonic())
        while True:
            told = self.assembly.snapshots
            self.assembly = await self._assembled(told)
            changed = [
                snapshot.resource
                for snapshot in self.assembly.snapshots.values()
                if self._registry.publish(snapshot, begun)
            ]
            for _ in ("the streams write", "what they wrote is sent"):  # which goes before all else
                await asyncio.sleep(0)
            self._published(told, self.assembly)
            if not self.assembly.moving:
                return
            try:
                async with asyncio.timeout(DELIVERY_SECONDS):
                    await self._registry.delivered(changed)
            except TimeoutError:
                log.warning("%s: a list is not taken by the kubelet; going on", ", ".join(changed))

    async def _assembled(self, told: Mapping[str, Snapshot]) -> Assembly:
        """The lists of now, their CDI specs written; whoever could not be given one is Unhealthy."""
        made = self._assemble(told, self.offers)
        if self._own_specs is None:
            return made
        faults = await self._own_specs.renew(made, self.specs, self.offers, Held(self._held()))
        return self._assemble(told, with_faults(self.offers, faults, self.specs)) if faults else made

    def _assemble(self, told: Mapping[str, Snapshot], offers: Offers) -> Assembly:
        return assemble(
            self.look,
            self.specs,
            self._held(),
            told,
            time.monotonic(),
            fanned=self.assembly.fanned,
            settled=self.assembly.settled,
            candidates=offers,
        )


def where_to_look(root: Root, specs: Sequence[ResourceSpec]) -> frozenset[str]:
    """The directories below /dev where devices come and go, as far as that is known before the first look."""
    return catalog.watched(root, Listing({source: () for spec in specs for source in spec.sources}))


def take_look(
    root: Root,
    specs: Sequence[ResourceSpec],
    previous: Look,
    touched: Touched,
    cdi: SpecDirectories | None = None,
    *,
    answers: Answers = UNASKED,
    outcomes: Mapping[Command, str] | None = None,
    movers: Mapping[str, Mover] = NOTHING_MOVES,
) -> tuple[Look, frozenset[str]]:
    """The host as it is now, as the entries see it, and the directories where that may change without an event.

    What `touched` does not concern is taken from `previous`.
    """
    sources = tuple(dict.fromkeys(source for spec in specs for source in spec.sources))
    listing = catalog.listing(root, sources, previous.listing, touched)
    reader = HostReader(root, cdi, answers)
    now = look(specs, listing, reader, previous, touched, outcomes=outcomes, movers=movers)
    return now, catalog.watched(root, listing) | now.places.directories
