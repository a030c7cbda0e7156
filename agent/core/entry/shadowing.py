"""Shadowing: an earlier entry that takes all devices of a later entry."""

from __future__ import annotations

from agent.core.entry.dependencies import add_dependencies
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.language.implies import clause_implies


def shadows(earlier: ResourceSpec, later: ResourceSpec) -> bool:
    """Return whether the earlier entry takes every device that the later entry could take. Only the selectors
    decide, because an entry keeps what it takes.

    Entries with `slots` take nothing from others. Entries with `group.parts` leave host devices that are not
    members.
    """
    if earlier.source != later.source or earlier.slots is not None or later.slots is not None:
        return False
    if earlier.group is not None and earlier.group.member_clauses:
        return False
    if not clause_implies(later.match, earlier.match):
        return False
    # The later entry can take what the earlier one excludes, unless the later one also excludes it.
    is_excluded = all(
        any(clause_implies(clause, later_clause) for later_clause in later.exclude) for clause in earlier.exclude
    )
    return is_excluded and _has_same_words(earlier, later)


def _has_same_words(earlier: ResourceSpec, later: ResourceSpec) -> bool:
    """Return whether the words in the selectors of the earlier entry mean the same in the later entry."""
    clause_words = {line.word for clause in (earlier.match, *earlier.exclude) for line in clause.walk_lines()}
    return add_dependencies(clause_words, earlier.derived_words) == add_dependencies(clause_words, later.derived_words)
