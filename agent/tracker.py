"""The tracker: nudges in, snapshots out. It alone looks at the host and says what each resource offers.

A nudge only says what may have changed; looking is one function over the host, run in a thread of its own so that a
slow device cannot stop the event loop. The first nudge is followed at once, those that come within the settle time
after it together.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import Self

from agent.core.assemble import Assembly, assemble
from agent.core.device import Snapshot
from agent.core.look import Listing, Look, look
from agent.core.resource import ResourceSpec
from agent.core.touched import EVERYTHING, Touched
from agent.host.root import Root
from agent.registry import Registry
from agent.scanners import catalog
from agent.scanners.reading import HostReader

DELIVERY_SECONDS = 2.0  # how long a list that lost a device may take before the list that gains it goes out anyway

log = logging.getLogger(__name__)


class Tracker:
    """Keeps the registry true to the host.

    Args:
        specs: the entries, in file order.
        told: the lists of the last life.
        settle: seconds within which nudges become one look.
        every: seconds between sweeps.
        held: the ids that pods may hold, asked at each assembly.
        published: called after each assembly that changed a list, with the old lists and the new.
    """

    def __init__(
        self,
        root: Root,
        registry: Registry,
        specs: Sequence[ResourceSpec],
        told: Mapping[str, Snapshot],
        *,
        settle: float,
        every: float,
        held: Callable[[], frozenset[str]],
        published: Callable[[Mapping[str, Snapshot], Assembly], None],
    ) -> None:
        self.look = Look()
        self.specs = tuple(specs)
        self.assembly = Assembly(dict(told))
        self.directories: frozenset[str] = frozenset()
        self.events = 0
        self._root = root
        self._registry = registry
        self._settle = settle
        self._every = every
        self._held = held
        self._published = published
        self._touched = EVERYTHING
        self._reassemble = False
        self._nudged = asyncio.Event()
        self._nudged.set()
        self._looked = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="look")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def nudge(self, touched: Touched = EVERYTHING) -> None:
        """Say that something may have changed on the host."""
        self._touched |= touched
        self.events += 1
        self._nudged.set()

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

    def configure(self, specs: Sequence[ResourceSpec]) -> None:
        """Put other entries in force with the next look."""
        self.specs = tuple(specs)
        self.nudge(EVERYTHING)

    async def looked(self) -> None:
        """Return when a look that began after this call is assembled and published."""
        self.nudge(Touched())
        await self._looked.wait()

    async def run(self) -> None:
        """Follow nudges, until cancelled."""
        loop = asyncio.get_running_loop()
        looked_at = -self._settle
        while True:
            await self._until_nudged(self._pause(loop.time()))
            if (early := looked_at + self._settle - loop.time()) > 0 and not self._reassemble:
                await asyncio.sleep(early)
            self._nudged.clear()
            touched, self._touched = self._touched, Touched()
            self._reassemble = False
            done, self._looked = self._looked, asyncio.Event()
            if touched:
                looked_at = loop.time()
                self.look, self.directories = await loop.run_in_executor(
                    self._thread, take_look, self._root, self.specs, self.look, touched
                )
            await self._publish()
            done.set()

    def _pause(self, now: float) -> float:
        """Seconds until there is something to do without a nudge: the sweep, or something to forget."""
        forget = self.assembly.next_at
        return self._every if forget is None else max(0.0, min(self._every, forget - now))

    async def _until_nudged(self, pause: float) -> None:
        try:
            async with asyncio.timeout(pause):
                await self._nudged.wait()
        except TimeoutError:
            self._touched = EVERYTHING

    async def _publish(self) -> None:
        """Tell the registry what there is now; a device that moves leaves its old list before it joins the new."""
        while True:
            told = self.assembly.snapshots
            self.assembly = assemble(
                self.look, self.specs, self._held(), told, time.monotonic(), settled=self.assembly.settled
            )
            changed = [
                snapshot.resource for snapshot in self.assembly.snapshots.values() if self._registry.publish(snapshot)
            ]
            self._published(told, self.assembly)
            if not self.assembly.moving:
                return
            try:
                async with asyncio.timeout(DELIVERY_SECONDS):
                    await self._registry.delivered(changed)
            except TimeoutError:
                log.warning("%s: a list is not taken by the kubelet; going on", ", ".join(changed))


def where_to_look(root: Root, specs: Sequence[ResourceSpec]) -> frozenset[str]:
    """The directories below /dev where devices come and go, as far as that is known before the first look."""
    return catalog.watched(root, Listing({spec.source: () for spec in specs}))


def take_look(
    root: Root, specs: Sequence[ResourceSpec], previous: Look, touched: Touched
) -> tuple[Look, frozenset[str]]:
    """The host as it is now, as the entries see it, and the directories below /dev where that may change.

    What `touched` does not concern is taken from `previous`.
    """
    sources = tuple(dict.fromkeys(spec.source for spec in specs))
    listing = catalog.listing(root, sources, previous.listing, touched)
    now = look(specs, listing, HostReader(root), previous, touched)
    return now, catalog.watched(root, listing) | now.places.directories
