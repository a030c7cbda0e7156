"""Times and ages, as people read them: `03:07:12` today, `Mon 11:02` this week, `2027-03-04` before. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


class Times:
    """Says moments as they look now, to a reader who is where this host is, or in UTC."""

    def __init__(self, current_time: str, *, utc: bool = False) -> None:
        """`now` is as the agent writes it, like all that is asked for."""
        self._zone = UTC if utc else None
        self._current_time = self._parse(current_time)

    def format_time(self, stamp: str) -> str:
        """A moment, as shortly as it can be said."""
        return format_time(self._parse(stamp), self._current_time)

    def format_since(self, stamp: str | None) -> str:
        """`HH:MM:SS (11 min)`; a question mark where it is not known."""
        return "?" if stamp is None else f"{self.format_time(stamp)} ({self.format_age(stamp)})"

    def format_age(self, stamp: str) -> str:
        """How long ago that was."""
        return format_duration(self.measure_age(stamp))

    def measure_age(self, stamp: str) -> float:
        """How long ago that was, in seconds."""
        return (self._current_time - self._parse(stamp)).total_seconds()

    def _parse(self, stamp: str) -> datetime:
        return datetime.fromisoformat(stamp).astimezone(self._zone)


def format_time(time: datetime, current_time: datetime) -> str:
    """A moment, as shortly as it can be said now; with its Z where it is UTC by choice."""
    mark = "Z" if time.tzinfo is UTC else ""
    if time.date() == current_time.date():
        return time.strftime("%H:%M:%S") + mark
    if timedelta(0) <= current_time - time < timedelta(days=6):
        return time.strftime("%a %H:%M") + mark
    return time.strftime("%Y-%m-%d") + mark


def format_duration(seconds: float) -> str:
    """How long, in two units at most."""
    remainder = max(0, int(seconds))
    parts = []
    for unit, size in _UNITS:
        number, remainder = divmod(remainder, size)
        if number:
            parts.append(f"{number} {unit}")
        if parts and (len(parts) == 2 or unit == "min"):
            break
    return " ".join(parts) or "0 s"
