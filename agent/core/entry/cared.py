"""What keeps the devices of a class or an entry well, as others speak of it that join them: `NAME.healthy`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from agent.core.entry.check import Check, Checked, Says
from agent.core.entry.inquiry import Answer, Heard, Inquiry
from agent.core.language.clause import Clause
from agent.core.language.logic import Knowledge
from agent.core.language.value import Absent, Value

HEALTHY, REASON = "healthy", "reason"
MOST = 3  # partners of whose health one check may speak: what it says is worked out for each that may be ill

_LATER = 0xE000  # private characters that stand for what is said of a partner until that is known


@dataclass(frozen=True, slots=True)
class Cared:
    """The checks, `wait` and `gate` of a class or an entry, by its name: what they find is so for all who join it."""

    name: str
    checks: tuple[Check, ...] = ()
    wait: tuple[Clause, ...] = ()
    gate: tuple[Clause, ...] = ()


class Assuming:
    """What is known of a device, if these of its partners are ill and the others well."""

    def __init__(self, facts: Heard, names: tuple[str, ...], ill: frozenset[str]) -> None:
        self._facts = facts
        self._said: dict[str, Value | Absent] = {}
        for number, name in enumerate(names):
            self._said[f"{name}.{HEALTHY}"] = name not in ill
            self._said[f"{name}.{REASON}"] = chr(_LATER + number) if name in ill else Absent("it is healthy")

    def __call__(self, word: str) -> Value | Absent:
        """See `Knowledge`."""
        return self._said[word] if word in self._said else self._facts(word)

    def each(self, word: str) -> tuple[Knowledge, ...] | Absent:
        """See `Knowledge`."""
        return self._facts.each(word)

    def answer(self, inquiry: Inquiry) -> Answer:
        """See `Heard`."""
        return self._facts.answer(inquiry)


def supposing(checked: Checked, facts: Heard) -> Checked:
    """What a check says for each of its partners being well or ill; `checked` is without any of that."""
    names = tuple(behind.name for behind in checked.behind)
    outcomes = {
        frozenset(ill): checked.check.ask(Assuming(facts, names, frozenset(ill)))
        for number in range(len(names) + 1)
        for ill in combinations(names, number)
    }
    return checked._replace(outcome=outcomes[frozenset()], supposed=outcomes)


def knowing(checked: Checked, ill: dict[str, str]) -> Checked:
    """What it says when it is known which of its partners are ill, and why."""
    if not checked.behind:
        return checked
    outcome = checked.supposed[frozenset(ill)]
    reason = outcome.reason
    for number, behind in enumerate(checked.behind):
        reason = reason.replace(chr(_LATER + number), ill.get(behind.name, ""))
    return checked._replace(outcome=outcome.because(reason))


def at_once(checked: Checked) -> Checked:
    """The same at a single look: who of them has a check that does not hold is ill."""
    ill: dict[str, str] = {}
    for behind in checked.behind:
        bad = (one for one in map(at_once, behind.checked) if one.outcome.says is Says.BAD)
        reason = behind.waits or next((one.said(one.outcome.reason) for one in bad), "")
        if reason:
            ill[behind.name] = reason
    return knowing(checked, ill)
