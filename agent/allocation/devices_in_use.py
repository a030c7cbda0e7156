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
        self._get_own_resources = get_own_resources
        self._get_lists = get_lists
        self._history = remembered(confirmed_ids)
        self._new_grants: dict[str, float] = {}  # what was granted and is not in `_holding` yet, and when
        self._on_change = on_change
        self._is_wanted = False
        self._is_due = True
        self._unconfirmed_count = 1  # how often there was a reason to doubt; none since the last answer if 0
        self._ids_by_resource: dict[str, tuple[DeviceList, frozenset[str]]] = {}
        self._query_lock = asyncio.Lock()
        self.holders: Mapping[tuple[str, str], tuple[Holder, ...]] = {}
        self.answered_at: float | None = None
        self.is_answering = False
        self._last_grant_time = -inf
        self._query_needed = asyncio.Event()  # there is something to ask
        self._query_urgent = asyncio.Event()  # and not only after a pause

    @property
    def ids(self) -> frozenset[str]:
        """The ids that a pod may hold, as the kubelet sees them; in doubt, all that are listed."""
        if not self._unconfirmed_count:
            return self._merged_history.ids
        ids = {name: self._list_ids(name, snapshot) for name, snapshot in self._get_lists().items()}
        return self._merged_history.ids.union(*ids.values())

    @property
    def confirmed_ids(self) -> frozenset[str]:
        """The ids that were granted or named by PodResources, and may be held still."""
        return self._merged_history.ids

    def __contains__(self, id: object) -> bool:  # noqa: A002  the API's own word
        """Whether that id was granted or named by PodResources, and may be held still; costs nothing."""
        return id in self._history or id in self._new_grants

    def add_grant(self, ids: Iterable[str]) -> None:
        """Remember a grant: at the cost of these ids, however many are held."""
        self._last_grant_time = time.monotonic()
        grant_times = dict.fromkeys(ids, self._last_grant_time)
        is_confirmed = all(id in self for id in grant_times)  # noqa: A001  the API's own word
        self._new_grants |= grant_times
        if not is_confirmed:
            self._on_change()

    @property
    def _merged_history(self) -> HeldIdHistory:
        """All that is known."""
        if self._new_grants:
            self._history, self._new_grants = self._history.granted(self._new_grants), {}
        return self._history

    def set_polling(self, is_wanted: bool) -> None:  # noqa: FBT001  a switch
        """Say whether something listed waits only for its release."""
        if is_wanted and not self._is_wanted:
            self._query_needed.set()
        self._is_wanted = is_wanted

    def assume_in_use(self) -> None:
        """Say that pods may hold ids of ours that nobody told us of: a resource is new here."""
        self._unconfirmed_count += 1
        self._request_query()

    async def run(self, kubelet: SocketWatch) -> None:
        """Ask PodResources while it is wanted, and each kubelet once, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(kubelet))
            tasks.create_task(self._poll())

    async def _follow(self, kubelet: SocketWatch) -> None:
        while True:
            await kubelet.wait_for_other(await kubelet.wait_for_socket())
            self._is_due = True
            self._request_query()

    def _request_query(self) -> None:
        self._query_needed.set()
        self._query_urgent.set()

    async def _poll(self) -> None:
        backoff = RETRY
        while True:
            self._query_needed.clear()
            if not (self._is_due or self._unconfirmed_count or self._is_wanted):
                backoff = backoff.reset()
                await self._query_needed.wait()
                continue
            self._query_urgent.clear()
            has_answer = await self._query()
            backoff = backoff.reset() if has_answer else backoff.failed()
            pause = POLL_SECONDS if has_answer else min(POLL_SECONDS, backoff.seconds(0.0))
            try:
                async with asyncio.timeout(pause * random.uniform(1.0, 1.3)):  # noqa: S311  jitter, no secret
                    await self._query_urgent.wait()
            except TimeoutError:
                continue

    async def refresh(self, max_age_s: float, timeout_s: float) -> None:
        """Have `holders` no older than so many seconds, and with the last grant, if PodResources answers in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                answer_time = self.answered_at
                visible_at = self._last_grant_time + GRANT_SECONDS
                if answer_time is None or answer_time <= visible_at or time.monotonic() > answer_time + max_age_s:
                    await self._query()

    async def confirm(self, timeout_s: float) -> bool:
        """Ask PodResources now if pods may hold IDs that are not confirmed, for so many seconds at most.

        Return whether it answered: then the lists may change.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._query_lock:
                return bool(self._unconfirmed_count) and await self._query_locked()
        return False

    async def _query(self) -> bool:
        """Ask once; whether there was an answer."""
        async with self._query_lock:
            return await self._query_locked()

    async def _query_locked(self) -> bool:
        unconfirmed_count, self._is_due = self._unconfirmed_count, False
        query_time = time.monotonic()
        try:
            answer = await list_holders(self._socket, DEADLINE_SECONDS)
        except PodResourcesUnavailable as error:
            log.debug("pod resources: %s", error)
            self._is_due, self.is_answering = True, False
            return False
        except asyncio.CancelledError:  # whoever wanted to know gave up: that was no answer
            self._is_due = True
            raise
        previous_ids = self.ids
        own_resources = self._get_own_resources()
        self.answered_at, self.is_answering = query_time, True
        self.holders = {name: holders for name, holders in answer.items() if name[0] in own_resources}
        named = frozenset(name for _, name in self.holders)
        self._history = self._merged_history.answered(named, time.monotonic())
        self._unconfirmed_count -= unconfirmed_count
        if self.ids != previous_ids:
            self._on_change()
        return True

    def _list_ids(self, name: str, device_list: DeviceList) -> frozenset[str]:
        """All ids of a list, put together once for each."""
        cached_list, ids = self._ids_by_resource.get(name, (None, frozenset[str]()))
        if cached_list is not device_list:
            whole_ids = (device.id for device in device_list.devices if device.shares is None)
            share_ids = (device.list_ids() for device in device_list.devices if device.shares is not None)
            ids = frozenset(chain(whole_ids, *share_ids))
            self._ids_by_resource[name] = device_list, ids
        return ids
