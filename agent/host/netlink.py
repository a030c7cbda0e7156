"""A netlink socket of events on the event loop. See `host.uevents` and `host.link_events` for its messages."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import ClassVar

from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet

EVENTS = 64  # events of one call, before other tasks of the event loop run
_DISCARD_LIMIT = 100_000  # messages discarded in one call after an overrun. The remaining ones are read as events

log = logging.getLogger(__name__)


class NetlinkListener:
    """A bound socket on the event loop.

    Both kinds of loops call again at once while events remain (level-triggered).
    """

    event_kind: ClassVar[str]  # names the events in log lines

    def __init__(self, bound: socket.socket, changed: Callable[[DirtySet], None]) -> None:
        self._socket = bound
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._read_events)

    def close(self) -> None:
        """Stop reading and close the socket."""
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def read_event(self) -> DirtySet | None:
        """Return the dirty set of the next event, or None if there is no event now.

        Raises:
            OSError: events were lost.
        """
        raise NotImplementedError

    def forget_events(self) -> None:
        """Delete the stored state of earlier events: it is no longer valid."""

    def _read_events(self) -> None:
        dirty_set = DirtySet()
        try:
            for _ in range(EVENTS):
                event = self.read_event()
                if event is None:
                    break
                dirty_set |= event
        except OSError:
            self._recover_from_overrun()
            dirty_set = ALL_DIRTY
        if dirty_set:
            self._changed(dirty_set)

    def _recover_from_overrun(self) -> None:
        """Make the socket usable again after it lost messages (ENOBUFS, netlink(7)).

        Until SO_ERROR is read, poll(2) reports the error without end. The stock loop then spins on it, and uvloop has
        dropped the reader. Queued messages are useless, because everything is read again anyway.
        """
        log.warning("events of %s were lost; looking at everything", self.event_kind)
        self._loop.remove_reader(self._socket)
        self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self.forget_events()
        for _ in range(_DISCARD_LIMIT):
            try:
                self._socket.recv(1, socket.MSG_DONTWAIT)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    break
        self._loop.add_reader(self._socket, self._read_events)
