"""Clauses: lines with typed tests, and `either`."""

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
    """Return a clause with all lines that are valid. `name` is its address (`match`, `exclude.kept`)."""
    lines: list[Statement] = []
    for address, node in branch.members.items():
        if isinstance(node, Branch):
            either_line = _compile_either(f"{name}.{EITHER}", node, scope)
            if either_line is not None:
                lines.append(either_line)
        elif isinstance(node, Leaf):
            line = _compile_line(f"{name}.{address}", address, node, scope)
            if line is not None:
                lines.append(line)
    return Clause(name, tuple(lines), branch.spot.origin)


def refuse_empty(branch: Branch, scope: Scope, message: str, write: str) -> None:
    """Report a clause without any line, because it would match everything."""
    if not branch.members and branch.spot.data == {}:
        scope.report_error(branch.spot, "type", message, write, mark="key")


def _compile_either(name: str, branch: Branch, scope: Scope) -> EitherLine | None:
    """Return the alternatives of an `either`. Without an alternative, report it and return None.

    An `either` without alternatives would match everything.
    """
    alternatives: list[Clause] = []
    for key, member in branch.list_branches():
        message = f"{key} says nothing, so it would always hold"
        refuse_empty(member, scope, message, "take it out, or say what holds")
        alternatives.append(compile_clause(f"{name}.{key}", member, scope))
    spot = branch.spot
    removed_spots = [node.spot for node in branch.members.values() if isinstance(node, RemovedValue)]
    if not alternatives and (removed_spots or spot.data == {}):  # else the faults of the alternatives are reported
        write = f"leave one of them in, or take all of {name.removesuffix(f'.{EITHER}')} out and say it anew"
        scope.report_error(
            removed_spots[-1] if removed_spots else spot, "missing", "this either has no alternative", write, mark="key"
        )
    return EitherLine(name, tuple(alternatives), spot.source_text, spot.origin) if alternatives else None


def _compile_line(name: str, word: str, leaf: Leaf, scope: Scope) -> ClauseLine | None:
    spot = leaf.spot
    signature = scope.find_word(spot, word, "key")
    if signature is None:
        return None

    def compile_inner(inner_spot: FilePosition, table: Mapping[str, object], inner_scope: Scope) -> Clause:
        branch = forms.flatten_clause(inner_spot, table, scope.findings)
        return compile_clause(f"{name}.{inner_spot.path[-1]}", branch, inner_scope)

    test = TestCompiler(word, signature, scope, compile_inner).compile_test(spot, leaf.value)
    if test is None:
        return None
    return ClauseLine(name, word, signature.kind, test, spot.source_text, spot.origin)
