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
        self.complete = False
        self.full = False
        self._size = 0
        self._verdicts: dict[str, tuple[int, QueryResult]] = {}
        self._fields: dict[str, dict[str, tuple[int, Scalar]]] = {}

    def begin(self) -> None:
        """Another life speaks."""
        self.life += 1
        self.full = False

    def get_worst(self, places: Iterable[str]) -> QueryResult | None:
        """The worst verdict of what has these names, as new as the newest of them; None if there is none."""
        said = [found[1] for place in places if (found := self._verdicts.get(place)) is not None]
        if not said:
            return None
        worst = min(said, key=lambda answer: _WORST.index(answer.status))
        return QueryResult(worst.status, worst.reason, max(answer.number for answer in said))

    def get_field(self, places: Iterable[str], name: str) -> Scalar | None:
        """A fact of what has these names; None if it is not known."""
        said = (found for place in places if (found := self._fields.get(place, {}).get(name)) is not None)
        return next((value for _, value in said), None)

    def add(self, line: ReportedHealth | ReportedField, number: int) -> bool:
        """Take what a line says; whether something is so now that was not. `number`: that of the answer it gives."""
        return self._verdict(line, number) if isinstance(line, ReportedHealth) else self._field(line)

    def remove(self, place: str) -> bool:
        """Forget all that was said of a place; whether that is anything."""
        names = [*self._fields.get(place, ())]
        return any([self._without(place), *(self._without(place, name) for name in names)])

    def finish(self) -> list[str]:
        """Forget what an earlier life said and this one has not; the places of which something is forgotten."""
        self.complete = True
        verdicts = [place for place, (number, _) in self._verdicts.items() if number < self.life]
        old = [
            (place, name)
            for place, fields in self._fields.items()
            for name, (number, _) in fields.items()
            if number < self.life
        ]
        for place in verdicts:
            self._without(place)
        for place, name in old:
            self._without(place, name)
        return [*dict.fromkeys((*verdicts, *(place for place, _ in old)))]

    def _verdict(self, line: ReportedHealth, number: int) -> bool:
        before = self._verdicts.get(line.location)
        if before is None and not self._has_room(self._verdicts, PLACES_LIMIT, len(line.location)):
            return False
        self._without(line.location)  # a verdict that is none any more would be worse than one without its reason
        reason = line.reason if self._has_room((), 1, len(line.location) + len(line.reason)) else ""
        self._verdicts[line.location] = self.life, QueryResult(line.reply, reason, number)
        self._size += len(line.location) + len(reason)
        return before is None or before[1].status is not line.reply

    def _field(self, line: ReportedField) -> bool:
        before = self.get_field((line.location,), line.name)
        self._without(line.location, line.name)  # what is so no more is not said, whether or not there is room for it
        if line.value is not None:
            size = len(line.location) + len(line.name) + len(format_scalar(line.value))
            fields = self._fields.get(line.location)
            among, most = (self._fields, PLACES_LIMIT) if fields is None else (fields, FIELDS_LIMIT)
            if self._has_room(among, most, size):
                self._fields.setdefault(line.location, {})[line.name] = self.life, line.value
                self._size += size
        return self.get_field((line.location,), line.name) != before

    def _has_room(self, among: Sized, most: int, size: int) -> bool:
        """Whether one more fits among these, of that size."""
        fits = len(among) < most and self._size + size <= SIZE_LIMIT
        self.full = self.full or not fits
        return fits

    def _without(self, place: str, name: str | None = None) -> bool:
        """Forget the verdict of a place, or a fact of it; whether there was one."""
        if name is None:
            verdict = self._verdicts.pop(place, None)
            self._size -= 0 if verdict is None else len(place) + len(verdict[1].reason)
            return verdict is not None
        fields = self._fields.get(place, {})
        found = fields.pop(name, None)
        if found is None:
            return False
        if not fields:
            del self._fields[place]
        self._size -= len(place) + len(name) + len(format_scalar(found[1]))
        return True
