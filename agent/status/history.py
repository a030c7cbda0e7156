"""The last changes of each device since the start of the agent. The size is bounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TypeAlias

from agent.core.lists.transitions import Transition, TransitionRecord

CHANGES = 50  # of one device
DEVICES = 10_000

Changes: TypeAlias = Mapping[tuple[str, str], tuple[TransitionRecord, ...]]  # by resource and id, oldest first


class History:
    """The last changes of the devices that changed last."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, str], tuple[TransitionRecord, ...]] = {}

    def record(self, transitions: Iterable[Transition], time: float) -> None:
        """Add transitions with their monotonic time."""
        for transition in transitions:
            name = transition.resource, transition.id
            previous = self._changes.pop(name, ())
            recent = previous[1 - CHANGES :]
            if (
                len(recent) < len(previous)
                and not any(map(_has_health_change, recent))
                and _has_health_change(previous[0])
            ):
                recent = (
                    previous[0],
                    *recent[1:],
                )  # keeps the last change of health, even after many changes of the reason
            self._changes[name] = (
                *recent,
                TransitionRecord(
                    time, transition.old_health, transition.new_health, transition.reason, transition.check
                ),
            )
        for name in list(islice(self._changes, max(0, len(self._changes) - DEVICES))):
            del self._changes[name]

    def find_change_time(self, resource: str, id: str) -> float | None:  # noqa: A002  the API's own word
        """Return since when a device has its health, in monotonic seconds. Return None without a change since the
        start.
        """
        changes = self._changes.get((resource, id), ())
        return next((change.time for change in reversed(changes) if _has_health_change(change)), None)

    @property
    def changes(self) -> Changes:
        """A copy of all recorded changes."""
        return dict(self._changes)


def _has_health_change(change: TransitionRecord) -> bool:
    return change.old_health is not change.new_health
