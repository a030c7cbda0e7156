"""Registrations: each resource with an entry is registered with the kubelet, and each ended resource retires."""

from __future__ import annotations

from collections.abc import Iterable

from agent.registration.resource_tasks import RegistrationOptions, find_registration_options
from agent.tracker.list_publisher import Publication
from agent.wiring import AgentParts


def publish(parts: AgentParts, publication: Publication) -> None:
    """Register the resources if entries or resource names changed. Retire the ended resources."""
    lists = publication.lists
    if publication.has_other_entries or lists.written_names != publication.previous.written_names:
        offer_resources(parts, may_be_in_use=not publication.is_first)
    for name in lists.ended_resources:
        parts.resource_tasks.retire(name)


def offer_resources(parts: AgentParts, *, may_be_in_use: bool = True) -> None:
    """Register the current resources.

    may_be_in_use: a new resource may have belonged to another plugin, so pods may use its devices.
    """
    options_by_name = build_registration_options(parts, parts.tracker.device_lists.written_names)
    parts.resource_tasks.keep(options_by_name)
    if parts.resource_tasks.add(options_by_name) and may_be_in_use:
        parts.devices_in_use.assume_in_use()


def build_registration_options(parts: AgentParts, resources: Iterable[str]) -> dict[str, RegistrationOptions]:
    """Return the registration options of each of these resources that has an entry."""
    entries = {name: parts.tracker.find_entry(name) for name in resources}
    return {
        name: find_registration_options(entry, parts.tracker.specs)
        for name, entry in entries.items()
        if entry is not None
    }
