"""The checks and conditions that decide the health of a partner: `NAME.healthy`."""

from __future__ import annotations

from agent.core.entry.check import Check
from agent.core.language.clause import Clause
from agent.core.struct import Struct

HEALTHY, REASON = "healthy", "reason"


class PartnerCondition(Struct):
    """A not-ready condition (`wait`) about the health of partners. partner_joins: the names of their joins."""

    clause: Clause
    partner_joins: tuple[str, ...]


class PartnerChecks(Struct):
    """The checks, not-ready conditions and preconditions of a class or an entry. All joins to the same name share
    them.

    partner_conditions: the not-ready conditions about its own partners.
    """

    name: str
    checks: tuple[Check, ...] = ()
    wait: tuple[Clause, ...] = ()
    gate: tuple[Clause, ...] = ()
    partner_conditions: tuple[PartnerCondition, ...] = ()
