"""The check kind `holds`: a clause that must match."""

from __future__ import annotations

from typing import ClassVar

from agent.core.entry.check import (
    REASON_LIMIT,
    Check,
    CheckResult,
    CheckVerdict,
    Criterion,
    OnUnknown,
    UnknownCause,
    format_parts,
)
from agent.core.entry.query import QueryFacts
from agent.core.language.clause import Clause, FailedLine
from agent.core.language.logic import THREE_VALUED
from agent.core.language.safe_text import shorten
from agent.core.language.template import FactReader


class ClauseCheck(Criterion):
    """A clause that must match."""

    can_read_in_pod: ClassVar[bool] = True

    clause: Clause

    def list_clauses(self) -> tuple[Clause, ...]:
        """Return the clause."""
        return (self.clause,)

    def evaluate(self, check: Check, facts: QueryFacts) -> CheckResult:
        """Return the result of the clause. The reason names the first line that does not match."""
        failed_line = self.clause.find_failed_line(facts, THREE_VALUED)
        if failed_line is None:
            return CheckResult(CheckVerdict.PASS)
        if failed_line.undecided_fact is not None and check.on_unknown is not OnUnknown.UNHEALTHY:
            return check.make_unknown_result("")
        cause = None if failed_line.undecided_fact is None else UnknownCause.UNKNOWN
        reason = shorten(self._format_failed_line(check, failed_line, facts), REASON_LIMIT)
        return CheckResult(CheckVerdict.FAIL, reason, unknown_cause=cause)

    def _format_failed_line(self, check: Check, failed_line: FailedLine, facts: FactReader) -> str:
        if check.reason is None:
            statement = failed_line.statement
            address = statement.address.removeprefix(f"{self.clause.name}.")
            return f"{address} = {statement.source_text}, here {failed_line.facts_text}"
        text = format_parts(check.reason.pieces, facts)
        return f"{text} ({failed_line.undecided_fact.reason})" if failed_line.undecided_fact is not None else text
