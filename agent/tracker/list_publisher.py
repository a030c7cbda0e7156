"""The lists as last told: how new ones are made, and how they reach the registry."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.device import Device, DeviceList
from agent.core.inventory.inventory import Inventory
from agent.core.lists.build_lists import DeviceLists, build_lists
from agent.core.lists.list_inputs import HeldIds
from agent.core.lists.missing_members import forget_missing_members
from agent.core.lists.resource_names import GeneratedName, ResourceCandidates, map_names_to_entries
from agent.core.struct import replace
from agent.registry import Registry
from agent.specs.generated_specs import GeneratedSpecs, add_spec_faults

DELIVERY_SECONDS = 1.0  # how long a list that lost a device may take before the list that gains it goes out anyway

log = logging.getLogger(__name__)


class ListPublisher:
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
        saved_lists: Mapping[str, DeviceList],
        saved_generated_names: Mapping[str, str],
        *,
        generated_specs: GeneratedSpecs | None,
        get_held_ids: Callable[[], frozenset[str]],
        get_confirmed_ids: Callable[[], frozenset[str]],
        on_published: Callable[[Mapping[str, DeviceList], DeviceLists], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        names = {name: GeneratedName(written) for name, written in saved_generated_names.items()}
        self.device_lists = DeviceLists(
            dict(saved_lists), written_names=map_names_to_entries(specs, names), generated_names=names
        )
        self._registry = registry
        self._generated_specs = generated_specs
        self._get_held_ids = get_held_ids
        self._get_confirmed_ids = get_confirmed_ids
        self._on_published = on_published
        self._clock = clock

    def drop_list(self, resource: str) -> None:
        """Forget the list of a resource that is served no more."""
        self._set_lists({name: list_ for name, list_ in self.device_lists.lists.items() if name != resource})

    def forget_missing_members(self, resource: str, device: Device) -> bool:
        """Forget what a device of several host devices has lost; whether it had."""
        lists = self.device_lists.lists
        list_ = forget_missing_members(lists[resource], device, self._get_held_ids()) if resource in lists else None
        if list_ is not None:
            self._set_lists({**lists, resource: list_})
        return list_ is not None

    async def publish(
        self,
        inventory: Inventory,
        specs: Sequence[ResourceSpec],
        candidates: ResourceCandidates,
        changed_at: float | None,
    ) -> None:
        """Tell the registry what there is now; a device that moves leaves its old list before it joins the new.

        look: the host as last seen, by the entries `specs`. offers: its candidates, what fails as their fault.
        begun: when the change began that this tells.
        """
        while True:
            previous_lists = self.device_lists.lists
            current_lists = await self._build_with_specs(inventory, specs, candidates)
            if self.device_lists.lists is not previous_lists:
                continue  # something was forgotten meanwhile
            self.device_lists = current_lists
            changed_resources = [
                device_list.resource
                for device_list in self.device_lists.lists.values()
                if self._registry.publish(device_list, changed_at)
            ]
            for _ in ("the streams write", "what they wrote is sent"):  # which goes before all else
                await asyncio.sleep(0)
            self._on_published(previous_lists, self.device_lists)
            if not self.device_lists.awaits_delivery:
                return
            try:
                async with asyncio.timeout(DELIVERY_SECONDS):
                    await self._registry.wait_until_delivered(changed_resources)
            except TimeoutError:
                log.warning("%s: a list is not taken by the kubelet; going on", ", ".join(changed_resources))

    async def _build_with_specs(
        self, inventory: Inventory, specs: Sequence[ResourceSpec], candidates: ResourceCandidates
    ) -> DeviceLists:
        """The lists of now, their CDI specs written; whoever could not be given one is Unhealthy."""
        held_ids = self._get_held_ids()
        device_lists = self._build(inventory, specs, candidates, held_ids)
        if self._generated_specs is None:
            return device_lists
        faults = await self._generated_specs.refresh(device_lists, specs, candidates, HeldIds(held_ids))
        return (
            self._build(inventory, specs, add_spec_faults(candidates, faults, specs), self._get_held_ids())
            if faults
            else device_lists
        )

    def _build(
        self,
        inventory: Inventory,
        specs: Sequence[ResourceSpec],
        candidates: ResourceCandidates,
        held_ids: frozenset[str],
    ) -> DeviceLists:
        previous = self.device_lists
        return build_lists(
            inventory,
            specs,
            held_ids,
            previous.lists,
            self._clock(),
            generated_names=previous.generated_names,
            unchanged_lists=previous.unchanged_lists,
            candidates=candidates,
            confirmed_ids=self._get_confirmed_ids(),
        )

    def _set_lists(self, device_lists: Mapping[str, DeviceList]) -> None:
        self.device_lists = replace(self.device_lists, lists=device_lists)
