"""Slots: IDs that each give all healthy devices of a resource."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from agent.core.entry.resource_spec import Slots
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device, HostDevice
from agent.core.language.template import clean_id
from agent.core.language.value import Absent, Value
from agent.core.lists.list_builder import (
    ABSENT_REASON,
    RETIRED_REASON,
    SLOT_KEY_PREFIX,
    ListBuilder,
    keep_absent,
    update_device,
)
from agent.core.lists.list_inputs import ListInputs
from agent.core.reason import NO_REASON, Reason


def start_slot_list(
    resource: str,
    slots: Slots,
    devices: Iterable[Device],
    candidates: Mapping[str, Candidate],
    inputs: ListInputs,
) -> ListBuilder:
    """Start the list of a resource with slots, without its new slots.

    A slot is listed once a device exists, Healthy while one of the devices is, and absent when no device exists.
    """
    # If the entry no longer has slots, no slot may stay.
    builder = ListBuilder(resource, has_other_inputs=True)
    slot_candidates = dict(_make_slot_candidates(resource, slots, candidates))
    for device in devices:
        slot = slot_candidates.pop(device.id, None)
        if slot is None or device.shares is not None:
            builder.retire(device, RETIRED_REASON, inputs.held_ids)
        elif candidates:
            builder.present_devices.append(update_device(builder, device, slot, inputs))
        else:
            keep_absent(builder, device, ABSENT_REASON, inputs)
    if any(not candidate.not_ready_reason for candidate in candidates.values()):
        builder.new_candidates = {slot.device.key: slot for slot in slot_candidates.values()}
    return builder


def make_slot_id(resource: str, slots: Slots, n: int) -> str:
    """Return the ID of slot `n` of a resource."""
    values: dict[str, Value | Absent] = {"resource": resource, "n": n}
    slot_id = slots.id.write(lambda word: values.get(word, Absent("a slot has no such word")))
    if isinstance(slot_id, Absent):
        raise TypeError(slot_id.reason)
    return clean_id(slot_id)


def _make_slot_candidates(
    resource: str, slots: Slots, candidates: Mapping[str, Candidate]
) -> Iterator[tuple[str, Candidate]]:
    """Yield the slots as candidates, by ID."""
    is_healthy = any(not candidate.reason for candidate in candidates.values())
    first_candidate = min(candidates.values(), key=lambda candidate: candidate.device.key, default=None)
    reason = NO_REASON
    if not is_healthy and first_candidate is not None:
        reason = Reason.from_text(
            f"{first_candidate.device.name}: {first_candidate.reason}", path=first_candidate.reason.path
        )
    for n in range(slots.count):
        id = make_slot_id(resource, slots, n)  # noqa: A001  the API's own word
        key = f"{SLOT_KEY_PREFIX}{resource}:{n}"
        yield id, Candidate(resource, HostDevice("slots", key, id, key), (id,), "", (), (), reason)
