"""Judging: whether one entry takes one host device, first by `exclude`, then by `match`, then by the parts it has."""

from __future__ import annotations

from agent.core.entry.group import Grouping
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.language.clause import ClauseLine, FailedLine, Origin, format_fact
from agent.core.language.logic import CAREFUL, Knowledge
from agent.core.language.value import Absent, Value
from agent.core.struct import Struct


class Mismatch(Struct):
    """The first clause of an entry that turned a device down: its address, where it stands, and what was read.

    undecided: it rests on what is still to come; until then no later entry has the device either.
    """

    resource: str
    address: str
    source_text: str
    facts_text: str
    origin: Origin
    is_undecided: bool = False


def match_entry(spec: ResourceSpec, facts: Knowledge) -> Mismatch | None:
    """The first clause of the entry that turns down the device of which `facts` tell, or none: it takes it."""
    for clause in spec.exclude:
        if not clause.lines:
            continue
        failed = clause.find_failed_line(facts, CAREFUL)
        if failed is None:
            first_line = clause.lines[0]
            return _make_mismatch(spec, FailedLine(first_line, first_line.format_facts(facts, CAREFUL)))
        if failed.undecided_fact is None:
            continue
        if failed.undecided_fact.pending:
            return _make_mismatch(spec, failed)
        return _make_mismatch(
            spec,
            FailedLine(failed.statement, f"could not be read ({failed.undecided_fact.reason}), so it stays excluded"),
        )
    failed = spec.match.find_failed_line(facts)
    if failed is not None:
        return _make_mismatch(spec, failed)
    return None if spec.group is None else find_member_name(spec, spec.group, facts)[1]


def find_member_name(spec: ResourceSpec, group: Grouping, facts: Knowledge) -> tuple[str, Mismatch | None]:
    """Which part a device is, empty where there are none; if it is none of them, the line that it fails by.

    As long as it is not known what it is together with, neither is whether it is the entry's.
    """
    for group_word in group.words:
        value = facts(group_word.word)
        if isinstance(value, Absent) and value.pending:
            return "", Mismatch(
                spec.name, "group.by", group_word.word, format_fact(value), spec.origin, is_undecided=True
            )
    first_mismatch: Mismatch | None = None
    for name, clause in group.member_clauses.items():
        failed = clause.find_failed_line(facts)
        if failed is None:
            return name, None
        mismatch = _make_mismatch(spec, failed)
        if mismatch.is_undecided:
            return "", mismatch
        first_mismatch = first_mismatch or mismatch
    return "", first_mismatch


def make_mismatch(spec: ResourceSpec, line: ClauseLine, value: Value | Absent) -> Mismatch:
    """That the entry turns a device down by a line that only asks for the value of its word."""
    return _make_mismatch(spec, FailedLine(line, format_fact(value)))


def _make_mismatch(spec: ResourceSpec, failed: FailedLine) -> Mismatch:
    line = failed.statement
    return Mismatch(
        spec.name,
        line.address,
        line.source_text,
        failed.facts_text,
        line.origin,
        failed.undecided_fact is not None,
    )
