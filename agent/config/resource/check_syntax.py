"""The interface between `health.NAME` and the check kinds: how the configuration writes a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from agent.config.merge.config_tree import Branch
from agent.config.scope import Scope
from agent.core.entry.check import Criterion, LookThreshold


class CheckSource(NamedTuple):
    """One `health.NAME` table that is compiled, with the settings that a criterion can use."""

    name: str
    branch: Branch
    scope: Scope
    interval: float | None
    recovery_threshold: LookThreshold | None


class CheckSyntax(NamedTuple):
    """How the configuration writes one check kind.

    compile: returns the criterion, and the scope of the reason. The criterion is None if there are findings.
    description: the sentence of `explain` and of the class pages. The braces stand for the value of the verb.
    own_keys: the keys that not every kind has. The values are their texts, in the order of the sentence.
    is_read_at_looks: the kind reads facts at each look. Otherwise an answer or a line comes between looks.
    counts_events: `trip` can be a number of events in a window. By default only an administrator clears the failure.
    """

    compile: Callable[[CheckSource], tuple[Criterion | None, Scope]]
    description: str
    own_keys: Mapping[str, str] = MappingProxyType({})
    is_read_at_looks: bool = False
    counts_events: bool = False
