"""Drafts: what stays of a resource's old list, and the candidates that are new to it.

Every old device ends up in one of four ways: *settled* (it is in its place under its id), *gone* (the host does not
show it; Unhealthy until it is forgotten), *leaving* (there, or its configuration was, but offered no more; Unhealthy
while a pod may hold it) or *freed* (in no list any more).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
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
SLOT_KEY_PREFIX = "slot:"  # how the keys of slots begin, which are no host devices


class ListBuilder(MutableStruct):
    """The list of one resource while it is made.

    written: the name as its entry writes it, if that has words.
    settled: in list order, as the old list was.
    added: settled ones too, in no order.
    gone: by form.
    leaving: devices, or the upper shares of some; what is offered again is taken off at the end.
    freed: devices of the old list that this one does not have.
    newcomers: by key. known: the id that one had in its place before; key to id.
    doubtful: the gone devices that a newcomer may be; key to forms.
    unchanged: it began as the old list, and is that still unless something is freed.
    unsettled: something in it depends on more than its candidate.
    known_shutting: as of `shutting`, if that is known of the old list.
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
        """The devices that keep others from pods while one has them."""
        if self.known_exclusive_devices is not None:
            return self.known_exclusive_devices
        return tuple(device for device in self.list_devices() if device.exclusive_keys)

    def merge_added_devices(self) -> None:
        """Put those that were added among the others."""
        self.present_devices = merge_in_order(self.present_devices, self.added_devices)
        self.added_devices = []

    def list_devices(self) -> Iterator[Device]:
        """All that are in it by now; of two that are in each other's way the one that gives way first."""
        yield from self.retiring_devices
        yield from self.absent_devices.values()
        yield from self.present_devices
        yield from self.added_devices

    def retire(self, device: Device, reason: str, held: HeldIds) -> None:
        """Offer a device no more: it stays as far as a pod may hold it."""
        part = held.find_held_part(device)
        if part is None:
            self.removed_devices.append(device)
        else:
            self.retiring_devices.append(make_unhealthy(part, reason, absent_since=None))

    def list_retiring_parts(self) -> list[Device]:
        """What of those that leave is not offered under the same ids."""
        if not self.retiring_devices:
            return []
        ids = {device.id for device in self.retiring_devices}
        offered = (
            device
            for device in (*self.present_devices, *self.added_devices, *self.absent_devices.values())
            if device.id in ids
        )
        covered = {device.share_base: device.shares or 1 for device in offered}
        return [
            part
            for device in self.retiring_devices
            if (part := _above(device, covered.get(device.share_base, 0))) is not None
        ]


def start_list(
    resource: str,
    devices: Iterable[Device],
    candidates: dict[str, Candidate],
    present: ListInputs,
    settled: Sequence[Device] = (),
    *,
    written: str = "",
) -> ListBuilder:
    """The draft of one resource, without its newcomers.

    Args:
        resource: its name.
        devices: its list as last told, in order, but for those of `settled`.
        candidates: by key; they are used up.
        present: where the old devices are looked for.
        settled: devices that are known to be in their place, in list order; their candidates are not among the others.
        written: the name as its entry writes it, if that has words.
    """
    made = ListBuilder(resource, written, [*settled], new_candidates=candidates)
    there = made.added_devices if settled else made.present_devices
    others: list[Device] = []
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
            there.append(update_device(made, device, candidate, present))
        else:
            others.append(device)
    if others:
        _judge(made, others, present)
    return made


def retire_resource(resource: str, devices: Iterable[Device], held: HeldIds) -> ListBuilder:
    """The draft of a resource that has no entry any more."""
    made = ListBuilder(resource)
    for device in devices:
        made.retire(device, RETIRED_REASON, held)
    return made


def merge_in_order(devices: list[Device], others: Sequence[Device]) -> list[Device]:
    """All in list order, in which `devices` are already: a few others are put in place, many are sorted in."""
    if len(others) * 16 > len(devices):
        return sorted((*devices, *others), key=make_list_sort_key)
    for device in others:
        insort(devices, device, key=make_list_sort_key)
    return devices


def make_device(
    candidate: Candidate,
    id: str,  # noqa: A002  the API's own word
    shares: int | None,
    lead: str = "",
    missing: tuple[Member, ...] = (),
) -> Device:
    """The device that a candidate makes under an id, which the member at the place `lead` gave, in so many shares."""
    reason = Reason.of(format_missing_members(missing)) or candidate.reason
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
        missing_members=missing,
        id_location="" if lead == candidate.device.location else lead,
        grouping_digest=candidate.grouping_digest,
        share_suffix=candidate.share_suffix,
        exclusive_keys=candidate.exclusive_keys,
        moved_words=candidate.moved_words,
    )


def update_device(made: ListBuilder, device: Device, candidate: Candidate, present: ListInputs) -> Device:
    """The device as it is now, under the id it had; the same object if nothing changed. Shares too many leave."""
    shares = candidate.shares if candidate.shares != UNKNOWN_SHARES else device.shares
    grouped = bool(device.members or candidate.members)
    missing = (
        find_missing_members(device, candidate, present.inventory, is_held=present.held_ids.is_held(device))
        if grouped
        else ()
    )
    shuts = candidate.exclusive_keys
    if device.exclusive_keys != shuts and present.confirmed_ids.is_held(
        device
    ):  # the pod still has what it was granted
        shuts = tuple(dict.fromkeys((*shuts, *device.exclusive_keys)))
    made.has_other_inputs |= bool(missing) or shuts != candidate.exclusive_keys
    digest = device.grouping_digest if missing else candidate.grouping_digest
    if (
        device.reason == (Reason.of(format_missing_members(missing)) or candidate.reason)
        and device.nodes == candidate.nodes
        and device.numa == candidate.numa
        and device.shares == shares
        and device.instance_id == candidate.device.instance_id
        and device.key == candidate.device.key
        and device.location == candidate.device.location
        and device.members == candidate.members
        and device.missing_members == missing
        and device.grouping_digest == digest
        and device.exclusive_keys == shuts
        and device.moved_words == candidate.moved_words
        and device.absent_since is None
    ):
        return device
    if device.shares is not None and shares is not None and device.shares > shares:
        made.retire(replace(device, first_share=shares), _fewer(shares), present.held_ids)
    lead = device.id_location or device.location if candidate.members else ""
    now = make_device(candidate, device.id, shares, lead, missing)
    return replace(now, grouping_digest=digest, exclusive_keys=shuts, has_contested_id=device.has_contested_id)


def keep_absent(made: ListBuilder, device: Device, reason: str, present: ListInputs) -> bool:
    """Keep a device that the host does not show, unless it may be forgotten."""
    if present.must_forget(device):
        made.removed_devices.append(device)
        return False
    since = present.current_time if device.absent_since is None else device.absent_since
    made.absent_devices[device.share_base] = make_unhealthy(device, reason, absent_since=since)
    return True


def may_be_same(device: Device, candidate: Candidate) -> bool:
    """Whether a candidate that would have the id of a device, which a pod holds, may be that device.

    A node that is called as one was has to be the same hardware. Anything else is what has its id, unless two were
    there that would have it.
    """
    if not is_device_node(device) or device.id not in candidate.ids_from_name:
        return not device.has_contested_id or not set(device.locations).isdisjoint(candidate.locations)
    before, now = map(identify_hardware, device.host_parts), list(map(identify_hardware, candidate.host_devices))
    return any(one.may_equal(other) for one in before for other in now)


def _judge(made: ListBuilder, devices: list[Device], present: ListInputs) -> None:
    """What becomes of devices that are not simply where they were under the same key."""
    places: dict[str, dict[str, Candidate]] = {}
    for key in sorted(made.new_candidates):
        for place in made.new_candidates[key].locations:
            places.setdefault(place, {})[key] = made.new_candidates[key]
    left = {place for device in devices for place in device.locations}
    filled = {
        place
        for there in (made.present_devices, made.added_devices)
        for device in there
        if device.location in left or device.members or device.missing_members
        for place in device.locations
    }
    filled.update(places)
    taken: set[str] = set()
    # Of several that were in one place the last to go comes first.
    for device in sorted(devices, key=lambda device: -inf if device.absent_since is None else -device.absent_since):
        held = present.held_ids.is_held(device)
        there = (one for place in device.locations for key, one in places.get(place, {}).items() if key not in taken)
        here = [one for one in there if not held or may_be_same(device, one)]
        same = next((one for one in here if one.has_id_of(device)), None)
        doubt = next((one for one in here if one.may_get_id_of(device)), None)
        if device.first_share or (same is not None and same.share_mark != device.share_mark):
            made.retire(device, _why_less(device, present.inventory), present.held_ids)
            if same is not None and not held:
                taken.add(same.device.key)
                made.previous_ids[same.device.key] = device.id
        elif same is not None:
            taken.add(same.device.key)
            if present.is_any_member_present(device):
                del made.new_candidates[same.device.key]
                made.added_devices.append(update_device(made, device, same, present))
            elif keep_absent(made, device, ABSENT_REASON, present):
                made.previous_ids[same.device.key] = device.id
        elif doubt is not None:
            if keep_absent(made, device, f"it has no id now: {doubt.missing_id_reason}", present):
                made.possible_devices.setdefault(doubt.device.key, []).append(device.share_base)
        elif present.is_present(device) or device.key.startswith(SLOT_KEY_PREFIX):
            made.retire(device, _why_not(device, made, present.inventory), present.held_ids)
        else:
            other = not filled.isdisjoint(device.locations)
            keep_absent(
                made, device, f"{ABSENT_REASON}: other hardware is in its place" if other else ABSENT_REASON, present
            )


def _why_less(device: Device, look: Inventory) -> str:
    """Why a device is not offered as it was divided."""
    found = look.get_candidate(device.key)
    fewer = found is not None and found.share_mark == device.share_mark and device.id in found.ids and found.shares
    return _fewer(fewer) if fewer else RETIRED_REASON


def _fewer(shares: int) -> str:
    return f"no longer offered: its device has {shares} share{'s' * (shares != 1)} now"


def _why_not(device: Device, made: ListBuilder, look: Inventory) -> str:
    """Why a device that is there is not offered any more."""
    if device.key.startswith(SLOT_KEY_PREFIX):
        return RETIRED_REASON
    found = look.get_candidate(device.key)
    if found is None:
        here = {made.resource, made.written_name}
        refusal = next((one for one in look.match_results[device.key].mismatches if one.resource in here), None)
        if refusal is None:
            return "no longer offered: no entry looks for it"
        return f"no longer offered: {refusal.address} = {refusal.source_text}, here {refusal.facts_text}"
    if found.resource not in {made.resource, made.written_name}:
        return f"no longer offered: it is {found.resource} now"
    return "no longer offered: " + (found.not_ready_reason or f"its id is {next(iter(found.ids), 'unknown')} now")


def _above(device: Device, share: int) -> Device | None:
    """The shares of a device from that one on; none if there are none. A whole device is one share."""
    if share >= (device.shares or 1):
        return None
    return device if share <= device.first_share else replace(device, first_share=share)
