"""Clauses: the one form of condition. A table of lines that must all hold; each line puts a test to one word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from agent.core.language.logic import NO_FACTS, PLAIN, Knowledge, Logic, Verdict, combine_and, combine_or
from agent.core.language.operators import AllTests, AnyTest, Not, Quantifier, RelationItems, Test
from agent.core.language.value import Absent, Value, ValueType, format_scalar
from agent.core.struct import Struct, not_compared

_SHOWN = 3  # things or alternatives that an explanation tells of


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
        for many in find_relation_tests(self.test):
            things = facts.follow_relation(many.word)
            if isinstance(things, Absent):
                yield things
            elif isinstance(many.clause, Clause):
                for thing in things:
                    yield from many.clause.read_values(thing)

    def format_facts(self, facts: Knowledge, logic: Logic) -> str:
        """What was read, in the words of an explanation."""
        value = facts(self.word)
        for many in find_relation_tests(self.test):
            things = facts.follow_relation(many.word)
            if not isinstance(things, Absent) and things:
                return _told(list(_each(many, things, value, logic)))
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
        held = [one.name.rpartition(".")[2] for one in self.alternatives if one.evaluate(facts, logic)]
        if held:
            return _told(held)
        failing = ((one.name.rpartition(".")[2], one.find_failed_line(facts, logic)) for one in self.alternatives)
        return _told([f"{name}: {_by(failed)}" for name, failed in failing if failed])


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
        return FailedLine(undecided, undecided.format_facts(facts, logic), _doubt(undecided, facts, logic))

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


def _doubt(statement: Statement, facts: Knowledge, logic: Logic) -> Absent:
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
        case Not(inner):
            yield from find_relation_tests(inner)
        case AnyTest(tests) | AllTests(tests):
            for inner in tests:
                yield from find_relation_tests(inner)


def _each(many: RelationItems, things: tuple[Knowledge, ...], names: Value | Absent, logic: Logic) -> Iterator[str]:
    """The things that decide what is said of a many: those of which the clause holds, else why it does not."""
    verdicts = [many.clause.evaluate(thing, logic) for thing in things]
    holding = any(verdicts) and (many.quantifier is not Quantifier.EVERY or all(verdicts))
    named = isinstance(names, tuple) and len(names) == len(things)
    for number, (thing, verdict) in enumerate(zip(things, verdicts, strict=True)):
        name = format_scalar(names[number]) if named and isinstance(names, tuple) else f"{number + 1}"
        if holding and verdict:
            yield name
        elif not holding and isinstance(many.clause, Clause) and (failed := many.clause.find_failed_line(thing, logic)):
            yield f"{name}: {_by(failed)}"


def _by(failed: FailedLine) -> str:
    if isinstance(failed.statement, EitherLine):
        return failed.facts_text
    return f"{failed.statement.word} is {failed.facts_text}"


def _told(texts: list[str]) -> str:
    more = len(texts) - _SHOWN
    return "; ".join(texts[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
