"""The lines of a clause: flattened relations, with one address for each tested fact."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent.config.language.key_table import EITHER, OPERATORS
from agent.config.language.path_rule import suggest_path
from agent.config.merge.config_tree import ALTERNATIVES, KEEPING_OUT, Branch, Leaf, Node, RemovedValue
from agent.config.toml.file_position import FilePosition
from agent.config.toml.finding import Finding
from agent.core.struct import replace

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


def flatten_clause(
    spot: FilePosition, table: Mapping[str, object], findings: list[Finding], *, keeps_out: bool = False
) -> Branch:
    """Return the lines of a table as leaves by address: `pf = { driver = "ice" }` becomes `pf.driver`.

    `pf` itself is another fact. The alternatives of `either` are a branch of clauses under that name.
    keeps_out: the clause excludes devices while it matches, so alternatives of another file join its own.
    """
    members: dict[str, Node] = {}
    _flatten(spot, table, "", members, findings, keeps_out=keeps_out)
    return Branch(members, spot, KEEPING_OUT if keeps_out else "")


def flatten_clauses(
    spot: FilePosition, value: object, write: str, findings: list[Finding], *, keeps_out: bool = False
) -> Branch | None:
    """Return the named clauses of a table, or None with a finding. `write` corrects a value that is no clause."""
    if not isinstance(value, dict):
        findings.append(make_no_table_error(spot, write))
        return None
    members: dict[str, Node] = {}
    for name, value_of_name in list_named_members(spot, value, findings):
        member_spot = spot.get_child(name)
        if value_of_name is False:
            members[name] = RemovedValue(member_spot)
        elif isinstance(value_of_name, dict):
            members[name] = flatten_clause(member_spot, value_of_name, findings, keeps_out=keeps_out)
        else:
            findings.append(make_no_table_error(member_spot, write))
    return Branch(members, spot)


def list_named_members(
    spot: FilePosition, table: Mapping[str, object], findings: list[Finding]
) -> list[tuple[str, object]]:
    """Return the members of a table whose keys are names. A key that is no name becomes a finding."""
    for name in table:
        if not _NAME.fullmatch(name):
            is_variable = "{" in name and spot.path[-1] in {"env", "annotations"}
            write = f'write NAME = {{ name = "{name}", value = "…" }}' if is_variable else "write for example my-part"
            findings.append(
                spot.get_child(name).make_error("type", "a name is letters, digits, _ and -", write, mark="key")
            )
    return [(name, member) for name, member in table.items() if _NAME.fullmatch(name)]


def flatten_pairs(spot: FilePosition, table: Mapping[str, object], findings: list[Finding]) -> dict[str, object]:
    """Return words with their values: `{ pci.address = "x" }` becomes `pci.address`."""
    word_pairs: dict[str, object] = {}
    _flatten_pairs(spot, table, "", word_pairs, findings)
    return word_pairs


def make_no_table_error(spot: FilePosition, write: str = "") -> Finding:
    """Return the finding that this value must be a table."""
    return spot.make_error("type", f"{spot.path[-1]} is a table", write or f"write {spot.path[-1]} = {{ … }}")


def _flatten(
    spot: FilePosition,
    table: Mapping[str, object],
    prefix: str,
    members: dict[str, Node],
    findings: list[Finding],
    *,
    keeps_out: bool,
) -> None:
    for key, value in table.items():
        key_spot = spot.get_child(key)
        if key == EITHER and not prefix:
            write = "each alternative has a name: either.NAME = { … }"
            alternatives = flatten_clauses(key_spot, value, write, findings, keeps_out=keeps_out)
            if alternatives is not None:
                members[EITHER] = alternatives if keeps_out else replace(alternatives, place=ALTERNATIVES)
            continue
        if key == EITHER or (key in OPERATORS and not prefix):
            findings.append(_make_misplaced_error(key_spot, key))
            continue
        address = _make_address(key_spot, key, prefix, findings)
        if address is None:
            continue
        test = _select_operators(key_spot, value, findings) if isinstance(value, dict) else value
        if isinstance(value, dict) and not test:
            if value and not _is_path(key):
                _flatten(key_spot, value, address, members, findings, keeps_out=keeps_out)
            else:
                findings.append(key_spot.make_error("type", "a test is missing here", 'write for example = "x"'))
        elif address in members:
            findings.append(
                key_spot.make_error("type", f"{address} is tested twice here", "make one of both", mark="key")
            )
        else:
            members[address] = Leaf(test, key_spot)


def _flatten_pairs(
    spot: FilePosition, table: Mapping[str, object], prefix: str, word_pairs: dict[str, object], findings: list[Finding]
) -> None:
    for key, value in table.items():
        key_spot = spot.get_child(key)
        address = _make_address(key_spot, key, prefix, findings)
        if address is None:
            continue
        if isinstance(value, dict):
            _flatten_pairs(key_spot, value, address, word_pairs, findings)
        elif not isinstance(value, str) or not value:
            findings.append(key_spot.make_error("type", "a word of ours stands here", 'write THEIRS = "ours"'))
        elif address in word_pairs:
            findings.append(
                key_spot.make_error("type", f"{address} is said twice here", "leave one of them out", mark="key")
            )
        else:
            word_pairs[address] = value


def _select_operators(spot: FilePosition, table: Mapping[str, object], findings: list[Finding]) -> Mapping[str, object]:
    """Return the test of a table. It is empty for a relation. A mixture of operators and words is a finding."""
    operators = {key: value for key, value in table.items() if key in OPERATORS}
    words = [key for key in table if key not in OPERATORS]
    if operators and words:
        message = f"a table holds operators ({next(iter(operators))}) or words ({words[0]}), never both"
        write = f"write {spot.path[-1]}.{words[0]} = … on a line of its own"
        findings.append(spot.get_child(words[0]).make_error("type", message, write, mark="key"))
    return operators


def _make_address(spot: FilePosition, key: str, prefix: str, findings: list[Finding]) -> str | None:
    """Return the word or path of a key below a relation, or None with a finding."""
    if _is_path(key):
        return _normalize_path(spot, key, prefix, findings)
    if "." in key or not key:
        write = f"write {key}, without quotes" if key else ""
        message = "in quotes this is one name, and no word has a dot in its name"
        findings.append(spot.make_error("type", message, write, mark="key"))
        return None
    return f"{prefix}.{key}" if prefix else key


def _normalize_path(spot: FilePosition, key: str, prefix: str, findings: list[Finding]) -> str | None:
    """Return a path without `.` steps. A `..` step stays, because it follows links."""
    steps = [step for step in key.split("/") if step not in {"", "."}]
    if key.startswith("/"):
        if prefix:
            message = f"this path begins at the root, so it is none of {prefix}"
            findings.append(spot.make_error("path", message, "write it outside", mark="key"))
            return None
        if ".." in steps:
            message = 'a path from the root has no ".." in it'
            findings.append(spot.make_error("path", message, suggest_path(key), mark="key"))
            return None
        return f"/{'/'.join(steps)}"
    if prefix:
        return f"{prefix}/{'/'.join(steps)}"
    return f"./{'/'.join(steps)}" if key.startswith("./") else "/".join(steps)


def _is_path(key: str) -> bool:
    return "/" in key


def _make_misplaced_error(spot: FilePosition, key: str) -> Finding:
    if key == EITHER:
        message = "either stands by itself, not in a relation"
        return spot.make_error("type", message, "write the relation in each alternative", mark="key")
    write = f"write WORD = {{ {key} = … }}"
    return spot.make_error("type", f"{key} is an operator: it stands behind a word", write, mark="key")
