"""Build the device lists for the kubelet from a look, the held IDs and the previous lists.

These rules meet here. A device keeps its ID while it is at its location. A device that disappears turns Unhealthy under
the same ID, and leaves its list only when no pod can use it. A device that no entry offers leaves at once unless its ID
is held. An ID is in one list at a time: it leaves the old list before it joins the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from agent.core.changes import find_changes
from agent.core.entry.resource_spec import ResourceSpec, Slots
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device, DeviceList, HostDevice, compute_device_bytes, count_ids, make_unhealthy
from agent.core.inventory.inventory import Inventory
from agent.core.language.template import clean_id
from agent.core.language.value import Absent, Value, make_sort_key
from agent.core.lists.exclusion import apply_host_exclusion, apply_iommu_exclusion
from agent.core.lists.id_assignment import UnlistedCandidate, assign_ids
from agent.core.lists.list_builder import (
    ABSENT_REASON,
    RETIRED_REASON,
    SLOT_KEY_PREFIX,
    ListBuilder,
    keep_absent,
    merge_in_order,
    retire_resource,
    start_list,
    update_device,
)
from agent.core.lists.list_inputs import FORGET_SECONDS, HeldIds, ListInputs
from agent.core.lists.resource_names import (
    EMPTY_SECONDS,
    GeneratedName,
    ResourceCandidates,
    ResourceNames,
    assign_candidates,
)
from agent.core.reason import NO_REASON, Reason
from agent.core.struct import Struct, field, ignore_in_comparison, replace

MAX_LIST_BYTES = 4 * 1024 * 1024  # the kubelet's limit for one message, bytes
_FULL_REASON = "the kubelet's list is full (4 MiB)"
_SAFE_ID_COUNT = 30_000  # a list with this number of IDs cannot reach the limit, whatever their length


class UnchangedList(Struct):
    """A list that contains every candidate of its resource, and otherwise only absent devices.

    While a candidate is the same object, its device stays as it is.

    present_devices: in list order, with NUMA nodes even if the list omits them.
    written_name, exclusive_devices: see `ListBuilder`.
    """

    candidates: Mapping[str, Candidate]
    device_list: DeviceList
    present_devices: tuple[Device, ...]
    absent_devices: tuple[Device, ...]
    written_name: str
    exclusive_devices: tuple[Device, ...]

    def start_list(self, candidates: Mapping[str, Candidate], inputs: ListInputs) -> ListBuilder:
        """Start the list with these candidates. Only changed candidates need a decision."""
        changed_keys = find_changes(self.candidates, candidates).keys()
        # Held IDs and the time affect only absent devices.
        if not changed_keys and not any(
            inputs.is_present(device) or inputs.must_forget(device) for device in self.absent_devices
        ):
            return ListBuilder(
                self.device_list.resource,
                self.written_name,
                list(self.present_devices),
                absent_devices={device.share_base: device for device in self.absent_devices},
                is_unchanged=True,
                known_exclusive_devices=self.exclusive_devices,
            )
        return start_list(
            self.device_list.resource,
            # As listed: an absent device keeps the NUMA nodes that the kubelet has of it.
            [
                device
                for device in self.device_list.devices
                if device.key in changed_keys or device.absent_since is not None
            ],
            {key: candidates[key] for key in changed_keys if key in candidates},
            inputs,
            [device for device in self.present_devices if device.key not in changed_keys],
            written_name=self.written_name,
        )


@ignore_in_comparison("unchanged_lists")
class DeviceLists(Struct):
    """The lists of all resources, retired ones included, and the unlisted candidates.

    awaits_delivery: whether a candidate waits only for the delivery of another list. Build the lists again after it.
    next_at: when an absent device or an empty name can be removed, in monotonic seconds. None if there is none.
    written_names: the written name of each resource. A resource without an item has no entry, and ends when its list is
        empty.
    generated_names: the resource names that come from a template.
    unchanged_lists: lists that need no new decision for each device.
    exclusive_keys: the keys of host devices that a listed device excludes (`Device.exclusive_keys`).
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
        """The resources without entry and without devices."""
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
    """Return the device lists.

    Unchanged values are the same objects as in `previous`: a list, and a device within a list.

    Args:
        inventory: the current inventory, of the same entries.
        specs: the entries, in file order. Resources of `previous` without an entry retire.
        held_ids: the IDs, as the kubelet sees them, that a pod may use.
        previous: the lists that the kubelet has. At start, those of the state file.
        current_time: monotonic seconds, for the time that devices are absent.
        generated_names: those of the last lists. At start, those of the state file.
        unchanged_lists: those of the last lists.
        candidates: the candidates of the inventory after the evaluation of their checks, if there is one.
        confirmed_ids: the held IDs that were granted or named by PodResources. If None, all of `held_ids`.
    """
    held_id_set = HeldIds(held_ids)
    inputs = ListInputs(
        inventory, held_id_set, current_time, held_id_set if confirmed_ids is None else HeldIds(confirmed_ids)
    )
    names = assign_candidates(
        inventory.get_resource_candidates() if candidates is None else candidates,
        specs,
        previous,
        generated_names or {},
        current_time,
    )
    builders = _start_lists(names, specs, previous, inputs, unchanged_lists or {})
    for name, device_list in previous.items():
        if name not in builders:
            builders[name] = retire_resource(name, device_list.devices, inputs.held_ids)
    unlisted, awaits_delivery = assign_ids(builders, inputs)
    apply_host_exclusion(builders, inputs)
    exclusive_keys = apply_iommu_exclusion(builders, inputs)
    lists = {
        name: _finish_list(builder, previous.get(name), inputs.held_ids, unlisted) for name, builder in builders.items()
    }
    unlisted += sorted(
        (
            UnlistedCandidate(candidate.resource, candidate.device.location, candidate.device.key, reason)
            for candidate, reason in names.unlisted_candidates
        ),
        key=lambda unlisted_candidate: (
            unlisted_candidate.resource,
            make_sort_key(unlisted_candidate.location),
            unlisted_candidate.key,
        ),
    )
    incomplete_resources = {unlisted_candidate.resource for unlisted_candidate in unlisted}
    new_unchanged_lists = {
        name: unchanged_list
        for name in names.written_names
        if name not in incomplete_resources
        and (unchanged_list := _make_unchanged_list(names.candidates[name], builders[name], lists[name]))
    }
    new_generated_names = {
        name: GeneratedName(generated_name.written_name)
        if lists[name].devices or names.candidates[name]
        else generated_name.mark_empty(current_time)
        for name, generated_name in names.generated_names.items()
    }
    return DeviceLists(
        lists,
        tuple(unlisted),
        awaits_delivery,
        _find_next_time(builders, new_generated_names, inputs),
        names.written_names,
        new_generated_names,
        new_unchanged_lists,
        exclusive_keys,
    )


def _make_unchanged_list(
    candidates: Mapping[str, Candidate], builder: ListBuilder, device_list: DeviceList
) -> UnchangedList | None:
    """Return the unchanged list of a builder that has listed all new candidates. None if it has other inputs."""
    if builder.retiring_devices or builder.has_other_inputs:
        return None
    devices = device_list.devices if builder.absent_devices else ()
    return UnchangedList(
        candidates,
        device_list,
        tuple(builder.present_devices),
        tuple(device for device in devices if device.absent_since is not None),
        builder.written_name,
        builder.exclusive_devices,
    )


def _start_lists(
    names: ResourceNames,
    specs: Sequence[ResourceSpec],
    previous: Mapping[str, DeviceList],
    inputs: ListInputs,
    unchanged_lists: Mapping[str, UnchangedList],
) -> dict[str, ListBuilder]:
    """Return the list builders of all resources with an entry, in file order."""
    builders: dict[str, ListBuilder] = {}
    slots = {spec.name: spec.slots for spec in specs if spec.slots is not None and not spec.is_addition}
    for name, written_name in names.written_names.items():
        old_list = previous.get(name) or DeviceList(name)
        unchanged_list, candidates = unchanged_lists.get(name), names.candidates[name]
        slots_spec = slots.get(written_name or name)
        if slots_spec is not None:
            builders[name] = start_slot_list(name, slots_spec, old_list.devices, candidates, inputs)
            names.unlisted_candidates += [
                (candidate, candidate.not_ready_reason)
                for candidate in candidates.values()
                if candidate.not_ready_reason
            ]
        elif (
            unchanged_list is not None
            and unchanged_list.device_list is old_list
            and unchanged_list.written_name == written_name
        ):
            builders[name] = unchanged_list.start_list(candidates, inputs)
        else:
            builders[name] = start_list(name, old_list.devices, {**candidates}, inputs, written_name=written_name)
    return builders


def _find_next_time(
    builders: Mapping[str, ListBuilder], generated_names: Mapping[str, GeneratedName], inputs: ListInputs
) -> float | None:
    """Return when a device or name can be removed, in monotonic seconds, or None."""
    device_times = (
        device.absent_since + FORGET_SECONDS
        for builder in builders.values()
        for device in builder.absent_devices.values()
        if device.absent_since is not None and not inputs.held_ids.is_held(device)
    )
    name_times = (
        generated_name.empty_since + EMPTY_SECONDS
        for generated_name in generated_names.values()
        if generated_name.empty_since is not None
    )
    return min((*device_times, *name_times), default=None)


def _finish_list(
    builder: ListBuilder, old_list: DeviceList | None, held_ids: HeldIds, unlisted: list[UnlistedCandidate]
) -> DeviceList:
    """Return the list of a builder: in order, with one rule for NUMA nodes, within the kubelet's limit.

    An equal old list is returned as it is.
    """
    if old_list is not None and builder.is_unchanged and not builder.removed_devices:
        return old_list
    builder.merge_added_devices()
    devices = merge_in_order(
        [*builder.present_devices], [*builder.absent_devices.values(), *builder.list_retiring_parts()]
    )
    if count_ids(devices) > _SAFE_ID_COUNT:
        devices = _limit_size(devices, builder.resource, held_ids, unlisted)
    sent_devices = tuple(_unify_topology(devices, old_list))
    return (
        old_list
        if old_list is not None and old_list.devices == sent_devices
        else DeviceList(builder.resource, sent_devices)
    )


def _unify_topology(devices: list[Device], old_list: DeviceList | None) -> list[Device]:
    """Return all devices with their NUMA nodes, or all without.

    The kubelet ignores devices without a node if others have one.
    """
    if all(device.numa for device in devices) or not any(device.numa for device in devices):
        return devices
    old_devices = {(device.share_base, device.first_share): device for device in old_list.devices} if old_list else {}
    bare_devices = [replace(device, numa=()) if device.numa else device for device in devices]
    matching_devices = [old_devices.get((device.share_base, device.first_share)) for device in bare_devices]
    return [
        old_device if old_device is not None and old_device == device else device
        for old_device, device in zip(matching_devices, bare_devices, strict=True)
    ]


def _limit_size(
    devices: list[Device], resource: str, held_ids: HeldIds, unlisted: list[UnlistedCandidate]
) -> list[Device]:
    """Return as many devices as fit into one message to the kubelet. Devices with held IDs have precedence."""
    size = sum(
        _compute_size(held_part) for device in devices if (held_part := held_ids.find_held_part(device)) is not None
    )
    listed_devices: list[Device] = []
    for device in devices:
        held_part = held_ids.find_held_part(device)
        added_size = _compute_size(device) - (_compute_size(held_part) if held_part is not None else 0)
        if size + added_size <= MAX_LIST_BYTES:
            size += added_size
            listed_devices.append(device)
            continue
        unlisted.append(UnlistedCandidate(resource, device.location, device.key, _FULL_REASON))
        if held_part is not None:
            listed_devices.append(make_unhealthy(held_part, _FULL_REASON, held_part.absent_since))
    return listed_devices


def _compute_size(device: Device) -> int:
    suffix = 0 if device.shares is None else len(f"{device.share_suffix}{device.shares}")
    return len(device) * compute_device_bytes(len(device.id) + suffix, len(device.numa))


def start_slot_list(
    resource: str,
    slots: Slots,
    devices: Iterable[Device],
    candidates: Mapping[str, Candidate],
    inputs: ListInputs,
) -> ListBuilder:
    """Start the list of a resource with slots, without its new slots.

    A slot is listed once a device exists, Healthy while one of the devices is, and absent when no device exists.
    """
    # If the entry no longer has slots, no slot may stay.
    builder = ListBuilder(resource, has_other_inputs=True)
    slot_candidates = dict(_make_slot_candidates(resource, slots, candidates))
    for device in devices:
        slot = slot_candidates.pop(device.id, None)
        if slot is None or device.shares is not None:
            builder.retire(device, RETIRED_REASON, inputs.held_ids)
        elif candidates:
            builder.present_devices.append(update_device(builder, device, slot, inputs))
        else:
            keep_absent(builder, device, ABSENT_REASON, inputs)
    if any(not candidate.not_ready_reason for candidate in candidates.values()):
        builder.new_candidates = {slot.device.key: slot for slot in slot_candidates.values()}
    return builder


def make_slot_id(resource: str, slots: Slots, n: int) -> str:
    """Return the ID of slot `n` of a resource."""
    values: dict[str, Value | Absent] = {"resource": resource, "n": n}
    slot_id = slots.id.write(lambda word: values.get(word, Absent("a slot has no such word")))
    if isinstance(slot_id, Absent):
        raise TypeError(slot_id.reason)
    return clean_id(slot_id)


def _make_slot_candidates(
    resource: str, slots: Slots, candidates: Mapping[str, Candidate]
) -> Iterator[tuple[str, Candidate]]:
    """Yield the slots as candidates, by ID."""
    is_healthy = any(not candidate.reason for candidate in candidates.values())
    first_candidate = min(candidates.values(), key=lambda candidate: candidate.device.key, default=None)
    reason = NO_REASON
    if not is_healthy and first_candidate is not None:
        reason = Reason.from_text(
            f"{first_candidate.device.name}: {first_candidate.reason}", path=first_candidate.reason.path
        )
    for n in range(slots.count):
        id = make_slot_id(resource, slots, n)  # noqa: A001  the API's own word
        key = f"{SLOT_KEY_PREFIX}{resource}:{n}"
        yield id, Candidate(resource, HostDevice("slots", key, id, key), (id,), "", (), (), reason)
