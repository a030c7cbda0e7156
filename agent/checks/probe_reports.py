"""The reports of a probe: health and fields by location, over all its processes. Their size is limited."""

from __future__ import annotations

from collections.abc import Iterable, Sized

from agent.checks.probe_protocol import ReportedField, ReportedHealth
from agent.core.entry.query import QueryResult, QueryStatus
from agent.core.language.value import Scalar, format_scalar

PLACES_LIMIT = 10_000  # locations of one probe
FIELDS_LIMIT = 64  # fields of one location
SIZE_LIMIT = 16 * 1024 * 1024  # characters of all reports of one probe
_WORST = (QueryStatus.UNHEALTHY, QueryStatus.UNKNOWN, QueryStatus.HEALTHY)


class ProbeReports:
    """The last report for each location.

    Attributes:
        life: the number of the current process. Each report has the number of its process. When the reports are
            complete, those of earlier processes are deleted.
        is_complete: whether any process has sent all reports.
        is_full: a report of this process had no room.
    """

    def __init__(self) -> None:
        self.life = 0
        self.is_complete = False
        self.is_full = False
        self._size = 0
        self._health: dict[str, tuple[int, QueryResult]] = {}
        self._fields: dict[str, dict[str, tuple[int, Scalar]]] = {}

    def begin(self) -> None:
        """Start the reports of a new process."""
        self.life += 1
        self.is_full = False

    def get_worst(self, locations: Iterable[str]) -> QueryResult | None:
        """Return the worst health of these locations with the newest number of them, or None if there is none."""
        results = [report[1] for location in locations if (report := self._health.get(location)) is not None]
        if not results:
            return None
        worst = min(results, key=lambda answer: _WORST.index(answer.status))
        return QueryResult(worst.status, worst.reason, max(answer.number for answer in results))

    def get_field(self, locations: Iterable[str], name: str) -> Scalar | None:
        """Return the value of a field of these locations, or None if it is not known."""
        reports = (report for location in locations if (report := self._fields.get(location, {}).get(name)) is not None)
        return next((value for _, value in reports), None)

    def add(self, line: ReportedHealth | ReportedField, number: int) -> bool:
        """Store a report and return whether it differs from the previous one. `number`: that of the query result."""
        return self._add_health(line, number) if isinstance(line, ReportedHealth) else self._add_field(line)

    def remove(self, location: str) -> bool:
        """Delete all reports for a location and return whether there were any."""
        names = [*self._fields.get(location, ())]
        return any([self._forget(location), *(self._forget(location, name) for name in names)])

    def finish(self) -> list[str]:
        """Delete the reports of earlier processes that this one has not repeated. Return their locations."""
        self.is_complete = True
        old_locations = [location for location, (number, _) in self._health.items() if number < self.life]
        old_fields = [
            (location, name)
            for location, fields in self._fields.items()
            for name, (number, _) in fields.items()
            if number < self.life
        ]
        for location in old_locations:
            self._forget(location)
        for location, name in old_fields:
            self._forget(location, name)
        return [*dict.fromkeys((*old_locations, *(location for location, _ in old_fields)))]

    def _add_health(self, line: ReportedHealth, number: int) -> bool:
        previous = self._health.get(line.location)
        if previous is None and not self._has_room(self._health, PLACES_LIMIT, len(line.location)):
            return False
        self._forget(line.location)  # an outdated health would be worse than one without its reason
        reason = line.reason if self._has_room((), 1, len(line.location) + len(line.reason)) else ""
        self._health[line.location] = self.life, QueryResult(line.reply, reason, number)
        self._size += len(line.location) + len(reason)
        return previous is None or previous[1].status is not line.reply

    def _add_field(self, line: ReportedField) -> bool:
        previous = self.get_field((line.location,), line.name)
        self._forget(line.location, line.name)  # an outdated value is deleted, with or without room for the new one
        if line.value is not None:
            size = len(line.location) + len(line.name) + len(format_scalar(line.value))
            fields = self._fields.get(line.location)
            entries, limit = (self._fields, PLACES_LIMIT) if fields is None else (fields, FIELDS_LIMIT)
            if self._has_room(entries, limit, size):
                self._fields.setdefault(line.location, {})[line.name] = self.life, line.value
                self._size += size
        return self.get_field((line.location,), line.name) != previous

    def _has_room(self, entries: Sized, limit: int, size: int) -> bool:
        """Return whether one more entry of this size fits."""
        fits = len(entries) < limit and self._size + size <= SIZE_LIMIT
        self.is_full = self.is_full or not fits
        return fits

    def _forget(self, location: str, name: str | None = None) -> bool:
        """Delete the health of a location, or one field of it. Return whether there was one."""
        if name is None:
            verdict = self._health.pop(location, None)
            self._size -= 0 if verdict is None else len(location) + len(verdict[1].reason)
            return verdict is not None
        fields = self._fields.get(location, {})
        report = fields.pop(name, None)
        if report is None:
            return False
        if not fields:
            del self._fields[location]
        self._size -= len(location) + len(name) + len(format_scalar(report[1]))
        return True
