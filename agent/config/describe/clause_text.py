"""Clauses and tests as they are said: `{ like = "sfc*" }` of `driver` is "driver is like sfc*"."""

from __future__ import annotations

from collections.abc import Mapping

from agent.config.describe.description_clause import listed, value
from agent.config.language.key_table import OPERATORS
from agent.config.merge.config_tree import Branch, Conflict, Leaf, Node, RemovedValue
from agent.core.struct import replace

_IS = {"like": "like", "in": "in", "at_least": "at least", "at_most": "at most", "above": "above", "below": "below"}
_DOES = {"matching": "matches", "contains": "contains", "has": "has", "has_all": "has all of", "has_any": "has any of"}
_OF = {"any": "one", "every": "every one", "none": "none"}


def clause(branch: Branch | None) -> str:
    """All lines of a clause, in one."""
    return " and ".join(line(address, branch) for address in branch.members) if branch else ""


def line(address: str, branch: Branch) -> str:
    """One line of a clause; the alternatives of `either` are one as well."""
    leaf = branch.get_leaf(address)
    if leaf is not None:
        return sentence(address, leaf.value)
    either = branch.get_branch(address)
    alternatives = [clause(member) for _, member in either.list_branches()] if either else []
    return f"either {', or '.join(alternatives) or 'nothing'}"


def sentence(subject: str, test: object) -> str:
    """A test, of what it is said of."""
    if isinstance(test, dict):
        return " and ".join(_operator(subject, name, operand) for name, operand in test.items()) or f"{subject} is so"
    return f"{subject} is {short(test)}"


def short(test: object) -> str:
    """A test without what it is said of."""
    if isinstance(test, dict):
        said = sentence("\0", test)
        return said.replace("\0 is ", "").replace("of \0 ", "").replace("\0 ", "")
    if isinstance(test, list):
        return " or ".join(map(short, test)) or "nothing"
    return value(test)


def _operator(subject: str, name: str, operand: object) -> str:
    match name:
        case "exists":
            return f"{subject} is {'there' if operand is True else 'absent'}"
        case "not":
            inner = sentence(subject, operand)
            plain = f"{subject} is "
            if inner.startswith(plain) and " and " not in inner:
                return f"{subject} is not {inner.removeprefix(plain)}"
            return f"it is not so that {inner}"
        case "count":
            return f"the number of {subject} is {short(operand)}"
        case "like":
            return f"{subject} is like {listed(operand, ' or ')}"
    if name in _OF:
        return f"{_OF[name]} of {subject} {_each(operand)}"
    if name in _IS:
        return f"{subject} is {_IS[name]} {listed(operand)}"
    return f"{subject} {_DOES.get(name, name)} {listed(operand)}"


def _each(test: object) -> str:
    """What is so of an element: of a thing with words of its own a clause."""
    if not isinstance(test, dict) or all(key in OPERATORS for key in test):
        return f"is {short(test)}"
    lines = _flat(test)
    if all(not isinstance(inner, (dict, list)) for _, inner in lines):
        return f"has {' and '.join(f'{word} {value(inner)}' for word, inner in lines)}"
    return f"is one whose {' and '.join(sentence(word, inner) for word, inner in lines)}"


def _flat(table: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    lines: list[tuple[str, object]] = []
    for key, inner in table.items():
        word = f"{prefix}.{key}" if prefix else key
        if isinstance(inner, dict) and inner and not any(name in OPERATORS for name in inner):
            lines += _flat(inner, word)
        else:
            lines.append((word, inner))
    return lines


def split(branch: Branch) -> tuple[Branch, Branch]:
    """A clause as it was first written, tests replaced or not; and the lines that another file added to it."""
    known = {name for node in list(branch.members.values())[:1] for name in _files(node)}
    added = {address for address, node in branch.members.items() if known.isdisjoint(_files(node))}
    first = {address: node for address, node in branch.members.items() if address not in added}
    then = {address: node for address, node in branch.members.items() if address in added}
    return replace(branch, members=first), replace(branch, members=then)


def _files(node: Node) -> set[str]:
    if isinstance(node, Conflict):
        return _files(node.first_node)
    spots = (node.spot, *node.replaced_spots) if isinstance(node, (Leaf, RemovedValue)) else (node.spot,)
    return {spot.document.name for spot in spots}
