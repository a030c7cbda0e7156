"""Joining: which ids newcomers get, and why some have to wait.

An id is unique over all lists, for the kubelet's status of a pod confuses equal ones. Who has it keeps it; among
newcomers the file order of their entries decides, and within an entry two that come out equal both take their next
alternative, so that no order of discovery shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import ShareBase
from agent.core.language.value import natural
from agent.core.lists.host_exclusive import holders
from agent.core.lists.list_builder import ListBuilder, offered, update_device
from agent.core.lists.list_inputs import ListInputs
from agent.core.struct import Struct


class Unlisted(Struct):
    """A host device that an entry takes and that is not in its list, with the reason."""

    resource: str
    place: str
    key: str
    reason: str


class _CannotList(Struct):
    """Why a newcomer is not listed. `moving`: only until another list is delivered."""

    reason: str
    moving: bool = False


def assign_ids(drafts: Mapping[str, ListBuilder], present: ListInputs) -> tuple[list[Unlisted], bool]:
    """Put newcomers into the drafts, which are in file order; those that are left out, and whether one of them only
    waits for another list.
    """
    unlisted: list[Unlisted] = []
    moving = False
    if not any(draft.newcomers for draft in drafts.values()):
        return unlisted, moving
    owners = _Owners(drafts, present)
    for name, draft in drafts.items():
        wanted = Counter(id for candidate in draft.newcomers.values() for id in candidate.ids)  # noqa: A001
        for candidate in sorted(draft.newcomers.values(), key=lambda newcomer: _order(newcomer, draft)):
            choice = owners.choose(candidate, name, wanted)
            if isinstance(choice, _CannotList):
                host = candidate.device
                unlisted.append(Unlisted(candidate.resource, host.place, host.key, choice.reason))
                draft.unsettled = True
                moving |= choice.moving
                continue
            back = draft.gone.pop((choice, candidate.mark), None)
            device = (
                offered(candidate, choice, candidate.shares)
                if back is None
                else update_device(draft, back, candidate, present)
            )
            draft.added.append(device)
            owners.listed[device.form] = name
    return unlisted, moving


class _Owners:
    """Which resource has which id and which host device, as far as newcomers want to know.

    listed: ids in the drafts. leaving: ids in the old lists only.
    """

    def __init__(self, drafts: Mapping[str, ListBuilder], present: ListInputs) -> None:
        self._drafts = drafts
        self._held = present.held
        candidates = [candidate for draft in drafts.values() for candidate in draft.newcomers.values()]
        ids = {id for candidate in candidates for id in candidate.ids}  # noqa: A001  the API's own word
        self.listed: dict[ShareBase, str] = {}
        self.leaving: dict[ShareBase, str] = {}
        self._occupied = holders(drafts, present)
        self._vacated: dict[str, str] = {}
        for name, draft in drafts.items():
            self.listed.update((device.form, name) for device in draft.devices() if device.id in ids)
            self.leaving.update((device.form, name) for device in draft.freed if device.id in ids)
            self._vacated.update((key, name) for device in draft.freed if present.has(device) for key in device.keys)

    def choose(self, candidate: Candidate, resource: str, wanted: Counter[str]) -> str | _CannotList:
        """An id for a newcomer, or why it has to wait. `wanted`: how many newcomers of the resource want each id."""
        draft = self._drafts[resource]
        key = candidate.device.key
        known = draft.known.get(key)
        if candidate.waits and (known is None or (known, candidate.mark) not in draft.gone):
            return _CannotList(candidate.waits)
        for one in candidate.keys:
            if one in self._occupied:
                return _CannotList(f"a pod holds {'it' if one == key else one} as {self._occupied[one]}")
            if (owner := self._vacated.get(one, resource)) != resource:
                return _CannotList(f"it leaves {owner} first", moving=True)
        if doubts := [form for form in draft.doubtful.get(key, ()) if form in draft.gone]:
            return _CannotList(f"it may be {doubts[0][0]}: {candidate.unnamed}")
        if not candidate.ids:
            return _CannotList(f"it has no id: {candidate.unnamed}")
        contested: list[str] = []
        for id in candidate.ids if known is None else (known, *candidate.ids):  # noqa: A001  the API's own word
            form = (id, candidate.mark)
            waits = self._not_free(form, resource)
            if waits is not None:
                return waits
            if form in self.listed and form not in draft.gone:
                continue
            if id == known or wanted[id] == 1:
                return id
            contested.append(id)
        return contested[0] if contested else _CannotList(f"id {candidate.ids[0]} is in use by {resource}")

    def _not_free(self, form: ShareBase, resource: str) -> _CannotList | None:
        """Why an id of another resource's cannot be had.

        The next alternative is no way out: which of two entries saw the hardware first would show in its id.
        """
        id, _ = form  # noqa: A001  the API's own word
        owner = self.listed.get(form)
        if owner is not None and owner != resource:
            gone = self._drafts[owner].gone.get(form)
            if gone is None or self._held.holds(gone):
                return _CannotList(f"id {id} is in use by {owner}")
            self._drafts[owner].freed.append(self._drafts[owner].gone.pop(form))
            del self.listed[form]
            self.leaving[form] = owner
        if self.leaving.get(form, resource) != resource:
            return _CannotList(f"id {id} leaves {self.leaving[form]} first", moving=True)
        return None


def _order(newcomer: Candidate, draft: ListBuilder) -> tuple[int, str, str]:
    """By place; first those that had an id here before; last those in doubt, for one before them may turn
    out to be the device that they could be.
    """
    key = newcomer.device.key
    rank = 2 if key in draft.doubtful else 0 if key in draft.known else 1
    return rank, natural(newcomer.device.place), key
