"""Reread of host facts for listed devices, immediately before they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from agent.core.entry.check import CheckVerdict
from agent.core.entry.fact_copy import copy_related_facts
from agent.core.entry.group import Grouping
from agent.core.entry.query import QueryFacts
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.grants.grant import (
    GrantRefusedError,
    RefusalCause,
    RereadDevice,
    RereadMember,
    list_cdi_names,
    list_mount_globs,
    list_node_paths,
)
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device
from agent.core.inventory.facts import Facts, PartnerFinder
from agent.core.inventory.group_candidate import make_member_facts
from agent.core.inventory.inventory import Inventory
from agent.core.inventory.member_facts import wrap_single_member
from agent.core.inventory.partner_index import KnownPartners
from agent.core.language.clause import Clause
from agent.core.language.template import clean_id
from agent.core.language.value import Absent, make_sort_key
from agent.core.lists.list_builder import make_device
from agent.core.lists.resource_names import ResourceCandidates
from agent.host.root import Root
from agent.scanners import source_kinds
from agent.scanners.host_reader import HostReader, HostView


class RereadScope(NamedTuple):
    """The facts that a reread needs from an entry.

    find_words: returns the words of the host. conditions: returns the clauses of an entry.
    """

    find_words: Callable[[ResourceSpec], frozenset[str]]
    conditions: Callable[[ResourceSpec], Iterable[Clause]]


ALLOCATE_SCOPE = RereadScope(ResourceSpec.find_give_words, lambda spec: spec.give_conditions)
PRESTART_SCOPE = RereadScope(ResourceSpec.find_prestart_words, lambda spec: spec.prestart_conditions)


class DeviceRequest(NamedTuple):
    """One requested device with its share numbers, its candidate of the last look, and its entry.

    has_own_id: the device has an ID of its own. False for a device that a slot gives.
    """

    device: Device
    shares: tuple[int, ...]
    candidate: Candidate
    spec: ResourceSpec
    has_own_id: bool = True


class CurrentInventory(Protocol):
    """The inventory of the last look, and the entries of that look."""

    @property
    def inventory(self) -> Inventory:
        """The inventory."""

    @property
    def specs(self) -> tuple[ResourceSpec, ...]:
        """The entries, in file order."""

    @property
    def candidates(self) -> ResourceCandidates:
        """The candidates of the look. A failing check is the unhealthy reason of its candidate."""


def find_device_requests(
    resource: str, spec: ResourceSpec, devices: Mapping[Device, tuple[int, ...]], current: CurrentInventory
) -> list[DeviceRequest]:
    """Return the requested devices with their candidates of the last look.

    Raises:
        GrantRefusedError: a device is no longer a candidate, or the resource has no device.
    """
    requests = list(
        _find_slot_requests(resource, spec, devices, current)
        if spec.slots
        else _find_listed_requests(resource, devices, current)
    )
    if not requests:
        raise GrantRefusedError(RefusalCause.UNHEALTHY, f"{resource}: none of its devices is present")
    return requests


def _find_listed_requests(
    resource: str, devices: Mapping[Device, tuple[int, ...]], current: CurrentInventory
) -> Iterator[DeviceRequest]:
    for device, shares in devices.items():
        candidate = current.inventory.get_candidate(device.key)
        if candidate is None or candidate.resource != resource:
            raise GrantRefusedError(
                RefusalCause.UNHEALTHY,
                f"{resource} {device.id}: the resource does not contain it now",
                device=device.id,
            )
        current_candidate = current.candidates.get((candidate.resource, candidate.written_name), {}).get(
            candidate.device.key, candidate
        )
        yield DeviceRequest(device, shares, current_candidate, current.specs[candidate.entry])


def _find_slot_requests(
    resource: str, spec: ResourceSpec, devices: Mapping[Device, tuple[int, ...]], current: CurrentInventory
) -> Iterator[DeviceRequest]:
    """Yield all healthy devices of a resource. Each slot of the resource gives all of them."""
    slots = tuple(sorted(int(device.key.rpartition(":")[2]) for device in devices))
    offers = current.candidates.get((resource, spec.written_name), {})
    for candidate in sorted(offers.values(), key=lambda item: (make_sort_key(item.device.location), item.device.key)):
        if not candidate.reason:
            name = candidate.ids[0] if candidate.ids else candidate.device.name
            device = make_device(candidate, name, spec.slots.count if spec.slots else None)
            yield DeviceRequest(device, slots, candidate, current.specs[candidate.entry], has_own_id=False)


def reread_devices(
    host: HostView, requests: Sequence[DeviceRequest], scope: RereadScope = ALLOCATE_SCOPE
) -> list[RereadDevice]:
    """Read the host facts of the requested devices again and return them. Partners are read, but not searched again."""
    reader = HostReader(host)
    partners = {join: partner for request in requests for join, partner in request.candidate.partners.items()}
    unhealthy_partners = {
        join: reason for request in requests for join, reason in request.candidate.unhealthy_partners.items()
    }
    finder = KnownPartners(reader, partners, unhealthy_partners)
    same_partners = all(source_kinds.is_same_device(host.root, partner) for partner in partners.values())
    requirements = {
        key: (scope.find_words(spec), tuple(scope.conditions(spec))) for key, spec in collect_specs(requests).items()
    }
    return [
        _reread_device(
            host.root, request, *requirements[id(request.spec)], reader, finder=finder, same_partners=same_partners
        )
        for request in requests
    ]


def _reread_device(
    root: Root,
    request: DeviceRequest,
    words: frozenset[str],
    conditions: Sequence[Clause],
    reader: HostReader,
    *,
    finder: PartnerFinder,
    same_partners: bool,
) -> RereadDevice:
    device, candidate, spec = request.device, request.candidate, request.spec
    facts = {host.key: Facts(spec, host, reader, finder) for host in candidate.host_devices}
    first_facts = facts[candidate.device.key]
    group = candidate.group
    fact = (
        wrap_single_member(first_facts) if group is None else make_member_facts(spec.group or Grouping(), group, facts)
    )
    member_facts = [] if group is None else [(host, fact.replace_id_member(facts[host.key])) for host in group.members]
    # The ID of a Healthy device was built from these words.
    id_facts = next(
        (item_facts for item_facts in facts.values() if item_facts.device.location == device.id_location),
        None if device.id_location else first_facts,
    )
    texts = [text.write(fact.replace_id_member(id_facts)) for text in spec.id]
    ids = {clean_id(text, spec.suffix_length) for text in texts if not isinstance(text, Absent)}
    has_same_id = not request.has_own_id or device.id in ids or (id_facts is None and candidate.has_id_of(device))
    all_words = [fact, *(item_facts for _, item_facts in member_facts)]
    return RereadDevice(
        device,
        request.shares,
        {word: fact(word) for word in words},
        nodes={path: reader.find_node(path) for item_facts in all_words for path in list_node_paths(spec, item_facts)},
        is_same_hardware=has_same_id
        and same_partners
        and all(source_kinds.is_same_device(root, host) for host in candidate.host_devices),
        mounts={
            pattern: reader.find_paths(pattern)
            for item_facts in all_words
            for pattern in list_mount_globs(spec, item_facts)
        },
        cdi={name: reader.find_cdi_spec(name) for name in list_cdi_names(spec, fact)},
        members=tuple(
            RereadMember(
                {word: item_facts(word) for word in words},
                group is None or host in group.matched_members,
                copy_related_facts(conditions, item_facts),
            )
            for host, item_facts in member_facts
        ),
        spec=spec,
        related_facts=copy_related_facts(conditions, fact),
        host=candidate.device,
        unhealthy_reason=_find_failed_recheck(spec, [item_facts for _, item_facts in member_facts] or [fact]),
    )


def collect_specs(requests: Sequence[DeviceRequest]) -> dict[int, ResourceSpec]:
    """Return the entries of these devices by object identity. Usually there is one."""
    return {id(request.spec): request.spec for request in requests}


def _find_failed_recheck(spec: ResourceSpec, hosts: Sequence[QueryFacts]) -> str:
    """Return the reason of the first failing check with `again`, or an empty string."""
    outcomes = (check.evaluate(facts) for check in spec.checks if check.recheck_on_allocate for facts in hosts)
    return next((outcome.reason for outcome in outcomes if outcome.verdict is CheckVerdict.FAIL), "")
