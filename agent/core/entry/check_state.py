"""The state of a check: whether it fails, and what it remembers from earlier looks."""

from __future__ import annotations

from math import inf

from agent.core.struct import Struct, ignore_in_comparison


@ignore_in_comparison("changed_at", "evidence")
class CheckState(Struct):
    """The state of one check of one device.

    reason: the reason of the result that made the check fail. Later results do not change the reason.
    since: monotonic seconds at which the row of opposite results began; None if the last result was not opposite.
    look_count, counted_at: the number of counted looks of this row, and the time of the last one.
    query_number: the query of the last counted look.
    count, recent_growth: the last counter value, and the growth that can still matter as (time, amount).
    failing_as_unknown: the check fails only because the counter or the kernel log cannot be read.
    latched: a kernel log line made the check fail until an administrator clears it.
    cleared_line: the number of the last cleared kernel log line.
    never_healthy: the check has not passed since the device appeared. One passing look makes it healthy.
    changed_at: monotonic seconds at which the check failed or recovered; None if the check never changed.
    evidence: the kernel log line that made the check fail.
    """

    failing: bool = False
    reason: str = ""
    since: float | None = None
    look_count: int = 0
    counted_at: float = -inf
    query_number: int | None = None
    count: int | None = None
    recent_growth: tuple[tuple[float, int], ...] = ()
    failing_as_unknown: bool = False
    latched: bool = False
    cleared_line: int = -1
    never_healthy: bool = False
    changed_at: float | None = None
    evidence: str = ""


HEALTHY = CheckState()
NEW = CheckState(never_healthy=True)  # before the first result
