"""What the host says now of devices that were listed: read anew for them alone, just before it matters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from agent.core.entry.check import CheckVerdict
from agent.core.entry.fact_copy import copy_related_facts
from agent.core.entry.group import Grouping
from agent.core.entry.query import QueryFacts
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.grants.grant import GrantRefusedError, RefusalCause, RereadDevice, RereadMember
from agent.core.grants.required_paths import cdi_names, mount_patterns, node_paths
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
from agent.host.cdi_specs import SpecDirectories
from agent.host.root import Root
from agent.scanners import source_kinds
from agent.scanners.host_reader import HostReader
from agent.scanners.query_source import NO_AGENT, QuerySource


class RereadScope(NamedTuple):
    """What is read anew for: the words of the host that are wanted of an entry, and the clauses."""

    find_words: Callable[[ResourceSpec], frozenset[str]]
    conditions: Callable[[ResourceSpec], Iterable[Clause]]


ALLOCATE_SCOPE = RereadScope(ResourceSpec.find_give_words, lambda spec: spec.give_conditions)
PRESTART_SCOPE = RereadScope(ResourceSpec.find_prestart_words, lambda spec: spec.prestart_conditions)


class DeviceRequest(NamedTuple):
    """A device asked for, the numbers of the shares asked of it, what the last look made of its host devices, and the
    entry that gives it.

    known: it is known by its own id, and not given with others by a slot.
    """

    device: Device
    shares: tuple[int, ...]
    candidate: Candidate
    spec: ResourceSpec
    has_own_id: bool = True


class CurrentInventory(Protocol):
    """What a look made of the host, and the entries that it was made by."""

    @property
    def look(self) -> Inventory:
        """The look."""

    @property
    def specs(self) -> tuple[ResourceSpec, ...]:
        """The entries, in file order."""

    @property
    def offers(self) -> ResourceCandidates:
        """The candidates of the look, what fails as their fault."""


def find_device_requests(
    resource: str, spec: ResourceSpec, devices: Mapping[Device, tuple[int, ...]], current: CurrentInventory
) -> list[DeviceRequest]:
    """The devices asked for, with what the last look made of them.

    Raises:
        Refused: one is not offered any more, or none is there.
    """
    asked = list(_whole(resource, spec, devices, current) if spec.slots else _each(resource, devices, current))
    if not asked:
        raise GrantRefusedError(RefusalCause.UNHEALTHY, f"{resource}: none of its devices is there any more")
    return asked


def _each(resource: str, devices: Mapping[Device, tuple[int, ...]], truth: CurrentInventory) -> Iterator[DeviceRequest]:
    for device, shares in devices.items():
        found = truth.look.get_candidate(device.key)
        if found is None or found.resource != resource:
            raise GrantRefusedError(
                RefusalCause.UNHEALTHY, f"{resource} {device.id}: it is not offered any more", device=device.id
            )
        told = truth.offers.get((found.resource, found.written_name), {}).get(found.device.key, found)
        yield DeviceRequest(device, shares, told, truth.specs[found.entry])


def _whole(
    resource: str, spec: ResourceSpec, devices: Mapping[Device, tuple[int, ...]], truth: CurrentInventory
) -> Iterator[DeviceRequest]:
    """Everything healthy of a resource, which each of its slots gives."""
    slots = tuple(sorted(int(device.key.rpartition(":")[2]) for device in devices))
    offers = truth.offers.get((resource, spec.written_name), {})
    for found in sorted(offers.values(), key=lambda one: (make_sort_key(one.device.location), one.device.key)):
        if not found.reason:
            name = found.ids[0] if found.ids else found.device.name
            device = make_device(found, name, spec.slots.count if spec.slots else None)
            yield DeviceRequest(device, slots, found, truth.specs[found.entry], has_own_id=False)


def reread_devices(
    root: Root,
    requests: Sequence[DeviceRequest],
    cdi: SpecDirectories,
    scope: RereadScope = ALLOCATE_SCOPE,
    *,
    query_source: QuerySource = NO_AGENT,
) -> list[RereadDevice]:
    """What the host says now of the devices asked for. Their partners are looked at, not looked for."""
    reader = HostReader(root, cdi, query_source)
    partners = {who: partner for one in requests for who, partner in one.candidate.partners.items()}
    ailing = {of: why for one in requests for of, why in one.candidate.unhealthy_partners.items()}
    finder = KnownPartners(reader, partners, ailing)
    same_partners = all(source_kinds.is_same_device(root, partner) for partner in partners.values())
    wanted = {
        key: (scope.find_words(spec), tuple(scope.conditions(spec))) for key, spec in collect_specs(requests).items()
    }
    return [
        _anew(root, one, *wanted[id(one.spec)], reader, finder=finder, same_partners=same_partners) for one in requests
    ]


def _anew(
    root: Root,
    asked: DeviceRequest,
    words: frozenset[str],
    whens: Sequence[Clause],
    reader: HostReader,
    *,
    finder: PartnerFinder,
    same_partners: bool,
) -> RereadDevice:
    device, candidate, spec = asked.device, asked.candidate, asked.spec
    facts = {host.key: Facts(spec, host, reader, finder) for host in candidate.host_devices}
    first = facts[candidate.device.key]
    group = candidate.group
    fact = wrap_single_member(first) if group is None else make_member_facts(spec.group or Grouping(), group, facts)
    by_each = [] if group is None else [(host, fact.replace_id_member(facts[host.key])) for host in group.members]
    # What is listed Healthy had its id from these words.
    lead = next(
        (one for one in facts.values() if one.device.location == device.id_location),
        None if device.id_location else first,
    )
    texts = [text.write(fact.replace_id_member(lead)) for text in spec.id]
    ids = {clean_id(text, spec.suffix_length) for text in texts if not isinstance(text, Absent)}
    is_it = not asked.has_own_id or device.id in ids or (lead is None and candidate.has_id_of(device))
    all_words = [fact, *(one for _, one in by_each)]
    return RereadDevice(
        device,
        asked.shares,
        {word: fact(word) for word in words},
        nodes={path: reader.find_node(path) for one in all_words for path in node_paths(spec, one)},
        same=is_it
        and same_partners
        and all(source_kinds.is_same_device(root, host) for host in candidate.host_devices),
        mounts={pattern: reader.find_paths(pattern) for one in all_words for pattern in mount_patterns(spec, one)},
        cdi={name: reader.find_cdi_spec(name) for name in cdi_names(spec, fact)},
        each=tuple(
            RereadMember(
                {word: one(word) for word in words},
                group is None or host in group.matched_members,
                copy_related_facts(whens, one),
            )
            for host, one in by_each
        ),
        spec=spec,
        things=copy_related_facts(whens, fact),
        host=candidate.device,
        unfit=_unfit(spec, [one for _, one in by_each] or [fact]),
    )


def collect_specs(requests: Sequence[DeviceRequest]) -> dict[int, ResourceSpec]:
    """The entries of these devices, each once, by its identity: most often that is one."""
    return {id(one.spec): one.spec for one in requests}


def _unfit(spec: ResourceSpec, hosts: Sequence[QueryFacts]) -> str:
    """What a check that is asked again says against a device, of one of its host devices; empty if none does."""
    outcomes = (check.evaluate(facts) for check in spec.checks if check.recheck_on_allocate for facts in hosts)
    return next((outcome.reason for outcome in outcomes if outcome.verdict is CheckVerdict.FAIL), "")
