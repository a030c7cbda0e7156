"""Joining: which ids newcomers get, and why some have to wait.

An id is unique over all lists, for the kubelet's status of a pod confuses equal ones. Who has it keeps it; among
newcomers the file order of their entries decides, and within an entry two that come out equal both take their next
alternative, so that no order of discovery shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import ShareBase
from agent.core.inventory.hardware import identify_hardware
from agent.core.language.value import make_sort_key
from agent.core.lists.host_exclusive import find_holders
from agent.core.lists.list_builder import ListBuilder, make_device, may_be_same, update_device
from agent.core.lists.list_inputs import ListInputs
from agent.core.struct import Struct, replace


class UnlistedCandidate(Struct):
    """A host device that an entry takes and that is not in its list, with the reason."""

    resource: str
    location: str
    key: str
    reason: str


class _CannotList(Struct):
    """Why a newcomer is not listed. `moving`: only until another list is delivered."""

    reason: str
    awaits_delivery: bool = False


def assign_ids(builders: Mapping[str, ListBuilder], inputs: ListInputs) -> tuple[list[UnlistedCandidate], bool]:
    """Put newcomers into the drafts, which are in file order; those that are left out, and whether one of them only
    waits for another list.
    """
    unlisted: list[UnlistedCandidate] = []
    awaits_delivery = False
    if not any(builder.new_candidates for builder in builders.values()):
        return unlisted, awaits_delivery
    owners = _Owners(builders, inputs)
    id_counts = {
        name: Counter(chain(*(candidate.ids for candidate in builder.new_candidates.values())))
        for name, builder in builders.items()
    }
    order = [
        (name, builder, candidate)
        for name, builder in builders.items()
        for candidate in sorted(builder.new_candidates.values(), key=lambda newcomer: _make_sort_key(newcomer, builder))
    ]
    # What a pod holds comes first: until it is back nothing else gets what it had.
    order.sort(key=lambda entry: not owners.may_be_returning(entry[2], entry[1]))
    for name, builder, candidate in order:
        choice = owners.choose_id(candidate, name, id_counts[name])
        if isinstance(choice, _CannotList):
            host = candidate.device
            unlisted.append(UnlistedCandidate(candidate.resource, host.location, host.key, choice.reason))
            builder.has_other_inputs = True
            awaits_delivery |= choice.awaits_delivery
            continue
        old_device = builder.absent_devices.pop((choice, candidate.share_mark), None)
        if old_device is None:
            device = make_device(candidate, choice, candidate.shares)
        else:
            device = update_device(builder, old_device, candidate, inputs)
            owners.release(f"{name} {choice}")
        builder.added_devices.append(device)
        owners.listed[device.share_base] = name
    _mark_contested_ids(builders, owners.contested)
    return unlisted, awaits_delivery


def _mark_contested_ids(builders: Mapping[str, ListBuilder], share_bases: Collection[tuple[str, ShareBase]]) -> None:
    """Remember of devices that others are there that would have had their ids: these are not them."""
    for name, builder in builders.items() if share_bases else ():
        for devices in (builder.present_devices, builder.added_devices, builder.retiring_devices):
            for index, device in enumerate(devices):
                if (name, device.share_base) in share_bases and not device.has_contested_id:
                    devices[index] = replace(device, has_contested_id=True)
                    builder.is_unchanged = False


class _Owners:
    """Which resource has which id and which host device, as far as newcomers want to know.

    listed: ids in the drafts. leaving: ids in the old lists only. contested: those in the drafts that newcomers of the
    same resource want too.
    """

    def __init__(self, builders: Mapping[str, ListBuilder], inputs: ListInputs) -> None:
        self._builders = builders
        self._held_ids = inputs.held_ids
        candidates = [candidate for builder in builders.values() for candidate in builder.new_candidates.values()]
        ids = {id for candidate in candidates for id in candidate.ids}  # noqa: A001  the API's own word
        self.listed: dict[ShareBase, str] = {}
        self.retiring: dict[ShareBase, str] = {}
        self.contested: set[tuple[str, ShareBase]] = set()
        self._holders = find_holders(builders, inputs)
        self._previous_owners: dict[str, str] = {}
        for name, builder in builders.items():
            self.listed.update((device.share_base, name) for device in builder.list_devices() if device.id in ids)
            self.retiring.update((device.share_base, name) for device in builder.removed_devices if device.id in ids)
            self._previous_owners.update(
                (key, name) for device in builder.removed_devices if inputs.is_present(device) for key in device.keys
            )

    def choose_id(self, candidate: Candidate, resource: str, id_counts: Counter[str]) -> str | _CannotList:
        """An id for a newcomer, or why it has to wait. `wanted`: how many newcomers of the resource want each id."""
        builder = self._builders[resource]
        key = candidate.device.key
        previous_id = builder.previous_ids.get(key)
        if candidate.not_ready_reason and (
            previous_id is None or (previous_id, candidate.share_mark) not in builder.absent_devices
        ):
            return _CannotList(candidate.not_ready_reason)
        ids = candidate.ids if previous_id is None else (previous_id, *candidate.ids)
        returning_devices = self._find_returning_devices(candidate, builder, previous_id)
        for host_key, unique_id in _list_unique_ids(candidate):
            holder = self._holders.get(unique_id)
            if holder is not None and holder not in returning_devices:
                # What a pod holds may come back as just that: no other pod gets it.
                ids = tuple(id for id in ids if f"{resource} {id}" in returning_devices)  # noqa: A001  the API's own word
                if not any(self._held_ids.is_held(builder.absent_devices[id, candidate.share_mark]) for id in ids):  # noqa: A001
                    return _CannotList(f"a pod holds {'it' if host_key == key else host_key} as {holder}")
            if (owner := self._previous_owners.get(host_key, resource)) != resource:
                return _CannotList(f"it leaves {owner} first", awaits_delivery=True)
        if possible_devices := [
            share_base for share_base in builder.possible_devices.get(key, ()) if share_base in builder.absent_devices
        ]:
            return _CannotList(f"it may be {possible_devices[0][0]}: {candidate.missing_id_reason}")
        if not ids:
            return _CannotList(f"it has no id: {candidate.missing_id_reason}")
        contested_ids: list[str] = []
        for id in ids:  # noqa: A001  the API's own word
            share_base = (id, candidate.share_mark)
            reason = self._find_id_conflict(share_base, resource)
            if reason is not None:
                return reason
            if share_base in self.listed and share_base not in builder.absent_devices:
                self.contested.add((resource, share_base))
                continue
            if (
                share_base in builder.absent_devices
                and f"{resource} {id}" not in returning_devices
                and self._held_ids.is_held(builder.absent_devices[share_base])
            ):
                continue
            if id == previous_id or id_counts[id] == 1:
                return id
            contested_ids.append(id)
        return contested_ids[0] if contested_ids else _CannotList(f"id {ids[0]} is in use by {resource}")

    def may_be_returning(self, candidate: Candidate, builder: ListBuilder) -> bool:
        """Whether a newcomer may be something that is gone and that a pod holds."""
        if not self._holders:
            return False
        returning_devices = self._find_returning_devices(
            candidate, builder, builder.previous_ids.get(candidate.device.key)
        )
        return not returning_devices.isdisjoint(self._holders.values())

    def release(self, device: str) -> None:
        """Let others have what a device had that is gone no more."""
        self._holders = {mark: holder for mark, holder in self._holders.items() if holder != device}

    def _find_returning_devices(
        self, candidate: Candidate, builder: ListBuilder, previous_id: str | None
    ) -> frozenset[str]:
        """The devices that are gone and that a newcomer may be, by resource and id."""
        ids = candidate.ids if previous_id is None else (previous_id, *candidate.ids)
        absent_devices = ((id, builder.absent_devices.get((id, candidate.share_mark))) for id in ids)  # noqa: A001  the API's own word
        return frozenset(
            f"{builder.resource} {id}"
            for id, device in absent_devices  # noqa: A001
            if device is not None and (id == previous_id or may_be_same(device, candidate))
        )

    def _find_id_conflict(self, share_base: ShareBase, resource: str) -> _CannotList | None:
        """Why an id of another resource's cannot be had.

        The next alternative is no way out: which of two entries saw the hardware first would show in its id.
        """
        id, _ = share_base  # noqa: A001  the API's own word
        owner = self.listed.get(share_base)
        if owner is not None and owner != resource:
            absent_device = self._builders[owner].absent_devices.get(share_base)
            if absent_device is None or self._held_ids.is_held(absent_device):
                return _CannotList(f"id {id} is in use by {owner}")
            self._builders[owner].removed_devices.append(self._builders[owner].absent_devices.pop(share_base))
            del self.listed[share_base]
            self.retiring[share_base] = owner
        if self.retiring.get(share_base, resource) != resource:
            return _CannotList(f"id {id} leaves {self.retiring[share_base]} first", awaits_delivery=True)
        return None


def _list_unique_ids(candidate: Candidate) -> Iterator[tuple[str, str]]:
    """What tells the host devices of a candidate from others, each with the key of its host device."""
    for host in candidate.host_devices:
        hardware = identify_hardware(host)
        yield from ((host.key, mark) for mark in (*hardware.unique_ids, hardware.location) if mark)


def _make_sort_key(candidate: Candidate, builder: ListBuilder) -> tuple[int, str, str]:
    """By place; first those that had an id here before; last those in doubt, for one before them may turn
    out to be the device that they could be.
    """
    key = candidate.device.key
    rank = 2 if key in builder.possible_devices else 0 if key in builder.previous_ids else 1
    return rank, make_sort_key(candidate.device.location), key
