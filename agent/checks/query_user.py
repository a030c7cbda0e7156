"""The user of query results and probe reports: the tracker, as the checks see it."""

from __future__ import annotations

from typing import Protocol


class QueryUser(Protocol):
    """The user of query results and probe reports. It makes looks."""

    def needs_query(self, dirty_key: str) -> bool:
        """Return whether a device uses the query with this dirty key."""

    def needs_probe(self, dirty_key: str) -> bool:
        """Return whether a device uses a report of the probe with this dirty key."""

    def report_change(self, dirty_key: str, *, changed: bool) -> None:
        """Handle a new result or report. `changed`: it differs from the previous one."""
