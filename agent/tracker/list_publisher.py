"""Publisher of device lists: build the lists and pass them to the registry."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from agent.allocation.devices_in_use import HeldIdSource
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.device import Device, DeviceList
from agent.core.inventory.in_pod import MovableDevice, find_movable_devices
from agent.core.inventory.inventory import Inventory
from agent.core.lists.build_lists import DeviceLists, build_lists
from agent.core.lists.list_inputs import HeldIds
from agent.core.lists.missing_members import forget_missing_members
from agent.core.lists.resource_names import GeneratedName, ResourceCandidates, map_names_to_entries
from agent.core.struct import Struct, replace
from agent.registry import Registry
from agent.specs.generated_specs import GeneratedSpecs, add_spec_faults
from agent.state.state_format import SavedState

DELIVERY_SECONDS = 1.0  # how long a list that lost a device may take before the list that gains it goes out anyway

log = logging.getLogger(__name__)


class Publication(Struct):
    """New device lists, after the registry has them.

    previous: the lists before. is_first: these are the first lists of this process. has_other_entries: the entries
    differ from those of the previous lists, or the lists are the first ones.
    """

    previous: DeviceLists
    lists: DeviceLists
    is_first: bool
    has_other_entries: bool


class ListPublisher:
    """The publisher of the device lists.

    Args:
        registry: gets the lists.
        specs: the entries, in file order.
        saved_state: the lists of the last agent process.
        held_ids: the IDs that pods may use.
        generated_specs: the writer of generated CDI specs.
        on_published: called after each publication.
        clock: monotonic seconds.

    Attributes:
        device_lists: the lists of the last publication.
    """

    def __init__(
        self,
        registry: Registry,
        specs: Sequence[ResourceSpec],
        saved_state: SavedState,
        held_ids: HeldIdSource,
        *,
        generated_specs: GeneratedSpecs,
        on_published: Callable[[Publication], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        names = {name: GeneratedName(written) for name, written in saved_state.generated_names.items()}
        self.device_lists = DeviceLists(
            dict(saved_state.lists), written_names=map_names_to_entries(specs, names), generated_names=names
        )
        self._registry = registry
        self._generated_specs = generated_specs
        self._held_ids = held_ids
        self._on_published = on_published
        self._clock = clock
        self._published_specs: Sequence[ResourceSpec] | None = None  # of the last publication

    @property
    def next_at(self) -> float | None:
        """Monotonic seconds at which the lists or their CDI specs are due without a change; None if they are not."""
        times = (self.device_lists.next_at, self._generated_specs.retry_at)
        return min((time_due for time_due in times if time_due is not None), default=None)

    def find_movable_devices(self, specs: Sequence[ResourceSpec]) -> Mapping[str, MovableDevice]:
        """Return the devices in use that can be inside their pods."""
        if not any(spec.moved_words is not None for spec in specs):
            return {}
        lists, held_ids = self.device_lists, HeldIds(self._held_ids.confirmed_ids)
        return find_movable_devices(specs, lists.lists, lists.written_names, held_ids.is_held)

    def drop_list(self, resource: str) -> None:
        """Remove the list of a resource that is not served now."""
        self._set_lists({name: list_ for name, list_ in self.device_lists.lists.items() if name != resource})

    def forget_missing_members(self, resource: str, device: Device) -> bool:
        """Forget the missing members of a group device. Return whether there were any."""
        lists = self.device_lists.lists
        list_ = forget_missing_members(lists[resource], device, self._held_ids.ids) if resource in lists else None
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
        """Build and publish the lists. A device that moves leaves its old list before the new list contains it.

        inventory: the host at the last look, by the entries `specs`. candidates: its candidates with unhealthy reasons.
        changed_at: monotonic seconds at which the change began; None if unknown.
        """
        while True:
            previous = self.device_lists
            current_lists = await self._build_with_specs(inventory, specs, candidates)
            if self.device_lists is not previous:
                continue  # `drop_list` or `forget_missing_members` changed the lists meanwhile
            self.device_lists = current_lists
            changed_resources = [
                device_list.resource
                for device_list in self.device_lists.lists.values()
                if self._registry.publish(device_list, changed_at)
            ]
            # The streams write and send the lists before the rest of this function runs.
            for _ in ("write", "send"):
                await asyncio.sleep(0)
            is_first, has_other_entries = self._published_specs is None, self._published_specs is not specs
            self._published_specs = specs
            self._on_published(Publication(previous, self.device_lists, is_first, has_other_entries))
            if not self.device_lists.awaits_delivery:
                return
            try:
                async with asyncio.timeout(DELIVERY_SECONDS):
                    await self._registry.wait_until_delivered(changed_resources)
            except TimeoutError:
                log.warning(
                    "%s: the kubelet did not take a list in time. The agent continues", ", ".join(changed_resources)
                )

    async def _build_with_specs(
        self, inventory: Inventory, specs: Sequence[ResourceSpec], candidates: ResourceCandidates
    ) -> DeviceLists:
        """Return the lists after their CDI specs are written. A device without its spec is Unhealthy."""
        held_ids = self._held_ids.ids
        device_lists = self._build(inventory, specs, candidates, held_ids)
        faults = await self._generated_specs.refresh(device_lists, specs, candidates, HeldIds(held_ids))
        return (
            self._build(inventory, specs, add_spec_faults(candidates, faults, specs), self._held_ids.ids)
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
            confirmed_ids=self._held_ids.confirmed_ids,
        )

    def _set_lists(self, device_lists: Mapping[str, DeviceList]) -> None:
        self.device_lists = replace(self.device_lists, lists=device_lists)
