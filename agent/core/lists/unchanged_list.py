"""What is known of a list that is all settled, so that an event costs what it changes and not what there is."""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device, DeviceList
from agent.core.inventory.sequence_diff import trim_common_ends
from agent.core.lists.list_builder import ListBuilder, start_list
from agent.core.lists.list_inputs import ListInputs
from agent.core.struct import Struct


class UnchangedList(Struct):
    """A list in which every candidate of its resource is, and nothing else but what is gone.

    As long as a candidate and a device are the same objects, the device stays as it is.

    there: the devices in their place, in list order, with NUMA nodes even where the list leaves them out.
    gone: those that the host does not show, as they are listed.
    written: as of the draft.
    shutting: as of the draft.
    """

    candidates: Mapping[str, Candidate]
    snapshot: DeviceList
    there: tuple[Device, ...]
    gone: tuple[Device, ...]
    written: str = ""
    shutting: tuple[Device, ...] = ()

    def still(self, candidates: Mapping[str, Candidate], present: ListInputs) -> bool:
        """Whether the list is what it was. What pods hold and the time matter only to what is gone."""
        return self.candidates is candidates and not any(
            present.has(device) or present.forgets(device) for device in self.gone
        )

    def draft(self, candidates: Mapping[str, Candidate], present: ListInputs) -> ListBuilder:
        """The draft with these candidates; only what differs is judged."""
        gone = {device.form: device for device in self.gone}
        if self.still(candidates, present):
            return ListBuilder(
                self.snapshot.resource,
                self.written,
                list(self.there),
                gone=gone,
                unchanged=True,
                known_shutting=self.shutting,
            )
        before = self.candidates
        absent = {device.id for device in self.gone}
        others = trim_common_ends(tuple(before.values()), tuple(candidates.values()))
        keys = {found.device.key for some in others for found in some}
        changed = {key for key in keys if before.get(key) is not candidates.get(key)}
        return start_list(
            self.snapshot.resource,
            [
                device
                for device in self.snapshot.devices
                if device.key in changed or (device.id in absent and device.form in gone)
            ],
            {key: candidates[key] for key in changed if key in candidates},
            present,
            [device for device in self.there if device.key not in changed],
            written=self.written,
        )


def settle(candidates: Mapping[str, Candidate], made: ListBuilder, snapshot: DeviceList) -> UnchangedList | None:
    """What is known of a list that was made of this draft, to which all newcomers came; none if something leaves it."""
    if made.leaving or made.unsettled:
        return None
    absent = {id for id, _ in made.gone}  # noqa: A001  the API's own word
    gone = tuple(device for device in snapshot.devices if device.id in absent and device.form in made.gone)
    return UnchangedList(candidates, snapshot, tuple(made.settled), gone, made.written, made.shutting)
