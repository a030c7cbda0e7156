"""Assembling: from a look, what pods may hold and what was listed before, the lists to tell the kubelet now.

Rules that meet here (design §5, rulings 1-10): a device keeps its id while it is in its place; what vanishes turns
Unhealthy under the same id and leaves only when no pod can hold it; what an entry no longer takes leaves at once
unless it is held; an id stands in one list at a time, and leaves the old list before it joins the new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.core.device import Device, Health, Snapshot, list_bytes, split_share, unhealthy
from agent.core.look import Candidate, Look
from agent.core.resource import SHARE_MARK, ResourceSpec
from agent.core.value import natural

FORGET_SECONDS = 600.0  # how long an absent device that no pod holds stays listed
LIST_LIMIT = 4 * 1024 * 1024  # the kubelet's limit for one message, bytes

RETIRED = "taken out by configuration"
ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A host device that an entry takes and that is not in its list, with the reason."""

    resource: str
    place: str
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Assembly:
    """The lists of all resources, retired ones included, and what is not in them.

    moving: whether something waits only for another list to be delivered; assemble again when that is done.
    next_at: monotonic seconds at which an absent device is to be forgotten; None if none is.
    """

    snapshots: Mapping[str, Snapshot]
    unlisted: tuple[Unlisted, ...] = ()
    moving: bool = False
    next_at: float | None = None


@dataclass(slots=True)
class _Draft:
    """The list of one resource while it is made: what stays of the old one, and candidates that have no id yet."""

    resource: str
    devices: list[Device] = field(default_factory=list)
    newcomers: list[Candidate] = field(default_factory=list)


class _Held:
    """Which shares of which ids pods may hold, looked up by base id."""

    def __init__(self, ids: frozenset[str]) -> None:
        self._shares: dict[str, set[int | None]] = {}
        for id in ids:  # noqa: A001  the API's own word
            base, share = split_share(id)
            self._shares.setdefault(base, set()).add(share)
            self._shares.setdefault(id, set()).add(None)

    def of(self, device: Device) -> int | None:
        """The highest held share of the device (0 for one that is whole); None if nothing of it is held."""
        shares = self._shares.get(device.id)
        if not shares:
            return None
        if device.shares is None:
            return 0 if None in shares else None
        within = [n for n in shares if n is not None and device.first_share <= n < device.shares]
        return max(within, default=None)


def assemble(
    look: Look,
    specs: Sequence[ResourceSpec],
    held: frozenset[str],
    previous: Mapping[str, Snapshot],
    now: float,
) -> Assembly:
    """The lists to be told now.

    Args:
        look: the machine as it is.
        specs: the entries, in file order; resources of `previous` that are not among them retire.
        held: ids (as the kubelet sees them) that a pod may hold.
        previous: the lists as last told; at start, those of the state file.
        now: monotonic seconds, for how long something is gone.
    """
    holding = _Held(held)
    candidates = look.candidates()
    present = {device.place for sighting in look.sightings.values() for device in sighting.devices}
    refusals = _refusals(look)
    drafts: dict[str, _Draft] = {}
    for spec in specs:
        old = previous.get(spec.name, Snapshot(spec.name))
        drafts[spec.name] = _keep(
            spec, old, candidates.get(spec.name, ()), present, refusals, holding, now
        )
    for name, old in previous.items():
        if name not in drafts:
            kept = [_shrunk(device, holding, RETIRED) for device in old.devices]
            drafts[name] = _Draft(name, [device for device in kept if device])
    unlisted, moving = _join(specs, drafts, previous)
    snapshots = {
        draft.resource: _snapshot(draft, previous.get(draft.resource), unlisted) for draft in drafts.values()
    }
    deadlines = (
        device.gone_since + FORGET_SECONDS
        for snapshot in snapshots.values()
        for device in snapshot.devices
        if device.gone_since is not None and holding.of(device) is None
    )
    return Assembly(snapshots, tuple(unlisted), moving, min(deadlines, default=None))


def _keep(
    spec: ResourceSpec,
    old: Snapshot,
    candidates: Sequence[Candidate],
    present: set[str],
    refusals: Mapping[tuple[str, str], str],
    held: _Held,
    now: float,
) -> _Draft:
    """What stays of the old list: devices in their place under their id, and what a pod may hold or miss."""
    draft = _Draft(spec.name)
    at_place = {candidate.device.place: candidate for candidate in candidates}
    for device in sorted(old.devices, key=lambda device: device.gone_since is not None):
        candidate = at_place.get(device.place)
        if (device.shares is None) != (spec.shares is None):
            stays = _shrunk(device, held, RETIRED)
        elif candidate and (device.id in candidate.ids or (not candidate.ids and device.gone_since is None)):
            del at_place[device.place]
            draft.devices.append(_device(candidate, device.id, spec.shares))
            surplus = replace(device, first_share=spec.shares or 0)
            stays = _shrunk(surplus, held, RETIRED) if (device.shares or 0) > (spec.shares or 0) else None
        elif candidate is None and device.place in present:
            reason = refusals.get((spec.name, device.place), "another entry takes it now")
            stays = _shrunk(device, held, f"no longer offered: {reason}")
        else:
            stays = _absent(device, replaced=candidate is not None, held=held, now=now)
        if stays:
            draft.devices.append(stays)
    draft.newcomers.extend(candidate for candidate in candidates if candidate.device.place in at_place)
    return draft


def _join(
    specs: Sequence[ResourceSpec], drafts: Mapping[str, _Draft], previous: Mapping[str, Snapshot]
) -> tuple[list[Unlisted], bool]:
    """Give newcomers their ids and put them into the drafts; the reasons of those left out; whether any only waits."""
    told = {_identity(device): name for name, old in previous.items() for device in old.devices}
    told_keys = {device.key: name for name, old in previous.items() for device in old.devices}
    drafted = [(device, draft.resource) for draft in drafts.values() for device in draft.devices]
    taken = {_identity(device): resource for device, resource in drafted}
    keys = {device.key: resource for device, resource in drafted if device.key}
    unlisted: list[Unlisted] = []
    moving = False
    for spec in specs:
        draft = drafts[spec.name]
        wanted = Counter(id for candidate in draft.newcomers for id in candidate.ids)  # noqa: A001
        gone = {device.id: device for device in draft.devices if device.gone_since is not None}
        for candidate in draft.newcomers:
            reason, waits = "", False
            if not candidate.ids:
                reason = f"it has no id: {candidate.unnamed}"
            elif (owner := keys.get(candidate.device.key)) and owner != spec.name:
                reason = f"a pod holds it as {owner}"
            elif (owner := told_keys.get(candidate.device.key)) and owner != spec.name:
                reason, waits = f"it leaves {owner} first", True
            else:
                choice, reason, waits = _choose(candidate, spec, wanted, gone, taken, told)
                if choice:
                    if choice in gone:
                        draft.devices.remove(gone.pop(choice))
                    device = _device(candidate, choice, spec.shares)
                    draft.devices.append(device)
                    taken[_identity(device)] = spec.name
            moving |= waits
            if reason:
                place = candidate.device
                unlisted.append(Unlisted(spec.name, place.place, place.key, reason))
    return unlisted, moving


def _choose(
    candidate: Candidate,
    spec: ResourceSpec,
    wanted: Counter[str],
    gone: Mapping[str, Device],
    taken: Mapping[tuple[str, bool], str],
    told: Mapping[tuple[str, bool], str],
) -> tuple[str, str, bool]:
    """An id for a newcomer, or the reason why it has none, and whether it need only wait for another list."""
    reason, waits = "", False
    free: list[str] = []
    for id in candidate.ids:  # noqa: A001  the API's own word
        identity = (id, spec.shares is None)
        owner = taken.get(identity)
        if owner is not None and not (owner == spec.name and id in gone):
            reason = reason or f"id {id} is in use by {owner}"
        elif (teller := told.get(identity)) is not None and teller != spec.name:
            reason, waits = reason or f"id {id} leaves {teller} first", True
        else:
            free.append(id)
    alone = [id for id in free if wanted[id] == 1]
    choice = next(iter(alone or free), "")
    return (choice, "", False) if choice else ("", reason, waits)


def _snapshot(draft: _Draft, old: Snapshot | None, unlisted: list[Unlisted]) -> Snapshot:
    """The draft as a snapshot: one rule for topology, within the kubelet's limit, equal parts taken from the old one."""
    devices = _within_limit(_one_topology(draft.devices), unlisted, draft.resource)
    devices.sort(key=lambda device: (natural(device.id), device.first_share))
    if old is None:
        return Snapshot(draft.resource, tuple(devices))
    known = {(_identity(device), device.first_share): device for device in old.devices}
    same = (known.get((_identity(device), device.first_share)) for device in devices)
    fresh = tuple(
        before if before == device else device for before, device in zip(same, devices, strict=True) if device
    )
    return old if old.devices == fresh else Snapshot(draft.resource, fresh)


def _device(candidate: Candidate, id: str, shares: int | None) -> Device:  # noqa: A002  the API's own word
    """The device that a candidate makes under an id."""
    reason = candidate.fault if candidate.ids else f"it has no id now: {candidate.unnamed}"
    return Device(
        id=id,
        place=candidate.device.place,
        key=candidate.device.key,
        health=Health.UNHEALTHY if reason else Health.HEALTHY,
        reason=reason,
        numa=candidate.numa,
        shares=shares,
        nodes=candidate.nodes,
    )


def _absent(device: Device, *, replaced: bool, held: _Held, now: float) -> Device | None:
    """The device, gone from the host: Unhealthy under its id, until nobody can hold it and it is forgotten."""
    since = now if device.gone_since is None else device.gone_since
    if held.of(device) is None and now - since >= FORGET_SECONDS:
        return None
    reason = f"{ABSENT}: other hardware is in its place" if replaced else ABSENT
    return replace(unhealthy(device, reason), gone_since=since)


def _shrunk(device: Device, held: _Held, reason: str) -> Device | None:
    """What must stay listed of a device that is not offered any more: up to the highest held share, Unhealthy."""
    highest = held.of(device)
    if highest is None:
        return None
    kept = device if device.shares is None else replace(device, shares=highest + 1)
    return unhealthy(replace(kept, gone_since=None), reason)


def _one_topology(devices: list[Device]) -> list[Device]:
    """All devices with their NUMA nodes, or none: the kubelet cannot see those without beside those with."""
    if all(device.numa for device in devices):
        return devices
    return [replace(device, numa=()) if device.numa else device for device in devices]


def _within_limit(devices: list[Device], unlisted: list[Unlisted], resource: str) -> list[Device]:
    """As many devices, oldest first, as one message to the kubelet can hold."""
    within: list[Device] = []
    size = 0
    for device in devices:
        suffix = 0 if device.shares is None else len(f"{SHARE_MARK}{device.shares}")
        size += len(device) * list_bytes(len(device.id) + suffix, len(device.numa))
        if size <= LIST_LIMIT:
            within.append(device)
        else:
            unlisted.append(Unlisted(resource, device.place, device.key, "the kubelet's list is full (4 MiB)"))
    return within


def _identity(device: Device) -> tuple[str, bool]:
    """What makes ids collide: the text, and whether it is whole (`X`) or in shares (`X::0`)."""
    return device.id, device.shares is None


def _refusals(look: Look) -> Mapping[tuple[str, str], str]:
    """Why each resource does not take what stands at each place, in words."""
    return {
        (refusal.resource, device.place): f"{refusal.address} = {refusal.written}, here {refusal.here}"
        for sighting in look.sightings.values()
        for refusal in sighting.refusals
        for device in sighting.devices
    }
