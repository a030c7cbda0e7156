"""What hangs on the health of partners, once that is known: which of them are ill, who waits for one, what is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from agent.core.entry.check import SHOWN, Says
from agent.core.entry.checked import Behind, Checked, Hung, WithHealth, knowing
from agent.core.entry.inquiry import Answer, Reply
from agent.core.inventory.waiting import not_yet
from agent.core.language.printable import cut
from agent.core.reason import NO_REASON, Reason


class Spoken(Protocol):
    """A device of which something is said that may hang on partners."""

    @property
    def checked(self) -> tuple[Checked, ...]:
        """What its checks say."""

    @property
    def hung(self) -> tuple[Hung, ...]:
        """What else hangs on partners."""


class Verdict(Protocol):
    """Who says what comes of checks."""

    def __call__(self, checked: Iterable[Checked]) -> Reason:
        """Return why the device fails that has these checks; `NO_REASON` if it does not."""


def ill_among(behind: Iterable[Behind], verdict: Verdict) -> dict[str, str]:
    """Which partners are not healthy, by the joins' names, and why. Each is judged, whatever is known already."""
    ill: dict[str, str] = {}
    for one in behind:
        fails = verdict(one.checked)
        held, _ = held_by(one.hung, verdict)
        if why := one.waits or held or str(fails):
            ill[one.name] = why
    return ill


def held_by(hung: Iterable[Hung], verdict: Verdict) -> tuple[str, dict[tuple[str, str], str]]:
    """Why a device is held back for a partner, empty if it is not; and why those of its partners are ill that are, by
    the key of the host device and the join's name.
    """
    waits = ""
    ailing: dict[tuple[str, str], str] = {}
    for one in hung:
        ill = ill_among(one.behind, verdict)
        waits = waits or _waits(one, ill)
        ailing.update(((one.key, name), why) for name, why in ill.items())
    return waits, ailing


def at_once(checked: Checked) -> Checked:
    """What a check says at a single look: a partner is ill of which a check does not hold."""
    return knowing(checked, ill_among(checked.behind, fails_at_once))


def fails_at_once(checked: Iterable[Checked]) -> Reason:
    """Why checks fail at a single look, which cannot know for how long."""
    bad = (one for one in map(at_once, checked) if one.outcome.says is Says.BAD)
    return next((one.failure(one.outcome.reason) for one in bad), NO_REASON)


def partners(one: Spoken) -> Iterator[Behind]:
    """Of whose health is spoken."""
    for each in one.checked:
        yield from each.behind
    for other in one.hung:
        yield from other.behind


def every_check(one: Spoken) -> Iterator[Checked]:
    """All checks of a device, those of partners of whose health it speaks among them."""
    for behind in partners(one):
        yield from every_check(behind)
    yield from one.checked


def _waits(one: Hung, ill: Mapping[str, str]) -> str:
    if one.wait is None:
        return ""
    clause, read = one.wait
    said = not_yet((clause,), WithHealth(read, one.behind, ill, Answer(Reply.UNKNOWN)))
    for name, why in ill.items() if said else ():
        said += "" if why in said else f" ({name}: {why})"
    return cut(said, SHOWN)
