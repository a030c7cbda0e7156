"""The description of a merged class or entry: the clauses of one sentence, in reading order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agent.config.describe.check_text import describe_checks, describe_clauses, describe_programs
from agent.config.describe.clause_text import describe_clause, describe_line, shorten_test
from agent.config.describe.description_clause import (
    DescriptionClause,
    describe_mapping,
    describe_node,
    describe_replaced,
    format_list,
    format_location,
    format_value,
    get_text,
    walk_leaves,
)
from agent.config.describe.give_text import describe_give
from agent.config.describe.word_text import describe_derived_words, describe_joins, describe_links, describe_source
from agent.config.merge.config_tree import Branch, Leaf, RemovedValue
from agent.config.resource.resource_settings import SLOT_ID
from agent.config.sources import get_source_kind
from agent.scanners import source_kinds

_PART = "Every device (a part: the class that uses it says which)"


def describe_sections(tree: Branch, earlier: str = "") -> Iterator[tuple[str, Iterable[DescriptionClause]]]:
    """Yield the parts of the description, each with its subject. earlier: the entries that take their devices first."""
    source = tree.get_leaf("source")
    yield "takes", _describe_source(source)
    word_clauses = (
        *describe_derived_words(tree.get_branch("let"), source.value if source else None),
        *describe_joins(tree.get_branch("join")),
    )
    yield "words", [clause.indent() for clause in word_clauses]
    yield "takes", [DescriptionClause(f"of which {earlier} first")] if earlier else ()
    yield "takes", _describe_match(tree.get_branch("match"))
    yield "takes", describe_clauses(tree.get_branch("exclude"), "except")
    yield "waits", describe_clauses(tree.get_branch("wait"), "not yet while")
    yield "takes", _describe_group(tree.get_branch("group"))
    yield "name", _describe_name(tree)
    yield "id", _describe_id(tree, source)
    yield "shares", _describe_shares(tree)
    yield "waits", describe_clauses(tree.get_branch("gate"), "once")
    yield "gives", _describe_switch(tree, "moves_into_pod", "which may move into the pod", "which stay on the host")
    yield "waits", describe_programs(tree.get_branch("prepare"), "after running")
    yield "health", describe_checks(tree.get_branch("health"))
    yield "gives", describe_programs(tree.get_branch("prestart"), "before a container starts, run")
    yield "gives", describe_give(tree.get_branch("give"))
    yield "options", _describe_options(tree.get_branch("options"))
    yield "prefers", _describe_preferences(tree)
    yield "besides", _describe_other_keys(tree)
    yield "besides", _describe_removed(tree)


def list_clauses(tree: Branch, earlier: str = "") -> Iterator[DescriptionClause]:
    """Yield the clauses of the description, in order."""
    for _, section in describe_sections(tree, earlier):
        yield from section


def _describe_source(source: Leaf | None) -> Iterator[DescriptionClause]:
    if source is None:
        yield DescriptionClause(_PART)
    else:
        yield describe_node(f"Every {describe_source(source.value)}", source, describe_source)


def _describe_match(match: Branch | None) -> Iterator[DescriptionClause]:
    begin = "whose"
    if match is None:
        return
    for address, node in match.members.items():
        if isinstance(node, (Leaf, Branch)):
            note = describe_replaced(node, formatter=shorten_test) if isinstance(node, Leaf) else ""
            yield DescriptionClause(
                f"{begin} {describe_line(address, match)}", node.spot, level=int(begin == "and"), note=note
            )
            begin = "and"


def _describe_group(group: Branch | None) -> Iterator[DescriptionClause]:
    if group is None:
        return
    word_leaf = group.get_leaf("by")
    text = f"together by {format_list(word_leaf.value, ' or ')}" if word_leaf else "together"
    if get_text(group, "claims") == "all":
        text += ", and all others of the group come along"
    yield DescriptionClause(text, group.spot, note=describe_replaced(word_leaf, group.get_leaf("claims")))
    for name, part in group.list_branches("parts"):
        yield DescriptionClause(f"one {name} whose {describe_clause(part)}", part.spot, level=1)


def _describe_name(tree: Branch) -> Iterator[DescriptionClause]:
    for key, words in (("name", "called"), ("adds_to", "added to")):
        if (leaf := tree.get_leaf(key)) is not None:
            yield describe_node(f"{words} {format_value(leaf.value)}", leaf)


def _describe_id(tree: Branch, source: Leaf | None) -> Iterator[DescriptionClause]:
    if (slots := tree.get_branch("slots")) is not None:
        id_text = get_text(slots, "id", f"{SLOT_ID} (default)")
        text = f"in {get_text(slots, 'count')} slots of the whole, known as {id_text}"
        yield describe_node(text, slots)
    elif (ids := tree.get_leaf("id")) is not None:
        yield describe_node(f"known as {format_list(ids.value, ', else ')}", ids, _format_alternatives)
    elif source is not None and (id_text := _get_default_id(source.value)):
        yield DescriptionClause(f"known as {id_text} (default)", source.spot)


def _format_alternatives(ids: object) -> str:
    return format_list(ids, ", else ")


def _get_default_id(source: object) -> str:
    kind = get_source_kind(source)
    if kind == "node":
        return "its path under /dev"
    return ", else ".join(source_kinds.get_default_ids(kind)) if kind in source_kinds.KINDS else ""


def _describe_shares(tree: Branch) -> Iterator[DescriptionClause]:
    replicas, limit = tree.get_branch("replicas"), tree.get_branch("limit")
    if replicas is not None and replicas.members:
        suffix = replicas.get_leaf("suffix")
        suffix_text = f", numbered behind {format_value(suffix.value)}" if suffix else ""
        text = f"in {_describe_share_counts(replicas)}{suffix_text}"
        count = replicas.get_leaf("count")
        if suffix or count is None or count.value != 1 or describe_replaced(*walk_leaves(replicas)):
            yield describe_node(text, replicas)
    if limit is not None and (limit_leaf := limit.get_leaf("per_container")):
        yield describe_node(f"at most {format_value(limit_leaf.value)} in a container", limit_leaf)
    if limit is not None and (leaf := limit.get_leaf("distinct")) and leaf.value is True:
        yield DescriptionClause("never two shares of one device in a container", leaf.spot)


def _describe_share_counts(replicas: Branch) -> str:
    count = replicas.get_leaf("count")
    if count is not None:
        return f"{_format_share_count(count.value)} each"
    return describe_mapping(replicas, _format_share_count)


def _format_share_count(count: object) -> str:
    return f"{format_value(count)} share{'' if count == 1 else 's'}"


def _describe_switch(tree: Branch, key: str, true_text: str, false_text: str) -> Iterator[DescriptionClause]:
    leaf = tree.get_leaf(key)
    if leaf is not None and (leaf.value is True or describe_replaced(leaf)):
        yield DescriptionClause(true_text if leaf.value is True else false_text, leaf.spot)


def _describe_options(options: Branch | None) -> Iterator[DescriptionClause]:
    for name, option in options.list_branches() if options else ():
        domain = next((leaf for key in ("one_of", "some_of", "type") if (leaf := option.get_leaf(key))), None)
        set_value = option.get_leaf("value")
        chosen = set_value or option.get_leaf("default")
        domain_text = f" ({format_list(domain.value, ' | ')})" if domain else ""
        text = f"option {name} = {format_value(chosen.value)}" if chosen else f"option {name}, which the entry says"
        yield DescriptionClause(
            f"{text}{domain_text}", set_value.spot if set_value else option.spot, note=describe_replaced(set_value)
        )


def _describe_preferences(tree: Branch) -> Iterator[DescriptionClause]:
    topology, prefer = tree.get_leaf("topology"), tree.get_leaf("prefer")
    if topology is not None:
        yield describe_node(_describe_topology(topology.value), topology)
    yield from describe_links(tree.get_branch("links"))
    if prefer is not None and prefer.value != []:
        yield describe_node(f"prefer {_describe_rules(prefer.value)}", prefer, _describe_rules)


def _describe_topology(topology: object) -> str:
    if topology == "none":
        return "near nothing: no NUMA node is told"
    return (
        f"near NUMA node {format_list(topology, ' and ')}"
        if isinstance(topology, list)
        else f"near {format_value(topology)}"
    )


def _describe_rules(prefer: object) -> str:
    rules = prefer if isinstance(prefer, list) else [prefer]
    texts = [
        " ".join(f"{key} {format_value(operand)}" for key, operand in rule.items())
        for rule in rules
        if isinstance(rule, dict)
    ]
    return ", then ".join(texts) or "nothing"


def _describe_other_keys(tree: Branch) -> Iterator[DescriptionClause]:
    if (expect := tree.get_leaf("expect")) is not None:
        yield describe_node(f"expecting {format_value(expect.value)} device{'s' * (expect.value != 1)}", expect)
    if (registration := tree.get_leaf("registration")) is not None:
        registration_text = "by the plugin watcher" if registration.value == "watcher" else "by Register"
        yield describe_node(f"registered {registration_text}", registration)
    for name, probe in tree.list_branches("probe"):
        yield DescriptionClause(
            f"the probe {name} is {format_list(run.value, ' ') if (run := probe.get_leaf('run')) else '?'}", probe.spot
        )
    for code, acceptance in (tree.get_branch("accept") or Branch({}, tree.spot)).members.items():
        if isinstance(acceptance, Leaf):
            yield DescriptionClause(f"accepting {code}: {format_value(acceptance.value)}", acceptance.spot)


def _describe_removed(branch: Branch, path: str = "") -> Iterator[DescriptionClause]:
    """Yield the values that were removed."""
    for key, node in branch.members.items():
        address = f"{path}.{key}" if path else key
        if isinstance(node, RemovedValue):
            note = f"[which was at {format_location(node.replaced_spots[0])}]" if node.replaced_spots else ""
            yield DescriptionClause(f"without {address}", node.spot, note=note)
        elif isinstance(node, Branch):
            yield from _describe_removed(node, address)
