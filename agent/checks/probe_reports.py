"""What a probe has reported: verdicts and facts by place, over all its lives. Bounded, whatever it says."""

from __future__ import annotations

from collections.abc import Iterable, Sized

from agent.checks.probe_protocol import ReportedField, ReportedHealth
from agent.core.entry.query import QueryResult, QueryStatus
from agent.core.language.value import Scalar, format_scalar

PLACES_LIMIT = 10_000  # of which one probe may speak
FIELDS_LIMIT = 64  # of one place
SIZE_LIMIT = 16 * 1024 * 1024  # characters of all that is known of one probe at a time
_WORST = (QueryStatus.UNHEALTHY, QueryStatus.UNKNOWN, QueryStatus.HEALTHY)


class ProbeReports:
    """Knows what was said last of each place.

    Attributes:
        life: the number of the life that speaks, which each report has: what an earlier one said and this one has not
            when it is complete, is so no more.
        complete: whether a life has ever said all.
        full: something was said in this life for which there was no room.
    """

    def __init__(self) -> None:
        self.life = 0
        self.is_complete = False
        self.is_full = False
        self._size = 0
        self._health: dict[str, tuple[int, QueryResult]] = {}
        self._fields: dict[str, dict[str, tuple[int, Scalar]]] = {}

    def begin(self) -> None:
        """Another life speaks."""
        self.life += 1
        self.is_full = False

    def get_worst(self, locations: Iterable[str]) -> QueryResult | None:
        """The worst verdict of what has these names, as new as the newest of them; None if there is none."""
        results = [report[1] for location in locations if (report := self._health.get(location)) is not None]
        if not results:
            return None
        worst = min(results, key=lambda answer: _WORST.index(answer.status))
        return QueryResult(worst.status, worst.reason, max(answer.number for answer in results))

    def get_field(self, locations: Iterable[str], name: str) -> Scalar | None:
        """A fact of what has these names; None if it is not known."""
        reports = (report for location in locations if (report := self._fields.get(location, {}).get(name)) is not None)
        return next((value for _, value in reports), None)

    def add(self, line: ReportedHealth | ReportedField, number: int) -> bool:
        """Take what a line says; whether something is so now that was not. `number`: that of the answer it gives."""
        return self._add_health(line, number) if isinstance(line, ReportedHealth) else self._add_field(line)

    def remove(self, location: str) -> bool:
        """Forget all that was said of a place; whether that is anything."""
        names = [*self._fields.get(location, ())]
        return any([self._forget(location), *(self._forget(location, name) for name in names)])

    def finish(self) -> list[str]:
        """Forget what an earlier life said and this one has not; the places of which something is forgotten."""
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
        self._forget(line.location)  # a verdict that is none any more would be worse than one without its reason
        reason = line.reason if self._has_room((), 1, len(line.location) + len(line.reason)) else ""
        self._health[line.location] = self.life, QueryResult(line.reply, reason, number)
        self._size += len(line.location) + len(reason)
        return previous is None or previous[1].status is not line.reply

    def _add_field(self, line: ReportedField) -> bool:
        previous = self.get_field((line.location,), line.name)
        self._forget(line.location, line.name)  # what is so no more is not said, whether or not there is room for it
        if line.value is not None:
            size = len(line.location) + len(line.name) + len(format_scalar(line.value))
            fields = self._fields.get(line.location)
            entries, limit = (self._fields, PLACES_LIMIT) if fields is None else (fields, FIELDS_LIMIT)
            if self._has_room(entries, limit, size):
                self._fields.setdefault(line.location, {})[line.name] = self.life, line.value
                self._size += size
        return self.get_field((line.location,), line.name) != previous

    def _has_room(self, entries: Sized, limit: int, size: int) -> bool:
        """Whether one more fits among these, of that size."""
        fits = len(entries) < limit and self._size + size <= SIZE_LIMIT
        self.is_full = self.is_full or not fits
        return fits

    def _forget(self, location: str, name: str | None = None) -> bool:
        """Forget the verdict of a place, or a fact of it; whether there was one."""
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
