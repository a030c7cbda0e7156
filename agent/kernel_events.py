"""Kernel events while the agent runs: devices (from udev if udev runs) and network links."""

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
    """The readers of kernel events.

    Args:
        root: the host. A tree in its place has no events.
        nudge: called with the dirty set of each event.
        udev: the control socket of udevd. The socket shows whether udevd runs.
        counters: counts events and lost events, and shows which sources work.
    """

    def __init__(self, root: Root, nudge: Callable[[DirtySet], None], udev: SocketWatch, counters: Counters) -> None:
        self._root = root
        self._nudge = nudge
        self._udev_socket = udev
        self._counters = counters

    def report_events(self, source: str, dirty_set: DirtySet) -> None:
        """Count events and send their dirty set to the tracker. After lost events the dirty set contains everything."""
        self._counters.events[source] += 1
        self._counters.overruns[source] += dirty_set.is_full_rescan
        self._nudge(dirty_set)

    async def run(self, listening: asyncio.Event) -> None:
        """Read events until cancelled. Set `listening` as soon as no event can be missed."""
        if self._root.prefix:
            listening.set()
            return
        async with watch_link_events(self._root, partial(self.report_events, "links")) as absence:
            self._counters.event_sources_up["links"] = absence is None
            if absence is not None:
                log.warning("%s: only a full rescan finds changes of network links", absence.reason)
            await self._listen_to_udev(listening)

    async def _listen_to_udev(self, listening: asyncio.Event) -> None:
        while True:
            async with watch_uevents(partial(self.report_events, "uevents")) as source:
                self._counters.event_sources_up["uevents"] = not isinstance(source, Absent)
                if isinstance(source, Absent):
                    log.warning("%s: only a full rescan finds changes outside of /dev", source.reason)
                listening.set()
                self._nudge(ALL_DIRTY)
                # Not the present group: udevd may have started since.
                current_group = choose_group() if isinstance(source, Absent) else source
                while choose_group() == current_group:
                    await self._udev_socket.wait_for_event()
