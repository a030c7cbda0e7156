"""Candidates: what an entry makes of a host device that it takes."""

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

_NAMES = frozenset({"name", "node", "below_dev"})  # the words that contain the path of a device node
UNKNOWN_SHARES = 0  # the number of shares is not known


class MemberIds(Struct):
    """The IDs of a device if the facts of one member give them. The fields are those of `Candidate`."""

    ids: tuple[str, ...]
    possible_ids: tuple[Glob, ...] = ()


class Candidate(Struct):
    """A host device, or a group of host devices, that an entry takes, with everything that the device list needs.

    device: the first host device that matches. Its facts give the words.
    ids: the IDs whose words have values, cleaned, the best first.
    missing_id_reason: why the first of the other `id` templates has no value. It is empty if all have one.
    numa: the known NUMA nodes.
    nodes: the device nodes that exist.
    unhealthy_reason: why no pod can get the device now: a node, mount or CDI device is missing. Otherwise `NO_REASON`.
    possible_ids: the IDs that the other templates can give later. While a template is pending, all templates after it
        are among these, because the pending one has precedence.
    not_ready_reason: why the candidate is not listed yet, or is Unhealthy if it is listed. It is empty if it is ready.
    entry: the number of the entry.
    written_name: the resource name as the entry writes it, if it is a template. `resource` is then the generated name,
        or the same text if the template has no value.
    shares: the number of shares. None if the device has no shares, `UNKNOWN_SHARES` while the number is unknown.
    share_suffix: the text between the ID and the share number.
    grouping: the `group` table of the entry. If it is None, `group`, `members`, `member_ids` and `ids_without_member`
        are empty.
    partners: the partner devices, by the key of the host device that has the partner and by join.
    member_ids: the IDs that each matched member gives, by location of the member.
    ids_without_member: the possible IDs if no member gives them.
    check_results: the results of all checks, in file order. Each check has one result per host device.
    affinities: one for each `prefer` rule of the entry.
    exclusive_keys: see `Device`.
    dependents: what else depends on the health of partners.
    unhealthy_partners: the unhealthy reasons of partners, by the key of the host device and the name of the join. They
        are known after the evaluation of the checks.
    moved_words: the words of `moves_into_pod` that have a value.
    is_in_pod: whether the device is in the pod that holds it. See `in_pod`.
    ids_from_name: the IDs that contain nothing but the name of a device node.
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
        """The share suffix, or an empty string if the device has no shares. See `Device.share_mark`."""
        return "" if self.shares is None else self.share_suffix

    @property
    def reason(self) -> Reason:
        """The reason why a listed device is Unhealthy, or `NO_REASON` if it is Healthy."""
        return Reason.from_text(self.not_ready_reason) or self.unhealthy_reason

    @property
    def grouping_digest(self) -> str:
        """The digest of the `group` table of the entry, or an empty string if the entry has none."""
        return self.grouping.digest if self.grouping else ""

    @property
    def host_devices(self) -> tuple[HostDevice, ...]:
        """The host devices of the candidate."""
        return (self.device,) if self.group is None else self.group.members

    @property
    def locations(self) -> tuple[str, ...]:
        """The locations of all host devices."""
        return tuple(host.location for host in self.host_devices)

    @property
    def keys(self) -> tuple[str, ...]:
        """The device keys of all host devices."""
        return tuple(host.key for host in self.host_devices)

    def has_id_of(self, device: Device) -> bool:
        """Return whether the candidate has the ID of a listed device: no present word contradicts the ID.

        If the member that gave the ID is present, only the facts of this member count.
        """
        member = self.member_ids.get(device.id_location or device.location)
        if member is not None:
            return device.id in member.ids
        return device.id in self.ids or any(pattern.matches(device.id) for pattern in self.ids_without_member)

    def may_get_id_of(self, device: Device) -> bool:
        """Return whether the candidate can get the ID of a listed device later: no present word contradicts the ID."""
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
    """Build the candidate of an entry for one host device with these facts.

    entry: the number of the entry. inactive_reason: why the entry is not active now, or an empty string.
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
    unhealthy_reasons += [
        Reason.from_text(doubt) for _, doubt in find_possible_gives((*spec.env, *spec.annotations), facts)
    ]
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
    """Return the number of shares, or None for a device without shares.

    The number is absent if its word is absent, or if the map has no count for the value.
    """
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
    """Return the keys of all other functions of the IOMMU group, if the entry gives the device through VFIO.

    VFIO gives a whole IOMMU group to one user, or nothing.
    """
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
    """Return a glob for all IDs that a template can give once its absent words have values."""
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
    """Return the device nodes that exist, and why a required one is missing."""
    nodes: dict[str, DeviceNode] = {}
    reason = NO_REASON
    for give, doubt in find_possible_gives(gives, facts):
        reason = reason or Reason.from_text(doubt)
        paths = give.path.write_paths(facts)
        if isinstance(paths, Absent):
            reason = reason or (NO_REASON if give.optional else Reason.from_text(f"node {give.name}: {paths.reason}"))
            continue
        for path in paths:
            node = host_paths.find_node(path)
            if isinstance(node, DeviceNode):
                nodes[node.path] = node
            elif not give.optional:
                reason = reason or Reason.from_text(f"{path}: {node.reason}", path=path)
    return tuple(nodes.values()), reason


def _find_mount_reasons(gives: Sequence[MountGive], facts: Knowledge, host_paths: HostPaths) -> Iterator[Reason]:
    """Yield why required mounts are missing.

    Optional mounts are read too, because they can appear later.
    """
    for give, doubt in find_possible_gives(gives, facts):
        yield Reason.from_text(doubt)
        patterns = give.path.write_paths(facts, glob=True)
        if isinstance(patterns, Absent):
            yield NO_REASON if give.optional else Reason.from_text(f"mount {give.name}: {patterns.reason}")
            continue
        for pattern in patterns:
            found_paths = host_paths.find_paths(pattern)
            if isinstance(found_paths, Absent) and not give.optional:
                yield Reason.from_text(f"{pattern}: {found_paths.reason}", path=pattern)


def _find_cdi_reasons(gives: Sequence[CdiGive], facts: Knowledge, host_paths: HostPaths) -> Iterator[Reason]:
    """Yield why CDI devices have no name or no spec.

    A runtime creates no container for a CDI device that is in no spec.
    """
    for give, doubt in find_possible_gives(gives, facts):
        yield Reason.from_text(doubt)
        names = give.name.write_all(facts)
        if isinstance(names, Absent):
            yield Reason.from_text(f"cdi {give.key}: {names.reason}")
            continue
        for name in names:
            spec = name if give.unchecked and is_qualified_name(name) else host_paths.find_cdi_spec(name)
            if isinstance(spec, Absent):
                yield Reason.from_text(f"{name} {spec.reason}")
