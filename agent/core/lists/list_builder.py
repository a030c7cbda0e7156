"""List builders: what stays of a resource's old list, and the candidates that are new to it.

Each old device ends in one of four groups. A *present* device is at its location under its ID. An *absent* device is
not on the host, and stays Unhealthy until it is removed. A *retiring* device is offered by no entry, and stays
Unhealthy while a pod may use it. A *removed* device is in no list.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf

from agent.core.inventory.candidate import UNKNOWN_SHARES, Candidate
from agent.core.inventory.device import Device, Health, Member, ShareBase, make_list_sort_key, make_unhealthy
from agent.core.inventory.hardware import identify_hardware, is_device_node
from agent.core.inventory.inventory import Inventory
from agent.core.lists.list_inputs import HeldIds, ListInputs
from agent.core.lists.missing_members import find_missing_members, format_missing_members
from agent.core.reason import Reason
from agent.core.struct import MutableStruct, field, replace

RETIRED_REASON = "taken out by configuration"
ABSENT_REASON = "absent"
SLOT_KEY_PREFIX = "slot:"  # no key of a host device begins so


class ListBuilder(MutableStruct):
    """The list of one resource while it is built.

    written_name: the name as the entry writes it, if it is a template.
    present_devices: in list order, like the old list.
    added_devices: present devices too, in no order.
    absent_devices: by share base.
    retiring_devices: devices, or the upper shares of devices. Shares that are offered again are subtracted at the end.
    removed_devices: devices of the old list that this list does not have.
    new_candidates: by key. previous_ids: the ID that a candidate had at its location before, by key.
    possible_devices: the absent devices that a candidate may be, as share bases, by key.
    is_unchanged: the builder began with the old list, and still has this list unless devices are removed.
    has_other_inputs: the list depends on more than its candidates.
    known_exclusive_devices: `exclusive_devices`, if the old list has them.
    """

    resource: str
    written_name: str = ""
    present_devices: list[Device] = field(default_factory=list)
    added_devices: list[Device] = field(default_factory=list)
    absent_devices: dict[ShareBase, Device] = field(default_factory=dict)
    retiring_devices: list[Device] = field(default_factory=list)
    removed_devices: list[Device] = field(default_factory=list)
    new_candidates: dict[str, Candidate] = field(default_factory=dict)
    previous_ids: dict[str, str] = field(default_factory=dict)
    possible_devices: dict[str, list[ShareBase]] = field(default_factory=dict)
    is_unchanged: bool = False
    has_other_inputs: bool = False
    known_exclusive_devices: tuple[Device, ...] | None = None

    @property
    def exclusive_devices(self) -> tuple[Device, ...]:
        """The devices that keep other devices from pods while a pod has them."""
        if self.known_exclusive_devices is not None:
            return self.known_exclusive_devices
        parts = self.retiring_devices, self.absent_devices.values(), self.present_devices, self.added_devices
        return tuple([device for devices in parts for device in devices if device.exclusive_keys])

    def merge_added_devices(self) -> None:
        """Merge the added devices into the present devices."""
        self.present_devices = merge_in_order(self.present_devices, self.added_devices)
        self.added_devices = []

    def list_devices(self) -> Iterator[Device]:
        """Yield all devices so far. If two devices have equal IDs, the one that must yield comes first."""
        yield from self.retiring_devices
        yield from self.absent_devices.values()
        yield from self.present_devices
        yield from self.added_devices

    def retire(self, device: Device, reason: str, held_ids: HeldIds) -> None:
        """Stop to offer a device. It stays as far as a pod may use it."""
        part = held_ids.find_held_part(device)
        if part is None:
            self.removed_devices.append(device)
        else:
            self.retiring_devices.append(make_unhealthy(part, reason, absent_since=None))

    def exclude_devices(self, find_reason: Callable[[Device], str]) -> None:
        """Make each present device Unhealthy for which the function returns a reason."""
        for devices in (self.present_devices, self.added_devices):
            for index, device in enumerate(devices):
                if reason := find_reason(device):
                    devices[index] = make_unhealthy(device, reason, absent_since=None)
                    self.is_unchanged, self.has_other_inputs = False, True

    def list_retiring_parts(self) -> list[Device]:
        """Return the parts of retiring devices that are not offered under the same IDs."""
        if not self.retiring_devices:
            return []
        ids = {device.id for device in self.retiring_devices}
        present_devices = (
            device
            for device in (*self.present_devices, *self.added_devices, *self.absent_devices.values())
            if device.id in ids
        )
        share_counts = {device.share_base: device.shares or 1 for device in present_devices}
        return [
            part
            for device in self.retiring_devices
            if (part := _slice_shares(device, share_counts.get(device.share_base, 0))) is not None
        ]


def start_list(
    resource: str,
    devices: Iterable[Device],
    candidates: dict[str, Candidate],
    inputs: ListInputs,
    present_devices: Sequence[Device] | None = None,
    *,
    written_name: str = "",
) -> ListBuilder:
    """Start the list of one resource, without its new candidates.

    Args:
        resource: the resource name.
        devices: the devices of the last list, without those of `present_devices`. Without `present_devices` in order.
        candidates: the candidates by key. The function removes them.
        inputs: the inventory in which the old devices are searched.
        present_devices: devices that are present for certain, in list order. `candidates` does not contain theirs.
        written_name: the name as the entry writes it, if it is a template.
    """
    builder = ListBuilder(resource, written_name, [*(present_devices or ())], new_candidates=candidates)
    target = builder.present_devices if present_devices is None else builder.added_devices
    other_devices: list[Device] = []
    for device in devices:
        candidate = candidates.get(device.key)
        if (
            candidate is not None
            and candidate.has_id_of(device)
            and device.instance_id == candidate.device.instance_id
            and device.share_mark == candidate.share_mark
            and not device.first_share
        ):
            del candidates[device.key]
            target.append(update_device(builder, device, candidate, inputs))
        else:
            other_devices.append(device)
    if other_devices:
        _sort_old_devices(builder, other_devices, inputs)
    return builder


def retire_resource(resource: str, devices: Iterable[Device], held_ids: HeldIds) -> ListBuilder:
    """Start the list of a resource without entry."""
    builder = ListBuilder(resource)
    for device in devices:
        builder.retire(device, RETIRED_REASON, held_ids)
    return builder


def merge_in_order(devices: list[Device], other_devices: Sequence[Device]) -> list[Device]:
    """Return all devices in list order. `devices` are in order already: a few others are inserted, many are sorted."""
    if len(other_devices) * 16 > len(devices):
        return sorted((*devices, *other_devices), key=make_list_sort_key)
    for device in other_devices:
        insort(devices, device, key=make_list_sort_key)
    return devices


def make_device(
    candidate: Candidate,
    id: str,  # noqa: A002  the API's own word
    shares: int | None,
    id_location: str = "",
    missing_members: tuple[Member, ...] = (),
) -> Device:
    """Build the device of a candidate under an ID, with that number of shares.

    id_location: the location of the member that gave the ID.
    """
    reason = Reason.from_text(format_missing_members(missing_members)) or candidate.reason
    return Device(
        id=id,
        location=candidate.device.location,
        key=candidate.device.key,
        health=Health.UNHEALTHY if reason else Health.HEALTHY,
        reason=reason,
        numa=candidate.numa,
        shares=shares,
        nodes=candidate.nodes,
        instance_id=candidate.device.instance_id,
        members=candidate.members,
        missing_members=missing_members,
        id_location="" if id_location == candidate.device.location else id_location,
        grouping_digest=candidate.grouping_digest,
        share_suffix=candidate.share_suffix,
        exclusive_keys=candidate.exclusive_keys,
        moved_words=candidate.moved_words,
    )


def update_device(builder: ListBuilder, device: Device, candidate: Candidate, inputs: ListInputs) -> Device:
    """Return the current device under its old ID. An unchanged device is the same object. Excess shares retire."""
    shares = candidate.shares if candidate.shares != UNKNOWN_SHARES else device.shares
    is_group = bool(device.members or candidate.members)
    missing_members = (
        find_missing_members(device, candidate, inputs.inventory, is_held=inputs.held_ids.is_held(device))
        if is_group
        else ()
    )
    exclusive_keys = candidate.exclusive_keys
    # A pod keeps what it was granted.
    if device.exclusive_keys != exclusive_keys and inputs.confirmed_ids.is_held(device):
        exclusive_keys = tuple(dict.fromkeys((*exclusive_keys, *device.exclusive_keys)))
    builder.has_other_inputs |= bool(missing_members) or exclusive_keys != candidate.exclusive_keys
    grouping_digest = device.grouping_digest if missing_members else candidate.grouping_digest
    id_location = device.id_location or device.location if candidate.members else ""
    new_device = replace(
        make_device(candidate, device.id, shares, id_location, missing_members),
        grouping_digest=grouping_digest,
        exclusive_keys=exclusive_keys,
        has_contested_id=device.has_contested_id,
    )
    if device == new_device:
        return device
    if device.shares is not None and shares is not None and device.shares > shares:
        builder.retire(replace(device, first_share=shares), _format_fewer_shares(shares), inputs.held_ids)
    return new_device


def keep_absent(builder: ListBuilder, device: Device, reason: str, inputs: ListInputs) -> bool:
    """Keep a device that the host does not show, and return True, or remove it and return False."""
    if inputs.must_forget(device):
        builder.removed_devices.append(device)
        return False
    absent_since = inputs.current_time if device.absent_since is None else device.absent_since
    builder.absent_devices[device.share_base] = make_unhealthy(device, reason, absent_since=absent_since)
    return True


def may_be_same(device: Device, candidate: Candidate) -> bool:
    """Return whether a candidate with the ID of a device that a pod holds may be this device.

    A device node with the same name must be the same hardware. Any other device is the same if it has the ID, unless
    two devices with this ID were present.
    """
    if not is_device_node(device) or device.id not in candidate.ids_from_name:
        return not device.has_contested_id or not set(device.locations).isdisjoint(candidate.locations)
    old_hardware, new_hardware = (
        map(identify_hardware, device.host_parts),
        list(map(identify_hardware, candidate.host_devices)),
    )
    return any(old.may_equal(new) for old in old_hardware for new in new_hardware)


def _sort_old_devices(builder: ListBuilder, devices: list[Device], inputs: ListInputs) -> None:
    """Decide about old devices that are not at their location under the same key."""
    candidates_by_location: dict[str, dict[str, Candidate]] = {}
    for key in sorted(builder.new_candidates):
        for location in builder.new_candidates[key].locations:
            candidates_by_location.setdefault(location, {})[key] = builder.new_candidates[key]
    old_locations = {location for device in devices for location in device.locations}
    filled_locations = {
        location
        for devices_at in (builder.present_devices, builder.added_devices)
        for device in devices_at
        if device.location in old_locations or device.members or device.missing_members
        for location in device.locations
    }
    filled_locations.update(candidates_by_location)
    taken_keys: set[str] = set()
    # Of several devices at one location, the one that disappeared last comes first.
    for device in sorted(devices, key=lambda device: -inf if device.absent_since is None else -device.absent_since):
        is_held = inputs.held_ids.is_held(device)
        candidates = (
            candidate
            for location in device.locations
            for key, candidate in candidates_by_location.get(location, {}).items()
            if key not in taken_keys
        )
        possible_candidates = [candidate for candidate in candidates if not is_held or may_be_same(device, candidate)]
        same_candidate = next((candidate for candidate in possible_candidates if candidate.has_id_of(device)), None)
        doubtful_candidate = next(
            (candidate for candidate in possible_candidates if candidate.may_get_id_of(device)), None
        )
        if device.first_share or (same_candidate is not None and same_candidate.share_mark != device.share_mark):
            builder.retire(device, _find_share_reason(device, inputs.inventory), inputs.held_ids)
            if same_candidate is not None and not is_held:
                taken_keys.add(same_candidate.device.key)
                builder.previous_ids[same_candidate.device.key] = device.id
        elif same_candidate is not None:
            taken_keys.add(same_candidate.device.key)
            if inputs.is_any_member_present(device):
                del builder.new_candidates[same_candidate.device.key]
                builder.added_devices.append(update_device(builder, device, same_candidate, inputs))
            elif keep_absent(builder, device, ABSENT_REASON, inputs):
                builder.previous_ids[same_candidate.device.key] = device.id
        elif doubtful_candidate is not None:
            if keep_absent(builder, device, f"it has no id now: {doubtful_candidate.missing_id_reason}", inputs):
                builder.possible_devices.setdefault(doubtful_candidate.device.key, []).append(device.share_base)
        elif inputs.is_present(device) or device.key.startswith(SLOT_KEY_PREFIX):
            builder.retire(device, _find_retire_reason(device, builder, inputs.inventory), inputs.held_ids)
        else:
            is_other_hardware = not filled_locations.isdisjoint(device.locations)
            keep_absent(
                builder,
                device,
                f"{ABSENT_REASON}: other hardware is in its place" if is_other_hardware else ABSENT_REASON,
                inputs,
            )


def _find_share_reason(device: Device, inventory: Inventory) -> str:
    """Return why a device is no longer offered with its shares."""
    candidate = inventory.get_candidate(device.key)
    share_count = (
        candidate is not None
        and candidate.share_mark == device.share_mark
        and device.id in candidate.ids
        and candidate.shares
    )
    return _format_fewer_shares(share_count) if share_count else RETIRED_REASON


def _format_fewer_shares(shares: int) -> str:
    return f"no longer offered: its device has {shares} share{'s' * (shares != 1)} now"


def _find_retire_reason(device: Device, builder: ListBuilder, inventory: Inventory) -> str:
    """Return why a present device is no longer offered."""
    if device.key.startswith(SLOT_KEY_PREFIX):
        return RETIRED_REASON
    candidate = inventory.get_candidate(device.key)
    if candidate is None:
        names = {builder.resource, builder.written_name}
        mismatches = inventory.match_results[device.key].mismatches
        mismatch = next(filter(lambda mismatch: mismatch.resource in names, mismatches), None)
        if mismatch is None:
            return "no longer offered: no entry looks for it"
        return f"no longer offered: {mismatch.address} = {mismatch.source_text}, here {mismatch.facts_text}"
    if candidate.resource not in {builder.resource, builder.written_name}:
        return f"no longer offered: it is {candidate.resource} now"
    return "no longer offered: " + (
        candidate.not_ready_reason or f"its id is {next(iter(candidate.ids), 'unknown')} now"
    )


def _slice_shares(device: Device, share: int) -> Device | None:
    """Return the shares of a device from that number on, or None. A device without shares has one share."""
    if share >= (device.shares or 1):
        return None
    return device if share <= device.first_share else replace(device, first_share=share)
