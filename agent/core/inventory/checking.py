"""Asking all checks of an entry of one host device, and those of its partners whose health they speak of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from agent.core.entry.cared import supposing
from agent.core.entry.check import Behind, Check, Checked, Outcome, Says
from agent.core.entry.inquiry import Heard
from agent.core.entry.own import Join
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
    by_name = {join.name: join for join in joins}
    for check in checks:
        if not check.leans:
            yield Checked(entry, check, device.key, device.place, check.ask(facts))
            continue
        # Of one that is not there nothing is known, and of its health neither.
        behind = tuple(found for name in check.leans if (found := _behind(by_name[name], facts)) is not None)
        said = Outcome(Says.NOTHING) if behind else check.ask(facts)
        first = Checked(entry, check, device.key, device.place, said, behind=behind)
        yield supposing(first, facts) if behind else first


def _behind(join: Join, facts: Joining) -> Behind | None:
    partner = facts.partner(join)
    cared = join.pool.cared
    if isinstance(partner, Absent) or cared is None:
        return None
    waits = closed_gate(cared, partner) or not_yet(cared, partner)
    said = checked(cared.name, cared.checks, join.pool.joins, partner.device, partner)
    return Behind(join.name, waits, tuple(said))
