"""The kernel's events while the agent runs: of devices, from udev where it runs, and of network links."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.language.value import Absent
from agent.counters import Counters
from agent.host.link_events import watch_link_events
from agent.host.root import Root
from agent.host.socket_watch import SocketWatch
from agent.host.uevents import choose_group, watch_uevents

log = logging.getLogger("agent")


class KernelEvents:
    """Hears them, and says what they touch.

    Args:
        root: the host; a tree in its place has none.
        nudge: called with what may have changed.
        udev: the socket by which udevd is known.
        counts: told which events are heard, and when some were lost.
    """

    def __init__(self, root: Root, nudge: Callable[[DirtySet], None], udev: SocketWatch, counters: Counters) -> None:
        self._root = root
        self._nudge = nudge
        self._udev_socket = udev
        self._counters = counters

    def report_events(self, source: str, dirty_set: DirtySet) -> None:
        """Events were told; if they were lost, that is everything."""
        self._counters.events[source] += 1
        self._counters.overruns[source] += dirty_set.is_full_rescan
        self._nudge(dirty_set)

    async def run(self, listening: asyncio.Event) -> None:
        """Hear them until cancelled. `listening` is set as soon as nothing that happens is missed."""
        if self._root.prefix:
            listening.set()
            return
        async with watch_link_events(self._root, partial(self.report_events, "links")) as absence:
            self._counters.event_sources_up["links"] = absence is None
            if absence is not None:
                log.warning("%s: changes of network links are seen at each sweep", absence.reason)
            await self._listen_to_udev(listening)

    async def _listen_to_udev(self, listening: asyncio.Event) -> None:
        while True:
            async with watch_uevents(partial(self.report_events, "uevents")) as source:
                self._counters.event_sources_up["uevents"] = not isinstance(source, Absent)
                if isinstance(source, Absent):
                    log.warning("%s: changes below /dev are seen at once, others at each sweep", source.reason)
                listening.set()
                self._nudge(ALL_DIRTY)
                # Not what runs by now: that may have come since.
                current_group = choose_group() if isinstance(source, Absent) else source
                while choose_group() == current_group:
                    await self._udev_socket.wait_for_event()
