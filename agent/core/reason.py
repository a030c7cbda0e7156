"""Reasons: why a resource is not streaming, or why a device is Unhealthy.

Code decides by the cause and the check of a reason, never by its text: texts are for people and may change.
"""

from __future__ import annotations

from enum import Enum

from agent.core.struct import Struct


class ReasonCause(Enum):
    """The kinds of reasons that code tells apart.

    NONE: there is no reason. OTHER: a reason by whose kind nothing is decided.
    STARTING: a resource has not reached its first phase. KUBELET: the kubelet is down or was replaced. REFUSED: the
        kubelet refused a registration. CHECK: a health check fails. DRAIN: an administrator drained the device.
    """

    NONE = "none"
    OTHER = "other"
    STARTING = "starting"
    KUBELET = "kubelet"
    REFUSED = "refused"
    CHECK = "check"
    DRAIN = "drain"


_HEADS = {
    ReasonCause.KUBELET: "kubelet",
    ReasonCause.REFUSED: "the kubelet refused",
    ReasonCause.DRAIN: "drained",
}


class Reason(Struct):
    """A reason. `str()` is its sentence for people, and a reason with the cause NONE is false.

    text: the sentence without its head; the head is the check, or follows from the cause.
    check: the name of the check that fails; empty for every other cause.
    path: the path on the host that is missing or cannot be written; empty if the reason is not about a path.
    """

    cause: ReasonCause = ReasonCause.NONE
    text: str = ""
    check: str = ""
    path: str = ""

    @classmethod
    def from_text(cls, text: str, *, path: str = "") -> Reason:
        """Return a reason with the cause OTHER, or `NO_REASON` if the text is empty."""
        return cls(ReasonCause.OTHER, text, path=path) if text else NO_REASON

    def __bool__(self) -> bool:
        """Return whether there is a reason."""
        return self.cause is not ReasonCause.NONE

    def __str__(self) -> str:
        """Return the sentence for people, or an empty string if there is no reason."""
        if self.check:
            return f"{self.check}: {self.text}"
        head = _HEADS.get(self.cause, "")
        return f"{head}: {self.text}" if head and self.text else head or self.text


NO_REASON = Reason()
