"""What pods hold, as far as this node can know it: our own grants and the kubelet's PodResources."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Container, Iterable

from agent.core.holding import remembered
from agent.kubelet.pod_resources import Unavailable, holders

POLL_SECONDS = 10.0  # the socket's rate limit is shared by all its clients (kubelet-contract §6)
DEADLINE_SECONDS = 5.0

log = logging.getLogger(__name__)


class Held:
    """Which ids pods may hold. PodResources is asked only while somebody wants to know."""

    def __init__(
        self, socket: str, known: Iterable[str], ours: Callable[[], Container[str]], changed: Callable[[], None]
    ) -> None:
        """Begin with what is known.

        Args:
            socket: of PodResources.
            known: ids that the last life knew to be held.
            ours: says which resources are this agent's; the ids of others are none of its business.
            changed: called when the set is another.
        """
        self._socket = socket
        self._ours = ours
        self._holding = remembered(known)
        self._changed = changed
        self._wanted = asyncio.Event()

    @property
    def ids(self) -> frozenset[str]:
        """The ids that a pod may hold, as the kubelet sees them."""
        return self._holding.ids

    def granted(self, ids: Iterable[str]) -> None:
        """Remember a grant."""
        before = self.ids
        self._holding = self._holding.granted(ids, time.monotonic())
        if self.ids != before:
            self._changed()

    def want(self, wanted: bool) -> None:  # noqa: FBT001  a switch
        """Say whether something listed waits only for its release."""
        if wanted:
            self._wanted.set()
        else:
            self._wanted.clear()

    async def run(self) -> None:
        """Ask PodResources while it is wanted, until cancelled."""
        while True:
            await self._wanted.wait()
            try:
                answer = await holders(self._socket, DEADLINE_SECONDS)
            except Unavailable as unavailable:
                log.debug("pod resources: %s", unavailable)
            else:
                before = self.ids
                ours = self._ours()
                named = frozenset(name for resource, name in answer if resource in ours)
                self._holding = self._holding.answered(named, time.monotonic())
                if self.ids != before:
                    self._changed()
            await asyncio.sleep(POLL_SECONDS * random.uniform(1.0, 1.3))  # noqa: S311  jitter, no secret
