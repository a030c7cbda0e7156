"""The words of a text under `give`, of one device in one container."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence

from agent.core.entry.fact_copy import FactCopy
from agent.core.grants.grant import RereadDevice, RereadMember
from agent.core.language.template import FactReader, Template
from agent.core.language.value import Absent, Scalar, Value

_MEMBER_PREFIX = (
    "each "  # how elements are counted under that are of every host device of a device; no word has a blank
)


class GrantWords:
    """The words of a text under `give`: those of the giving itself, then the device's own.

    `{n}` is the same in all items of a device: the device's number in the container, or, in a text with
    a list word, the number of the element, counted on over the devices. counted: how many elements each list word had
    in the devices before this.
    """

    def __init__(
        self,
        resource: str,
        device: RereadDevice,
        number: int,
        element_counts: Mapping[str, int],
        *,
        requested_count: int,
        listed_count: int,
    ) -> None:
        shares = device.device.shares or 1
        self._facts = device.facts
        self._related_facts = device.related_facts
        self._members = device.members
        self._element_counts: Mapping[str, int] = dict(element_counts)
        self._count_prefix = ""
        self._numbers: dict[str, tuple[int, ...]] = {}
        self.number = number
        self._grant_facts: dict[str, Value | Absent] = {
            "resource": resource,
            "id": device.device.id,
            "n": number,
            "asked": requested_count,
            "offered": listed_count,
            "all_given": requested_count == listed_count,
            "shares": shares,
            "share": device.shares[0] if device.shares else 0,
            "share_percent": 100 // shares,
        }

    def __call__(self, word: str) -> Value | Absent:
        """What a word says."""
        if word in self._grant_facts:
            return self._grant_facts[word]
        absent = Absent("was not given" if word.startswith("given.") else "was not read")
        return self._facts.get(word, absent)

    def follow_relation(self, word: str) -> tuple[FactCopy, ...] | Absent:
        """What is known of each thing that a word leads to, as far as a clause asks for it."""
        return self._related_facts.get(word, Absent("was not read"))

    def list_elements(self, text: Template) -> Iterator[tuple[int, FactReader]]:
        """The words for each element of the text's list word, with that element in its place; else themselves."""
        for slot in text.slots:
            value = self(slot.word)
            if isinstance(value, tuple) and value:
                start = self._element_counts.get(f"{self._count_prefix}{slot.word}", 0)
                numbers = self._numbers.get(slot.word, range(start, start + len(value)))
                for n, item in zip(numbers, value, strict=True):
                    yield n, overlay_words(self, {slot.word: item, "n": n})
                return
        yield self.number, self

    def list_members(self, *, per_member: bool) -> Iterator[tuple[GrantWords, bool]]:
        """The words by each host device, if `each` gives its own and several are the device, and whether that matched.

        Else themselves.
        """
        if not per_member or not self._members:
            yield self, True
            return
        element_counts = dict(self._element_counts)
        for member in self._members:
            yield copy.copy(self).use_member(member, element_counts), member.is_match
            element_counts = _add_fact_counts(element_counts, member.facts, _MEMBER_PREFIX)

    def use_member(self, member: RereadMember, element_counts: Mapping[str, int]) -> GrantWords:
        """These words, those of one of several host devices now."""
        self._facts, self._related_facts, self._element_counts, self._count_prefix = (
            member.facts,
            member.related_facts,
            element_counts,
            _MEMBER_PREFIX,
        )
        return self

    def set_given_paths(self, name: str, paths: Sequence[tuple[int, str]], *, is_list: bool) -> None:
        """Remember where a node came out: `given.NAME`, a list where several can. The first of a name that is given
        is meant, of those that are given on a condition.
        """
        word = f"given.{name}"
        earlier = self._grant_facts.get(word, ())
        if earlier != () and not isinstance(earlier, Absent):
            return
        if is_list:
            self._grant_facts[word] = tuple(path for _, path in paths)
            self._numbers[word] = tuple(n for n, _ in paths)
        else:
            self._grant_facts[word] = paths[0][1] if paths else Absent("nothing was given")

    def add_counts(self, element_counts: Mapping[str, int]) -> dict[str, int]:
        """The count with this device's list words."""
        counts = _add_fact_counts(element_counts, self._facts, "")
        for member in self._members:
            counts = _add_fact_counts(counts, member.facts, _MEMBER_PREFIX)
        return counts


def _add_fact_counts(
    element_counts: Mapping[str, int], facts: Mapping[str, Value | Absent], prefix: str
) -> dict[str, int]:
    counts = dict(element_counts)
    for word, value in facts.items():
        if isinstance(value, tuple):
            counts[f"{prefix}{word}"] = counts.get(f"{prefix}{word}", 0) + len(value)
    return counts


def overlay_words(fact: FactReader, values: Mapping[str, Scalar]) -> FactReader:
    """The same, but for these words."""
    return lambda word: values[word] if word in values else fact(word)
