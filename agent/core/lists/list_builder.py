"""Drafts: what stays of a resource's old list, and the candidates that are new to it.

Every old device ends up in one of four ways: *settled* (it is in its place under its id), *gone* (the host does not
show it; Unhealthy until it is forgotten), *leaving* (there, or its configuration was, but offered no more; Unhealthy
while a pod may hold it) or *freed* (in no list any more).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from math import inf

from agent.core.inventory.candidate import UNKNOWN, Candidate
from agent.core.inventory.device import Device, Health, Member, ShareBase, list_order, unhealthy
from agent.core.inventory.hardware import hardware, is_node
from agent.core.inventory.inventory import Inventory
from agent.core.lists.list_inputs import HeldIds, ListInputs
from agent.core.lists.missing_members import find_missing_members, said
from agent.core.reason import Reason
from agent.core.struct import MutableStruct, field, replace

RETIRED = "taken out by configuration"
ABSENT = "absent"
SLOT_KEY = "slot:"  # how the keys of slots begin, which are no host devices


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
    written: str = ""
    settled: list[Device] = field(default_factory=list)
    added: list[Device] = field(default_factory=list)
    gone: dict[ShareBase, Device] = field(default_factory=dict)
    leaving: list[Device] = field(default_factory=list)
    freed: list[Device] = field(default_factory=list)
    newcomers: dict[str, Candidate] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)
    doubtful: dict[str, list[ShareBase]] = field(default_factory=dict)
    unchanged: bool = False
    unsettled: bool = False
    known_shutting: tuple[Device, ...] | None = None

    @property
    def shutting(self) -> tuple[Device, ...]:
        """The devices that keep others from pods while one has them."""
        if self.known_shutting is not None:
            return self.known_shutting
        return tuple(device for device in self.devices() if device.shuts)

    def gather(self) -> None:
        """Put those that were added among the others."""
        self.settled = in_order(self.settled, self.added)
        self.added = []

    def devices(self) -> Iterator[Device]:
        """All that are in it by now; of two that are in each other's way the one that gives way first."""
        yield from self.leaving
        yield from self.gone.values()
        yield from self.settled
        yield from self.added

    def leave(self, device: Device, reason: str, held: HeldIds) -> None:
        """Offer a device no more: it stays as far as a pod may hold it."""
        part = held.part(device)
        if part is None:
            self.freed.append(device)
        else:
            self.leaving.append(unhealthy(part, reason, gone_since=None))

    def remainder(self) -> list[Device]:
        """What of those that leave is not offered under the same ids."""
        if not self.leaving:
            return []
        ids = {device.id for device in self.leaving}
        offered = (device for device in (*self.settled, *self.added, *self.gone.values()) if device.id in ids)
        covered = {device.form: device.shares or 1 for device in offered}
        return [part for device in self.leaving if (part := _above(device, covered.get(device.form, 0))) is not None]


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
    made = ListBuilder(resource, written, [*settled], newcomers=candidates)
    there = made.added if settled else made.settled
    others: list[Device] = []
    for device in devices:
        candidate = candidates.get(device.key)
        if (
            candidate is not None
            and candidate.is_known(device)
            and device.stamp == candidate.device.stamp
            and device.mark == candidate.mark
            and not device.first_share
        ):
            del candidates[device.key]
            there.append(update_device(made, device, candidate, present))
        else:
            others.append(device)
    if others:
        _judge(made, others, present)
    return made


def retired(resource: str, devices: Iterable[Device], held: HeldIds) -> ListBuilder:
    """The draft of a resource that has no entry any more."""
    made = ListBuilder(resource)
    for device in devices:
        made.leave(device, RETIRED, held)
    return made


def in_order(devices: list[Device], others: Sequence[Device]) -> list[Device]:
    """All in list order, in which `devices` are already: a few others are put in place, many are sorted in."""
    if len(others) * 16 > len(devices):
        return sorted((*devices, *others), key=list_order)
    for device in others:
        insort(devices, device, key=list_order)
    return devices


def offered(
    candidate: Candidate,
    id: str,  # noqa: A002  the API's own word
    shares: int | None,
    lead: str = "",
    missing: tuple[Member, ...] = (),
) -> Device:
    """The device that a candidate makes under an id, which the member at the place `lead` gave, in so many shares."""
    reason = Reason.of(said(missing)) or candidate.trouble
    return Device(
        id=id,
        place=candidate.device.place,
        key=candidate.device.key,
        health=Health.UNHEALTHY if reason else Health.HEALTHY,
        reason=reason,
        numa=candidate.numa,
        shares=shares,
        nodes=candidate.nodes,
        stamp=candidate.device.stamp,
        members=candidate.members,
        missing_members=missing,
        lead="" if lead == candidate.device.place else lead,
        grouping=candidate.digest,
        suffix=candidate.suffix,
        shuts=candidate.shuts,
        carried=candidate.carried,
    )


def update_device(made: ListBuilder, device: Device, candidate: Candidate, present: ListInputs) -> Device:
    """The device as it is now, under the id it had; the same object if nothing changed. Shares too many leave."""
    shares = candidate.shares if candidate.shares != UNKNOWN else device.shares
    grouped = bool(device.members or candidate.members)
    missing = find_missing_members(device, candidate, present.look, held=present.held.holds(device)) if grouped else ()
    shuts = candidate.shuts
    if device.shuts != shuts and present.confirmed_ids.holds(device):  # the pod still has what it was granted
        shuts = tuple(dict.fromkeys((*shuts, *device.shuts)))
    made.unsettled |= bool(missing) or shuts != candidate.shuts
    digest = device.grouping if missing else candidate.digest
    if (
        device.reason == (Reason.of(said(missing)) or candidate.trouble)
        and device.nodes == candidate.nodes
        and device.numa == candidate.numa
        and device.shares == shares
        and device.stamp == candidate.device.stamp
        and device.key == candidate.device.key
        and device.place == candidate.device.place
        and device.members == candidate.members
        and device.missing_members == missing
        and device.grouping == digest
        and device.shuts == shuts
        and device.carried == candidate.carried
        and device.gone_since is None
    ):
        return device
    if device.shares is not None and shares is not None and device.shares > shares:
        made.leave(replace(device, first_share=shares), _fewer(shares), present.held)
    lead = device.lead or device.place if candidate.members else ""
    now = offered(candidate, device.id, shares, lead, missing)
    return replace(now, grouping=digest, shuts=shuts, contested=device.contested)


def keep_absent(made: ListBuilder, device: Device, reason: str, present: ListInputs) -> bool:
    """Keep a device that the host does not show, unless it may be forgotten."""
    if present.forgets(device):
        made.freed.append(device)
        return False
    since = present.now if device.gone_since is None else device.gone_since
    made.gone[device.form] = unhealthy(device, reason, gone_since=since)
    return True


def may_be_same(device: Device, candidate: Candidate) -> bool:
    """Whether a candidate that would have the id of a device, which a pod holds, may be that device.

    A node that is called as one was has to be the same hardware. Anything else is what has its id, unless two were
    there that would have it.
    """
    if not is_node(device) or device.id not in candidate.by_name:
        return not device.contested or not set(device.places).isdisjoint(candidate.places)
    before, now = map(hardware, device.parts), list(map(hardware, candidate.hosts))
    return any(one.may_be(other) for one in before for other in now)


def _judge(made: ListBuilder, devices: list[Device], present: ListInputs) -> None:
    """What becomes of devices that are not simply where they were under the same key."""
    places: dict[str, dict[str, Candidate]] = {}
    for key in sorted(made.newcomers):
        for place in made.newcomers[key].places:
            places.setdefault(place, {})[key] = made.newcomers[key]
    left = {place for device in devices for place in device.places}
    filled = {
        place
        for there in (made.settled, made.added)
        for device in there
        if device.place in left or device.members or device.missing_members
        for place in device.places
    }
    filled.update(places)
    taken: set[str] = set()
    # Of several that were in one place the last to go comes first.
    for device in sorted(devices, key=lambda device: -inf if device.gone_since is None else -device.gone_since):
        held = present.held.holds(device)
        there = (one for place in device.places for key, one in places.get(place, {}).items() if key not in taken)
        here = [one for one in there if not held or may_be_same(device, one)]
        same = next((one for one in here if one.is_known(device)), None)
        doubt = next((one for one in here if one.may_be(device)), None)
        if device.first_share or (same is not None and same.mark != device.mark):
            made.leave(device, _why_less(device, present.look), present.held)
            if same is not None and not held:
                taken.add(same.device.key)
                made.known[same.device.key] = device.id
        elif same is not None:
            taken.add(same.device.key)
            if present.has_some(device):
                del made.newcomers[same.device.key]
                made.added.append(update_device(made, device, same, present))
            elif keep_absent(made, device, ABSENT, present):
                made.known[same.device.key] = device.id
        elif doubt is not None:
            if keep_absent(made, device, f"it has no id now: {doubt.unnamed}", present):
                made.doubtful.setdefault(doubt.device.key, []).append(device.form)
        elif present.has(device) or device.key.startswith(SLOT_KEY):
            made.leave(device, _why_not(device, made, present.look), present.held)
        else:
            other = not filled.isdisjoint(device.places)
            keep_absent(made, device, f"{ABSENT}: other hardware is in its place" if other else ABSENT, present)


def _why_less(device: Device, look: Inventory) -> str:
    """Why a device is not offered as it was divided."""
    found = look.candidate(device.key)
    fewer = found is not None and found.mark == device.mark and device.id in found.ids and found.shares
    return _fewer(fewer) if fewer else RETIRED


def _fewer(shares: int) -> str:
    return f"no longer offered: its device has {shares} share{'s' * (shares != 1)} now"


def _why_not(device: Device, made: ListBuilder, look: Inventory) -> str:
    """Why a device that is there is not offered any more."""
    if device.key.startswith(SLOT_KEY):
        return RETIRED
    found = look.candidate(device.key)
    if found is None:
        here = {made.resource, made.written}
        refusal = next((one for one in look.sightings[device.key].refusals if one.resource in here), None)
        if refusal is None:
            return "no longer offered: no entry looks for it"
        return f"no longer offered: {refusal.address} = {refusal.written}, here {refusal.here}"
    if found.resource not in {made.resource, made.written}:
        return f"no longer offered: it is {found.resource} now"
    return "no longer offered: " + (found.waits or f"its id is {next(iter(found.ids), 'unknown')} now")


def _above(device: Device, share: int) -> Device | None:
    """The shares of a device from that one on; none if there are none. A whole device is one share."""
    if share >= (device.shares or 1):
        return None
    return device if share <= device.first_share else replace(device, first_share=share)
