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
    device_list: DeviceList
    present_devices: tuple[Device, ...]
    absent_devices: tuple[Device, ...]
    written_name: str = ""
    exclusive_devices: tuple[Device, ...] = ()

    def is_unchanged(self, candidates: Mapping[str, Candidate], present: ListInputs) -> bool:
        """Whether the list is what it was. What pods hold and the time matter only to what is gone."""
        return self.candidates is candidates and not any(
            present.is_present(device) or present.must_forget(device) for device in self.absent_devices
        )

    def start_list(self, candidates: Mapping[str, Candidate], present: ListInputs) -> ListBuilder:
        """The draft with these candidates; only what differs is judged."""
        gone = {device.share_base: device for device in self.absent_devices}
        if self.is_unchanged(candidates, present):
            return ListBuilder(
                self.device_list.resource,
                self.written_name,
                list(self.present_devices),
                absent_devices=gone,
                is_unchanged=True,
                known_exclusive_devices=self.exclusive_devices,
            )
        before = self.candidates
        absent = {device.id for device in self.absent_devices}
        others = trim_common_ends(tuple(before.values()), tuple(candidates.values()))
        keys = {found.device.key for some in others for found in some}
        changed = {key for key in keys if before.get(key) is not candidates.get(key)}
        return start_list(
            self.device_list.resource,
            [
                device
                for device in self.device_list.devices
                if device.key in changed or (device.id in absent and device.share_base in gone)
            ],
            {key: candidates[key] for key in changed if key in candidates},
            present,
            [device for device in self.present_devices if device.key not in changed],
            written=self.written_name,
        )


def make_unchanged_list(
    candidates: Mapping[str, Candidate], made: ListBuilder, snapshot: DeviceList
) -> UnchangedList | None:
    """What is known of a list that was made of this draft, to which all newcomers came; none if something leaves it."""
    if made.retiring_devices or made.has_other_inputs:
        return None
    absent = {id for id, _ in made.absent_devices}  # noqa: A001  the API's own word
    gone = tuple(
        device for device in snapshot.devices if device.id in absent and device.share_base in made.absent_devices
    )
    return UnchangedList(
        candidates, snapshot, tuple(made.present_devices), gone, made.written_name, made.exclusive_devices
    )
