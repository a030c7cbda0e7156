"""The IDs that pods use, from the grants of the agent and the PodResources API of the kubelet.

Grants can be lost (damaged state file, a kill directly after a grant) or can come from another plugin. Until
PodResources answers for the first time, every listed ID counts as held. If PodResources never answers, a retiring
device stays in the list as Unhealthy.

An unconfirmed ID excludes no other device. A confirmed ID was granted, or named by PodResources. The state file
contains the confirmed IDs, so they exclude other devices from the first list after a restart.
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
from agent.core.changes import Stage
from agent.core.grants.held_ids import HeldIdHistory, Holder, restore_held_ids
from agent.core.inventory.device import DeviceList
from agent.host.socket_watch import SocketWatch
from agent.kubelet.pod_resources import PodResourcesUnavailable, list_holders

POLL_SECONDS = 10.0  # the socket's rate limit is shared by all its clients
DEADLINE_SECONDS = 5.0
GRANT_SECONDS = 1.0  # the kubelet records a grant after our answer; a query may come before that
RETRY = Backoff(initial_s=0.25, max_s=60.0)  # a kubelet that has just started answers soon

log = logging.getLogger(__name__)


class HeldIdSource(Protocol):
    """The IDs that pods use, or may use. A grant adds an ID. `DevicesInUse` removes the ID."""

    @property
    def ids(self) -> frozenset[str]:
        """The IDs that a pod may use. While IDs are unconfirmed, all listed IDs."""

    @property
    def confirmed_ids(self) -> frozenset[str]:
        """The held IDs that a grant or PodResources confirms."""

    def __contains__(self, id_: object, /) -> bool:
        """Return whether the ID is confirmed."""

    def add_grant(self, ids: Iterable[str]) -> None:
        """Add the IDs of a grant."""

    async def confirm(self, timeout_s: float) -> bool:
        """Ask PodResources if there are unconfirmed IDs. Return whether there was an answer within `timeout_s`."""


class DevicesInUse:
    """The IDs that pods may use. Asks PodResources once, and then only while a result is needed.

    Attributes:
        holders: the containers of each device, by resource and ID, from the last answer of PodResources.
        answered_at: the time of that answer in monotonic seconds, or None.
        is_answering: the last query had an answer.
    """

    def __init__(
        self,
        socket: str,
        confirmed_ids: Iterable[str],
        get_own_resources: Callable[[], Collection[str]],
        get_lists: Callable[[], Mapping[str, DeviceList]],
        on_change: Callable[[], None],
    ) -> None:
        """Start with the confirmed IDs of the state file.

        Args:
            socket: path of the PodResources socket.
            confirmed_ids: the saved confirmed IDs.
            get_own_resources: returns the resources of this agent. IDs of other resources are ignored.
            get_lists: returns the current lists.
            on_change: called after a change of the IDs.
        """
        self._socket = socket
        self._get_own_resources = get_own_resources
        self._get_lists = get_lists
        self._history = restore_held_ids(confirmed_ids)
        self._new_grants: dict[str, float] = {}  # times of grants that are not in `_history` yet
        self._on_change = on_change
        self._is_wanted = False
        self._is_due = True
        self._unconfirmed_count = 1  # reasons for unconfirmed IDs since the last answer
        self._listed_ids: Stage[str, DeviceList, frozenset[str]] = Stage(_list_ids)
        self._query_lock = asyncio.Lock()
        self.holders: Mapping[tuple[str, str], tuple[Holder, ...]] = {}
        self.answered_at: float | None = None
        self.is_answering = False
        self._last_grant_time = -inf
        self._query_needed = asyncio.Event()  # a query is due
        self._query_urgent = asyncio.Event()  # the query must not wait for the end of the pause

    @property
    def ids(self) -> frozenset[str]:
        """The IDs that a pod may use. While IDs are unconfirmed, all listed IDs."""
        if not self._unconfirmed_count:
            return self._merged_history.ids
        return self._merged_history.ids.union(*self._listed_ids.update(self._get_lists()).values())

    @property
    def confirmed_ids(self) -> frozenset[str]:
        """The IDs that were granted or named by PodResources, and may still be in use."""
        return self._merged_history.ids

    def __contains__(self, id: object) -> bool:  # noqa: A002  the API's own word
        """Return whether the ID was granted or named by PodResources, and may still be in use. The cost is constant."""
        return id in self._history or id in self._new_grants

    def add_grant(self, ids: Iterable[str]) -> None:
        """Add the IDs of a grant. The cost depends only on these IDs, not on the number of held IDs."""
        self._last_grant_time = time.monotonic()
        grant_times = dict.fromkeys(ids, self._last_grant_time)
        is_confirmed = all(id in self for id in grant_times)  # noqa: A001  the API's own word
        self._new_grants |= grant_times
        if not is_confirmed:
            self._on_change()

    @property
    def _merged_history(self) -> HeldIdHistory:
        """The history with the newest grants."""
        if self._new_grants:
            self._history, self._new_grants = self._history.add_grants(self._new_grants), {}
        return self._history

    def set_polling(self, is_wanted: bool) -> None:  # noqa: FBT001  a switch
        """Start or stop the polling. Polling is needed while a listed device waits for its release."""
        if is_wanted and not self._is_wanted:
            self._query_needed.set()
        self._is_wanted = is_wanted

    def assume_in_use(self) -> None:
        """Assume that pods use listed IDs without a grant of this agent, because a resource is new."""
        self._unconfirmed_count += 1
        self._request_query()

    async def run(self, kubelet: SocketWatch) -> None:
        """Ask PodResources while polling is on, and once for each kubelet, until cancelled."""
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
            backoff = backoff.reset() if has_answer else backoff.add_failure()
            pause = POLL_SECONDS if has_answer else min(POLL_SECONDS, backoff.compute_delay(0.0))
            try:
                async with asyncio.timeout(pause * random.uniform(1.0, 1.3)):  # noqa: S311  jitter, no secret
                    await self._query_urgent.wait()
            except TimeoutError:
                continue

    async def refresh(self, max_age_s: float, timeout_s: float) -> None:
        """Update `holders` if they are older than `max_age_s` seconds, or lack the last grant. Wait at most
        `timeout_s`.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                answer_time = self.answered_at
                visible_at = self._last_grant_time + GRANT_SECONDS
                if answer_time is None or answer_time <= visible_at or time.monotonic() > answer_time + max_age_s:
                    await self._query()

    async def confirm(self, timeout_s: float) -> bool:
        """Ask PodResources if there are unconfirmed IDs. Wait at most `timeout_s` seconds.

        Return whether there was an answer. The lists may change after an answer.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._query_lock:
                return bool(self._unconfirmed_count) and await self._query_locked()
        return False

    async def _query(self) -> bool:
        """Ask once. Return whether there was an answer."""
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
        except asyncio.CancelledError:  # the caller gave up, so there was no answer
            self._is_due = True
            raise
        previous_ids = self.ids
        own_resources = self._get_own_resources()
        self.answered_at, self.is_answering = query_time, True
        self.holders = {name: holders for name, holders in answer.items() if name[0] in own_resources}
        named = frozenset(name for _, name in self.holders)
        self._history = self._merged_history.apply_answer(named, time.monotonic())
        self._unconfirmed_count -= unconfirmed_count
        if self.ids != previous_ids:
            self._on_change()
        return True


def _list_ids(_: str, device_list: DeviceList) -> frozenset[str]:
    """Return all IDs of a list."""
    whole_ids = (device.id for device in device_list.devices if device.shares is None)
    share_ids = (device.list_ids() for device in device_list.devices if device.shares is not None)
    return frozenset(chain(whole_ids, *share_ids))
