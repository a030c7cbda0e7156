"""Slots: shares of all the devices of a resource together, each of which gives everything that is healthy."""

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
    present: ListInputs,
) -> ListBuilder:
    """The draft of a resource whose shares are of the whole, without those that are new.

    A slot is listed once there is a device to give, Healthy while one of them is, and absent when none is there.
    """
    made = ListBuilder(
        resource, has_other_inputs=True
    )  # its devices are no candidates: without slots none of them may stay
    wanted = dict(_wanted(resource, slots, candidates))
    for device in devices:
        slot = wanted.pop(device.id, None)
        if slot is None or device.shares is not None:
            made.retire(device, RETIRED_REASON, present.held_ids)
        elif candidates:
            made.present_devices.append(update_device(made, device, slot, present))
        else:
            keep_absent(made, device, ABSENT_REASON, present)
    if any(not candidate.not_ready_reason for candidate in candidates.values()):
        made.new_candidates = {slot.device.key: slot for slot in wanted.values()}
    return made


def make_slot_id(resource: str, slots: Slots, n: int) -> str:
    """The id of slot `n` of a resource."""
    own: dict[str, Value | Absent] = {"resource": resource, "n": n}
    written = slots.id.write(lambda word: own.get(word, Absent("a slot has no such word")))
    if isinstance(written, Absent):
        raise TypeError(written.reason)
    return clean_id(written)


def _wanted(resource: str, slots: Slots, candidates: Mapping[str, Candidate]) -> Iterator[tuple[str, Candidate]]:
    """The slots as candidates, by id."""
    healthy = any(not candidate.reason for candidate in candidates.values())
    first = min(candidates.values(), key=lambda one: one.device.key, default=None)
    fault = NO_REASON
    if not healthy and first is not None:
        fault = Reason.of(f"{first.device.name}: {first.reason}", path=first.reason.path)
    for n in range(slots.count):
        id = make_slot_id(resource, slots, n)  # noqa: A001  the API's own word
        key = f"{SLOT_KEY_PREFIX}{resource}:{n}"
        yield id, Candidate(resource, HostDevice("slots", key, id, key), (id,), "", (), (), fault)
