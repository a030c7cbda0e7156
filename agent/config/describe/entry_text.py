"""A merged class or entry as the clauses of one sentence, in the order in which a person says it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agent.config.describe.check_text import checks, clauses, programs
from agent.config.describe.clause_text import clause, line, short
from agent.config.describe.description_clause import DescriptionClause, instead, leaves, listed, place, text_of, value
from agent.config.describe.give_text import given
from agent.config.describe.word_text import devices, joins, links, own_words
from agent.config.merge.config_tree import Branch, Leaf, RemovedValue
from agent.config.resource.resource_settings import SLOT_ID
from agent.config.sources import get_source_kind
from agent.scanners import source_kinds

_PART = "Every device (a part: the class that uses it says which)"


def sections(tree: Branch, earlier: str = "") -> Iterator[tuple[str, Iterable[DescriptionClause]]]:
    """The parts of a sentence, each with what it is about; `earlier`: which entries before it take theirs first."""
    source = tree.get_leaf("source")
    yield "takes", _source(source)
    own = (*own_words(tree.get_branch("let"), source.value if source else None), *joins(tree.get_branch("join")))
    yield "words", [said.below() for said in own]
    yield "takes", [DescriptionClause(f"of which {earlier} first")] if earlier else ()
    yield "takes", _match(tree.get_branch("match"))
    yield "takes", clauses(tree.get_branch("exclude"), "except")
    yield "waits", clauses(tree.get_branch("wait"), "not yet while")
    yield "takes", _group(tree.get_branch("group"))
    yield "name", _named(tree)
    yield "id", _known(tree, source)
    yield "shares", _shares(tree)
    yield "waits", clauses(tree.get_branch("gate"), "once")
    yield "gives", _switch(tree, "moves_into_pod", "which may move into the pod", "which stay on the host")
    yield "waits", programs(tree.get_branch("prepare"), "after running")
    yield "health", checks(tree.get_branch("health"))
    yield "gives", programs(tree.get_branch("prestart"), "before a container starts, run")
    yield "gives", given(tree.get_branch("give"))
    yield "options", _options(tree.get_branch("options"))
    yield "prefers", _preferred(tree)
    yield "besides", _rest(tree)
    yield "besides", _without(tree)


def clauses_of(tree: Branch, earlier: str = "") -> Iterator[DescriptionClause]:
    """The clauses of a sentence, in order."""
    for _, said in sections(tree, earlier):
        yield from said


def _source(source: Leaf | None) -> Iterator[DescriptionClause]:
    if source is None:
        yield DescriptionClause(_PART)
    else:
        yield DescriptionClause(f"Every {devices(source.value)}", source.spot, note=instead(source, say=devices))


def _match(match: Branch | None) -> Iterator[DescriptionClause]:
    begin = "whose"
    if match is None:
        return
    for address, node in match.members.items():
        if isinstance(node, (Leaf, Branch)):
            note = instead(node, say=short) if isinstance(node, Leaf) else ""
            yield DescriptionClause(f"{begin} {line(address, match)}", node.spot, level=int(begin == "and"), note=note)
            begin = "and"


def _group(group: Branch | None) -> Iterator[DescriptionClause]:
    if group is None:
        return
    by = group.get_leaf("by")
    text = f"together by {listed(by.value, ' or ')}" if by else "together"
    if text_of(group, "claims") == "all":
        text += ", and all others of the group come along"
    yield DescriptionClause(text, group.spot, note=instead(by, group.get_leaf("claims")))
    parts = group.get_branch("parts")
    for name, part in parts.list_branches() if parts else ():
        yield DescriptionClause(f"one {name} whose {clause(part)}", part.spot, level=1)


def _named(tree: Branch) -> Iterator[DescriptionClause]:
    for key, words in (("name", "called"), ("adds_to", "added to")):
        if (leaf := tree.get_leaf(key)) is not None:
            yield DescriptionClause(f"{words} {value(leaf.value)}", leaf.spot, note=instead(leaf))


def _known(tree: Branch, source: Leaf | None) -> Iterator[DescriptionClause]:
    if (slots := tree.get_branch("slots")) is not None:
        known = text_of(slots, "id", f"{SLOT_ID} (default)")
        text = f"in {text_of(slots, 'count')} slots of the whole, known as {known}"
        yield DescriptionClause(text, slots.spot, note=instead(*leaves(slots)))
    elif (ids := tree.get_leaf("id")) is not None:
        yield DescriptionClause(
            f"known as {listed(ids.value, ', else ')}", ids.spot, note=instead(ids, say=_alternatives)
        )
    elif source is not None and (known := _default_id(source.value)):
        yield DescriptionClause(f"known as {known} (default)", source.spot)


def _alternatives(ids: object) -> str:
    return listed(ids, ", else ")


def _default_id(source: object) -> str:
    kind = get_source_kind(source)
    if kind == "node":
        return "its path under /dev"
    return ", else ".join(source_kinds.get_default_ids(kind)) if kind in source_kinds.KINDS else ""


def _shares(tree: Branch) -> Iterator[DescriptionClause]:
    replicas, limit = tree.get_branch("replicas"), tree.get_branch("limit")
    if replicas is not None and replicas.members:
        suffix = replicas.get_leaf("suffix")
        text = f"in {_many(replicas)}{f', numbered behind {value(suffix.value)}' if suffix else ''}"
        count = replicas.get_leaf("count")
        if suffix or count is None or count.value != 1 or instead(*leaves(replicas)):
            yield DescriptionClause(text, replicas.spot, note=instead(*leaves(replicas)))
    if limit is not None and (most := limit.get_leaf("per_container")):
        yield DescriptionClause(f"at most {value(most.value)} in a container", most.spot, note=instead(most))
    if limit is not None and (leaf := limit.get_leaf("distinct")) and leaf.value is True:
        yield DescriptionClause("never two shares of one device in a container", leaf.spot)


def _many(replicas: Branch) -> str:
    count = replicas.get_leaf("count")
    if count is not None:
        return f"{_shared(count.value)} each"
    rows = (replicas.get_branch("map") or Branch({}, replicas.spot)).members.items()
    by = text_of(replicas, "by")
    said = [f"{_shared(leaf.value)} if {by} is {key}" for key, leaf in rows if isinstance(leaf, Leaf)]
    other = replicas.get_leaf("else")
    return ", ".join([*said, *([f"else {_shared(other.value)}"] if other else [])])


def _shared(count: object) -> str:
    return f"{value(count)} share{'' if count == 1 else 's'}"


def _switch(tree: Branch, key: str, on: str, off: str) -> Iterator[DescriptionClause]:
    leaf = tree.get_leaf(key)
    if leaf is not None and (leaf.value is True or instead(leaf)):
        yield DescriptionClause(on if leaf.value is True else off, leaf.spot)


def _options(options: Branch | None) -> Iterator[DescriptionClause]:
    for name, option in options.list_branches() if options else ():
        domain = next((leaf for key in ("one_of", "some_of", "type") if (leaf := option.get_leaf(key))), None)
        said = option.get_leaf("value")
        chosen = said or option.get_leaf("default")
        allowed = f" ({listed(domain.value, ' | ')})" if domain else ""
        text = f"option {name} = {value(chosen.value)}" if chosen else f"option {name}, which the entry says"
        yield DescriptionClause(f"{text}{allowed}", said.spot if said else option.spot, note=instead(said))


def _preferred(tree: Branch) -> Iterator[DescriptionClause]:
    topology, prefer = tree.get_leaf("topology"), tree.get_leaf("prefer")
    if topology is not None:
        yield DescriptionClause(_near(topology.value), topology.spot, note=instead(topology))
    yield from links(tree.get_branch("links"))
    if prefer is not None and prefer.value != []:
        yield DescriptionClause(f"prefer {_rules(prefer.value)}", prefer.spot, note=instead(prefer, say=_rules))


def _near(topology: object) -> str:
    if topology == "none":
        return "near nothing: no NUMA node is told"
    return f"near NUMA node {listed(topology, ' and ')}" if isinstance(topology, list) else f"near {value(topology)}"


def _rules(prefer: object) -> str:
    rules = prefer if isinstance(prefer, list) else [prefer]
    said = [" ".join(f"{key} {value(of)}" for key, of in rule.items()) for rule in rules if isinstance(rule, dict)]
    return ", then ".join(said) or "nothing"


def _rest(tree: Branch) -> Iterator[DescriptionClause]:
    if (expect := tree.get_leaf("expect")) is not None:
        yield DescriptionClause(
            f"expecting {value(expect.value)} device{'s' * (expect.value != 1)}", expect.spot, note=instead(expect)
        )
    if (registration := tree.get_leaf("registration")) is not None:
        how = "by the plugin watcher" if registration.value == "watcher" else "by Register"
        yield DescriptionClause(f"registered {how}", registration.spot, note=instead(registration))
    for name, probe in (tree.get_branch("probe") or Branch({}, tree.spot)).list_branches():
        yield DescriptionClause(
            f"the probe {name} is {listed(run.value, ' ') if (run := probe.get_leaf('run')) else '?'}", probe.spot
        )
    for code, why in (tree.get_branch("accept") or Branch({}, tree.spot)).members.items():
        if isinstance(why, Leaf):
            yield DescriptionClause(f"accepting {code}: {value(why.value)}", why.spot)


def _without(branch: Branch, path: str = "") -> Iterator[DescriptionClause]:
    """What was taken out."""
    for key, node in branch.members.items():
        address = f"{path}.{key}" if path else key
        if isinstance(node, RemovedValue):
            note = f"[which was at {place(node.replaced_spots[0])}]" if node.replaced_spots else ""
            yield DescriptionClause(f"without {address}", node.spot, note=note)
        elif isinstance(node, Branch):
            yield from _without(node, address)
