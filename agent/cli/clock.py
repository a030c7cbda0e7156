"""Times and ages, as people read them: `03:07:12` today, `Mon 11:02` this week, `2027-03-04` before. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def read(stamp: str) -> datetime:
    """A time as the agent writes it, where the reader is."""
    return datetime.fromisoformat(stamp).astimezone()


def when(then: datetime, now: datetime) -> str:
    """A moment, as shortly as it can be said now."""
    if then.date() == now.date():
        return then.strftime("%H:%M:%S")
    if timedelta(0) <= now - then < timedelta(days=6):
        return then.strftime("%a %H:%M")
    return then.strftime("%Y-%m-%d")


def age(seconds: float) -> str:
    """How long, in two units at most."""
    left = max(0, int(seconds))
    said = []
    for unit, size in _UNITS:
        number, left = divmod(left, size)
        if number:
            said.append(f"{number} {unit}")
        if said and (len(said) == 2 or unit == "min"):
            break
    return " ".join(said) or "0 s"


def since(stamp: str | None, now: str) -> str:
    """`HH:MM:SS (11 min)`; a question mark where it is not known."""
    if stamp is None:
        return "?"
    then, here = read(stamp), read(now)
    return f"{when(then, here)} ({age((here - then).total_seconds())})"
