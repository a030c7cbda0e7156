"""Asking all checks of an entry of one host device, and what of it hangs on the health of partners."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from agent.core.entry.cared import Hinge
from agent.core.entry.check import Check, Outcome, Says
from agent.core.entry.checked import Behind, Checked, Hung, knowing, read_for
from agent.core.entry.inquiry import Heard
from agent.core.entry.own import Join
from agent.core.entry.recorded import recorded
from agent.core.inventory.device import HostDevice
from agent.core.inventory.facts import Facts
from agent.core.inventory.waiting import closed_gate, not_yet
from agent.core.language.value import Absent


class Joining(Heard, Protocol):
    """What is known of one device and of its partners."""

    def partner(self, join: Join) -> Facts | Absent:
        """What is known of a partner."""


def checked(
    entry: str, checks: Iterable[Check], joins: Iterable[Join], device: HostDevice, facts: Joining
) -> Iterator[Checked]:
    """What each check of an entry, or of a class, says of a device."""
    for check in checks:
        # Of one that is not there nothing is known, and of its health neither.
        behind = _behind(check.leans, joins, facts)
        if behind:
            said, read = Outcome(Says.NOTHING), read_for(check, facts)
            of = Checked(entry, check, device.key, device.place, said, behind=behind, read=read)
            yield knowing(of, {})  # as it is if all are well: for people, and for who listens to the kernel log
        else:
            yield Checked(entry, check, device.key, device.place, check.ask(facts))


def hung(
    hinges: Iterable[Hinge], given: Iterable[str], joins: Iterable[Join], device: HostDevice, facts: Joining
) -> Iterator[Hung]:
    """What hangs on the health of partners of a device beside its checks.

    given: the names of the joins of whose partners' health it is spoken where something is given.
    """
    for hinge in hinges:
        behind = _behind(hinge.leans, joins, facts)
        yield Hung(device.key, behind, (hinge.clause, recorded((hinge.clause,), facts)))
    if behind := _behind(given, joins, facts):
        yield Hung(device.key, behind)


def _behind(names: Iterable[str], joins: Iterable[Join], facts: Joining) -> tuple[Behind, ...]:
    """The partners that are there of these joins."""
    wanted = frozenset(names)
    found = (_partner(join, facts) for join in joins if join.name in wanted) if wanted else ()
    return tuple(one for one in found if one is not None)


def _partner(join: Join, facts: Joining) -> Behind | None:
    partner = facts.partner(join)
    cared = join.pool.cared
    if isinstance(partner, Absent) or cared is None:
        return None
    waits = closed_gate(cared, partner) or not_yet(cared.wait, partner)
    joins, device = join.pool.joins, partner.device
    said = tuple(checked(cared.name, cared.checks, joins, device, partner))
    return Behind(join.name, waits, said, tuple(hung(cared.hinges, (), joins, device, partner)))
