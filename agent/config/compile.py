"""Compile a merged entry to a `ResourceSpec`, and report all its errors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from agent.config.clauses.clause import compile_clause
from agent.config.give.cdi import compile_cdi
from agent.config.give.devinfo import compile_devinfo
from agent.config.give.env_annotations import compile_annotations, compile_env
from agent.config.give.give_sections import make_sections
from agent.config.give.mounts import compile_mounts
from agent.config.give.nodes import compile_nodes
from agent.config.give.rdma import compile_rdma
from agent.config.give.vfio import compile_vfio
from agent.config.give.via import SpecGives, compile_via
from agent.config.language.key_table import WARNINGS, make_hint
from agent.config.merge.class_library import MergedEntry
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.resource.clauses import compile_exclude, compile_gate, compile_wait, find_partner_joins
from agent.config.resource.groups import compile_group, declare_members
from agent.config.resource.health import compile_health
from agent.config.resource.ids import compile_ids
from agent.config.resource.moves_into_pod import compile_moves
from agent.config.resource.name_template import compile_name, warn_of_unstable_name
from agent.config.resource.programs import compile_programs
from agent.config.resource.replicas import compile_shares
from agent.config.resource.resource_settings import compile_expect, compile_limit, compile_slots, compile_topology
from agent.config.scope import Scope
from agent.config.sources import compile_interval, compile_source, is_single
from agent.config.toml.file_position import FilePosition
from agent.config.toml.finding import Finding
from agent.config.values.probe_table import compile_probes
from agent.config.words.class_options import compile_options
from agent.config.words.entry_derived_words import EntryDerivedWords
from agent.config.words.prefer_rules import compile_prefer
from agent.core.entry.derived_words import Constant
from agent.core.entry.partner_checks import PartnerChecks
from agent.core.entry.query import ProbeSpec
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.language.clause import Clause
from agent.core.struct import replace

NO_PROBES: Mapping[str, ProbeSpec] = MappingProxyType({})
_NAME_HINT = 'write name = "example.com/…", as pods ask for it'
RESOURCE_KEYS = ("slots", "limit", "prefer", "expect", "registration")  # not allowed in an entry with adds_to
_SOURCE_HINT = 'write class = "…", or source = …'


def compile_entry(
    merged_entry: MergedEntry,
    spot: FilePosition,
    registration: str,
    findings: list[Finding],
    *,
    probes: Mapping[str, ProbeSpec] = NO_PROBES,
) -> ResourceSpec | None:
    """Return the resource of an entry, or None if it lacks a name, a source or an ID.

    With errors in the findings, the agent must not serve the spec. `registration` is the default of the agent.
    `probes` are those of agent.toml.
    """
    spec = _compile(merged_entry, spot, registration, findings, probes, is_entry=True)
    _check_added_keys(merged_entry.tree, spot, findings)
    for key, write in (("name", _NAME_HINT), ("source", _SOURCE_HINT)):
        present_keys = merged_entry.tree.members.keys() & ({key, "adds_to"} if key == "name" else {key})
        if merged_entry.has_all_keys and not present_keys:
            findings.append(spot.make_error("missing", f"this resource has no {key}", write))
    return spec


def check_class(
    merged_class: MergedEntry,
    spot: FilePosition,
    findings: list[Finding],
    *,
    probes: Mapping[str, ProbeSpec] = NO_PROBES,
) -> None:
    """Report all errors of a class that are visible without an entry."""
    if merged_class.has_all_keys and "about" not in merged_class.tree.members:
        findings.append(spot.make_error("missing", "a class says what it is about", 'write about = "every …"'))
    _compile(merged_class, spot, "socket", findings, probes, is_entry=False)


def _compile(
    merged: MergedEntry,
    spot: FilePosition,
    registration: str,
    findings: list[Finding],
    probes: Mapping[str, ProbeSpec],
    *,
    is_entry: bool,
) -> ResourceSpec | None:
    tree = merged.tree
    scope = Scope(
        None,
        has_all_keys=merged.has_all_keys,
        has_all_words=merged.has_all_words,
        accepted_codes=_collect_accepted_codes(tree, findings),
        is_single=False,
        findings=findings,
        library=merged.library,
        compile_partner_checks=_compile_partner_checks,
    )
    _check_about(tree, scope)
    source_leaf = tree.get_leaf("source")
    scope.source = compile_source(source_leaf, scope) if source_leaf else None
    interval = compile_interval(source_leaf, scope) if source_leaf else None
    scope.is_single = scope.source is not None and is_single(scope.source)
    limit = compile_limit(tree)
    scope.has_one_per_container = limit.per_container == 1 and tree.get_branch("slots") is None
    constants = _compile_constants(tree, scope, spot, probes, is_entry=is_entry)
    entry_words = EntryDerivedWords(tree, scope, constants)
    scope.entry_words = entry_words
    declare_members(tree, scope)
    scope.is_before_grouping = True
    group = compile_group(tree, scope)
    scope.is_before_grouping = False
    scope.is_grouped = group is not None
    scope.is_single = scope.is_single or (group is not None and not group.words)
    compiled_name = compile_name(tree, scope)
    slots = compile_slots(tree, scope, has_name_words=compiled_name is not None and compiled_name.template is not None)
    is_id_required = scope.has_all_keys and (is_entry or not tree.is_on("part"))  # users of a base class add the ID
    ids = () if slots and tree.get_leaf("id") is None else compile_ids(tree, scope, spot, required=is_id_required)
    shares = compile_shares(tree, scope, ids)
    match = tree.get_branch("match")
    parts = make_sections(tree.get_branch("give"), scope)
    vfio = compile_vfio(parts, scope, is_shared=slots is not None or shares.number is not None)
    nodes = (*compile_nodes(parts, scope), *vfio.nodes, *compile_rdma(parts, scope))
    mounts = compile_mounts(parts, scope)
    env = compile_env(parts, scope, compiled_name.name if compiled_name and compiled_name.template is None else None)
    annotations = compile_annotations(parts, scope)
    cdi = compile_cdi(parts, scope)
    devinfo = compile_devinfo(tree.get_branch("give"), scope, slots)
    via, (nodes, mounts, env) = compile_via(tree.get_branch("give"), SpecGives(nodes, mounts, env), scope)
    scope.is_before_grouping = True
    clause = compile_clause("match", match, scope) if match else Clause("match", (), spot.origin)
    exclude = compile_exclude(tree, scope)
    prefer = compile_prefer(tree, scope, constants)
    scope.is_before_grouping = False
    (wait, partner_conditions), gate = compile_wait(tree, scope), compile_gate(tree, scope)
    topology = compile_topology(tree, scope)
    checks = compile_health(tree, scope, interval, vfio.build_check())
    prepare, prestart = compile_programs("prepare", tree, scope), compile_programs("prestart", tree, scope)
    entry_registration = _compile_registration(tree.get_leaf("registration"), scope)
    words = entry_words.compile_all()
    warn_of_unstable_name(compiled_name, tree, words, scope)
    if compiled_name is None or scope.source is None or not (ids or slots):
        return None
    class_leaf = tree.get_leaf("class")
    spec = ResourceSpec(
        name=compiled_name.name,
        origin=spot.origin,
        class_name=str(class_leaf.value) if class_leaf else None,
        source=scope.source,
        match=clause,
        exclude=exclude,
        id=tuple(spec.template for spec in ids),
        shares=shares.number,
        nodes=nodes,
        env=env,
        registration=entry_registration or registration,
        derived_words={**constants, **words},
        interval=interval,
        mounts=mounts,
        annotations=annotations,
        cdi=cdi,
        devinfo=devinfo,
        moved_words=compile_moves(tree, scope),
        group=group,
        joins=entry_words.list_joins(),
        is_addition=compiled_name.is_addition,
        name_template=compiled_name.template,
        share_map=shares.share_map,
        share_suffix=shares.suffix,
        slots=slots,
        limit=limit,
        wait=wait,
        gate=gate,
        partner_conditions=partner_conditions,
        topology=() if slots else topology,
        expect=compile_expect(tree),
        checks=checks,
        prefer=() if slots else prefer,
        vfio=vfio.gives,
        prepare=prepare,
        prestart=prestart,
        via=via,
    )
    return (
        replace(spec, partner_joins=partner_joins)
        if (partner_joins := find_partner_joins(spec.give_conditions, scope))
        else spec
    )


def _compile_constants(
    tree: Branch, scope: Scope, spot: FilePosition, probes: Mapping[str, ProbeSpec], *, is_entry: bool
) -> dict[str, Constant]:
    """Return the options. Also set the options and the probes of the scope, which no other word may replace."""
    constants = compile_options(tree, scope, spot, required=is_entry)
    scope.option_values = {word: constant.value for word, constant in constants.items()}
    scope.probes = compile_probes(tree, scope, probes)
    return constants


def _compile_partner_checks(name: str, tree: Branch, scope: Scope, interval: float | None) -> PartnerChecks:
    """Return the checks and preconditions of a class or an entry that is joined."""
    wait, partner_conditions = compile_wait(tree, scope)
    return PartnerChecks(
        name, compile_health(tree, scope, interval), wait, compile_gate(tree, scope), partner_conditions
    )


def _check_added_keys(tree: Branch, entry: FilePosition, findings: list[Finding]) -> None:
    """Report the keys of an entry with `adds_to` that only the entry with the name may have."""
    leaf = tree.get_leaf("adds_to")
    if leaf is None:
        return
    for key in RESOURCE_KEYS:
        node = tree.get_leaf(key) or tree.get_branch(key)
        is_in_file = node is not None and node.spot.document is entry.document
        if node is not None and is_in_file and node.spot.path[: len(entry.path)] == entry.path:
            message = f"{key} is of the whole resource, so the entry says it that has the name"
            findings.append(
                node.spot.make_error("adds-to", message, f"write it where {leaf.value} is defined", mark="key")
            )


def _check_about(tree: Branch, scope: Scope) -> None:
    """Report errors in the keys `about` and `part`."""
    about = tree.get_leaf("about")
    if about is not None and not isinstance(about.value, str):
        scope.report_error(about.spot, "type", "about is text, for people", 'write "…"')
    part = tree.get_leaf("part")
    if part is not None and not isinstance(part.value, bool):
        scope.report_error(part.spot, "type", "part is true or false, without quotes", "write true")


def _compile_registration(leaf: Leaf | None, scope: Scope) -> str | None:
    if leaf is None or leaf.value in ("socket", "watcher"):  # no set, because the value may have no hash
        return str(leaf.value) if leaf else None
    scope.report_error(leaf.spot, "type", "registration is socket or watcher", 'write "socket", the default')
    return None


def _collect_accepted_codes(tree: Branch, findings: list[Finding]) -> frozenset[str]:
    """Return the codes of warnings that the entry accepts with a reason."""
    branch = tree.get_branch("accept")
    codes: set[str] = set()
    for code, node in branch.members.items() if branch else ():
        if not isinstance(node, Leaf):
            continue
        if code not in WARNINGS:
            message = f"no warning has the code {code}; there are {', '.join(sorted(WARNINGS))}"
            findings.append(node.spot.make_error("unknown-key", message, make_hint(code, WARNINGS), mark="key"))
        elif not isinstance(node.value, str) or not node.value.strip():
            findings.append(node.spot.make_error("type", "accept says why, in text", 'write "why"'))
        else:
            codes.add(code)
    return frozenset(codes)
