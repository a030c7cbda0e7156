"""What keeps the devices of a class or an entry well, as others speak of it that join them: `NAME.healthy`."""

from __future__ import annotations

from agent.core.entry.check import Check
from agent.core.language.clause import Clause
from agent.core.struct import Struct

HEALTHY, REASON = "healthy", "reason"


class PartnerCondition(Struct):
    """A `wait` that speaks of the health of partners. leans: the names of the joins that lead to these."""

    clause: Clause
    partner_joins: tuple[str, ...]


class PartnerChecks(Struct):
    """The checks, `wait` and `gate` of a class or an entry, by its name: what they find is so for all who join it.

    hinges: those `wait` that rest on partners of its own.
    """

    name: str
    checks: tuple[Check, ...] = ()
    wait: tuple[Clause, ...] = ()
    gate: tuple[Clause, ...] = ()
    partner_conditions: tuple[PartnerCondition, ...] = ()
