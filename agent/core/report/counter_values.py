"""What was counted since the agent started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agent.core.struct import Struct, field


class Distribution(NamedTuple):
    """How many measurements were at most each bound, in order and not added up, with those above all at the end."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


class CounterValues(Struct):
    """All counts. Keys: the resource, and to what or with which result.

    list_bytes: the size of the list sent last.
    changes: seconds from an event to the list on the last stream. looks, calls: seconds that one took; calls by method.
    checks: what checks said at looks, by name and result.
    blips: how often a device was gone for so short a time that no list says so, by resource.
    events: those that were looked into, overruns: how often some were lost, heard: whether they come; by who tells of
        them.
    """

    transitions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    registrations: Mapping[tuple[str, str], int] = field(default_factory=dict)
    allocations: Mapping[tuple[str, str], int] = field(default_factory=dict)
    sent_lists: Mapping[str, int] = field(default_factory=dict)
    list_bytes: Mapping[str, int] = field(default_factory=dict)
    events: Mapping[str, int] = field(default_factory=dict)
    change_times: Distribution | None = None
    look_times: Distribution | None = None
    call_times: Mapping[str, Distribution] = field(default_factory=dict)
    check_results: Mapping[tuple[str, str], int] = field(default_factory=dict)
    overruns: Mapping[str, int] = field(default_factory=dict)
    event_sources_up: Mapping[str, bool] = field(default_factory=dict)
    blips: Mapping[str, int] = field(default_factory=dict)
