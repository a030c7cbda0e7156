"""What pods hold, as far as this node can know it: our own grants and the kubelet's PodResources.

What we know may have been lost (the state file, a grant just before a kill) or never been ours (another plugin's
before us). So until PodResources has answered once, every id that is listed counts as held; if it never answers, what
is offered no more stays listed, Unhealthy.

Such an ID excludes no other device: only a confirmed ID does, which was granted or named by PodResources. The state
file holds the confirmed IDs, so they exclude from the first list after a restart on.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from math import inf
from typing import Protocol

from agent.core.backoff import Backoff
from agent.core.grants.held_ids import HeldIdHistory, Holder, remembered
from agent.core.inventory.device import DeviceList
from agent.host.socket_watch import SocketWatch
from agent.kubelet.pod_resources import PodResourcesUnavailable, list_holders

POLL_SECONDS = 10.0  # the socket's rate limit is shared by all its clients
DEADLINE_SECONDS = 5.0
GRANT_SECONDS = 1.0  # the kubelet notes a grant when it has our answer: it may have been asked between the two
RETRY = Backoff(first=0.25, ceiling=60.0)  # a kubelet that has just begun answers in a moment

log = logging.getLogger(__name__)


class HeldIdSource(Protocol):
    """The IDs that pods use, or may use. An ID comes in when it is granted; `Held` says when it goes."""

    @property
    def ids(self) -> frozenset[str]:
        """The IDs that a pod may use; in doubt, all that are listed."""

    @property
    def confirmed_ids(self) -> frozenset[str]:
        """Those of them that a grant or PodResources confirms."""

    def __contains__(self, id_: object, /) -> bool:
        """Whether that ID is among the known ones."""

    def add_grant(self, ids: Iterable[str]) -> None:
        """Add the IDs of a grant."""


class DevicesInUse:
    """Which ids pods may hold. PodResources is asked once, and then only while somebody wants to know.

    Attributes:
        holders: the containers that hold each of our devices, by resource and id, as PodResources said last.
        answered_at: when that was, in monotonic seconds; None if it never answered. answering: it did last time.
    """

    def __init__(
        self,
        socket: str,
        confirmed_ids: Iterable[str],
        get_own_resources: Callable[[], Collection[str]],
        get_lists: Callable[[], Mapping[str, DeviceList]],
        on_change: Callable[[], None],
    ) -> None:
        """Begin with what is known.

        Args:
            socket: of PodResources.
            confirmed_ids: ids that the last life knew to be held.
            get_own_resources: says which resources are this agent's; the ids of others are none of its business.
            get_lists: the lists as last told.
            on_change: called when the set is another.
        """
        self._socket = socket
        self._ours = get_own_resources
        self._listed = get_lists
        self._holding = remembered(confirmed_ids)
        self._fresh: dict[str, float] = {}  # what was granted and is not in `_holding` yet, and when
        self._changed = on_change
        self._wanted = False
        self._due = True
        self._doubts = 1  # how often there was a reason to doubt; none since the last answer if 0
        self._ids: dict[str, tuple[DeviceList, frozenset[str]]] = {}
        self._asking = asyncio.Lock()
        self.holders: Mapping[tuple[str, str], tuple[Holder, ...]] = {}
        self.answered_at: float | None = None
        self.is_answering = False
        self._granted_at = -inf
        self._stirred = asyncio.Event()  # there is something to ask
        self._again = asyncio.Event()  # and not only after a pause

    @property
    def ids(self) -> frozenset[str]:
        """The ids that a pod may hold, as the kubelet sees them; in doubt, all that are listed."""
        if not self._doubts:
            return self._everything.ids
        ids = {name: self._ids_of(name, snapshot) for name, snapshot in self._listed().items()}
        return self._everything.ids.union(*ids.values())

    @property
    def confirmed_ids(self) -> frozenset[str]:
        """The ids that were granted or named by PodResources, and may be held still."""
        return self._everything.ids

    def __contains__(self, id: object) -> bool:  # noqa: A002  the API's own word
        """Whether that id was granted or named by PodResources, and may be held still; costs nothing."""
        return id in self._holding or id in self._fresh

    def add_grant(self, ids: Iterable[str]) -> None:
        """Remember a grant: at the cost of these ids, however many are held."""
        self._granted_at = time.monotonic()
        fresh = dict.fromkeys(ids, self._granted_at)
        known = all(id in self for id in fresh)  # noqa: A001  the API's own word
        self._fresh |= fresh
        if not known:
            self._changed()

    @property
    def _everything(self) -> HeldIdHistory:
        """All that is known."""
        if self._fresh:
            self._holding, self._fresh = self._holding.granted(self._fresh), {}
        return self._holding

    def set_polling(self, is_wanted: bool) -> None:  # noqa: FBT001  a switch
        """Say whether something listed waits only for its release."""
        if is_wanted and not self._wanted:
            self._stirred.set()
        self._wanted = is_wanted

    def assume_in_use(self) -> None:
        """Say that pods may hold ids of ours that nobody told us of: a resource is new here."""
        self._doubts += 1
        self._ask_now()

    async def run(self, kubelet: SocketWatch) -> None:
        """Ask PodResources while it is wanted, and each kubelet once, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(kubelet))
            tasks.create_task(self._poll())

    async def _follow(self, kubelet: SocketWatch) -> None:
        while True:
            await kubelet.wait_for_other(await kubelet.wait_for_socket())
            self._due = True
            self._ask_now()

    def _ask_now(self) -> None:
        self._stirred.set()
        self._again.set()

    async def _poll(self) -> None:
        soon = RETRY
        while True:
            self._stirred.clear()
            if not (self._due or self._doubts or self._wanted):
                soon = soon.reset()
                await self._stirred.wait()
                continue
            self._again.clear()
            answered = await self._ask()
            soon = soon.reset() if answered else soon.failed()
            pause = POLL_SECONDS if answered else min(POLL_SECONDS, soon.seconds(0.0))
            try:
                async with asyncio.timeout(pause * random.uniform(1.0, 1.3)):  # noqa: S311  jitter, no secret
                    await self._again.wait()
            except TimeoutError:
                continue

    async def refresh(self, max_age_s: float, timeout_s: float) -> None:
        """Have `holders` no older than so many seconds, and with the last grant, if PodResources answers in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                answered = self.answered_at
                noted = self._granted_at + GRANT_SECONDS
                if answered is None or answered <= noted or time.monotonic() > answered + max_age_s:
                    await self._ask()

    async def confirm(self, timeout_s: float) -> bool:
        """Ask PodResources now if pods may hold IDs that are not confirmed, for so many seconds at most.

        Return whether it answered: then the lists may change.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._asking:
                return bool(self._doubts) and await self._asked()
        return False

    async def _ask(self) -> bool:
        """Ask once; whether there was an answer."""
        async with self._asking:
            return await self._asked()

    async def _asked(self) -> bool:
        doubts, self._due = self._doubts, False
        asked_at = time.monotonic()
        try:
            answer = await list_holders(self._socket, DEADLINE_SECONDS)
        except PodResourcesUnavailable as unavailable:
            log.debug("pod resources: %s", unavailable)
            self._due, self.is_answering = True, False
            return False
        except asyncio.CancelledError:  # whoever wanted to know gave up: that was no answer
            self._due = True
            raise
        before = self.ids
        ours = self._ours()
        self.answered_at, self.is_answering = asked_at, True
        self.holders = {name: holders for name, holders in answer.items() if name[0] in ours}
        named = frozenset(name for _, name in self.holders)
        self._holding = self._everything.answered(named, time.monotonic())
        self._doubts -= doubts
        if self.ids != before:
            self._changed()
        return True

    def _ids_of(self, name: str, snapshot: DeviceList) -> frozenset[str]:
        """All ids of a list, put together once for each."""
        known, ids = self._ids.get(name, (None, frozenset[str]()))
        if known is not snapshot:
            whole = (device.id for device in snapshot.devices if device.shares is None)
            shared = (device.list_ids() for device in snapshot.devices if device.shares is not None)
            ids = frozenset(chain(whole, *shared))
            self._ids[name] = snapshot, ids
        return ids
