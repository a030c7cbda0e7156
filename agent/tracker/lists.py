"""The lists as last told: how new ones are made, and how they reach the registry."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from agent.core.entry.resource import ResourceSpec
from agent.core.inventory.device import Device, Snapshot
from agent.core.inventory.look import Look
from agent.core.lists.assemble import Assembly, assemble
from agent.core.lists.lost import forgotten
from agent.core.lists.naming import Fanned, Offers, whose
from agent.core.lists.present import Held
from agent.core.struct import replace
from agent.registry import Registry
from agent.specs.own_specs import OwnSpecs, with_faults

DELIVERY_SECONDS = 1.0  # how long a list that lost a device may take before the list that gains it goes out anyway

log = logging.getLogger(__name__)


class Lists:
    """Makes the lists and tells them.

    Args:
        registry: who is told.
        specs: the entries, in file order.
        told: the lists of the last life. fanned: those of them whose names came out of words, as these are written.
        own_specs: who writes CDI specs of our own.
        held: the ids that pods may hold, asked at each assembly. known: those that were granted or named by
            PodResources, asked then too.
        published: called after each, with the old lists and the new.
        clock: the monotonic seconds by which lists are judged.

    Attributes:
        assembly: the lists as last told.
    """

    def __init__(
        self,
        registry: Registry,
        specs: Sequence[ResourceSpec],
        told: Mapping[str, Snapshot],
        fanned: Mapping[str, str],
        *,
        own_specs: OwnSpecs | None,
        held: Callable[[], frozenset[str]],
        known: Callable[[], frozenset[str]],
        published: Callable[[Mapping[str, Snapshot], Assembly], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        names = {name: Fanned(written) for name, written in fanned.items()}
        self.assembly = Assembly(dict(told), written=whose(specs, names), fanned=names)
        self._registry = registry
        self._own_specs = own_specs
        self._held = held
        self._known = known
        self._published = published
        self._clock = clock

    def drop(self, resource: str) -> None:
        """Forget the list of a resource that is served no more."""
        self._put({name: list_ for name, list_ in self.assembly.snapshots.items() if name != resource})

    def forget_lost(self, resource: str, device: Device) -> bool:
        """Forget what a device of several host devices has lost; whether it had."""
        lists = self.assembly.snapshots
        list_ = forgotten(lists[resource], device, self._held()) if resource in lists else None
        if list_ is not None:
            self._put({**lists, resource: list_})
        return list_ is not None

    async def publish(self, look: Look, specs: Sequence[ResourceSpec], offers: Offers, begun: float | None) -> None:
        """Tell the registry what there is now; a device that moves leaves its old list before it joins the new.

        look: the host as last seen, by the entries `specs`. offers: its candidates, what fails as their fault.
        begun: when the change began that this tells.
        """
        while True:
            told = self.assembly.snapshots
            made = await self._assembled(look, specs, offers)
            if self.assembly.snapshots is not told:
                continue  # something was forgotten meanwhile
            self.assembly = made
            changed = [
                snapshot.resource
                for snapshot in self.assembly.snapshots.values()
                if self._registry.publish(snapshot, begun)
            ]
            for _ in ("the streams write", "what they wrote is sent"):  # which goes before all else
                await asyncio.sleep(0)
            self._published(told, self.assembly)
            if not self.assembly.moving:
                return
            try:
                async with asyncio.timeout(DELIVERY_SECONDS):
                    await self._registry.delivered(changed)
            except TimeoutError:
                log.warning("%s: a list is not taken by the kubelet; going on", ", ".join(changed))

    async def _assembled(self, look: Look, specs: Sequence[ResourceSpec], offers: Offers) -> Assembly:
        """The lists of now, their CDI specs written; whoever could not be given one is Unhealthy."""
        held = self._held()
        made = self._assemble(look, specs, offers, held)
        if self._own_specs is None:
            return made
        faults = await self._own_specs.renew(made, specs, offers, Held(held))
        return self._assemble(look, specs, with_faults(offers, faults, specs), self._held()) if faults else made

    def _assemble(self, look: Look, specs: Sequence[ResourceSpec], offers: Offers, held: frozenset[str]) -> Assembly:
        before = self.assembly
        return assemble(
            look,
            specs,
            held,
            before.snapshots,
            self._clock(),
            fanned=before.fanned,
            settled=before.settled,
            candidates=offers,
            confirmed_ids=self._known(),
        )

    def _put(self, snapshots: Mapping[str, Snapshot]) -> None:
        self.assembly = replace(self.assembly, snapshots=snapshots)
