"""Assign IDs to new candidates, and find out which must wait.

An ID is unique over all lists, because the kubelet's pod status does not distinguish equal IDs. The owner of an ID
keeps it. Among new candidates the file order of their entries decides. If two candidates of one entry have equal IDs,
both take their next alternative. So the order of discovery has no effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import ShareBase
from agent.core.inventory.hardware import identify_hardware
from agent.core.language.value import make_sort_key
from agent.core.lists.exclusion import find_holders
from agent.core.lists.list_builder import ListBuilder, make_device, may_be_same, update_device
from agent.core.lists.list_inputs import ListInputs
from agent.core.struct import Struct, replace


class UnlistedCandidate(Struct):
    """A host device that an entry takes and no list contains, with the reason."""

    resource: str
    location: str
    key: str
    reason: str


class _CannotList(Struct):
    """Why a candidate is not listed. `awaits_delivery`: only until the kubelet has another list."""

    reason: str
    awaits_delivery: bool = False


def assign_ids(builders: Mapping[str, ListBuilder], inputs: ListInputs) -> tuple[list[UnlistedCandidate], bool]:
    """Add the new candidates to the builders, which are in file order.

    Return the unlisted candidates, and whether one of them waits only for the delivery of another list.
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
    # Devices that a pod holds come first. Until they are back, no other candidate gets their host devices.
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
    """Mark devices whose ID another present device gives too: the other devices are not these."""
    for name, builder in builders.items() if share_bases else ():
        for devices in (builder.present_devices, builder.added_devices, builder.retiring_devices):
            for index, device in enumerate(devices):
                if (name, device.share_base) in share_bases and not device.has_contested_id:
                    devices[index] = replace(device, has_contested_id=True)
                    builder.is_unchanged = False


class _Owners:
    """The resource that has an ID or a host device, for the decisions about new candidates.

    listed: IDs in the builders. retiring: IDs only in the old lists. contested: IDs in the builders that new candidates
        of the same resource give too.
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
        """Return an ID for a new candidate, or why it must wait.

        id_counts: how many new candidates of the resource give each ID.
        """
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
                # A device that a pod holds may come back only as this device. No other pod gets it.
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
        """Return whether a new candidate may be an absent device that a pod holds."""
        if not self._holders:
            return False
        returning_devices = self._find_returning_devices(
            candidate, builder, builder.previous_ids.get(candidate.device.key)
        )
        return not returning_devices.isdisjoint(self._holders.values())

    def release(self, device: str) -> None:
        """Release the host devices of a device that is present again."""
        self._holders = {mark: holder for mark, holder in self._holders.items() if holder != device}

    def _find_returning_devices(
        self, candidate: Candidate, builder: ListBuilder, previous_id: str | None
    ) -> frozenset[str]:
        """Return the absent devices that a new candidate may be, as resource and ID."""
        ids = candidate.ids if previous_id is None else (previous_id, *candidate.ids)
        absent_devices = ((id, builder.absent_devices.get((id, candidate.share_mark))) for id in ids)  # noqa: A001  the API's own word
        return frozenset(
            f"{builder.resource} {id}"
            for id, device in absent_devices  # noqa: A001
            if device is not None and (id == previous_id or may_be_same(device, candidate))
        )

    def _find_id_conflict(self, share_base: ShareBase, resource: str) -> _CannotList | None:
        """Return why an ID belongs to another resource, or None if it is free.

        The next alternative is no solution: the ID would then depend on which of two entries saw the hardware first.
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
    """Yield the values that identify the host devices of a candidate, each with the key of its host device."""
    for host in candidate.host_devices:
        hardware = identify_hardware(host)
        yield from ((host.key, mark) for mark in (*hardware.unique_ids, hardware.location) if mark)


def _make_sort_key(candidate: Candidate, builder: ListBuilder) -> tuple[int, str, str]:
    """Return the sort key of a new candidate: by location, first those with a previous ID, last the doubtful ones.

    A candidate before a doubtful one may be the device that both could be.
    """
    key = candidate.device.key
    rank = 2 if key in builder.possible_devices else 0 if key in builder.previous_ids else 1
    return rank, make_sort_key(candidate.device.location), key
