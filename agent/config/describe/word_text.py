"""Descriptions of derived words, joins and links: "its X is …"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.config.describe.clause_text import describe_clause
from agent.config.describe.description_clause import (
    DescriptionClause,
    describe_mapping,
    describe_node,
    describe_replaced,
    format_list,
    format_value,
    get_text,
    walk_leaves,
)
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.sources import get_source_kind
from agent.core.language.glob import PatternError
from agent.scanners import source_kinds

_KINDS = {
    "pci": "PCI function",
    "usb": "USB device",
    "net": "network interface",
    "infiniband": "RDMA device",
    "drm": "DRM device",
    "auxiliary": "auxiliary device",
    "mdev": "mediated device",
}
_TAKEN = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*:([a-z]+)\}")
_SHOWN = 3  # rows of a map; rows that a later file adds are always shown


def describe_source(source: object) -> str:
    """Return the text for one device of a source."""
    if not isinstance(source, dict):
        return f"{format_value(source)} device"
    texts = [_describe_source_form(form, operand) for form, operand in source.items() if form != "every"]
    interval_text = f", looked for every {format_value(source['every'])}" if "every" in source else ""
    return f"{' and '.join(texts) or 'device'}{interval_text}"


def _describe_source_form(form: str, operand: object) -> str:
    match form:
        case "kind":
            return _KINDS.get(str(operand), f"{format_value(operand)} device")
        case "subsystem":
            return f"{format_value(operand)} device"
        case "fixed":
            return f"of {format_list(operand)}, always there"
    return format_list(operand, " or ")


def describe_derived_words(let: Branch | None, source: object) -> Iterator[DescriptionClause]:
    """Yield the description of each word of `let`, with its type."""
    for name, word in let.list_branches() if let else ():
        kind = find_word_type(word, let, source)
        type_text = f" ({kind})" if kind else ""
        yield describe_node(f"its {name}{type_text} is {_describe_value(word)}", word)


def describe_joins(join: Branch | None) -> Iterator[DescriptionClause]:
    """Yield the description of each `join`, with the derived words of the partner."""
    for name, member in join.list_branches() if join else ():
        partner = _describe_partner(member)
        pairs = member.get_leaf("on")
        equal_texts = [f"{partner_word} is our {device_word}" for partner_word, device_word in _list_pairs(pairs)]
        condition = " and ".join(filter(None, (*equal_texts, describe_clause(member.get_branch("match")))))
        optional = ", if there is one" if member.is_on("optional") else ""
        note = describe_replaced(*walk_leaves(member))
        yield DescriptionClause(
            f"its {name} is the {partner}{f' whose {condition}' if condition else ''}{optional}", member.spot, note=note
        )
        source = member.get_leaf("source")
        for word_clause in describe_derived_words(member.get_branch("let"), source.value if source else {"dir": None}):
            yield word_clause.indent()


def describe_links(branch: Branch | None) -> Iterator[DescriptionClause]:
    """Yield the description of `links`: the distance of devices."""
    for name, link in branch.list_branches() if branch else ():
        condition = " and ".join(
            f"{device_word} is its {link_word}" for link_word, device_word in _list_pairs(link.get_leaf("on"))
        )
        cost = link.get_branch("cost")
        cost_leaf = link.get_leaf("cost")
        price = (
            f", at cost {describe_mapping(cost)}"
            if cost
            else f", at cost {format_value(cost_leaf.value)}"
            if cost_leaf
            else ""
        )
        line_text = f"line of {get_text(link, 'file')}" if link.get_leaf("file") else f"of {get_text(link, 'dir')}"
        text = f"where each {line_text} is a link of {name} to the one whose {condition}{price}"
        yield describe_node(text, link)
        for clause in describe_derived_words(link.get_branch("let"), {"dir": None}):
            yield clause.indent()


def find_word_type(word: Branch, let: Branch | None, source: object, depth: int = 0) -> str:
    """Return the type of a derived word, as far as known without a host. Return an empty string if unknown."""
    kind = get_text(word, "type")
    verb = word.verbs[0] if word.verbs else ""
    match verb:
        case "names_of" | "read_all":
            return f"list of {kind or 'text'}"
        case "holds":
            return "bool"
        case "bits" | "place_in":
            return "int"
        case "kfd_address":
            return "pci"
        case "take":
            match = _TAKEN.search(get_text(word, "take"))
            return kind or (match[1] if match else "text")
        case "read" | "first_of" if not kind:
            read = word.get_leaf(verb)
            facts = read.value if read and isinstance(read.value, list) else [read.value if read else ""]
            return next(filter(None, (_find_fact_type(str(fact), let, source, depth) for fact in facts)), "")
    return kind or ("text" if verb else "")


def _find_fact_type(fact: str, let: Branch | None, source: object, depth: int) -> str:
    if "/" in fact:
        return "text"
    word_branch = let.get_branch(fact) if let else None
    if word_branch is not None:
        return find_word_type(word_branch, let, source, depth + 1) if depth < len(let.members if let else ()) else ""
    try:
        signature = source_kinds.get_word_type(get_source_kind(source), fact)
    except (source_kinds.UnknownWordError, PatternError, KeyError):
        return ""
    return f"list of {signature.kind.value}" if signature.is_list else signature.kind.value


def _describe_value(word: Branch) -> str:
    verb = word.verbs[0] if word.verbs else ""
    operand = get_text(word, verb)
    source = get_text(word, "of")
    both = _join_with_and(word.get_leaf(verb))
    text = {
        "read": f"what {operand} says",
        "first_of": f"the first there is of {operand}",
        "read_all": f"all that {operand} say",
        "names_of": f"the names of {operand}",
        "name_of": f"the name of {operand}",
        "field": f'the field "{operand}" of {source}',
        "take": f"the piece {operand} of {source}",
        "text": f"the text {operand}",
        "kfd_address": f"the PCI address of {both}",
        "bits": f"bits {both} of {source}",
        "base64url": f"the bytes of {both} in base64url",
        "place_in": f"the place of {source} in {operand}, from 0",
        "probe": f"what the probe {operand} says of {get_text(word, 'field')}",
        "holds": f"whether {describe_clause(word.get_branch('holds'))}",
    }.get(verb, "not said")
    if verb == "by":
        return f"by {operand}: {_describe_map(word)}{_describe_absent_value(word, operand)}"
    default_leaf = word.get_leaf("else")
    return (
        f"{text}, else {format_value(default_leaf.value)}"
        if default_leaf
        else f"{text}{_describe_absent_value(word, '')}"
    )


def _describe_absent_value(word: Branch, word_name: str) -> str:
    leaf = word.get_leaf("if_absent")
    return f", {format_value(leaf.value)} without {word_name or 'that'}" if leaf else ""


def _describe_map(word: Branch) -> str:
    """Return the first rows of a map, and all rows that a later file added."""
    members = (word.get_branch("map") or Branch({}, word.spot)).members
    rows = [(key, leaf) for key, leaf in members.items() if isinstance(leaf, Leaf)]
    shown = [
        f"{key} is {format_value(leaf.value)}"
        if index < _SHOWN or leaf.spot.document.name != rows[0][1].spot.document.name
        else ""
        for index, (key, leaf) in enumerate(rows)
    ]
    texts: list[str] = []
    for row in shown:
        if row or texts[-1:] != ["…"]:
            texts.append(row or "…")
    default_leaf = word.get_leaf("else")
    return (
        ", ".join([*texts, *([f"else {format_value(default_leaf.value)}"] if default_leaf else [])])
        or "(told by the entry)"
    )


def _describe_partner(member: Branch) -> str:
    source = member.get_leaf("source")
    if source is not None:
        return describe_source(source.value)
    if (resource := member.get_leaf("resource")) is not None:
        return f"device of {format_value(resource.value)}"
    return get_text(member, "dir") or get_text(member, "class") or "device"


def _list_pairs(leaf: Leaf | None) -> list[tuple[str, object]]:
    return list(leaf.value.items()) if leaf and isinstance(leaf.value, dict) else []


def _join_with_and(leaf: Leaf | None) -> str:
    return format_list(leaf.value, " and ") if leaf else ""
