"""The result of a measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Line:
    """One line of the table: a number for each server that it was measured on.

    budget: what the agent may take, in the unit; a ratio to the bare Go server if `ratio`.
    """

    name: str
    what: str
    unit: str
    values: Mapping[str, float]
    budget: float | None = None
    ratio: bool = False
    digits: int = 1

    @property
    def met(self) -> bool | None:
        """Return whether the agent is within its budget; None without a budget or a reference."""
        if self.budget is None or "agent" not in self.values:
            return None
        if self.ratio:
            peer = self.values.get("bare Go")
            return None if not peer else self.values["agent"] <= self.budget * peer
        return self.values["agent"] <= self.budget

    def times(self, other: str) -> float | None:
        """How many times the other's number the agent's is."""
        if not self.values.get(other) or "agent" not in self.values:
            return None
        return self.values["agent"] / self.values[other]


@dataclass(frozen=True)
class Result:
    """The lines of one measurement, and how much of the time the measuring side itself was at work."""

    lines: Sequence[Line]
    seconds: float = 0.0
    own_cpu: float = 0.0
    notes: Sequence[str] = field(default_factory=tuple)


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value that this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return quantile(values, 0.5)
