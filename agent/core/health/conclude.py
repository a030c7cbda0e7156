"""Concluding: the conditions of all checks stepped once for each look at a device, and what follows from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import is_
from typing import TypeAlias

from agent.core.entry.cared import at_once, knowing
from agent.core.entry.check import Checked, Says
from agent.core.entry.log import Log
from agent.core.entry.rises import Rises
from agent.core.health.condition import HEALTHY, Condition, dated, listened, step
from agent.core.health.conditions import Conditions, Spot, Ward
from agent.core.health.heard import Journal, Told
from agent.core.inventory.candidate import Candidate
from agent.core.lists.naming import Offers

OK, FAILING = "ok", "failing"
_LEFT_LIMIT = 10_000  # places of which it is remembered what failed there when the device left


@dataclass(frozen=True, slots=True)
class Concluded:
    """Candidates as their checks leave them: what fails is their fault.

    seen: the candidates of the look that this is of. offers: the same, with what fails.
    listeners: which of them the kernel log speaks of, by what it says, and which have a condition; each by its resource
        and its key.
    answers: what checks said at this look, by name and result, so often.
    """

    conditions: Conditions = field(default_factory=Conditions)
    seen: Offers = field(default_factory=dict)
    offers: Offers = field(default_factory=dict)
    listeners: Mapping[Told | Spot, frozenset[_Listener]] = field(default_factory=dict)
    answers: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def partners(self, keys: Iterable[str]) -> frozenset[Spot]:
        """Of whose health the checks speak of what has one of these keys."""
        wanted = frozenset(keys)
        found = (one for of in self.seen.values() for one in of.values() if not wanted.isdisjoint(one.keys))
        behind = (behind for one in found for each in one.checked for behind in each.behind)
        return frozenset(Spot(one.entry, one.key) for each in behind for one in _all(each.checked))


_Listener: TypeAlias = tuple[tuple[str, str], str]
_SILENCE = Journal()


def conclude(
    before: Concluded,
    seen: Offers,
    entries: Iterable[str],
    now: float,
    apart: float,
    *,
    journal: Journal = _SILENCE,
    stirred: Iterable[Told] | None = (),
) -> Concluded:
    """After a look, or after the kernel log said something. A candidate that is the same object as before was not
    looked at: its checks stand still, but for what they hear.

    Args:
        before: after the last look.
        seen: the candidates of this one.
        entries: the names of the entries in force; of others nothing is remembered.
        now: monotonic seconds.
        apart: see `step`.
        journal: what was heard in the kernel log.
        stirred: of whom it spoke since; None: it may be of anybody.
    """
    changed = {of: None for of in {**before.seen, **seen} if before.seen.get(of) is not seen.get(of)}
    told_of = before.listeners if stirred is None else stirred
    listening = {one: None for told in told_of for one in before.listeners.get(told, ())}
    if not changed and not listening:
        return before
    gone: list[Candidate] = []
    come: list[Candidate] = []
    for of in changed:
        was, found = before.seen.get(of, {}), seen.get(of, {})
        gone += (candidate for key, candidate in was.items() if found.get(key) is not candidate)
        come += (candidate for key, candidate in found.items() if was.get(key) is not candidate)
    listeners = _listeners(before.listeners, gone, come)
    made = _Round(before.conditions, gone, come, journal, (now, apart))
    made.leave(listeners)
    told = {id(candidate): made.told(candidate) for candidate in come}
    while listening := listening | {one: None for spot in made.turned() for one in listeners.get(spot, ())}:
        for of, key in listening:
            candidate = seen.get(of, {}).get(key)
            if candidate is not None and id(candidate) not in told:
                told[id(candidate)] = made.told(candidate, looked=False)
                changed[of] = None
        listening = {}  # and then those of whose partners the health turned here, who were not looked at
    offers = {of: before.offers[of] for of in seen.keys() - changed}
    for of in changed:
        found, offered = seen.get(of, {}), before.offers.get(of, {})
        judged = {key: told.get(id(candidate)) or offered[key] for key, candidate in found.items()}
        same = all(map(is_, judged.values(), found.values()))
        offers |= {of: found if same else judged} if found else {}
    return Concluded(made.conditions(frozenset(entries)), {**seen}, offers, listeners, made.answers)


def _listeners(
    before: Mapping[Told | Spot, frozenset[_Listener]], gone: Iterable[Candidate], come: Iterable[Candidate]
) -> Mapping[Told | Spot, frozenset[_Listener]]:
    """Of whom the kernel log speaks and who has which condition, after these have gone and those have come."""
    changes = [(one, told, come is these) for these in (gone, come) for one in these for told in _told_by(one)]
    if not changes:
        return before
    after = {**before}
    for candidate, told, is_there in changes:
        one = {((candidate.resource, candidate.written), candidate.device.key)}
        others = after.pop(told, frozenset())
        if now := others | one if is_there else others - one:
            after[told] = now
    return after


def _told_by(candidate: Candidate) -> Iterator[Told | Spot]:
    for one in _all(candidate.checked):
        yield Spot(one.entry, one.key)
        if one.check.log is not None and one.outcome.ear is not None:
            yield from ((one.check.log, key) for key in one.outcome.ear.keys)


def as_it_is(seen: Offers) -> Offers:
    """The candidates of a single look, what fails in it as their fault: it cannot know for how long it does."""

    def told(candidate: Candidate) -> Candidate:
        bad = (one for one in map(at_once, candidate.checked) if one.outcome.says is Says.BAD)
        reason = next((one.said(one.outcome.reason) for one in bad), "")
        return replace(candidate, fault=candidate.fault or reason) if reason else candidate

    return {of: {key: told(candidate) for key, candidate in found.items()} for of, found in seen.items()}


class _Round:
    """One stepping of conditions.

    gone, come: the candidates as they were, of devices that were looked at or are there no more, and as they are.
    times: now, and how far looks lie apart that count as two.
    """

    def __init__(
        self,
        before: Conditions,
        gone: Iterable[Candidate],
        come: Iterable[Candidate],
        journal: Journal,
        times: tuple[float, float],
    ) -> None:
        self._there = {**before.there}
        self._left = {**before.left}
        self._due = {**before.due}
        self._now, self._apart = times
        self._journal = journal
        self._done: dict[tuple[Spot, str], Condition] = {}
        self._looked: dict[Spot, Mapping[str, Condition]] = {}  # the conditions before, of what was looked at
        self._turned: dict[Spot, None] = {}
        self.answers: Counter[tuple[str, str]] = Counter()
        self._gone = dict.fromkeys(Spot(one.entry, one.key) for each in gone for one in _all(each.checked))
        self._now_at = {Spot(one.entry, one.key): one.place for each in come for one in _all(each.checked)}
        self._unchecked = {
            Spot(one.written or one.resource, key) for one in come if not one.checked for key in one.keys
        }

    def leave(self, kept: Container[object]) -> None:
        """Have those leave that are there no more, before any comes: a device may be there under another key.

        kept: the conditions that anybody has still.
        """
        for spot in self._gone:
            if spot in kept and spot not in self._now_at:
                continue  # others have it, who were not looked at
            self._due.pop(spot, None)
            if spot in self._unchecked:
                self._there.pop(spot, None)
            elif spot in self._there and self._now_at.get(spot) != self._there[spot].place:
                self._leave(spot)

    def turned(self) -> tuple[Spot, ...]:
        """Whose health turned since this was asked last."""
        turned, self._turned = self._turned, {}
        return tuple(turned)

    def told(self, candidate: Candidate, *, looked: bool = True) -> Candidate:
        """A candidate with what fails as its fault. `looked`: it was looked at, and not only spoken of."""
        reason = self._concluded(candidate.checked, looked=looked)
        return replace(candidate, fault=reason) if reason and not candidate.fault else candidate

    def _concluded(self, checked: Iterable[Checked], *, looked: bool) -> str:
        """Step the conditions of these checks; the reason of the first that fails."""
        reason = ""
        for one in checked:
            ill = {}
            for behind in one.behind:
                why = self._concluded(behind.checked, looked=looked)
                if why := behind.waits or why:
                    ill[behind.name] = why
            known = knowing(one, ill)
            spot = Spot(one.entry, one.key)
            condition = self._condition(spot, known, looked=looked)
            if condition is None:
                reason = reason or one.said(known.outcome.reason)
            elif condition.failing:
                reason = reason or one.said(condition.reason)
        return reason

    def _condition(self, spot: Spot, one: Checked, *, looked: bool) -> Condition | None:
        """The condition of a check after it, stepped once in a round whoever asks; none before the first answer."""
        name = one.check.name
        if (spot, name) in self._done:
            return self._done[spot, name]
        self._come(spot, one.place)
        if looked and spot not in self._looked:
            self._looked[spot] = self._there[spot].conditions
            self._there[spot] = Ward(one.place, {})  # of what it has now
            self._due.pop(spot, None)
        ward = self._there[spot]
        known = self._looked.get(spot, ward.conditions).get(name)
        if known is None and one.outcome.says is Says.AWAITED:
            return None
        before = known or HEALTHY
        condition, again = self._stepped(one, before, looked=looked)
        condition = dated(condition, before, self._now)
        if looked:
            self._count(one, condition)
        if ward.conditions.get(name) is not condition:
            self._there[spot] = Ward(one.place, {**ward.conditions, name: condition})
        if again is not None:
            self._due[spot] = min(again, self._due.get(spot, again))
        if condition.failing != before.failing:
            self._turned[spot] = None
        if looked or one.check.log is not None or one.behind:
            self._done[spot, name] = condition
        return condition

    def _count(self, one: Checked, condition: Condition) -> None:
        """Count what a check says: of what is counted or listened to, that is how it stands."""
        says = one.outcome.says
        if one.outcome.doubt is not None:
            self.answers[one.check.name, one.outcome.doubt.value] += 1
        elif says is Says.GOOD or says is Says.BAD:
            told = condition.failing if isinstance(one.check.holds, Rises | Log) else says is Says.BAD
            self.answers[one.check.name, FAILING if told else OK] += 1

    def _stepped(self, one: Checked, before: Condition, *, looked: bool) -> tuple[Condition, float | None]:
        if one.check.log is not None:
            return listened(one.check, before, one.outcome, self._journal, self._now)
        if looked or one.behind:
            return step(one.check, before, one.outcome, self._now, self._apart)
        return before, None

    def conditions(self, entries: frozenset[str]) -> Conditions:
        """All conditions after it."""
        left = {spot: ward for spot, ward in self._left.items() if spot.entry in entries}
        for spot in list(left)[: max(0, len(left) - _LEFT_LIMIT)]:
            del left[spot]
        return Conditions(self._there, left, self._due)

    def _come(self, spot: Spot, place: str) -> None:
        """Have the conditions there of a device that is at a place now."""
        if spot not in self._there:
            self._there[spot] = self._left.pop(Spot(spot.entry, place), Ward(place, {}))

    def _leave(self, spot: Spot) -> None:
        """Remember what fails of a device that is there no more, and what is cleared; rows do not last."""
        ward = self._there.pop(spot)
        failing = {
            name: Condition(one.failing, one.reason, latched=one.latched, cleared=one.cleared, turned=one.turned)
            for name, one in ward.conditions.items()
            if one.failing or one.cleared >= 0
        }
        if failing:
            place = Spot(spot.entry, ward.place)
            before = self._left.pop(place, Ward(ward.place, {}))
            self._left[place] = Ward(ward.place, {**before.conditions, **failing})


def _all(checked: Iterable[Checked]) -> Iterator[Checked]:
    """All checks, those of partners of whose health they speak among them."""
    for one in checked:
        for behind in one.behind:
            yield from _all(behind.checked)
        yield one
