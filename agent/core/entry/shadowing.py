"""Shadows: entries that take all that a later one could take."""

from __future__ import annotations

from agent.core.entry.dependencies import add_dependencies
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.language.implies import clause_implies


def shadows(earlier: ResourceSpec, later: ResourceSpec) -> bool:
    """Whether whatever the later one would take, the earlier one takes: nothing that is said of it but its clauses
    counts, for what an entry takes it keeps.

    Entries with `slots` take nothing from others, and those that put parts together leave what is no part.
    """
    if earlier.source != later.source or earlier.slots is not None or later.slots is not None:
        return False
    if earlier.group is not None and earlier.group.member_clauses:
        return False
    if not clause_implies(later.match, earlier.match):
        return False
    # What the earlier one excludes it leaves, unless the later one excludes it, too.
    excluded = all(any(clause_implies(clause, other) for other in later.exclude) for clause in earlier.exclude)
    return excluded and _has_same_words(earlier, later)


def _has_same_words(earlier: ResourceSpec, later: ResourceSpec) -> bool:
    """Whether the words that the earlier one asks mean the same in the later one."""
    clause_words = {line.word for clause in (earlier.match, *earlier.exclude) for line in clause.walk_lines()}
    return add_dependencies(clause_words, earlier.derived_words) == add_dependencies(clause_words, later.derived_words)
