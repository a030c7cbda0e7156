"""Clauses: the lines of a condition as typed tests, and `either`."""

from __future__ import annotations

from collections.abc import Mapping

from agent.config.clauses.operators import TestCompiler
from agent.config.language.key_table import EITHER
from agent.config.merge import clause_lines as forms
from agent.config.merge.config_tree import Branch, Leaf, RemovedValue
from agent.config.scope import Scope
from agent.config.toml.file_position import FilePosition
from agent.core.language.clause import Clause, ClauseLine, EitherLine, Statement


def compile_clause(name: str, branch: Branch, scope: Scope) -> Clause:
    """A clause with the lines that could be compiled; `name` is its address (`match`, `exclude.kept`)."""
    lines: list[Statement] = []
    for address, node in branch.members.items():
        if isinstance(node, Branch):
            either = _either(f"{name}.{EITHER}", node, scope)
            if either is not None:
                lines.append(either)
        elif isinstance(node, Leaf):
            line = _line(f"{name}.{address}", address, node, scope)
            if line is not None:
                lines.append(line)
    return Clause(name, tuple(lines), branch.spot.origin)


def refuse_empty(branch: Branch, scope: Scope, message: str, write: str) -> None:
    """Report a clause in which nothing was written: it would hold of everything."""
    if not branch.members and branch.spot.data == {}:
        scope.report(branch.spot.make_error("type", message, write, mark="key"))


def _either(name: str, branch: Branch, scope: Scope) -> EitherLine | None:
    """Return the alternatives of an `either`; None if it has none, which is reported: it would hold of everything."""
    alternatives: list[Clause] = []
    for key, member in branch.list_branches():
        message = f"{key} says nothing, so it would always hold"
        refuse_empty(member, scope, message, "take it out, or say what holds")
        alternatives.append(compile_clause(f"{name}.{key}", member, scope))
    spot = branch.spot
    gone = [node.spot for node in branch.members.values() if isinstance(node, RemovedValue)]
    if not alternatives and (gone or spot.data == {}):  # else what is wrong with them was reported
        write = f"leave one of them in, or take all of {name.removesuffix(f'.{EITHER}')} out and say it anew"
        scope.report(
            (gone[-1] if gone else spot).make_error("missing", "this either has no alternative", write, mark="key")
        )
    return EitherLine(name, tuple(alternatives), spot.source_text, spot.origin) if alternatives else None


def _line(name: str, word: str, leaf: Leaf, scope: Scope) -> ClauseLine | None:
    spot = leaf.spot
    known = scope.find_word(spot, word, "key")
    if known is None:
        return None

    def inner(here: FilePosition, table: Mapping[str, object], within: Scope) -> Clause:
        branch = forms.flatten_clause(here, table, scope.findings)
        return compile_clause(f"{name}.{here.path[-1]}", branch, within)

    test = TestCompiler(word, known, scope, inner).compile_test(spot, leaf.value)
    if test is None:
        return None
    return ClauseLine(name, word, known.kind, test, spot.source_text, spot.origin)
