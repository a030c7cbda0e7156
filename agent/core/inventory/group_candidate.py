"""From a group of host devices to the one candidate that it is."""

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

_SHOWN = 3  # strangers that are named


def make_group_candidate(
    spec: ResourceSpec,
    group: Group,
    facts: Mapping[str, Facts],
    make: Callable[[HostDevice, MemberFacts], Candidate],
    owner: Callable[[HostDevice], str],
) -> Candidate:
    """What the entry makes of a group.

    Args:
        spec: the entry, which has a `group`.
        group: the host devices.
        facts: of each member, by key.
        make: what it would make of one member by itself, that one's words standing for the device.
        owner: says who has a stranger.
    """
    grouping = spec.group or Grouping()
    words = make_member_facts(grouping, group, facts)
    made = {device.key: make(device, words.replace_first(facts[device.key])) for device in group.members}
    first, *others = (made[device.key] for device in group.matched_members)
    part_of = {device.key: name for name, found in group.named_members.items() for device in found}
    nodes = {node.path: node for one in made.values() for node in one.nodes}
    unfit = _unfit(grouping, group)
    faults = (*map(Reason.of, _strangers(group, owner)), *(one.unhealthy_reason for one in (first, *others)))
    return replace(
        first,
        resource=spec.name if unfit else first.resource,
        numa=tuple(sorted({numa for one in made.values() for numa in one.numa})),
        nodes=tuple(nodes.values()),
        unhealthy_reason=next(filter(None, faults), NO_REASON),
        not_ready_reason=unfit or first.not_ready_reason,
        grouping=grouping,
        group=group,
        members=tuple(
            Member(device.location, device.key, device.instance_id, device.name, part_of.get(device.key, ""))
            for device in group.members
        ),
        member_ids={one.device.location: MemberIds(one.ids, one.possible_ids) for one in (first, *others)},
        ids_without_member=tuple(make_id_glob(text, words.replace_first(None)) for text in spec.id),
        check_results=_checked(list(made.values())),
        dependents=(
            *first.dependents,
            *(one for of in made.values() if of is not first for one in of.dependents if one.wait is None),
        ),
        exclusive_keys=tuple(
            dict.fromkeys(key for one in made.values() for key in one.exclusive_keys if key not in made)
        ),
    )


def make_member_facts(grouping: Grouping, group: Group, facts: Mapping[str, Facts]) -> MemberFacts:
    """The words of a group, by its first matching member."""

    def of(devices: Sequence[HostDevice]) -> list[Facts]:
        return [facts[device.key] for device in devices]

    parts = {name: of(group.named_members.get(name, ()))[:1] for name in grouping.member_clauses}
    return MemberFacts(
        facts[group.matched_members[0].key],
        of(group.members),
        of(group.matched_members),
        {name: found[0] if found else None for name, found in parts.items()},
    )


def _checked(made: Sequence[Candidate]) -> tuple[DeviceCheckResult, ...]:
    """What each check says of each member; whose it is, if there are several."""
    if len(made) == 1:
        return made[0].check_results
    by_check = zip(*(one.check_results for one in made), strict=True)
    return tuple(one._replace(member=of.device.name) for each in by_check for of, one in zip(made, each, strict=True))


def _unfit(grouping: Grouping, group: Group) -> str:
    """Why the parts do not make a device; empty if they do."""
    for name in grouping.member_clauses:
        found = group.named_members.get(name, ())
        if not found:
            return f"there is no {name}"
        if len(found) > 1:
            names = " and ".join(device.name for device in found[:_SHOWN])
            say = "" if grouping.words else "; say in group.by what keeps them apart"
            return f"{names} are both {name}{say}"
    return ""


def _strangers(group: Group, owner: Callable[[HostDevice], str]) -> list[str]:
    said = [f"{device.name} {owner(device)}" for device in group.foreign_members[:_SHOWN]]
    return [", ".join(said)] if said else []
