"""Assembling: from a look, what pods may hold and what was listed before, the lists to tell the kubelet now.

Rules that meet here: a device keeps its id while it is in its place; what vanishes turns
Unhealthy under the same id and leaves only when no pod can hold it; what an entry no longer takes leaves at once
unless it is held; an id stands in one list at a time, and leaves the old list before it joins the new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.device import Device, DeviceList, compute_device_bytes, count_ids, make_unhealthy
from agent.core.inventory.inventory import Inventory
from agent.core.language.value import make_sort_key
from agent.core.lists.host_exclusive import apply_host_exclusion
from agent.core.lists.id_assignment import UnlistedCandidate, assign_ids
from agent.core.lists.iommu_exclusive import apply_iommu_exclusion
from agent.core.lists.list_builder import ListBuilder, merge_in_order, retire_resource, start_list
from agent.core.lists.list_inputs import FORGET_SECONDS, HeldIds, ListInputs
from agent.core.lists.resource_names import (
    EMPTY_SECONDS,
    GeneratedName,
    ResourceCandidates,
    ResourceNames,
    assign_candidates,
)
from agent.core.lists.slots import start_slot_list
from agent.core.lists.unchanged_list import UnchangedList, make_unchanged_list
from agent.core.struct import Struct, field, not_compared, replace

MAX_LIST_BYTES = 4 * 1024 * 1024  # the kubelet's limit for one message, bytes
_FULL = "the kubelet's list is full (4 MiB)"
_SURELY_WITHIN = 30_000  # ids of any length whose list cannot reach the limit


@not_compared("unchanged_lists")
class DeviceLists(Struct):
    """The lists of all resources, retired ones included, and what is not in them.

    moving: whether something waits only for another list to be delivered; assemble again when that is done.
    next_at: monotonic seconds at which an absent device, or an empty name, is to be forgotten; None if none is.
    written: whose each resource is, by its name as the entry writes it; one that is not in it is nobody's, and is to
        end when its list is empty.
    fanned: those whose name came out of words.
    settled: what is known of lists that need not be gone through again.
    shut_keys: the keys of host devices that a listed device shuts (`Device.shuts`).
    """

    lists: Mapping[str, DeviceList]
    unlisted: tuple[UnlistedCandidate, ...] = ()
    awaits_delivery: bool = False
    next_at: float | None = None
    written_names: Mapping[str, str] = field(default_factory=dict)
    generated_names: Mapping[str, GeneratedName] = field(default_factory=dict)
    unchanged_lists: Mapping[str, UnchangedList] = field(default_factory=dict)
    exclusive_keys: frozenset[str] = frozenset()

    def is_exclusive(self, device: Device) -> bool:
        """Return whether a grant of the device keeps other devices from pods."""
        return bool(device.exclusive_keys) or not self.exclusive_keys.isdisjoint(device.keys)

    def find_exclusive_devices(self) -> Iterator[tuple[str, Device]]:
        """Yield all such devices, each with its resource."""
        for name, list_ in self.lists.items() if self.exclusive_keys else ():
            for device in list_.devices:
                if self.is_exclusive(device):
                    yield name, device

    @property
    def ended_resources(self) -> frozenset[str]:
        """The resources that nothing is left of."""
        lists = self.lists.items()
        return frozenset(name for name, list_ in lists if name not in self.written_names and not list_.devices)


def build_lists(
    inventory: Inventory,
    specs: Sequence[ResourceSpec],
    held_ids: frozenset[str],
    previous: Mapping[str, DeviceList],
    current_time: float,
    *,
    generated_names: Mapping[str, GeneratedName] | None = None,
    unchanged_lists: Mapping[str, UnchangedList] | None = None,
    candidates: ResourceCandidates | None = None,
    confirmed_ids: frozenset[str] | None = None,
) -> DeviceLists:
    """The lists to be told now.

    What did not change is the same object as in `previous`: a list, and a device within one.

    Args:
        inventory: the machine as it is, by the same entries.
        specs: the entries, in file order; resources of `previous` that are not among them retire.
        held_ids: ids (as the kubelet sees them) that a pod may hold.
        previous: the lists as last told; at start, those of the state file.
        current_time: monotonic seconds, for how long something is gone.
        generated_names: those of the last assembly; at start, of the state file.
        unchanged_lists: those of the last assembly.
        candidates: those of the look, if checks have said something of them.
        confirmed_ids: the held IDs that were granted or named by PodResources; all of `held` if None.
    """
    may_hold = HeldIds(held_ids)
    present = ListInputs(
        inventory, may_hold, current_time, may_hold if confirmed_ids is None else HeldIds(confirmed_ids)
    )
    names = assign_candidates(
        inventory.get_resource_candidates() if candidates is None else candidates,
        specs,
        previous,
        generated_names or {},
        current_time,
    )
    drafts = _drafts(names, specs, previous, present, unchanged_lists or {})
    for name, old in previous.items():
        if name not in drafts:
            drafts[name] = retire_resource(name, old.devices, present.held_ids)
    unlisted, moving = assign_ids(drafts, present)
    apply_host_exclusion(drafts, present)
    shut_keys = apply_iommu_exclusion(drafts, present)
    snapshots = {name: _snapshot(made, previous.get(name), present.held_ids, unlisted) for name, made in drafts.items()}
    unlisted += sorted(
        (
            UnlistedCandidate(candidate.resource, candidate.device.location, candidate.device.key, why)
            for candidate, why in names.unlisted_candidates
        ),
        key=lambda one: (one.resource, make_sort_key(one.location), one.key),
    )
    partly = {left_out.resource for left_out in unlisted}
    again = {
        name: known
        for name in names.written_names
        if name not in partly and (known := make_unchanged_list(names.candidates[name], drafts[name], snapshots[name]))
    }
    kept = {
        name: GeneratedName(one.written_name)
        if snapshots[name].devices or names.candidates[name]
        else one.mark_empty(current_time)
        for name, one in names.generated_names.items()
    }
    return DeviceLists(
        snapshots, tuple(unlisted), moving, _next(drafts, kept, present), names.written_names, kept, again, shut_keys
    )


def _drafts(
    names: ResourceNames,
    specs: Sequence[ResourceSpec],
    previous: Mapping[str, DeviceList],
    present: ListInputs,
    settled: Mapping[str, UnchangedList],
) -> dict[str, ListBuilder]:
    """The drafts of all resources that an entry has, in file order."""
    drafts: dict[str, ListBuilder] = {}
    slots = {spec.name: spec.slots for spec in specs if spec.slots is not None and not spec.is_addition}
    for name, written in names.written_names.items():
        old = previous.get(name) or DeviceList(name)
        known, offers = settled.get(name), names.candidates[name]
        shared = slots.get(written or name)
        if shared is not None:
            drafts[name] = start_slot_list(name, shared, old.devices, offers, present)
            names.unlisted_candidates += [
                (candidate, candidate.not_ready_reason) for candidate in offers.values() if candidate.not_ready_reason
            ]
        elif known is not None and known.device_list is old and known.written_name == written:
            drafts[name] = known.start_list(offers, present)
        else:
            drafts[name] = start_list(name, old.devices, {**offers}, present, written=written)
    return drafts


def _next(drafts: Mapping[str, ListBuilder], fanned: Mapping[str, GeneratedName], present: ListInputs) -> float | None:
    """When something is to be forgotten."""
    gone = (
        device.absent_since + FORGET_SECONDS
        for made in drafts.values()
        for device in made.absent_devices.values()
        if device.absent_since is not None and not present.held_ids.is_held(device)
    )
    empty = (one.empty_since + EMPTY_SECONDS for one in fanned.values() if one.empty_since is not None)
    return min((*gone, *empty), default=None)


def _snapshot(
    made: ListBuilder, old: DeviceList | None, held: HeldIds, unlisted: list[UnlistedCandidate]
) -> DeviceList:
    """The draft as a list: in order, one rule for topology, within the kubelet's limit; the old one if it is equal."""
    if old is not None and made.is_unchanged and not made.removed_devices:
        return old
    made.merge_added_devices()
    devices = merge_in_order([*made.present_devices], [*made.absent_devices.values(), *made.list_retiring_parts()])
    if count_ids(devices) > _SURELY_WITHIN:
        devices = _within_limit(devices, made.resource, held, unlisted)
    fresh = tuple(_one_topology(devices, old))
    return old if old is not None and old.devices == fresh else DeviceList(made.resource, fresh)


def _one_topology(devices: list[Device], old: DeviceList | None) -> list[Device]:
    """All devices with their NUMA nodes, or none: the kubelet cannot see those without beside those with."""
    if all(device.numa for device in devices) or not any(device.numa for device in devices):
        return devices
    known = {(device.share_base, device.first_share): device for device in old.devices} if old else {}
    bare = [replace(device, numa=()) if device.numa else device for device in devices]
    before = [known.get((device.share_base, device.first_share)) for device in bare]
    return [
        former if former is not None and former == device else device
        for former, device in zip(before, bare, strict=True)
    ]


def _within_limit(
    devices: list[Device], resource: str, held: HeldIds, unlisted: list[UnlistedCandidate]
) -> list[Device]:
    """As many devices as one message to the kubelet can hold. What pods may hold is in it before all else."""
    size = sum(_bytes(part) for device in devices if (part := held.find_held_part(device)) is not None)
    within: list[Device] = []
    for device in devices:
        part = held.find_held_part(device)
        more = _bytes(device) - (_bytes(part) if part is not None else 0)
        if size + more <= MAX_LIST_BYTES:
            size += more
            within.append(device)
            continue
        unlisted.append(UnlistedCandidate(resource, device.location, device.key, _FULL))
        if part is not None:
            within.append(make_unhealthy(part, _FULL, part.absent_since))
    return within


def _bytes(device: Device) -> int:
    suffix = 0 if device.shares is None else len(f"{device.share_suffix}{device.shares}")
    return len(device) * compute_device_bytes(len(device.id) + suffix, len(device.numa))
