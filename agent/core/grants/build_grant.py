"""Build the grant of one container from its devices and their facts."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.entry.generated_cdi import Edits
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.grants.grant import Grant, RereadDevice
from agent.core.grants.grant_builder import GrantBuilder
from agent.core.grants.grant_words import GrantWords


def build_grant(
    spec: ResourceSpec, ids: Sequence[str], devices: Sequence[RereadDevice], listed_count: int, *, resource: str = ""
) -> Grant:
    """Return the grant of one container.

    Args:
        spec: the entry of the resource.
        ids: the requested IDs. Their order does not matter.
        devices: the reread devices, each once, in list order. The grant keeps this order.
        listed_count: the number of IDs in the list of the resource.
        resource: the generated name, if the name of the entry has words.

    Raises:
        GrantRefusedError: a required node is missing or differs from the list, or two devices need one path or
            variable.
    """
    resource = resource or spec.name
    builder = GrantBuilder(resource)
    element_counts: dict[str, int] = {}
    for number, device in enumerate(devices):
        entry = device.spec or spec
        words = GrantWords(
            resource, device, number, element_counts, requested_count=len(ids), listed_count=listed_count
        )
        builder.add_device(entry, device, words)
        for item in entry.cdi:
            builder.add_cdi(item, device, words)
        for annotation in entry.annotations:
            builder.add_annotation(annotation, device.device, words)
        if entry.devinfo is not None and spec.slots is None:
            builder.add_devinfo(entry.devinfo, device, words)
        if entry.via:
            builder.add_generated_cdi(entry, device.device)
        element_counts = words.add_counts(element_counts)
    return builder.build_grant(ids)


def build_spec_edits(entry: ResourceSpec, device: RereadDevice, resource: str) -> Edits:
    """Return the container edits of a device for its generated CDI spec.

    Raises:
        GrantRefusedError: as for `build_grant`; also if the spec would be empty.
    """
    builder = GrantBuilder(resource)
    builder.add_device(
        entry, device, GrantWords(resource, device, 0, {}, requested_count=1, listed_count=1), is_spec=True
    )
    return builder.build_spec_edits(device.device)
