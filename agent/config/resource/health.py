"""`health`: "healthy while …", each check compiled."""

from __future__ import annotations

from agent.config.clauses.clause import compile_clause, refuse_empty
from agent.config.give.parts import has_unread_key
from agent.config.language.durations import seconds
from agent.config.language.kinds import looks
from agent.config.language.table import not_yet
from agent.config.leaves.texts import phrase
from agent.config.merge.tree import Branch, Leaf
from agent.config.resource.asks import ASKS, misplaced
from agent.config.scope import Scope
from agent.config.sources import LEAST_EVERY
from agent.core.entry.check import ONE, After, Check, Lasting, Looks, OnUnknown
from agent.core.language.clause import Clause

_VFIO = "vfio"  # the check that `give.vfio` brings: it says itself what it asks


def compile_health(tree: Branch, scope: Scope, source_every: float | None) -> tuple[Check, ...]:
    """The checks of an entry, in its order.

    source_every: how often its source is looked at besides its events; None if that is not said.
    """
    branch = tree.branch("health")
    found = [_check(name, member, tree, scope, source_every) for name, member in branch.branches()] if branch else []
    return tuple(check for check in found if check is not None)


def _check(name: str, branch: Branch, tree: Branch, scope: Scope, source_every: float | None) -> Check | None:
    if branch.verbs not in {(), ("holds",), *((verb,) for verb in ASKS)}:
        return None  # not there yet, which is said of all such keys at once, and they bring words
    asked = next((verb for verb in branch.verbs if verb in ASKS), None)
    misplaced(name, branch, scope)
    when = branch.branch("when")
    applies = compile_clause(f"health.{name}.when", when, scope) if when else None
    every = _every(branch.leaf("every"), scope)
    holds = _holds(name, branch, tree, scope) if asked is None else ASKS[asked](branch, scope, every)
    trip = _after(branch.leaf("trip"), scope)
    recover = _recover(name, branch, scope)
    for leaf, after in ((branch.leaf("trip"), trip), (branch.leaf("recover"), recover)):
        if leaf is not None and _is_chance(after) and asked is None and every is None and not source_every:
            message = "without every, looks come with events and the sweep: how long two of them take is chance"
            scope.warn(leaf.spot.warning("looks-by-chance", message, 'add every = "5s", or write a time: "10s"'))
    unknown = branch.leaf("on_unknown")
    reason = branch.leaf("reason")
    said = phrase(reason.spot, reason.value, scope, "reason", lists=True) if reason else None
    if holds is None:
        return None
    return Check(
        name,
        holds,
        when=applies,
        every=every if asked is None else None,
        trip=trip,
        recover=recover,
        on_unknown=OnUnknown(unknown.value) if unknown else OnUnknown.UNHEALTHY,
        reason=said.text if said else None,
    )


def _is_chance(after: After | None) -> bool:
    """Whether it is several looks."""
    return isinstance(after, Looks) and after.number > 1


def _holds(name: str, branch: Branch, tree: Branch, scope: Scope) -> Clause | None:
    """What has to hold; none, with a finding, if nothing is said."""
    holds = branch.branch("holds")
    if holds is None:
        give = tree.branch("give")
        brought = name == _VFIO and give is not None and "vfio" in give.members
        if scope.keys_known and not brought and not has_unread_key(branch, "health"):
            message = f"health.{name} does not say what is asked"
            scope.error(branch.spot.error("missing", message, "write holds = { WORD = … }", mark="key"))
        return None
    message = f"health.{name} says nothing, so it would always hold"
    refuse_empty(holds, scope, message, "take it out, or say what holds")
    return compile_clause(f"health.{name}.holds", holds, scope)


def _every(leaf: Leaf | None, scope: Scope) -> float | None:
    """The seconds between looks."""
    value = seconds(leaf.value) if leaf and isinstance(leaf.value, str) else None
    if leaf is not None and value is not None and value < LEAST_EVERY:
        message = f"how often to look is {LEAST_EVERY:g} s at least: each time costs a look at the device"
        scope.error(leaf.spot.error("type", message, 'write for example "5s"'))
    return value


def _after(leaf: Leaf | None, scope: Scope) -> After:
    """What it takes to turn; one look unless said."""
    if leaf is None:
        return ONE
    number = looks(leaf.value)
    if number is not None:
        return Looks(number)
    time = seconds(leaf.value) if isinstance(leaf.value, str) else None
    if time is None:
        message = "events in a window are of log and rises; what holds is looked at"
        scope.error(leaf.spot.error("type", message, 'write looks ("2 looks") or a time ("10s")'))
        return ONE
    return Lasting(time)


def _recover(name: str, branch: Branch, scope: Scope) -> After | None:
    """What it takes to be healthy again; None if a person has to say so."""
    leaf, latch = branch.leaf("recover"), branch.branch("latch")
    if latch is not None:
        scope.error(not_yet(latch.spot, f"a clause in health.{name}.latch", mark="key"))
    latched = branch.is_on("latch")
    if leaf is not None and latched:
        message = "latch = true is never healthy again by itself, and recover says when it is; say one of them only"
        scope.error(leaf.spot.error("type", message, 'take latch out; recover = "never" is the same'))
    if latched or (leaf is not None and leaf.value == "never"):
        return None
    return _after(leaf, scope)
