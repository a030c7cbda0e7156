"""Unchanged lists: lists that only changed candidates can change, so that an event costs only its changes."""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device, DeviceList
from agent.core.inventory.sequence_diff import trim_common_ends
from agent.core.lists.list_builder import ListBuilder, start_list
from agent.core.lists.list_inputs import ListInputs
from agent.core.struct import Struct


class UnchangedList(Struct):
    """A list that contains every candidate of its resource, and otherwise only absent devices.

    While a candidate and its device are the same objects, the device stays as it is.

    present_devices: in list order, with NUMA nodes even if the list omits them.
    absent_devices: as they are listed.
    written_name, exclusive_devices: see `ListBuilder`.
    """

    candidates: Mapping[str, Candidate]
    device_list: DeviceList
    present_devices: tuple[Device, ...]
    absent_devices: tuple[Device, ...]
    written_name: str = ""
    exclusive_devices: tuple[Device, ...] = ()

    def is_unchanged(self, candidates: Mapping[str, Candidate], inputs: ListInputs) -> bool:
        """Return whether the list stays the same. Held IDs and the time affect only absent devices."""
        return self.candidates is candidates and not any(
            inputs.is_present(device) or inputs.must_forget(device) for device in self.absent_devices
        )

    def start_list(self, candidates: Mapping[str, Candidate], inputs: ListInputs) -> ListBuilder:
        """Start the list with these candidates. Only changed candidates need a decision."""
        absent_devices = {device.share_base: device for device in self.absent_devices}
        if self.is_unchanged(candidates, inputs):
            return ListBuilder(
                self.device_list.resource,
                self.written_name,
                list(self.present_devices),
                absent_devices=absent_devices,
                is_unchanged=True,
                known_exclusive_devices=self.exclusive_devices,
            )
        old_candidates = self.candidates
        absent_ids = {device.id for device in self.absent_devices}
        changed_ends = trim_common_ends(tuple(old_candidates.values()), tuple(candidates.values()))
        keys = {candidate.device.key for changed_end in changed_ends for candidate in changed_end}
        changed_keys = {key for key in keys if old_candidates.get(key) is not candidates.get(key)}
        return start_list(
            self.device_list.resource,
            [
                device
                for device in self.device_list.devices
                if device.key in changed_keys or (device.id in absent_ids and device.share_base in absent_devices)
            ],
            {key: candidates[key] for key in changed_keys if key in candidates},
            inputs,
            [device for device in self.present_devices if device.key not in changed_keys],
            written_name=self.written_name,
        )


def make_unchanged_list(
    candidates: Mapping[str, Candidate], builder: ListBuilder, device_list: DeviceList
) -> UnchangedList | None:
    """Return the unchanged list of a builder that has listed all new candidates. None if a device is retiring."""
    if builder.retiring_devices or builder.has_other_inputs:
        return None
    absent_ids = {id for id, _ in builder.absent_devices}  # noqa: A001  the API's own word
    absent_devices = tuple(
        device
        for device in device_list.devices
        if device.id in absent_ids and device.share_base in builder.absent_devices
    )
    return UnchangedList(
        candidates,
        device_list,
        tuple(builder.present_devices),
        absent_devices,
        builder.written_name,
        builder.exclusive_devices,
    )
