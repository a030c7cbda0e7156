"""The parts of an agent, wired: which there are, and who is told of what by whom."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping

from agent.allocation.allocation import Allocation
from agent.allocation.devinfo import DevInfoFiles
from agent.allocation.held import Held, HeldIdSource
from agent.checks import command
from agent.checks.answers import Answers
from agent.checks.asking import Asking
from agent.checks.probes import Probes
from agent.config.load import Configuration
from agent.consequences import Consequences
from agent.core.entry.inquiry import Answer, Command, Question
from agent.core.health.conditions import Spot
from agent.core.inventory.device import Snapshot
from agent.core.inventory.touched import EVERYTHING, Touched
from agent.core.lists.assemble import Assembly
from agent.core.lists.transition import Transition
from agent.counts import Counts
from agent.events import Events
from agent.host.cdi import SpecDirectories
from agent.host.claim import Claim
from agent.host.devinfo import DevInfoDirectory
from agent.host.inotify import PathWatch
from agent.host.presence import Presences
from agent.host.root import Root
from agent.host.udev import CONTROL as UDEV_CONTROL
from agent.kubelet import service
from agent.kubelet.call import Unexpected
from agent.preparing import Preparing
from agent.registration.offering import Offering
from agent.registry import Registry
from agent.scanners.answers import UNRUN
from agent.specs.own_specs import OwnSpecs
from agent.state.state import StateFile
from agent.state.state import load as load_state
from agent.status.room import Room
from agent.status.status import Status
from agent.tracker.tracker import Tracker

KUBELET_SOCKET = "kubelet.sock"


class Parts:
    """All of them, made and not begun.

    Args:
        configuration: what to serve.
        root: the host, or a tree in its place.
        state: the directory of the state file.
        programs: whether programs that entries name are run; else they count as run.
        unexpected: told of every defect that came up while the kubelet was answered.
        clock: the monotonic seconds by which checks and lists are judged.
        held_ids: tells which IDs pods use, in place of the grants and PodResources.

    Attributes:
        counts, registry, status: what is counted, told to the kubelet, said to people. room: for files to be open.
        file, held: what outlasts this life, and which ids pods may hold.
        tracker: when the host is looked at, and the lists that follow.
        events, nodes: what tells it that something has changed.
        answers, preparing, own_specs, devinfo: who is asked, what is run and what is written besides.
        sockets, kubelet, claim, offering: the kubelet, and the way of the lists to it.
        allocation: what containers get.
        consequences: what follows from new lists.
    """

    def __init__(
        self,
        configuration: Configuration,
        root: Root,
        state: str,
        *,
        programs: bool,
        unexpected: Unexpected,
        clock: Callable[[], float] = time.monotonic,
        held_ids: HeldIdSource | None = None,
    ) -> None:
        settings = configuration.settings
        said = root.read("/proc/sys/kernel/random/boot_id")
        boot = said if isinstance(said, str) else ""
        remembered = load_state(state, boot)
        self.counts = Counts()
        self.registry = Registry(self.counts)
        self.room = Room()
        self.status = Status(self.counts, lambda: self.held.holders, self._checks_of, self._evidence_of)
        self.file = StateFile(state)
        self.held = Held(
            settings.kubelet.pod_resources,
            remembered.held,
            ours=lambda: self.tracker.assembly.snapshots.keys() | {spec.name for spec in self.tracker.specs},
            listed=lambda: self.tracker.assembly.snapshots,
            changed=self._held_changed,
        )
        held: HeldIdSource = held_ids or self.held
        cdi = SpecDirectories(settings.paths.cdi)
        self.own_specs = OwnSpecs(root, os.path.abspath(state), cdi, self._held_changed)
        self.preparing = Preparing(lambda keys: self.tracker.looked(Touched(keys=keys))) if programs else None
        self.answers = Answers(Asking(_ask), Probes())
        answers = self.answers if programs else UNRUN
        self.tracker = Tracker(
            root,
            self.registry,
            configuration.resources,
            remembered.lists,
            fanned=remembered.fanned,
            memory=remembered.memory,
            drained=remembered.drained,
            settle=settings.look.settle,
            every=settings.look.every,
            cdi=cdi,
            answers=answers,
            preparing=self.preparing,
            own_specs=self.own_specs,
            counts=self.counts,
            held=lambda: held.ids,
            known=lambda: held.known,
            published=self._published,
            clock=clock,
        )
        directory = DevInfoDirectory(f"{root.prefix}{settings.paths.devinfo}", state)
        self.devinfo = DevInfoFiles(directory, lambda: held.ids, self._want)
        self.allocation = Allocation(
            root,
            self.registry,
            self.tracker,
            held.granted,
            cdi=cdi,
            devinfo=self.devinfo,
            held=held,
            own_specs=self.own_specs,
            programs=programs,
            answers=answers,
            counts=self.counts,
            since=self.status.history.since,
            confirm=self.held.confirm,
            save=self._save,
        )
        self.sockets = Presences(
            os.path.join(settings.kubelet.dir, KUBELET_SOCKET),
            os.path.join(settings.kubelet.watcher_dir, KUBELET_SOCKET),
            UDEV_CONTROL,
        )
        self.kubelet, watcher, udev = self.sockets.all
        self.events = Events(root, self.tracker.nudge, udev, self.counts)
        self.nodes = PathWatch(root, self._paths_changed, written=True)
        self.claim = Claim(settings.kubelet.dir)
        self.offering = Offering(
            self.registry,
            self.allocation,
            self.status,
            kubelet=self.kubelet,
            watcher=watcher,
            claim=self.claim,
            unexpected=unexpected,
            forget=self._forget,
        )
        self.consequences = Consequences(
            self.tracker,
            self.held,
            self.devinfo,
            status=self.status,
            offering=self.offering,
            file=self.file,
            boot=boot,
            nodes=self.nodes,
            answers=self.answers,
        )

    def _published(self, before: Mapping[str, Snapshot], assembly: Assembly) -> None:
        self.consequences.published(before, assembly)

    async def _save(self) -> None:
        self.consequences.remember()
        await self.file.saved()

    def _want(self) -> None:
        self.consequences.want()

    def _forget(self, resource: str) -> None:
        self.tracker.drop(resource)
        self.counts.forget(resource)

    def _held_changed(self) -> None:
        self.tracker.reassemble()
        self.devinfo.stir()

    def _paths_changed(self, paths: frozenset[str], overflow: bool) -> None:  # noqa: FBT001  the watch's signature
        self.events.told("inotify", EVERYTHING if overflow else Touched(paths))
        own = self.own_specs.directory
        if overflow or any(path == own or path.startswith(f"{own}/") for path in paths):
            self.own_specs.touched()

    def _checks_of(self, resource: str) -> frozenset[str]:
        entry = self.tracker.entry_of(resource)
        return frozenset(check.name for check in entry.checks) if entry else frozenset()

    def _evidence_of(self, change: Transition, check: str) -> str:
        entry = self.tracker.assembly.written.get(change.resource) or change.resource
        ward = self.tracker.conditions.there.get(Spot(entry, change.key))
        condition = ward.conditions.get(check) if ward else None
        return condition.evidence if condition else ""


def _ask(question: Question) -> AsyncGenerator[Answer, None]:
    """Ask whom a question is for."""
    return command.ask(question) if isinstance(question, Command) else service.ask(question)
