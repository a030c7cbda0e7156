"""Compile a merged entry to a `ResourceSpec`, and report all its errors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from agent.config.clauses.clause import compile_clause
from agent.config.give.cdi import SpecGives, compile_cdi, compile_via
from agent.config.give.devinfo import compile_devinfo
from agent.config.give.env_annotations import compile_annotations, compile_env
from agent.config.give.give_sections import GiveSection, make_sections
from agent.config.give.mounts import compile_mounts
from agent.config.give.nodes import CompiledNodes, compile_nodes
from agent.config.give.rdma import compile_rdma
from agent.config.give.vfio import VfioGives, compile_vfio
from agent.config.language.key_table import WARNINGS, make_hint
from agent.config.merge.class_library import MergedEntry
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.resource.clauses import compile_exclude, compile_gate, compile_wait, find_partner_joins
from agent.config.resource.groups import compile_group, is_one_group, list_members
from agent.config.resource.health import compile_health
from agent.config.resource.ids import compile_ids
from agent.config.resource.name_template import NameTemplate, compile_name, warn_of_unstable_name
from agent.config.resource.programs import compile_programs
from agent.config.resource.replicas import Shares, compile_shares
from agent.config.resource.resource_settings import (
    compile_expect,
    compile_limit,
    compile_moves,
    compile_registration,
    compile_slots,
    compile_topology,
)
from agent.config.scope import Scope
from agent.config.sections import Results, Section, SectionRegistry
from agent.config.sources import compile_interval, compile_source, is_single
from agent.config.toml.file_position import FilePosition
from agent.config.toml.finding import Finding
from agent.config.values.program_args import compile_probes
from agent.config.words.class_options import CompiledOptions, compile_options
from agent.config.words.entry_derived_words import EntryDerivedWords
from agent.config.words.prefer_rules import compile_prefer
from agent.core.entry.check import Check
from agent.core.entry.group import Grouping
from agent.core.entry.joins import DerivedWord
from agent.core.entry.partner_checks import PartnerChecks
from agent.core.entry.prefer import PreferRule
from agent.core.entry.query import ProbeSpec
from agent.core.entry.resource_spec import EnvGive, Limit, MountGive, NodeGive, ResourceSpec, Slots
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
    start = Scope(
        source=None,
        has_all_keys=merged.has_all_keys,
        has_all_words=merged.has_all_words,
        accepted_codes=_collect_accepted_codes(merged.tree, findings),
        is_single=False,
        findings=findings,
        library=merged.library,
        compile_partner_checks=_compile_partner_checks,
    )
    user_spot = spot if is_entry else None
    start_values: dict[Section[Any], object]
    start_values = {_TREE: merged.tree, _SPOT: spot, _USER_SPOT: user_spot, _START: start, _AGENT_PROBES: probes}
    results = _REGISTRY.compile_all(start_values)
    # Only now, because a path with words in a section becomes a word of the entry.
    words = results.get(_WORDS).compile_all()
    warn_of_unstable_name(results.get(_NAME), merged.tree, words, results.get(_SCOPE))
    return _build_spec(results, words, registration)


def _add_source(tree: Branch, scope: Scope, limit: Limit) -> Scope:
    leaf = tree.get_leaf("source")
    source = compile_source(leaf, scope) if leaf else None
    return replace(
        scope,
        source=source,
        is_single=is_one_group(tree) or (source is not None and is_single(source)),
        has_one_per_container=limit.per_container == 1 and tree.get_branch("slots") is None,
        member_names=list_members(tree),
    )


def _add_options(tree: Branch, scope: Scope, options: CompiledOptions, agent_probes: Mapping[str, ProbeSpec]) -> Scope:
    scope = options.extend_scope(scope)
    return replace(scope, probes=compile_probes(tree, scope, agent_probes))


def _declare_words(tree: Branch, scope: Scope, options: CompiledOptions) -> EntryDerivedWords:
    return EntryDerivedWords(tree, scope, options.constants)


def _add_words(scope: Scope, words: EntryDerivedWords) -> Scope:
    return replace(scope, entry_words=words, is_before_grouping=True)


def _add_group(scope: Scope, group: Grouping | None) -> Scope:
    return replace(scope, is_before_grouping=False, is_grouped=group is not None)


def _return_before_groups(scope: Scope) -> Scope:
    return replace(scope, is_before_grouping=True)


def _compile_vfio(give: tuple[GiveSection, ...], scope: Scope, slots: Slots | None, shares: Shares) -> VfioGives:
    return compile_vfio(give, scope, is_shared=slots is not None or shares.number is not None)


def _compile_env(give: tuple[GiveSection, ...], scope: Scope, name: NameTemplate | None) -> tuple[EnvGive, ...]:
    return compile_env(give, scope, name.name if name and name.template is None else None)


def _collect_gives(
    compiled_nodes: CompiledNodes,
    vfio: VfioGives,
    rdma: tuple[NodeGive, ...],
    mounts: tuple[MountGive, ...],
    env: tuple[EnvGive, ...],
) -> SpecGives:
    return SpecGives((*compiled_nodes.nodes, *vfio.nodes, *rdma), mounts, env)


def _compile_match(tree: Branch, scope: Scope, spot: FilePosition) -> Clause:
    match = tree.get_branch("match")
    return compile_clause("match", match, scope) if match else Clause("match", (), spot.origin)


def _compile_prefer(
    tree: Branch, scope: Scope, options: CompiledOptions, slots: Slots | None
) -> tuple[PreferRule, ...]:
    rules = compile_prefer(tree, scope, options.constants)
    return () if slots else rules


def _compile_health(tree: Branch, scope: Scope, interval: float | None, vfio: VfioGives) -> tuple[Check, ...]:
    return compile_health(tree, scope, interval, vfio.build_check())


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
    """Report an `about` that is no text."""
    about = tree.get_leaf("about")
    if about is not None and not isinstance(about.value, str):
        scope.report_error(about.spot, "type", "about is text, for people", 'write "…"')


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


# The sections and their inputs. The start values come first, then the stages of the scope.
_REGISTRY = SectionRegistry()
_declare = _REGISTRY.declare

_TREE = Section[Branch]()
_SPOT = Section[FilePosition]()
_USER_SPOT = Section[FilePosition | None]()  # the entry, or None for a class
_START = Section[Scope]()
_AGENT_PROBES = Section[Mapping[str, ProbeSpec]]()

_LIMIT = _declare(compile_limit, _TREE)
_SOURCE_SCOPE = _declare(_add_source, _TREE, _START, _LIMIT)
_OPTIONS = _declare(compile_options, _TREE, _SOURCE_SCOPE, _USER_SPOT)
_OPTION_SCOPE = _declare(_add_options, _TREE, _SOURCE_SCOPE, _OPTIONS, _AGENT_PROBES)
_WORDS = _declare(_declare_words, _TREE, _OPTION_SCOPE, _OPTIONS)
_HOST_SCOPE = _declare(_add_words, _OPTION_SCOPE, _WORDS)
_GROUP = _declare(compile_group, _TREE, _HOST_SCOPE)
_SCOPE = _declare(_add_group, _HOST_SCOPE, _GROUP)
_MATCH_SCOPE = _declare(_return_before_groups, _SCOPE)

_declare(_check_about, _TREE, _START)
_INTERVAL = _declare(compile_interval, _TREE, _START)
_NAME = _declare(compile_name, _TREE, _SCOPE)
_SLOTS = _declare(compile_slots, _TREE, _SCOPE, _NAME)
_IDS = _declare(compile_ids, _TREE, _SCOPE, _SPOT, _USER_SPOT, _SLOTS)
_SHARES = _declare(compile_shares, _TREE, _SCOPE, _IDS)

_GIVE = _declare(make_sections, _TREE, _SCOPE)
_VFIO = _declare(_compile_vfio, _GIVE, _SCOPE, _SLOTS, _SHARES)
_NODES = _declare(compile_nodes, _GIVE, _SCOPE)
_GIVE_SCOPE = _declare(lambda nodes: nodes.scope, _NODES)
_RDMA = _declare(compile_rdma, _GIVE, _GIVE_SCOPE)
_MOUNTS = _declare(compile_mounts, _GIVE, _GIVE_SCOPE)
_ENV = _declare(_compile_env, _GIVE, _GIVE_SCOPE, _NAME)
_ANNOTATIONS = _declare(compile_annotations, _GIVE, _GIVE_SCOPE)
_CDI = _declare(compile_cdi, _GIVE, _GIVE_SCOPE)
_DEVINFO = _declare(compile_devinfo, _TREE, _GIVE_SCOPE, _SLOTS)
_SPEC_GIVES = _declare(_collect_gives, _NODES, _VFIO, _RDMA, _MOUNTS, _ENV)
_VIA = _declare(compile_via, _TREE, _SPEC_GIVES, _SCOPE)

_MATCH = _declare(_compile_match, _TREE, _MATCH_SCOPE, _SPOT)
_EXCLUDE = _declare(compile_exclude, _TREE, _MATCH_SCOPE)
_PREFER = _declare(_compile_prefer, _TREE, _MATCH_SCOPE, _OPTIONS, _SLOTS)
_WAIT = _declare(compile_wait, _TREE, _SCOPE)
_GATE = _declare(compile_gate, _TREE, _SCOPE)
_TOPOLOGY = _declare(compile_topology, _TREE, _SCOPE, _SLOTS)
_HEALTH = _declare(_compile_health, _TREE, _SCOPE, _INTERVAL, _VFIO)
_PREPARE = _declare(partial(compile_programs, "prepare"), _TREE, _SCOPE)
_PRESTART = _declare(partial(compile_programs, "prestart"), _TREE, _GIVE_SCOPE)
_MOVES = _declare(compile_moves, _TREE, _SCOPE)
_EXPECT = _declare(compile_expect, _TREE)
_REGISTRATION = _declare(compile_registration, _TREE)


def _build_spec(results: Results, words: Mapping[str, DerivedWord], default_registration: str) -> ResourceSpec | None:
    """Return the spec of an entry, or None if it lacks a name, a source or an ID."""
    get = results.get
    tree, scope, spot = get(_TREE), get(_SCOPE), get(_SPOT)
    name, ids, slots, shares = get(_NAME), get(_IDS), get(_SLOTS), get(_SHARES)
    if name is None or scope.source is None or not (ids or slots):
        return None
    class_leaf = tree.get_leaf("class")
    wait, partner_conditions = get(_WAIT)
    gives = get(_VIA)
    spec = ResourceSpec(
        name=name.name,
        origin=spot.origin,
        class_name=str(class_leaf.value) if class_leaf else None,
        source=scope.source,
        match=get(_MATCH),
        exclude=get(_EXCLUDE),
        id=tuple(template.template for template in ids),
        shares=shares.number,
        nodes=gives.nodes,
        env=gives.env,
        registration=get(_REGISTRATION) or default_registration,
        derived_words={**get(_OPTIONS).constants, **words},
        interval=get(_INTERVAL),
        mounts=gives.mounts,
        annotations=get(_ANNOTATIONS),
        cdi=get(_CDI),
        devinfo=get(_DEVINFO),
        moved_words=get(_MOVES),
        group=get(_GROUP),
        joins=get(_WORDS).list_joins(),
        is_addition=name.is_addition,
        name_template=name.template,
        share_map=shares.share_map,
        share_suffix=shares.suffix,
        slots=slots,
        limit=get(_LIMIT),
        wait=wait,
        gate=get(_GATE),
        partner_conditions=partner_conditions,
        topology=get(_TOPOLOGY),
        expect=get(_EXPECT),
        checks=get(_HEALTH),
        prefer=get(_PREFER),
        vfio=get(_VFIO).gives,
        prepare=get(_PREPARE),
        prestart=get(_PRESTART),
        via=gives.via,
    )
    return replace(spec, partner_joins=find_partner_joins(spec.give_conditions, scope))
