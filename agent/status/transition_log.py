"""Log lines of device transitions, one for each, with the affected pods."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from agent.core.grants.held_ids import Holders
from agent.core.inventory.device import Health, split_share
from agent.core.language.safe_text import escape
from agent.core.lists.transitions import MAX_TRANSITION_LINES, Transition
from agent.core.message_id import NOTICE, MessageId, build_log_extra
from agent.core.struct import Struct

log = logging.getLogger("agent")


class LoggedTransition(Struct):
    """A transition with its context: the start of the previous state (RFC 3339), the check, and the kernel log line."""

    change: Transition
    since: str = ""
    check: str = ""
    evidence: str = ""


def log_transitions(transitions: Sequence[LoggedTransition], get_holders: Callable[[], Holders]) -> None:
    """Log the transitions of one resource. More than STORM transitions are one line."""
    if len(transitions) > MAX_TRANSITION_LINES:
        _log_summary([transition.change for transition in transitions])
        return
    for transition in transitions:
        change = transition.change
        affects_pods = (change.is_blip or change.new_health is Health.UNHEALTHY) and change.old_health is Health.HEALTHY
        pods = _find_pods(change, get_holders()) if affects_pods else ()
        suffix = f" (held by {', '.join(pods)})" if pods else ""
        log.log(
            logging.WARNING if pods else _choose_level(change),
            "%s%s",
            escape(str(change)),
            escape(suffix),
            extra=build_log_extra(
                _choose_message_id(change),
                resource=change.resource,
                device=change.id,
                address=escape(change.location),
                **{"from": change.old_health.value if change.old_health else None},
                to=change.new_health.value if change.new_health else None,
                reason=escape(change.reason),
                pod=escape(" ".join(pods)),
                since=transition.since,
                check=transition.check,
                evidence=escape(transition.evidence),
            ),
        )


def _log_summary(changes: Sequence[Transition]) -> None:
    unhealthy_count = sum(change.new_health is not Health.HEALTHY for change in changes)
    log.warning(
        "%s: %d devices changed at once: %d Healthy, %d not; the first: %s",
        changes[0].resource,
        len(changes),
        len(changes) - unhealthy_count,
        unhealthy_count,
        escape(str(changes[0])),
        extra=build_log_extra(MessageId.AT_ONCE, resource=changes[0].resource),
    )


def _choose_message_id(change: Transition) -> MessageId:
    if change.is_blip:
        return MessageId.BLIP
    if change.new_health is None:
        return MessageId.GONE
    if change.new_health is Health.UNHEALTHY:
        return MessageId.UNHEALTHY
    return MessageId.HEALTHY if change.old_health is Health.UNHEALTHY else MessageId.LISTED


def _choose_level(change: Transition) -> int:
    levels = {MessageId.UNHEALTHY: logging.WARNING, MessageId.HEALTHY: NOTICE}
    return levels.get(_choose_message_id(change), logging.INFO)


def _find_pods(change: Transition, holders: Holders) -> Sequence[str]:
    """Return the pods with a device that is no longer Healthy, or was replaced."""
    names = {
        f"{holder.namespace}/{holder.pod}": None
        for (resource, id), device_holders in holders.items()  # noqa: A001  the API's own word
        if resource == change.resource and change.id in {id, split_share(id)[0][0]}
        for holder in device_holders
    }
    return [*names]
