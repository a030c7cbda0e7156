"""Build the candidate of a group of host devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agent.core.entry.check_results import DeviceCheckResult
from agent.core.entry.group import Grouping
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.candidate import Candidate, MemberIds, make_id_glob
from agent.core.inventory.device import HostDevice, Member
from agent.core.inventory.facts import Facts
from agent.core.inventory.grouping import Group
from agent.core.inventory.member_facts import MemberFacts
from agent.core.reason import NO_REASON, Reason
from agent.core.struct import replace

_MAX_NAMES = 3  # devices in a text


def make_group_candidate(
    spec: ResourceSpec,
    group: Group,
    facts: Mapping[str, Facts],
    make_member_candidate: Callable[[HostDevice, MemberFacts], Candidate],
    describe_owner: Callable[[HostDevice], str],
) -> Candidate:
    """Build the candidate of an entry for a group.

    Args:
        spec: the entry, which has a `group`.
        group: the host devices.
        facts: the facts of each member, by key.
        make_member_candidate: builds the candidate of one member alone, with the facts of this member.
        describe_owner: returns a text about the entry that has a foreign member.
    """
    grouping = spec.group or Grouping()
    member_facts = make_member_facts(grouping, group, facts)
    candidates = {
        device.key: make_member_candidate(device, member_facts.replace_id_member(facts[device.key]))
        for device in group.members
    }
    id_candidate, *other_candidates = (candidates[device.key] for device in group.matched_members)
    member_names = {device.key: name for name, devices in group.named_members.items() for device in devices}
    nodes = {node.path: node for candidate in candidates.values() for node in candidate.nodes}
    not_ready_reason = _find_member_fault(grouping, group)
    unhealthy_reasons = (
        *map(Reason.from_text, _describe_foreign_members(group, describe_owner)),
        *(candidate.unhealthy_reason for candidate in (id_candidate, *other_candidates)),
    )
    return replace(
        id_candidate,
        resource=spec.name if not_ready_reason else id_candidate.resource,
        numa=tuple(sorted({numa for candidate in candidates.values() for numa in candidate.numa})),
        nodes=tuple(nodes.values()),
        unhealthy_reason=next(filter(None, unhealthy_reasons), NO_REASON),
        not_ready_reason=not_ready_reason or id_candidate.not_ready_reason,
        grouping=grouping,
        group=group,
        members=tuple(
            Member(device.location, device.key, device.instance_id, device.name, member_names.get(device.key, ""))
            for device in group.members
        ),
        member_ids={
            candidate.device.location: MemberIds(candidate.ids, candidate.possible_ids)
            for candidate in (id_candidate, *other_candidates)
        },
        ids_without_member=tuple(make_id_glob(text, member_facts.replace_id_member(None)) for text in spec.id),
        check_results=_collect_check_results(list(candidates.values())),
        dependents=(
            *id_candidate.dependents,
            *(
                dependent
                for candidate in candidates.values()
                if candidate is not id_candidate
                for dependent in candidate.dependents
                if dependent.wait is None
            ),
        ),
        exclusive_keys=tuple(
            dict.fromkeys(
                key for candidate in candidates.values() for key in candidate.exclusive_keys if key not in candidates
            )
        ),
    )


def make_member_facts(grouping: Grouping, group: Group, facts: Mapping[str, Facts]) -> MemberFacts:
    """Return the facts of a group. The first matched member is the ID member."""

    def get_facts(devices: Sequence[HostDevice]) -> list[Facts]:
        return [facts[device.key] for device in devices]

    named_facts = {name: get_facts(group.named_members.get(name, ()))[:1] for name in grouping.member_clauses}
    return MemberFacts(
        facts[group.matched_members[0].key],
        get_facts(group.members),
        get_facts(group.matched_members),
        {name: member_facts[0] if member_facts else None for name, member_facts in named_facts.items()},
    )


def _collect_check_results(candidates: Sequence[Candidate]) -> tuple[DeviceCheckResult, ...]:
    """Return the results of each check for each member. With several members each result names its member."""
    if len(candidates) == 1:
        return candidates[0].check_results
    by_check = zip(*(candidate.check_results for candidate in candidates), strict=True)
    return tuple(
        result._replace(member=candidate.device.name)
        for results in by_check
        for candidate, result in zip(candidates, results, strict=True)
    )


def _find_member_fault(grouping: Grouping, group: Group) -> str:
    """Return why the named members do not make a device, or an empty string."""
    for name in grouping.member_clauses:
        devices = group.named_members.get(name, ())
        if not devices:
            return f"there is no {name}"
        if len(devices) > 1:
            names = " and ".join(device.name for device in devices[:_MAX_NAMES])
            say = "" if grouping.words else "; say in group.by what keeps them apart"
            return f"{names} are both {name}{say}"
    return ""


def _describe_foreign_members(group: Group, describe_owner: Callable[[HostDevice], str]) -> list[str]:
    descriptions = [f"{device.name} {describe_owner(device)}" for device in group.foreign_members[:_MAX_NAMES]]
    return [", ".join(descriptions)] if descriptions else []
