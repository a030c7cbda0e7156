"""The conditions of all checks of all devices: stepped once for each look at a device, and what follows from them.

A condition belongs to a place of an entry: when a device comes back it is as ill as it was, and a latch holds for
whatever stands there until a person clears it (rulings 8). While the device is there it is found by its key, for two
devices can be in one place (the nodes of a camera).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import is_
from typing import NamedTuple, TypeAlias

from agent.core.entry.check import Checked, Says
from agent.core.health.condition import HEALTHY, Condition, step
from agent.core.inventory.candidate import Candidate
from agent.core.lists.naming import Offers

_LEFT_LIMIT = 10_000  # places of which it is remembered what failed there when the device left

Failing: TypeAlias = Mapping[str, Mapping[str, Mapping[str, str]]]  # the reasons by entry, place and check


class Spot(NamedTuple):
    """A device of an entry: by its key while it is there, by its place when it has left."""

    entry: str
    at: str


@dataclass(frozen=True, slots=True)
class Ward:
    """The conditions of one device, by check."""

    place: str
    conditions: Mapping[str, Condition]


@dataclass(frozen=True, slots=True)
class Conditions:
    """All of them, after a look.

    there: of devices that are there. left: of those that left while something failed.
    due: when one is to be looked at again without an event.
    """

    there: Mapping[Spot, Ward] = field(default_factory=dict)
    left: Mapping[Spot, Ward] = field(default_factory=dict)
    due: Mapping[Spot, float] = field(default_factory=dict)

    @property
    def next_at(self) -> float | None:
        """When the first device is to be looked at again."""
        return min(self.due.values(), default=None)

    def due_at(self, now: float) -> frozenset[str]:
        """The keys of the devices that are to be looked at now."""
        return frozenset(spot.at for spot, at in self.due.items() if at <= now)

    def failing(self) -> Failing:
        """What fails, for the next life of the agent."""
        found: dict[str, dict[str, dict[str, str]]] = {}
        for wards, at in ((self.left, True), (self.there, False)):
            for spot, ward in wards.items():
                for check, condition in ward.conditions.items():
                    if condition.failing:
                        places = found.setdefault(spot.entry, {})
                        places.setdefault(spot.at if at else ward.place, {})[check] = condition.reason
        return found

    def cleared(self, concerns: Callable[[Spot, Ward], bool], check: str | None) -> tuple[Conditions, frozenset[str]]:
        """These without what a person clears, and the names of the checks that are cleared.

        concerns: whether it is about a device. check: the one check; None for all of them.
        """
        names: set[str] = set()

        def clear(wards: Mapping[Spot, Ward]) -> dict[Spot, Ward]:
            kept = {**wards}
            for spot, ward in wards.items():
                named = {name for name, one in ward.conditions.items() if one.failing and check in (None, name)}
                if named and concerns(spot, ward):
                    healed = {name: HEALTHY if name in named else one for name, one in ward.conditions.items()}
                    kept[spot] = replace(ward, conditions=healed)
                    names.update(named)
            return kept

        return replace(self, there=clear(self.there), left=clear(self.left)), frozenset(names)


def remembered(failing: Failing) -> Conditions:
    """The conditions at start, from what failed in the last life."""
    return Conditions(
        left={
            Spot(entry, place): Ward(place, {check: Condition(True, reason) for check, reason in checks.items()})
            for entry, places in failing.items()
            for place, checks in places.items()
        }
    )


@dataclass(frozen=True, slots=True)
class Concluded:
    """Candidates as their checks leave them: what fails is their fault.

    seen: the candidates of the look that this is of. offers: the same, with what fails.
    """

    conditions: Conditions = field(default_factory=Conditions)
    seen: Offers = field(default_factory=dict)
    offers: Offers = field(default_factory=dict)


def conclude(before: Concluded, seen: Offers, entries: Iterable[str], now: float, apart: float) -> Concluded:
    """After a look. A candidate that is the same object as before was not looked at, and its checks stand still.

    Args:
        before: after the last look.
        seen: the candidates of this one.
        entries: the names of the entries in force; of others nothing is remembered.
        now: monotonic seconds.
        apart: see `step`.
    """
    changed = [of for of in {**before.seen, **seen} if before.seen.get(of) is not seen.get(of)]
    if not changed:
        return before
    gone: list[Candidate] = []
    come: list[Candidate] = []
    for of in changed:
        was, found = before.seen.get(of, {}), seen.get(of, {})
        gone += (candidate for key, candidate in was.items() if found.get(key) is not candidate)
        come += (candidate for key, candidate in found.items() if was.get(key) is not candidate)
    made = _Round(before.conditions, gone, come, now, apart)
    told = {id(candidate): made.told(candidate) for candidate in come}
    offers = {of: before.offers[of] for of in seen.keys() - changed}
    for of in changed:
        found, offered = seen.get(of, {}), before.offers.get(of, {})
        judged = {key: told.get(id(candidate)) or offered[key] for key, candidate in found.items()}
        same = all(map(is_, judged.values(), found.values()))
        offers |= {of: found if same else judged} if found else {}
    return Concluded(made.conditions(frozenset(entries)), {**seen}, offers)


def as_it_is(seen: Offers) -> Offers:
    """The candidates of a single look, what fails in it as their fault: it cannot know for how long it does."""

    def told(candidate: Candidate) -> Candidate:
        bad = (one for one in candidate.checked if one.outcome.says is Says.BAD)
        reason = next((_said(one, one.outcome.reason) for one in bad), "")
        return replace(candidate, fault=candidate.fault or reason) if reason else candidate

    return {of: {key: told(candidate) for key, candidate in found.items()} for of, found in seen.items()}


class _Round:
    """One stepping of conditions.

    gone, come: the candidates as they were, of devices that were looked at or are there no more, and as they are.
    """

    def __init__(
        self, before: Conditions, gone: Iterable[Candidate], come: Iterable[Candidate], now: float, apart: float
    ) -> None:
        self._there = {**before.there}
        self._left = {**before.left}
        self._due = {**before.due}
        self._now = now
        self._apart = apart
        now_at = {Spot(one.entry, one.key): one.place for candidate in come for one in candidate.checked}
        unchecked = {Spot(one.written or one.resource, key) for one in come if not one.checked for key in one.keys}
        # Before any comes: a device may be there under another key.
        for spot in dict.fromkeys(Spot(one.entry, one.key) for candidate in gone for one in candidate.checked):
            self._due.pop(spot, None)
            if spot in unchecked:
                self._there.pop(spot, None)
            elif spot in self._there and now_at.get(spot) != self._there[spot].place:
                self._leave(spot)

    def told(self, candidate: Candidate) -> Candidate:
        """A candidate that was looked at, with what fails as its fault."""
        reason = ""
        after: dict[Spot, tuple[str, dict[str, Condition]]] = {}
        for one in candidate.checked:
            spot = Spot(one.entry, one.key)
            if spot not in after:
                self._come(spot, one.place)
                self._due.pop(spot, None)
                after[spot] = one.place, {}
            known = self._there[spot].conditions.get(one.check.name)
            if known is None and one.outcome.says is Says.AWAITED:
                reason = reason or _said(one, one.outcome.reason)
                continue
            before = known or HEALTHY
            condition, again = step(one.check, before, one.outcome, self._now, self._apart)
            after[spot][1][one.check.name] = condition
            if again is not None:
                self._due[spot] = min(again, self._due.get(spot, again))
            if condition.failing and not reason:
                reason = _said(one, condition.reason)
        self._there.update((spot, Ward(place, conditions)) for spot, (place, conditions) in after.items())
        return replace(candidate, fault=reason) if reason and not candidate.fault else candidate

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
        """Remember what fails of a device that is there no more; rows do not last."""
        ward = self._there.pop(spot)
        failing = {name: Condition(True, one.reason) for name, one in ward.conditions.items() if one.failing}
        if failing:
            place = Spot(spot.entry, ward.place)
            before = self._left.pop(place, Ward(ward.place, {}))
            self._left[place] = Ward(ward.place, {**before.conditions, **failing})


def _said(one: Checked, reason: str) -> str:
    member = f"{one.member}: " if one.member else ""
    return f"{one.check.name}: {member}{reason}"
