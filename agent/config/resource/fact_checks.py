"""The check kinds that read facts at each look: a clause (`holds`) and a counter (`rises`)."""

from __future__ import annotations

from agent.config.clauses.clause import compile_clause, refuse_empty
from agent.config.merge.config_tree import Leaf
from agent.config.resource.check_syntax import CheckSource, CheckSyntax
from agent.config.scope import ANYTHING, Scope
from agent.core.entry.clause_check import ClauseCheck
from agent.core.entry.counter_check import CounterCheck
from agent.core.language.value import ValueType


def _compile_counter(source: CheckSource) -> tuple[CounterCheck | None, Scope]:
    """Return the counter check, or None. A word that is not a counter is reported."""
    leaf, scope = source.branch.get_leaf("rises"), source.scope
    return (_compile_counter_word(leaf, scope) if leaf else None), scope


def _compile_counter_word(leaf: Leaf, scope: Scope) -> CounterCheck | None:
    word = str(leaf.value)
    signature = scope.find_single_word(leaf.spot, word)
    if signature is None or signature is ANYTHING:
        return None
    if signature.kind is not ValueType.INT:
        write = f'write let.count = {{ read = "{word}", type = "int" }}, and rises = "count"'
        scope.report_error(
            leaf.spot, "type", f"{word} has the type {signature.kind.value}, and a counter is int", write, mark="text"
        )
        return None
    return CounterCheck(word)


def _compile_clause(source: CheckSource) -> tuple[ClauseCheck | None, Scope]:
    """Return the clause of `holds`, or None. A missing clause is reported."""
    name, branch, scope, _, _ = source
    clause_branch = branch.get_branch("holds")
    if clause_branch is None:
        scope.report_missing(branch, f"health.{name} has no criterion", "write holds = { WORD = … }")
        return None, scope
    message = f"health.{name}.holds is empty, so it always matches"
    refuse_empty(clause_branch, scope, message, "remove it, or write a test")
    return ClauseCheck(compile_clause(f"health.{name}.holds", clause_branch, scope)), scope


CLAUSE_SYNTAX = CheckSyntax(_compile_clause, "{}", is_read_at_looks=True)
COUNTER_SYNTAX = CheckSyntax(_compile_counter, "{} does not grow", is_read_at_looks=True, counts_events=True)
