"""Clauses and tests in English: `{ like = "sfc*" }` of `driver` is "driver is like sfc*"."""

from __future__ import annotations

from collections.abc import Mapping

from agent.config.describe.description_clause import format_list, format_value
from agent.config.language.key_table import OPERATORS
from agent.config.merge.config_tree import Branch, Conflict, Leaf, Node, RemovedValue
from agent.core.struct import replace

_IS = {"like": "like", "in": "in", "at_least": "at least", "at_most": "at most", "above": "above", "below": "below"}
_DOES = {"matching": "matches", "contains": "contains", "has": "has", "has_all": "has all of", "has_any": "has any of"}
_OF = {"any": "one", "every": "every one", "none": "none"}


def describe_clause(branch: Branch | None) -> str:
    """Return all lines of a clause as one text."""
    return " and ".join(describe_line(address, branch) for address in branch.members) if branch else ""


def describe_line(address: str, branch: Branch) -> str:
    """Return the text of one line of a clause. The alternatives of `either` are also one line."""
    leaf = branch.get_leaf(address)
    if leaf is not None:
        return describe_test(address, leaf.value)
    either = branch.get_branch(address)
    alternatives = [describe_clause(member) for _, member in either.list_branches()] if either else []
    return f"either {', or '.join(alternatives) or 'nothing'}"


def describe_test(subject: str, test: object) -> str:
    """Return the text of a test with its subject."""
    if isinstance(test, dict):
        return (
            " and ".join(_describe_operator(subject, name, operand) for name, operand in test.items())
            or f"{subject} is so"
        )
    return f"{subject} is {shorten_test(test)}"


def shorten_test(test: object) -> str:
    """Return the text of a test without its subject."""
    if isinstance(test, dict):
        text = describe_test("\0", test)
        return text.replace("\0 is ", "").replace("of \0 ", "").replace("\0 ", "")
    if isinstance(test, list):
        return " or ".join(map(shorten_test, test)) or "nothing"
    return format_value(test)


def _describe_operator(subject: str, name: str, operand: object) -> str:
    match name:
        case "exists":
            return f"{subject} is {'there' if operand is True else 'absent'}"
        case "not":
            inner_text = describe_test(subject, operand)
            plain = f"{subject} is "
            if inner_text.startswith(plain) and " and " not in inner_text:
                return f"{subject} is not {inner_text.removeprefix(plain)}"
            return f"it is not so that {inner_text}"
        case "count":
            return f"the number of {subject} is {shorten_test(operand)}"
        case "like":
            return f"{subject} is like {format_list(operand, ' or ')}"
    if name in _OF:
        return f"{_OF[name]} of {subject} {_describe_element_test(operand)}"
    if name in _IS:
        return f"{subject} is {_IS[name]} {format_list(operand)}"
    return f"{subject} {_DOES.get(name, name)} {format_list(operand)}"


def _describe_element_test(test: object) -> str:
    """Return the text of a test of list elements. An element with words of its own has a clause."""
    if not isinstance(test, dict) or all(key in OPERATORS for key in test):
        return f"is {shorten_test(test)}"
    lines = _flatten(test)
    if all(not isinstance(operand, (dict, list)) for _, operand in lines):
        return f"has {' and '.join(f'{word} {format_value(operand)}' for word, operand in lines)}"
    return f"is one whose {' and '.join(describe_test(word, operand) for word, operand in lines)}"


def _flatten(table: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    lines: list[tuple[str, object]] = []
    for key, item in table.items():
        word = f"{prefix}.{key}" if prefix else key
        if isinstance(item, dict) and item and not any(name in OPERATORS for name in item):
            lines += _flatten(item, word)
        else:
            lines.append((word, item))
    return lines


def split_added_lines(branch: Branch) -> tuple[Branch, Branch]:
    """Return the lines of the first file of a clause, and the lines that another file added. Replaced tests stay in
    the first part.
    """
    first_files = {name for node in list(branch.members.values())[:1] for name in _list_files(node)}
    added_addresses = {address for address, node in branch.members.items() if first_files.isdisjoint(_list_files(node))}
    first_members = {address: node for address, node in branch.members.items() if address not in added_addresses}
    added_members = {address: node for address, node in branch.members.items() if address in added_addresses}
    return replace(branch, members=first_members), replace(branch, members=added_members)


def _list_files(node: Node) -> set[str]:
    if isinstance(node, Conflict):
        return _list_files(node.first_node)
    spots = (node.spot, *node.replaced_spots) if isinstance(node, (Leaf, RemovedValue)) else (node.spot,)
    return {spot.document.name for spot in spots}
