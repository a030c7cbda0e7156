"""Clauses: tables of lines that must all match. Each line applies one test to one word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from agent.core.language.logic import NO_FACTS, PLAIN, Knowledge, Logic, Verdict, combine_and, combine_or
from agent.core.language.operators import AllTests, AnyTest, Not, Quantifier, RelationItems, Test
from agent.core.language.value import Absent, Value, ValueType, format_scalar
from agent.core.struct import Struct, ignore_in_comparison

_TEXT_LIMIT = 3  # things or alternatives in one explanation


class Origin(Struct):
    """The source of a value: a file relative to the configuration, with line and column from 1."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        """Return `file:line`."""
        return f"{self.file}:{self.line}"


@ignore_in_comparison("address", "source_text", "origin")
class ClauseLine(Struct):
    """One line of a clause: a word or path as written, its value type, its test and its origin.

    `address` is the name of the line in errors and explanations. `source_text` is the test as written in the file.
    Lines with the same meaning are equal.
    """

    address: str
    word: str
    kind: ValueType
    test: Test
    source_text: str
    origin: Origin

    @property
    def is_plain(self) -> bool:
        """Return whether the value of its word alone decides the line."""
        return not any(find_relation_tests(self.test))

    def evaluate_value(self, value: Value | Absent, logic: Logic) -> Verdict:
        """Return the verdict for one value of the word. Only for a line with `is_plain`."""
        return self.test.evaluate(self.kind, value, NO_FACTS, logic)

    def evaluate(self, facts: Knowledge, logic: Logic) -> Verdict:
        """Return the verdict of the line for one thing."""
        return self.test.evaluate(self.kind, facts(self.word), facts, logic)

    def read_values(self, facts: Knowledge) -> Iterator[Value | Absent]:
        """Yield every value that the line reads for one thing."""
        yield facts(self.word)
        for test in find_relation_tests(self.test):
            things = facts.follow_relation(test.word)
            if isinstance(things, Absent):
                yield things
            elif isinstance(test.clause, Clause):
                for thing in things:
                    yield from test.clause.read_values(thing)

    def format_facts(self, facts: Knowledge, logic: Logic) -> str:
        """Return the values that the line read, as text for an explanation."""
        value = facts(self.word)
        for test in find_relation_tests(self.test):
            things = facts.follow_relation(test.word)
            if not isinstance(things, Absent) and things:
                return _join_texts(list(_list_deciding_things(test, things, value, logic)))
        return format_fact(value)


@ignore_in_comparison("address", "source_text", "origin")
class EitherLine(Struct):
    """A line with several alternatives, `either = { NAME = clause, … }`: at least one must match."""

    address: str
    alternatives: tuple[Clause, ...]
    source_text: str
    origin: Origin

    def evaluate(self, facts: Knowledge, logic: Logic) -> Verdict:
        """Return the verdict of the line for one thing."""
        return combine_or(alternative.evaluate(facts, logic) for alternative in self.alternatives)

    def read_values(self, facts: Knowledge) -> Iterator[Value | Absent]:
        """Yield every value that the alternatives read for one thing."""
        for alternative in self.alternatives:
            yield from alternative.read_values(facts)

    def format_facts(self, facts: Knowledge, logic: Logic) -> str:
        """Return the names of the alternatives that match. If none matches, return the failed line of each."""
        matching_names = [
            alternative.name.rpartition(".")[2]
            for alternative in self.alternatives
            if alternative.evaluate(facts, logic)
        ]
        if matching_names:
            return _join_texts(matching_names)
        failed_lines = (
            (alternative.name.rpartition(".")[2], alternative.find_failed_line(facts, logic))
            for alternative in self.alternatives
        )
        return _join_texts([f"{name}: {_format_failed_line(failed)}" for name, failed in failed_lines if failed])


Statement: TypeAlias = ClauseLine | EitherLine


class FailedLine(NamedTuple):
    """The line that does not match or is undecided, with the values that it read, as text.

    undecided_fact: the absent fact that leaves the line undecided. None if the line does not match.
    """

    statement: Statement
    facts_text: str
    undecided_fact: Absent | None = None


@ignore_in_comparison("name", "origin")
class Clause(Struct):
    """A named clause. All its `lines` must match. Clauses with the same meaning are equal, whatever their names."""

    name: str
    lines: tuple[Statement, ...]
    origin: Origin

    def evaluate(self, facts: Knowledge, logic: Logic) -> Verdict:
        """Return the verdict of the clause for one thing."""
        return combine_and(line.evaluate(facts, logic) for line in self.lines)

    def find_failed_line(self, facts: Knowledge, logic: Logic = PLAIN) -> FailedLine | None:
        """Return the first line that does not match, or the first undecided line. Return None if the clause matches."""
        undecided: Statement | None = None
        for line in self.lines:
            verdict = line.evaluate(facts, logic)
            if verdict is False:
                return FailedLine(line, line.format_facts(facts, logic))
            if verdict is None:
                undecided = undecided or line
        if undecided is None:
            return None
        return FailedLine(
            undecided, undecided.format_facts(facts, logic), _find_undecided_fact(undecided, facts, logic)
        )

    def walk_lines(self) -> Iterator[ClauseLine]:
        """Yield all its lines, with the lines of alternatives."""
        for statement in self.lines:
            if isinstance(statement, ClauseLine):
                yield statement
            else:
                for alternative in statement.alternatives:
                    yield from alternative.walk_lines()

    def read_values(self, facts: Knowledge) -> Iterator[Value | Absent]:
        """Yield every value that the clause reads for one thing."""
        for line in self.lines:
            yield from line.read_values(facts)


def format_fact(value: Value | Absent) -> str:
    """Return a value or the reason of its absence, as text for an explanation."""
    if isinstance(value, Absent):
        return f"absent ({value.reason})"
    if isinstance(value, tuple):
        return ", ".join(format_scalar(item) for item in value) or "empty"
    return format_scalar(value)


def _find_undecided_fact(statement: Statement, facts: Knowledge, logic: Logic) -> Absent:
    """Return the absent fact that leaves a line undecided. Pending facts have priority."""
    absent = [
        read for read in statement.read_values(facts) if isinstance(read, Absent) and logic.is_value_undecided(read)
    ]
    return next((read for read in absent if read.pending), absent[0])


def find_relation_tests(test: Test) -> Iterator[RelationItems]:
    """Yield the parts of a test that are clauses on the items of a list relation."""
    match test:
        case RelationItems():
            yield test
        case Not(inner_test):
            yield from find_relation_tests(inner_test)
        case AnyTest(tests) | AllTests(tests):
            for inner_test in tests:
                yield from find_relation_tests(inner_test)


def _list_deciding_things(
    test: RelationItems, things: tuple[Knowledge, ...], names: Value | Absent, logic: Logic
) -> Iterator[str]:
    """Yield the things that decide a test of a list relation.

    If the test passes, these are the things that match its clause, else the others with their failed lines.
    """
    verdicts = [test.clause.evaluate(thing, logic) for thing in things]
    is_match = any(verdicts) and (test.quantifier is not Quantifier.EVERY or all(verdicts))
    has_names = isinstance(names, tuple) and len(names) == len(things)
    for number, (thing, verdict) in enumerate(zip(things, verdicts, strict=True)):
        name = format_scalar(names[number]) if has_names and isinstance(names, tuple) else f"{number + 1}"
        if is_match and verdict:
            yield name
        elif (
            not is_match and isinstance(test.clause, Clause) and (failed := test.clause.find_failed_line(thing, logic))
        ):
            yield f"{name}: {_format_failed_line(failed)}"


def _format_failed_line(failed: FailedLine) -> str:
    if isinstance(failed.statement, EitherLine):
        return failed.facts_text
    return f"{failed.statement.word} is {failed.facts_text}"


def _join_texts(texts: list[str]) -> str:
    hidden_count = len(texts) - _TEXT_LIMIT
    return "; ".join(texts[:_TEXT_LIMIT]) + (f"; and {hidden_count} more" if hidden_count > 0 else "")
