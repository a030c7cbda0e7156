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
    moving: bool = False


def assign_ids(drafts: Mapping[str, ListBuilder], present: ListInputs) -> tuple[list[UnlistedCandidate], bool]:
    """Put newcomers into the drafts, which are in file order; those that are left out, and whether one of them only
    waits for another list.
    """
    unlisted: list[UnlistedCandidate] = []
    moving = False
    if not any(draft.new_candidates for draft in drafts.values()):
        return unlisted, moving
    owners = _Owners(drafts, present)
    wanted = {
        name: Counter(chain(*(one.ids for one in draft.new_candidates.values()))) for name, draft in drafts.items()
    }
    order = [
        (name, draft, candidate)
        for name, draft in drafts.items()
        for candidate in sorted(draft.new_candidates.values(), key=lambda newcomer: _order(newcomer, draft))
    ]
    # What a pod holds comes first: until it is back nothing else gets what it had.
    order.sort(key=lambda one: not owners.returning(one[2], one[1]))
    for name, draft, candidate in order:
        choice = owners.choose(candidate, name, wanted[name])
        if isinstance(choice, _CannotList):
            host = candidate.device
            unlisted.append(UnlistedCandidate(candidate.resource, host.location, host.key, choice.reason))
            draft.has_other_inputs = True
            moving |= choice.moving
            continue
        back = draft.absent_devices.pop((choice, candidate.share_mark), None)
        if back is None:
            device = make_device(candidate, choice, candidate.shares)
        else:
            device = update_device(draft, back, candidate, present)
            owners.came_back(f"{name} {choice}")
        draft.added_devices.append(device)
        owners.listed[device.share_base] = name
    _contested(drafts, owners.contested)
    return unlisted, moving


def _contested(drafts: Mapping[str, ListBuilder], forms: Collection[tuple[str, ShareBase]]) -> None:
    """Remember of devices that others are there that would have had their ids: these are not them."""
    for name, draft in drafts.items() if forms else ():
        for devices in (draft.present_devices, draft.added_devices, draft.retiring_devices):
            for index, device in enumerate(devices):
                if (name, device.share_base) in forms and not device.has_contested_id:
                    devices[index] = replace(device, has_contested_id=True)
                    draft.is_unchanged = False


class _Owners:
    """Which resource has which id and which host device, as far as newcomers want to know.

    listed: ids in the drafts. leaving: ids in the old lists only. contested: those in the drafts that newcomers of the
    same resource want too.
    """

    def __init__(self, drafts: Mapping[str, ListBuilder], present: ListInputs) -> None:
        self._drafts = drafts
        self._held = present.held_ids
        candidates = [candidate for draft in drafts.values() for candidate in draft.new_candidates.values()]
        ids = {id for candidate in candidates for id in candidate.ids}  # noqa: A001  the API's own word
        self.listed: dict[ShareBase, str] = {}
        self.leaving: dict[ShareBase, str] = {}
        self.contested: set[tuple[str, ShareBase]] = set()
        self._occupied = find_holders(drafts, present)
        self._vacated: dict[str, str] = {}
        for name, draft in drafts.items():
            self.listed.update((device.share_base, name) for device in draft.list_devices() if device.id in ids)
            self.leaving.update((device.share_base, name) for device in draft.removed_devices if device.id in ids)
            self._vacated.update(
                (key, name) for device in draft.removed_devices if present.is_present(device) for key in device.keys
            )

    def choose(self, candidate: Candidate, resource: str, wanted: Counter[str]) -> str | _CannotList:
        """An id for a newcomer, or why it has to wait. `wanted`: how many newcomers of the resource want each id."""
        draft = self._drafts[resource]
        key = candidate.device.key
        known = draft.previous_ids.get(key)
        if candidate.not_ready_reason and (known is None or (known, candidate.share_mark) not in draft.absent_devices):
            return _CannotList(candidate.not_ready_reason)
        ids = candidate.ids if known is None else (known, *candidate.ids)
        back = self._back(candidate, draft, known)
        for one, mark in _marks(candidate):
            holder = self._occupied.get(mark)
            if holder is not None and holder not in back:
                # What a pod holds may come back as just that: no other pod gets it.
                ids = tuple(id for id in ids if f"{resource} {id}" in back)  # noqa: A001  the API's own word
                if not any(self._held.is_held(draft.absent_devices[id, candidate.share_mark]) for id in ids):  # noqa: A001
                    return _CannotList(f"a pod holds {'it' if one == key else one} as {holder}")
            if (owner := self._vacated.get(one, resource)) != resource:
                return _CannotList(f"it leaves {owner} first", moving=True)
        if doubts := [form for form in draft.possible_devices.get(key, ()) if form in draft.absent_devices]:
            return _CannotList(f"it may be {doubts[0][0]}: {candidate.missing_id_reason}")
        if not ids:
            return _CannotList(f"it has no id: {candidate.missing_id_reason}")
        contested: list[str] = []
        for id in ids:  # noqa: A001  the API's own word
            form = (id, candidate.share_mark)
            waits = self._not_free(form, resource)
            if waits is not None:
                return waits
            if form in self.listed and form not in draft.absent_devices:
                self.contested.add((resource, form))
                continue
            if (
                form in draft.absent_devices
                and f"{resource} {id}" not in back
                and self._held.is_held(draft.absent_devices[form])
            ):
                continue
            if id == known or wanted[id] == 1:
                return id
            contested.append(id)
        return contested[0] if contested else _CannotList(f"id {ids[0]} is in use by {resource}")

    def returning(self, candidate: Candidate, draft: ListBuilder) -> bool:
        """Whether a newcomer may be something that is gone and that a pod holds."""
        if not self._occupied:
            return False
        back = self._back(candidate, draft, draft.previous_ids.get(candidate.device.key))
        return not back.isdisjoint(self._occupied.values())

    def came_back(self, device: str) -> None:
        """Let others have what a device had that is gone no more."""
        self._occupied = {mark: holder for mark, holder in self._occupied.items() if holder != device}

    def _back(self, candidate: Candidate, draft: ListBuilder, known: str | None) -> frozenset[str]:
        """The devices that are gone and that a newcomer may be, by resource and id."""
        ids = candidate.ids if known is None else (known, *candidate.ids)
        gone = ((id, draft.absent_devices.get((id, candidate.share_mark))) for id in ids)  # noqa: A001  the API's own word
        return frozenset(
            f"{draft.resource} {id}"
            for id, device in gone  # noqa: A001
            if device is not None and (id == known or may_be_same(device, candidate))
        )

    def _not_free(self, form: ShareBase, resource: str) -> _CannotList | None:
        """Why an id of another resource's cannot be had.

        The next alternative is no way out: which of two entries saw the hardware first would show in its id.
        """
        id, _ = form  # noqa: A001  the API's own word
        owner = self.listed.get(form)
        if owner is not None and owner != resource:
            gone = self._drafts[owner].absent_devices.get(form)
            if gone is None or self._held.is_held(gone):
                return _CannotList(f"id {id} is in use by {owner}")
            self._drafts[owner].removed_devices.append(self._drafts[owner].absent_devices.pop(form))
            del self.listed[form]
            self.leaving[form] = owner
        if self.leaving.get(form, resource) != resource:
            return _CannotList(f"id {id} leaves {self.leaving[form]} first", moving=True)
        return None


def _marks(candidate: Candidate) -> Iterator[tuple[str, str]]:
    """What tells the host devices of a candidate from others, each with the key of its host device."""
    for host in candidate.host_devices:
        known = identify_hardware(host)
        yield from ((host.key, mark) for mark in (*known.unique_ids, known.location) if mark)


def _order(newcomer: Candidate, draft: ListBuilder) -> tuple[int, str, str]:
    """By place; first those that had an id here before; last those in doubt, for one before them may turn
    out to be the device that they could be.
    """
    key = newcomer.device.key
    rank = 2 if key in draft.possible_devices else 0 if key in draft.previous_ids else 1
    return rank, make_sort_key(newcomer.device.location), key
