"""Counter values since the start of the agent."""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.struct import Struct, field


class Distribution(Struct):
    """Numbers of measurements between two bounds. The counts are not cumulative, and the last count has no upper
    bound.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


class CounterValues(Struct):
    """All counter values. The keys are the resource and the result or new state.

    list_bytes: size of the last list.
    change_times: seconds from an event until the last stream has the list.
    look_times: seconds of a look.
    call_times: seconds of a gRPC call, by method.
    check_results: check results of all looks, by check name and result.
    blips: by resource, devices that left and came back between two looks.
    events: events that started a look, by event source.
    overruns: lost events, by event source.
    event_sources_up: whether an event source delivers events, by event source.
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
