"""Clauses: the one form of condition. A table of lines that must all hold; each line puts a test to one word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from agent.core.language.logic import NO_FACTS, PLAIN, Knowledge, Logic, Verdict, combine_and, combine_or
from agent.core.language.operators import AllTests, AnyTest, Not, Quantifier, RelationItems, Test
from agent.core.language.value import Absent, Value, ValueType, format_scalar
from agent.core.struct import Struct, not_compared

_TEXT_LIMIT = 3  # things or alternatives that an explanation tells of


class Origin(Struct):
    """Where something was written: file relative to the configuration, line and column from 1."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        """`file:line`, as people quote it."""
        return f"{self.file}:{self.line}"


@not_compared("address", "source_text", "origin")
class ClauseLine(Struct):
    """One line of a clause: the word (or path) as written, its kind, the test, and where it stands.

    `address` is its name in errors and explanations, `written` the test as the person wrote it. Lines are equal that
    mean the same.
    """

    address: str
    word: str
    kind: ValueType
    test: Test
    source_text: str
    origin: Origin

    @property
    def is_plain(self) -> bool:
        """Whether the value of its word decides it, and nothing else."""
        return not any(find_relation_tests(self.test))

    def evaluate_value(self, value: Value | Absent, logic: Logic) -> Verdict:
        """Whether the line, which is `plain`, holds of a thing of which its word says this."""
        return self.test.evaluate(self.kind, value, NO_FACTS, logic)

    def evaluate(self, facts: Knowledge, logic: Logic) -> Verdict:
        """Whether the line holds of a thing."""
        return self.test.evaluate(self.kind, facts(self.word), facts, logic)

    def read_values(self, facts: Knowledge) -> Iterator[Value | Absent]:
        """What the line reads of a thing."""
        yield facts(self.word)
        for test in find_relation_tests(self.test):
            things = facts.follow_relation(test.word)
            if isinstance(things, Absent):
                yield things
            elif isinstance(test.clause, Clause):
                for thing in things:
                    yield from test.clause.read_values(thing)

    def format_facts(self, facts: Knowledge, logic: Logic) -> str:
        """What was read, in the words of an explanation."""
        value = facts(self.word)
        for test in find_relation_tests(self.test):
            things = facts.follow_relation(test.word)
            if not isinstance(things, Absent) and things:
                return _join_texts(list(_list_deciding_things(test, things, value, logic)))
        return format_fact(value)


@not_compared("address", "source_text", "origin")
class EitherLine(Struct):
    """`either = { NAME = clause, … }`: at least one of these."""

    address: str
    alternatives: tuple[Clause, ...]
    source_text: str
    origin: Origin

    def evaluate(self, facts: Knowledge, logic: Logic) -> Verdict:
        """Whether one of them holds of a thing."""
        return combine_or(alternative.evaluate(facts, logic) for alternative in self.alternatives)

    def read_values(self, facts: Knowledge) -> Iterator[Value | Absent]:
        """What the alternatives read of a thing."""
        for alternative in self.alternatives:
            yield from alternative.read_values(facts)

    def format_facts(self, facts: Knowledge, logic: Logic) -> str:
        """Which alternatives hold; if none does, what each fails by."""
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
    """The statement that a clause does not hold by, and what was read for it, in words.

    doubt: what leaves it undecided, if nothing else is wrong: absent, and it may be that it holds.
    """

    statement: Statement
    facts_text: str
    undecided_fact: Absent | None = None


@not_compared("name", "origin")
class Clause(Struct):
    """A named clause; `lines` all hold together. Equal clauses say the same, whatever their names."""

    name: str
    lines: tuple[Statement, ...]
    origin: Origin

    def evaluate(self, facts: Knowledge, logic: Logic) -> Verdict:
        """Whether it holds of a thing."""
        return combine_and(line.evaluate(facts, logic) for line in self.lines)

    def find_failed_line(self, facts: Knowledge, logic: Logic = PLAIN) -> FailedLine | None:
        """The first line that does not hold, else the first that is undecided; none if the clause holds."""
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
        """All its lines, those of alternatives among them."""
        for statement in self.lines:
            if isinstance(statement, ClauseLine):
                yield statement
            else:
                for alternative in statement.alternatives:
                    yield from alternative.walk_lines()

    def read_values(self, facts: Knowledge) -> Iterator[Value | Absent]:
        """All that it reads of a thing."""
        for line in self.lines:
            yield from line.read_values(facts)


def format_fact(value: Value | Absent) -> str:
    """A value in the words of an explanation."""
    if isinstance(value, Absent):
        return f"absent ({value.reason})"
    if isinstance(value, tuple):
        return ", ".join(format_scalar(item) for item in value) or "empty"
    return format_scalar(value)


def _find_undecided_fact(statement: Statement, facts: Knowledge, logic: Logic) -> Absent:
    """Why a statement is undecided; what is still to come before what is not there."""
    absent = [
        read for read in statement.read_values(facts) if isinstance(read, Absent) and logic.is_value_undecided(read)
    ]
    return next((read for read in absent if read.pending), absent[0])


def find_relation_tests(test: Test) -> Iterator[RelationItems]:
    """The tests in a test that are clauses on several things."""
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
    """The things that decide what is said of a many: those of which the clause holds, else why it does not."""
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
