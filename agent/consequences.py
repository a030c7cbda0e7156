"""What follows from new lists: who is told of them, what is remembered, offered and watched from then on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent.allocation.devinfo import DevInfoFiles
from agent.allocation.held import Held
from agent.checks.answers import Answers
from agent.core.entry.resource import ResourceSpec
from agent.core.inventory.device import Health, Snapshot
from agent.core.inventory.touched import Touched
from agent.core.lists.assemble import Assembly
from agent.core.lists.expect import short
from agent.core.lists.topology import silence
from agent.host.inotify import PathWatch
from agent.registration.offering import Offering, Way, way_of
from agent.state.remembered import State
from agent.state.state import StateFile
from agent.status.status import Status
from agent.tracker.tracker import Tracker


class Consequences:
    """Draws them.

    Args:
        tracker: whose lists they are.
        held: told whether something waits for pods to let go.
        devinfo: whose files may wait for that too.
        status: told what has changed.
        offering: told which resources there are.
        file: told what should outlast this life, of the boot `boot`.
        nodes: watches where devices come and go.
        answers: told what was looked at.
    """

    def __init__(
        self,
        tracker: Tracker,
        held: Held,
        devinfo: DevInfoFiles,
        *,
        status: Status,
        offering: Offering,
        file: StateFile,
        boot: str,
        nodes: PathWatch,
        answers: Answers,
    ) -> None:
        self._tracker = tracker
        self._held = held
        self._devinfo = devinfo
        self._status = status
        self._offering = offering
        self._file = file
        self._boot = boot
        self._nodes = nodes
        self._answers = answers
        self._first = True  # nothing has been published yet in this life
        self._offered: tuple[Mapping[str, str], Sequence[ResourceSpec]] = {}, ()

    def published(self, before: Mapping[str, Snapshot], assembly: Assembly) -> None:
        """After each assembly: say what changed, remember it, and watch what is to be watched now."""
        first, self._first = self._first, False
        tracker = self._tracker
        self._answers.looked(tracker)
        self._status.published(before, assembly, first=first)
        if (assembly.written, tracker.specs) != self._offered:
            self._offered = assembly.written, tracker.specs
            self.offer(doubt=not first)
        self._status.silenced(
            {
                name: silence(list_, tracker.look)
                for name, list_ in assembly.snapshots.items()
                if first or before.get(name) is not list_
            }
        )
        self._status.expected(short(tracker.specs, tracker.look, assembly))
        self.want()
        self.remember()
        # What happened in these between the look that named them and now, nobody saw.
        if unseen := self._nodes.watch(tracker.directories):
            tracker.nudge(Touched(unseen))
        for name in assembly.ending:
            self._offering.retire(name)

    def offer(self, *, doubt: bool = True) -> None:
        """Offer the resources that there are now. One that is new here may have been another's, and be held.

        doubt: whether one can be new, and not only for us.
        """
        ways = self.ways(self._tracker.assembly.written)
        self._offering.keep(ways)
        if self._offering.add(ways) and doubt:
            self._held.doubt()

    def ways(self, resources: Iterable[str]) -> dict[str, Way]:
        """How resources that an entry has are with the kubelet."""
        entries = {name: self._tracker.entry_of(name) for name in resources}
        return {name: way_of(entry, self._tracker.specs) for name, entry in entries.items() if entry is not None}

    def want(self) -> None:
        """Say whether something waits for pods to let go: a device that is Unhealthy or in a pod, a file."""
        lists = self._tracker.assembly.snapshots.values()
        unhealthy = any(list_.count(Health.UNHEALTHY) for list_ in lists)
        self._held.want(unhealthy or bool(self._tracker.look.away) or self._devinfo.any)

    def remember(self) -> None:
        """Have written what should outlast this life, if there is anything new in it."""
        if self._first:
            return
        assembly, known, drained = self._tracker.assembly, self._held.known, self._tracker.drained
        fanned = {name: one.written for name, one in assembly.fanned.items()}
        self._file.save(State(assembly.snapshots, known, fanned, self._tracker.memory, self._boot, drained))
