"""What an entry said of one host device at a look: by its checks, and by what else hangs on the health of partners.

That is known when the checks of the partners are concluded, after the look. So what is read for it is recorded, and
asked then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agent.core.entry.cared import HEALTHY, REASON
from agent.core.entry.check import Check, Outcome
from agent.core.entry.inquiry import Answer, Asks, Heard, Inquiry, Reply
from agent.core.entry.log import Log
from agent.core.entry.recorded import Recorded, recorded
from agent.core.entry.rises import Rises
from agent.core.language.clause import Clause
from agent.core.language.logic import THREE_VALUED, Knowledge
from agent.core.language.text import Fact
from agent.core.language.value import Absent, Value
from agent.core.reason import Reason, ReasonCause
from agent.core.struct import replace


class Checked(NamedTuple):
    """What a check of an entry said of one host device at a look.

    entry: the resource's name as the entry writes it. key, place: those of the host device. member: its name, where it
    is one of several that are one device.
    behind: the partners of whose health it speaks. read: what it is asked over when that is known.
    """

    entry: str
    check: Check
    key: str
    place: str
    outcome: Outcome
    member: str = ""
    behind: tuple[Behind, ...] = ()
    read: Read | None = None

    def failure(self, text: str) -> Reason:
        """Return the reason of a device of which this check fails, with the member that it is about."""
        return Reason(ReasonCause.CHECK, f"{self.member}: {text}" if self.member else text, self.check.name)


class Hung(NamedTuple):
    """What else of an entry hangs on the health of partners, of the host device with that key.

    behind: the partners. wait: the `wait` that speaks of it, and what that is asked over; None for what is given,
    which a grant asks.
    """

    key: str
    behind: tuple[Behind, ...]
    wait: tuple[Clause, Recorded] | None = None


class Behind(NamedTuple):
    """A partner as others speak of it: the join's name, why it waits, what its own checks say, and what hangs on its
    own partners.
    """

    name: str
    waits: str
    checked: tuple[Checked, ...]
    hung: tuple[Hung, ...] = ()


class Read(NamedTuple):
    """What a check was to be told of a device at a look, but for the health of its partners."""

    facts: Recorded
    inquiry: Inquiry | Absent | None = None
    answer: Answer = Answer(Reply.UNKNOWN)


class WithHealth:
    """What was read of a device, and which of its partners of these names are ill, and why."""

    def __init__(self, read: Knowledge, behind: tuple[Behind, ...], ill: Mapping[str, str], answer: Answer) -> None:
        self._read = read
        self._answer = answer
        self._said: dict[str, Value | Absent] = {}
        for one in behind:
            self._said[f"{one.name}.{HEALTHY}"] = one.name not in ill
            self._said[f"{one.name}.{REASON}"] = ill.get(one.name) or Absent("it is healthy")

    def __call__(self, word: str) -> Value | Absent:
        """See `Knowledge`."""
        return self._said[word] if word in self._said else self._read(word)

    def each(self, word: str) -> tuple[Knowledge, ...] | Absent:
        """See `Knowledge`."""
        return self._read.each(word)

    def answer(self, inquiry: Inquiry) -> Answer:
        """See `Heard`."""
        del inquiry
        return self._answer


class _Asked(NamedTuple):
    """What was asked at the look."""

    known: Inquiry | Absent

    def inquiry(self, facts: Fact) -> Inquiry | Absent:
        """See `Asks`."""
        del facts
        return self.known


def read_for(check: Check, facts: Heard) -> Read:
    """All that a check is to be told of a device, but for the health of its partners."""
    words = [slot.word for slot in check.reason.slots] if check.reason else []
    clauses = [] if check.when is None else [check.when]
    match check.holds:
        case Clause():
            clauses.append(check.holds)
        case Rises(word):
            words.append(word)
        case Log():
            pattern = check.holds.pattern
            taken = {brace.word for brace in pattern.taken}  # which a line says, and no look
            words = [word for word in words if word not in taken] + [brace.word for brace in pattern.compared]
        case _:
            inquiry = check.holds.inquiry(facts) if _may_apply(check, facts) else Absent("it does not apply")
            answer = Answer(Reply.UNKNOWN) if isinstance(inquiry, Absent) else facts.answer(inquiry)
            return Read(recorded(clauses, facts, words), inquiry, answer)
    return Read(recorded(clauses, facts, words))


def _may_apply(check: Check, facts: Heard) -> bool:
    """Whether it may apply, by what is known of it before its partners are: else nobody is asked."""
    if check.when is None:
        return True
    of_health = {f"{name}.{word}" for name in check.leans for word in (HEALTHY, REASON)}
    for statement in check.when.lines:
        one = replace(check.when, lines=(statement,))
        holds = one.verdict(facts, THREE_VALUED)
        if holds is False or (holds is None and of_health.isdisjoint(line.word for line in one.every_line())):
            return False
    return True


def knowing(checked: Checked, ill: Mapping[str, str]) -> Checked:
    """What it says when it is known which of its partners are ill, and why."""
    read, check = checked.read, checked.check
    if read is None:
        return checked
    if read.inquiry is not None:
        asked: Asks = _Asked(read.inquiry)
        check = replace(check, holds=asked)
    return checked._replace(outcome=check.ask(WithHealth(read.facts, checked.behind, ill, read.answer)))
