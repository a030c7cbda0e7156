"""Times and ages for people: `03:07:12` today, `Mon 11:02` this week, `2027-03-04` for older times. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


class Times:
    """A formatter of times relative to the current time, in the time zone of this host or in UTC."""

    def __init__(self, current_time: str, *, utc: bool = False) -> None:
        """Set the current time, as the agent writes it. All times that the methods take have the same format."""
        self._zone = UTC if utc else None
        self._current_time = self._parse(current_time)

    def format_time(self, stamp: str) -> str:
        """Return a time in its shortest form."""
        return format_time(self._parse(stamp), self._current_time)

    def format_since(self, stamp: str | None) -> str:
        """Return `HH:MM:SS (11 min)`, or a question mark if the time is not known."""
        return "?" if stamp is None else f"{self.format_time(stamp)} ({self.format_age(stamp)})"

    def format_age(self, stamp: str) -> str:
        """Return the age of a time as text."""
        return format_duration(self.measure_age(stamp))

    def measure_age(self, stamp: str) -> float:
        """Return the age of a time in seconds."""
        return (self._current_time - self._parse(stamp)).total_seconds()

    def _parse(self, stamp: str) -> datetime:
        return datetime.fromisoformat(stamp).astimezone(self._zone)


def format_time(time: datetime, current_time: datetime) -> str:
    """Return a time in its shortest form relative to the current time. Add Z if the user chose UTC."""
    mark = "Z" if time.tzinfo is UTC else ""
    if time.date() == current_time.date():
        return time.strftime("%H:%M:%S") + mark
    if timedelta(0) <= current_time - time < timedelta(days=6):
        return time.strftime("%a %H:%M") + mark
    return time.strftime("%Y-%m-%d") + mark


def format_duration(seconds: float) -> str:
    """Return a duration in at most two units. The argument is in seconds."""
    remainder = max(0, int(seconds))
    parts = []
    for unit, size in _UNITS:
        number, remainder = divmod(remainder, size)
        if number:
            parts.append(f"{number} {unit}")
        if parts and (len(parts) == 2 or unit == "min"):
            break
    return " ".join(parts) or "0 s"
