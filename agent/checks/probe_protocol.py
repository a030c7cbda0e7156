"""The lines of a probe and their meaning. The protocol is in docs/probes.md."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TypeAlias

from agent.core.entry.query import QueryStatus
from agent.core.language.template import has_control
from agent.core.language.value import Scalar, ValueType, parse_kernel_text
from agent.core.struct import Struct

LINE_LIMIT = 65536  # bytes of a line, longer lines are dropped
_TEXT_LIMIT = 4096  # characters of a location, a name, a value, a reason


class ReportedHealth(Struct):
    """The health of a location, with the reason."""

    location: str
    reply: QueryStatus
    reason: str = ""


class ReportedField(Struct):
    """The value of a field at a location, or None if it is no longer known."""

    location: str
    name: str
    value: Scalar | None


class ReportRemoval(Struct):
    """The end of all reports for a location."""

    location: str


class ProbeOff(Struct):
    """The probe has nothing to report on this host, with the reason."""

    reason: str


class ReportComplete(Struct):
    """All current reports were sent."""


class ProbeAlive(Struct):
    """A line without content. It shows only that the probe is alive."""


ProbeLine: TypeAlias = ReportedHealth | ReportedField | ReportRemoval | ProbeOff | ReportComplete | ProbeAlive
_HEALTH = {True: QueryStatus.HEALTHY, False: QueryStatus.UNHEALTHY, None: QueryStatus.UNKNOWN}


def parse_line(line: bytes) -> ProbeLine | None:
    """Return the content of a line, or None if it is not in the protocol."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not all(map(_is_allowed, fields.values())):
        return None
    return _make_line(fields)


def _make_line(fields: dict[str, object]) -> ProbeLine | None:
    match fields:
        case {"place": str(location), "healthy": bool() | None as is_healthy, **rest} if not rest.keys() - {"reason"}:
            reason = rest.get("reason") or ""
            return (
                ReportedHealth(_normalize_location(location), _HEALTH[is_healthy], reason)
                if isinstance(reason, str)
                else None
            )
        case {"place": str(location), "field": str(name), "value": str() | int() | None as value, **rest} if not rest:
            return ReportedField(_normalize_location(location), name, value)
        case {"place": str(location), "gone": True, **rest} if not rest:
            return ReportRemoval(_normalize_location(location))
        case {"off": str(reason), **rest} if not rest:
            return ProbeOff(reason)
        case {"complete": True, **rest} if not rest:
            return ReportComplete()
    return None if fields else ProbeAlive()


def _is_allowed(value: object) -> bool:
    """Return whether a value is safe to use in a name, a variable or a log line."""
    if isinstance(value, str):
        return len(value) <= _TEXT_LIMIT and not has_control(value)
    return not isinstance(value, int) or -(2**63) <= value < 2**64


def _normalize_location(text: str) -> str:
    """Return a location in the form of the agent: a PCI address may have any of its forms."""
    address = parse_kernel_text(ValueType.PCI, text)
    return address if isinstance(address, str) else text


class ProbeLineParser:
    """Parser of bytes into lines. A line above the size limit is dropped up to its end."""

    def __init__(self) -> None:
        self._partial_line = b""
        self._dropping = False

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Yield the lines that end in these bytes."""
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            if not self._dropping and line.strip():
                yield line
            self._dropping = False
        if len(self._partial_line) > LINE_LIMIT:
            self._partial_line, self._dropping = b"", True
