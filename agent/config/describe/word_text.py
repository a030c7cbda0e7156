"""Own words as they are said: "its X is …", of `let`, of joins, of links."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.config.describe.clause_text import clause
from agent.config.describe.description_clause import DescriptionClause, instead, leaves, listed, text_of, value
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
_SHOWN = 3  # of a map; what a later file adds is always shown


def devices(source: object) -> str:
    """What a source has, as one of it is called."""
    if not isinstance(source, dict):
        return f"{value(source)} device"
    said = [_form(form, what) for form, what in source.items() if form != "every"]
    again = f", looked for every {value(source['every'])}" if "every" in source else ""
    return f"{' and '.join(said) or 'device'}{again}"


def _form(form: str, what: object) -> str:
    match form:
        case "kind":
            return _KINDS.get(str(what), f"{value(what)} device")
        case "subsystem":
            return f"{value(what)} device"
        case "fixed":
            return f"of {listed(what)}, always there"
    return listed(what, " or ")


def own_words(let: Branch | None, source: object) -> Iterator[DescriptionClause]:
    """`let`: each word with its type."""
    for name, word in let.list_branches() if let else ():
        kind = kind_of(word, let, source)
        typed = f" ({kind})" if kind else ""
        yield DescriptionClause(f"its {name}{typed} is {_what(word)}", word.spot, note=instead(*leaves(word)))


def joins(join: Branch | None) -> Iterator[DescriptionClause]:
    """`join`: each with the words it brings of its own."""
    for name, member in join.list_branches() if join else ():
        one = _one(member)
        pairs = member.get_leaf("on")
        equal = [f"{theirs} is our {ours}" for theirs, ours in _pairs(pairs)]
        whose = " and ".join(filter(None, (*equal, clause(member.get_branch("match")))))
        optional = ", if there is one" if member.is_on("optional") else ""
        note = instead(*leaves(member))
        yield DescriptionClause(
            f"its {name} is the {one}{f' whose {whose}' if whose else ''}{optional}", member.spot, note=note
        )
        source = member.get_leaf("source")
        for said in own_words(member.get_branch("let"), source.value if source else {"dir": None}):
            yield said.below()


def links(branch: Branch | None) -> Iterator[DescriptionClause]:
    """`links`: how near devices are to each other."""
    for name, link in branch.list_branches() if branch else ():
        whose = " and ".join(f"{ours} is its {theirs}" for theirs, ours in _pairs(link.get_leaf("on")))
        cost = link.get_branch("cost")
        at = link.get_leaf("cost")
        price = f", at cost {_by(cost)}" if cost else f", at cost {value(at.value)}" if at else ""
        each = f"line of {text_of(link, 'file')}" if link.get_leaf("file") else f"of {text_of(link, 'dir')}"
        text = f"where each {each} is a link of {name} to the one whose {whose}{price}"
        yield DescriptionClause(text, link.spot, note=instead(*leaves(link)))
        for said in own_words(link.get_branch("let"), {"dir": None}):
            yield said.below()


def kind_of(word: Branch, let: Branch | None, source: object, depth: int = 0) -> str:
    """The type of an own word, as far as it can be told without a host; empty if it cannot."""
    kind = text_of(word, "type")
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
            found = _TAKEN.search(text_of(word, "take"))
            return kind or (found[1] if found else "text")
        case "read" | "first_of" if not kind:
            read = word.get_leaf(verb)
            facts = read.value if read and isinstance(read.value, list) else [read.value if read else ""]
            return next(filter(None, (_kind_of_fact(str(fact), let, source, depth) for fact in facts)), "")
    return kind or ("text" if verb else "")


def _kind_of_fact(fact: str, let: Branch | None, source: object, depth: int) -> str:
    if "/" in fact:
        return "text"
    own = let.get_branch(fact) if let else None
    if own is not None:
        return kind_of(own, let, source, depth + 1) if depth < len(let.members if let else ()) else ""
    try:
        found = source_kinds.get_word_type(get_source_kind(source), fact)
    except (source_kinds.UnknownWordError, PatternError, KeyError):
        return ""
    return f"list of {found.kind.value}" if found.is_list else found.kind.value


def _what(word: Branch) -> str:
    verb = word.verbs[0] if word.verbs else ""
    what = text_of(word, verb)
    of = text_of(word, "of")
    both = _and(word.get_leaf(verb))
    said = {
        "read": f"what {what} says",
        "first_of": f"the first there is of {what}",
        "read_all": f"all that {what} say",
        "names_of": f"the names of {what}",
        "name_of": f"the name of {what}",
        "field": f'the field "{what}" of {of}',
        "take": f"the piece {what} of {of}",
        "text": f"the text {what}",
        "kfd_address": f"the PCI address of {both}",
        "bits": f"bits {both} of {of}",
        "base64url": f"the bytes of {both} in base64url",
        "place_in": f"the place of {of} in {what}, from 0",
        "probe": f"what the probe {what} says of {text_of(word, 'field')}",
        "holds": f"whether {clause(word.get_branch('holds'))}",
    }.get(verb, "not said")
    if verb == "by":
        return f"by {what}: {_map(word)}{_absent(word, what)}"
    other = word.get_leaf("else")
    return f"{said}, else {value(other.value)}" if other else f"{said}{_absent(word, '')}"


def _absent(word: Branch, what: str) -> str:
    leaf = word.get_leaf("if_absent")
    return f", {value(leaf.value)} without {what or 'that'}" if leaf else ""


def _map(word: Branch) -> str:
    """A map by its first lines, and all that a later file added."""
    members = (word.get_branch("map") or Branch({}, word.spot)).members
    rows = [(key, leaf) for key, leaf in members.items() if isinstance(leaf, Leaf)]
    shown = [
        f"{key} is {value(leaf.value)}"
        if index < _SHOWN or leaf.spot.document.name != rows[0][1].spot.document.name
        else ""
        for index, (key, leaf) in enumerate(rows)
    ]
    said: list[str] = []
    for row in shown:
        if row or said[-1:] != ["…"]:
            said.append(row or "…")
    other = word.get_leaf("else")
    return ", ".join([*said, *([f"else {value(other.value)}"] if other else [])]) or "(told by the entry)"


def _by(cost: Branch) -> str:
    """A number by a word."""
    rows = (cost.get_branch("map") or Branch({}, cost.spot)).members.items()
    by = text_of(cost, "by")
    said = [f"{value(leaf.value)} if {by} is {key}" for key, leaf in rows if isinstance(leaf, Leaf)]
    other = cost.get_leaf("else")
    return ", ".join([*said, *([f"else {value(other.value)}"] if other else [])])


def _one(member: Branch) -> str:
    source = member.get_leaf("source")
    if source is not None:
        return devices(source.value)
    if (resource := member.get_leaf("resource")) is not None:
        return f"device of {value(resource.value)}"
    return text_of(member, "dir") or text_of(member, "class") or "device"


def _pairs(leaf: Leaf | None) -> list[tuple[str, object]]:
    return list(leaf.value.items()) if leaf and isinstance(leaf.value, dict) else []


def _and(leaf: Leaf | None) -> str:
    return listed(leaf.value, " and ") if leaf else ""
