"""Candidates: what an entry that has taken a host device makes of it, for its list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agent.core.entry.cdi import is_qualified_name
from agent.core.entry.check_results import DeviceCheckResult, PartnerDependent
from agent.core.entry.give_conditions import find_possible_gives
from agent.core.entry.group import Grouping
from agent.core.entry.joins import Join
from agent.core.entry.resource_name import format_resource_name
from agent.core.entry.resource_spec import SHARE_MARK, CdiGive, MountGive, NodeGive, ResourceSpec
from agent.core.inventory.affinity import Affinity
from agent.core.inventory.check_run import PartnerFacts, collect_partner_conditions, run_checks
from agent.core.inventory.device import Device, DeviceNode, HostDevice, Member, make_pci_key
from agent.core.inventory.grouping import Group
from agent.core.inventory.host_paths import HostPaths
from agent.core.inventory.readiness import find_not_ready_reason
from agent.core.language.glob import Glob, escape_glob, parse
from agent.core.language.logic import Knowledge
from agent.core.language.template import FactReader, Template, clean_id
from agent.core.language.value import Absent, format_scalar
from agent.core.reason import NO_REASON, Reason
from agent.core.struct import Struct, field

_NAMES = frozenset({"name", "node", "below_dev"})  # the words of a node that tell its path
UNKNOWN_SHARES = 0  # a number of shares that cannot be said


class MemberIds(Struct):
    """What a device is known by if the words of one of its members stand for it; fields as of `Candidate`."""

    ids: tuple[str, ...]
    possible_ids: tuple[Glob, ...] = ()


class Candidate(Struct):
    """A host device that an entry takes, with what the resource's list needs of it; or several, which are one device.

    device: the first of those that match; its words stand for them all.
    ids: alternatives whose words are there, cleaned, best first.
    unnamed: why the first of the other alternatives cannot be written; empty if all can.
    numa: its NUMA nodes; empty where none is known.
    nodes: its device nodes, as far as they are there.
    fault: why it cannot be handed out now (a node, a mount or a CDI device is missing); `NO_REASON` if it can.
    possible: what the other alternatives might say if their words were there. While one is still to come, those after
        it are among them: that one goes before.
    waits: why it is not to be listed yet, or Unhealthy if it is; empty if nothing holds it back.
    entry: which of the entries takes it.
    written: the name as that writes it, if it has words; then `resource` is what comes out, or the same where nothing
        does.
    shares, suffix: how it is divided; None if it is whole, `UNKNOWN` while that cannot be said.
    grouping: how that puts host devices together; None if it does not, and what follows is empty.
    group, members: the host devices.
    partners: the devices that its joins mean, by the key of the host device that has one.
    leads: by the place of each that matches. orphan: what the ids could be if none of these stood for the device.
    checked: what its checks say, in file order; each of every host device.
    traits: what it is preferred by, one for each of the entry's rules.
    shuts: as of the device that it becomes.
    hung: what else of it hangs on the health of partners. ailing: why those are ill that are, by the key of the host
        device that has one and the join's name; known once checks are concluded.
    carried: which of the words of `spec.moves` say something. away: it is in a pod; see `away`.
    by_name: those of the ids that say no more than how its node is called.
    """

    resource: str
    device: HostDevice
    ids: tuple[str, ...]
    missing_id_reason: str
    numa: tuple[int, ...]
    nodes: tuple[DeviceNode, ...]
    unhealthy_reason: Reason
    possible_ids: tuple[Glob, ...] = ()
    not_ready_reason: str = ""
    entry: int = 0
    grouping: Grouping | None = None
    group: Group | None = None
    members: tuple[Member, ...] = ()
    partners: Mapping[tuple[str, Join], HostDevice] = field(default_factory=dict)
    member_ids: Mapping[str, MemberIds] = field(default_factory=dict)
    ids_without_member: tuple[Glob, ...] = ()
    written_name: str = ""
    shares: int | None = None
    share_suffix: str = SHARE_MARK
    check_results: tuple[DeviceCheckResult, ...] = ()
    affinities: tuple[Affinity, ...] = ()
    exclusive_keys: tuple[str, ...] = ()
    dependents: tuple[PartnerDependent, ...] = ()
    unhealthy_partners: Mapping[tuple[str, str], str] = field(default_factory=dict)
    moved_words: tuple[str, ...] = ()
    is_in_pod: bool = False
    ids_from_name: frozenset[str] = frozenset()

    @property
    def share_mark(self) -> str:
        """As of the device that it becomes."""
        return "" if self.shares is None else self.share_suffix

    @property
    def reason(self) -> Reason:
        """Return why it is not Healthy if it is listed; `NO_REASON` if it is."""
        return Reason.of(self.not_ready_reason) or self.unhealthy_reason

    @property
    def grouping_digest(self) -> str:
        """Of the sentence by which host devices are put together; empty if each is by itself."""
        return self.grouping.digest if self.grouping else ""

    @property
    def host_devices(self) -> tuple[HostDevice, ...]:
        """All the host devices that it is."""
        return (self.device,) if self.group is None else self.group.members

    @property
    def locations(self) -> tuple[str, ...]:
        """Where it is: the places of all its members."""
        return tuple(host.location for host in self.host_devices)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all its members."""
        return tuple(host.key for host in self.host_devices)

    def has_id_of(self, device: Device) -> bool:
        """Whether a listed device is this one by its id: nothing that is there contradicts it.

        That is the id by the words of the member that gave it, if that is there.
        """
        member = self.member_ids.get(device.id_location or device.location)
        if member is not None:
            return device.id in member.ids
        return device.id in self.ids or any(pattern.matches(device.id) for pattern in self.ids_without_member)

    def may_get_id_of(self, device: Device) -> bool:
        """Whether that could be its id although no alternative says so now: no word that is there contradicts it."""
        member = self.member_ids.get(device.id_location or device.location)
        possible_ids = self.possible_ids if member is None else member.possible_ids
        return any(pattern.matches(device.id) for pattern in possible_ids)


def make_candidate(
    spec: ResourceSpec,
    device: HostDevice,
    facts: PartnerFacts,
    host_paths: HostPaths,
    *,
    entry: int = 0,
    inactive_reason: str = "",
) -> Candidate:
    """What the entry makes of a host device of whose facts `fact` tells.

    entry: its number. gate: why it is not to offer anything now.
    """
    ids: dict[str, None] = {}
    ids_from_name: set[str] = set()
    missing_id_reason = ""
    possible_ids: list[Glob] = []
    is_pending = False
    name_words = _NAMES.union(word for word, _ in device.captures)
    for template in spec.id:
        id_text = template.write(facts)
        if isinstance(id_text, str) and id_text and not is_pending:
            ids[clean_id(id_text, spec.suffix_length)] = None
            if device.node and all(slot.word in name_words for slot in template.slots):
                ids_from_name.add(clean_id(id_text, spec.suffix_length))
            continue
        missing_id_reason = missing_id_reason or (
            id_text.reason if isinstance(id_text, Absent) else f"{template.source} is empty"
        )
        is_pending = is_pending or (isinstance(id_text, Absent) and id_text.pending)
        possible_ids.append(make_id_glob(template, facts))
    name = spec.name if spec.name_template is None else format_resource_name(spec.name_template, facts)
    shares = _count_shares(spec, facts)
    not_ready_reason = inactive_reason or find_not_ready_reason(spec.wait, facts)
    if isinstance(name, Absent):
        not_ready_reason = not_ready_reason or f"it has no name: {name.reason}"
    if isinstance(shares, Absent):
        not_ready_reason = not_ready_reason or f"replicas: {shares.reason}"
    nodes, node_reason = _find_nodes(spec.nodes, facts, host_paths)
    unhealthy_reasons = [
        node_reason,
        *_find_mount_reasons(spec.mounts, facts, host_paths),
        *_find_cdi_reasons(spec.cdi, facts, host_paths),
    ]
    unhealthy_reasons += [Reason.of(doubt) for _, doubt in find_possible_gives((*spec.env, *spec.annotations), facts)]
    return Candidate(
        resource=spec.name if not_ready_reason or isinstance(name, Absent) else name,
        device=device,
        ids=tuple(ids),
        missing_id_reason=missing_id_reason,
        numa=_find_numa_nodes(spec, facts),
        nodes=nodes,
        unhealthy_reason=next(filter(None, unhealthy_reasons), NO_REASON),
        possible_ids=tuple(possible_ids),
        not_ready_reason=not_ready_reason,
        entry=entry,
        written_name=spec.written_name,
        shares=UNKNOWN_SHARES if isinstance(shares, Absent) else shares,
        share_suffix=spec.share_suffix,
        check_results=tuple(run_checks(spec.name, spec.checks, spec.joins, device, facts)),
        dependents=tuple(
            collect_partner_conditions(spec.partner_conditions, spec.partner_joins, spec.joins, device, facts)
        ),
        exclusive_keys=_find_exclusive_keys(spec, device, facts),
        moved_words=tuple(word for word in spec.moved_words or () if not isinstance(facts(word), Absent)),
        ids_from_name=frozenset(ids_from_name),
    )


def _count_shares(spec: ResourceSpec, facts: FactReader) -> int | Absent | None:
    """Into how many it is divided; absent where the word is, or where nothing is said for what it says."""
    share_map = spec.share_map
    if share_map is None:
        return spec.shares
    value = facts(share_map.word)
    if isinstance(value, Absent):
        return value.prefix_reason(share_map.word)
    text = format_scalar(value) if not isinstance(value, tuple) else ""
    count = share_map.find_count(text)
    return Absent(f"the map has nothing for {share_map.word} = {text}") if count is None else count


def _find_exclusive_keys(spec: ResourceSpec, device: HostDevice, facts: Knowledge) -> tuple[str, ...]:
    """The keys of the others of its IOMMU group, if VFIO hands it out: to one user the group as a whole, or not."""
    if not any(find_possible_gives(spec.vfio, facts)):
        return ()
    members = facts("iommu.members")
    addresses = map(format_scalar, members) if isinstance(members, tuple) else ()
    return tuple(key for key in map(make_pci_key, addresses) if key != device.key)


def _find_numa_nodes(spec: ResourceSpec, facts: FactReader) -> tuple[int, ...]:
    if not isinstance(spec.topology, str):
        return spec.topology
    numa = facts(spec.topology)
    return (numa,) if isinstance(numa, int) and numa >= 0 else ()


def make_id_glob(template: Template, facts: FactReader) -> Glob:
    """The ids that a text could be if its absent words said anything at all."""
    parts: list[str] = []
    for piece in template.pieces:
        text = piece if isinstance(piece, str) else Template(template.source, (piece,)).write(facts)
        part = escape_glob(clean_id(text)) if isinstance(text, str) and text else "*"
        if part != "*" or parts[-1:] != ["*"]:
            parts.append(part)
    return parse("".join(parts))


def _find_nodes(
    gives: Sequence[NodeGive], facts: Knowledge, host_paths: HostPaths
) -> tuple[tuple[DeviceNode, ...], Reason]:
    """The nodes that are there, and why those are not that have to be."""
    nodes: dict[str, DeviceNode] = {}
    reason = NO_REASON
    for give, doubt in find_possible_gives(gives, facts):
        reason = reason or Reason.of(doubt)
        paths = give.path.write_paths(facts)
        if isinstance(paths, Absent):
            reason = reason or (NO_REASON if give.optional else Reason.of(f"node {give.name}: {paths.reason}"))
            continue
        for path in paths:
            node = host_paths.find_node(path)
            if isinstance(node, DeviceNode):
                nodes[node.path] = node
            elif not give.optional:
                reason = reason or Reason.of(f"{path}: {node.reason}", path=path)
    return tuple(nodes.values()), reason


def _find_mount_reasons(gives: Sequence[MountGive], facts: Knowledge, host_paths: HostPaths) -> Iterator[Reason]:
    """Why mounts that have to be there are not. Those that need not be are looked at too: they may come."""
    for give, doubt in find_possible_gives(gives, facts):
        yield Reason.of(doubt)
        patterns = give.path.write_paths(facts, glob=True)
        if isinstance(patterns, Absent):
            yield NO_REASON if give.optional else Reason.of(f"mount {give.name}: {patterns.reason}")
            continue
        for pattern in patterns:
            found_paths = host_paths.find_paths(pattern)
            if isinstance(found_paths, Absent) and not give.optional:
                yield Reason.of(f"{pattern}: {found_paths.reason}", path=pattern)


def _find_cdi_reasons(gives: Sequence[CdiGive], facts: Knowledge, host_paths: HostPaths) -> Iterator[Reason]:
    """Why CDI devices cannot be named: no runtime creates a container for one that is in no spec."""
    for give, doubt in find_possible_gives(gives, facts):
        yield Reason.of(doubt)
        names = give.name.write_all(facts)
        if isinstance(names, Absent):
            yield Reason.of(f"cdi {give.key}: {names.reason}")
            continue
        for name in names:
            spec = name if give.unchecked and is_qualified_name(name) else host_paths.find_cdi_spec(name)
            if isinstance(spec, Absent):
                yield Reason.of(f"{name} {spec.reason}")
