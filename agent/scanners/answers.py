"""Answers: what programs, services and probes have told, for whoever reads facts of host devices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from agent.core.entry.inquiry import Answer, Probe, Question, Reply
from agent.core.language.value import Absent, Scalar


class Answers(Protocol):
    """Who knows what programs, services and probes have told."""

    def answer(self, inquiry: Question) -> Answer:
        """What is known of an inquiry. One that was never heard of is asked from now on. Called in any thread."""

    def verdict(self, probe: Probe, places: Iterable[str]) -> Answer:
        """What a probe says of what has these names. One that was never heard of is started. Called in any thread."""

    def field(self, probe: Probe, places: Iterable[str], field: str) -> Scalar | Absent:
        """What it reports as a field."""


class _Unasked:
    """Where nobody asks: as if all of them gave this answer."""

    def __init__(self, reply: Reply, why: str) -> None:
        self._answer = Answer(reply, why)

    def answer(self, inquiry: Question) -> Answer:
        """See `Answers`."""
        del inquiry
        return self._answer

    def verdict(self, probe: Probe, places: Iterable[str]) -> Answer:
        """See `Answers`."""
        del probe, places
        return self._answer

    def field(self, probe: Probe, places: Iterable[str], field: str) -> Scalar | Absent:
        """See `Answers`."""
        del probe, places, field
        return Absent(self._answer.reason, pending=self._answer.reply is Reply.AWAITED)


UNASKED = _Unasked(Reply.AWAITED, "only a running agent asks")
UNRUN = _Unasked(Reply.OFF, "no program is run here")
