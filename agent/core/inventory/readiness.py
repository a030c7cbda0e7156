"""Readiness: why a candidate is not listed yet. A listed device turns Unhealthy for the same reason."""

from __future__ import annotations

from collections.abc import Iterable

from agent.core.entry.partner_checks import PartnerChecks
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.language.clause import Clause, FailedLine, Statement
from agent.core.language.logic import PLAIN, Knowledge
from agent.core.language.safe_text import shorten

_MAX_FACTS_LENGTH = 100  # characters


def find_failed_precondition(spec: ResourceSpec | PartnerChecks, facts: Knowledge) -> str:
    """Return which precondition of the entry does not match, or an empty string. `facts` are those of the host."""
    for clause in spec.gate:
        failed = clause.find_failed_line(facts)
        if failed is not None:
            return f"waits for {_format_failed_line(failed)}"
    return ""


def find_not_ready_reason(wait: Iterable[Clause], facts: Knowledge) -> str:
    """Return which not-ready condition matches, or can match once all facts are known.

    The result is empty if there is none.
    """
    for clause in wait:
        failed = clause.find_failed_line(facts)
        if failed is None and clause.lines:
            failed = _make_failed_line(clause.lines[0], facts)
        elif failed is None or failed.undecided_fact is None:
            continue
        return f"not yet: {_format_failed_line(failed)}"
    return ""


def _make_failed_line(statement: Statement, facts: Knowledge) -> FailedLine:
    return FailedLine(statement, statement.format_facts(facts, PLAIN))


def _format_failed_line(failed: FailedLine) -> str:
    facts_text = shorten(failed.facts_text, _MAX_FACTS_LENGTH)
    return f"{failed.statement.address} = {failed.statement.source_text}, here {facts_text}"
