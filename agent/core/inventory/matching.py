"""Match one entry with one host device: first `exclude`, then `match`, then `group.parts`."""

from __future__ import annotations

from agent.core.entry.group import Grouping
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.language.clause import ClauseLine, FailedLine, Origin, format_fact
from agent.core.language.logic import CAREFUL, Knowledge
from agent.core.language.value import Absent, Value
from agent.core.struct import Struct


class Mismatch(Struct):
    """The first clause line that excludes a device from an entry: address, source text, and facts.

    is_undecided: the line depends on a pending fact. Until the fact is known, no later entry gets the device.
    """

    resource: str
    address: str
    source_text: str
    facts_text: str
    origin: Origin
    is_undecided: bool = False


def match_entry(spec: ResourceSpec, facts: Knowledge) -> Mismatch | None:
    """Return the first mismatch of an entry for the device with these facts, or None if the entry takes the device."""
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
    """Return the name in `group.parts` of a device, and the mismatch if no name matches.

    The name is empty if the entry has no parts. While a group key is pending, the match is undecided.
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
    """Build the mismatch for a line that needs only the value of its word."""
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
