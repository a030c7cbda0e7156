"""The words of a text under `give`, of one device in one container."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence

from agent.core.entry.fact_copy import FactCopy
from agent.core.grants.grant import RereadDevice, RereadMember
from agent.core.language.template import FactReader, Template
from agent.core.language.value import Absent, Scalar, Value

_EACH = "each "  # how elements are counted under that are of every host device of a device; no word has a blank


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
        self._things = device.related_facts
        self._each = device.members
        self._counted: Mapping[str, int] = dict(element_counts)
        self._counter = ""
        self._numbers: dict[str, tuple[int, ...]] = {}
        self.number = number
        self._own: dict[str, Value | Absent] = {
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
        if word in self._own:
            return self._own[word]
        absent = Absent("was not given" if word.startswith("given.") else "was not read")
        return self._facts.get(word, absent)

    def follow_relation(self, word: str) -> tuple[FactCopy, ...] | Absent:
        """What is known of each thing that a word leads to, as far as a clause asks for it."""
        return self._things.get(word, Absent("was not read"))

    def list_elements(self, text: Template) -> Iterator[tuple[int, FactReader]]:
        """The words for each element of the text's list word, with that element in its place; else themselves."""
        for slot in text.slots:
            value = self(slot.word)
            if isinstance(value, tuple) and value:
                first = self._counted.get(f"{self._counter}{slot.word}", 0)
                numbers = self._numbers.get(slot.word, range(first, first + len(value)))
                for n, item in zip(numbers, value, strict=True):
                    yield n, overlay_words(self, {slot.word: item, "n": n})
                return
        yield self.number, self

    def list_members(self, *, per_member: bool) -> Iterator[tuple[GrantWords, bool]]:
        """The words by each host device, if `each` gives its own and several are the device, and whether that matched.

        Else themselves.
        """
        if not per_member or not self._each:
            yield self, True
            return
        counted = dict(self._counted)
        for one in self._each:
            yield copy.copy(self).use_member(one, counted), one.is_match
            counted = _counted_on(counted, one.facts, _EACH)

    def use_member(self, one: RereadMember, counted: Mapping[str, int]) -> GrantWords:
        """These words, those of one of several host devices now."""
        self._facts, self._things, self._counted, self._counter = one.facts, one.related_facts, counted, _EACH
        return self

    def set_given_paths(self, name: str, paths: Sequence[tuple[int, str]], *, is_list: bool) -> None:
        """Remember where a node came out: `given.NAME`, a list where several can. The first of a name that is given
        is meant, of those that are given on a condition.
        """
        word = f"given.{name}"
        earlier = self._own.get(word, ())
        if earlier != () and not isinstance(earlier, Absent):
            return
        if is_list:
            self._own[word] = tuple(path for _, path in paths)
            self._numbers[word] = tuple(n for n, _ in paths)
        else:
            self._own[word] = paths[0][1] if paths else Absent("nothing was given")

    def add_counts(self, counted: Mapping[str, int]) -> dict[str, int]:
        """The count with this device's list words."""
        more = _counted_on(counted, self._facts, "")
        for one in self._each:
            more = _counted_on(more, one.facts, _EACH)
        return more


def _counted_on(counted: Mapping[str, int], facts: Mapping[str, Value | Absent], counter: str) -> dict[str, int]:
    more = dict(counted)
    for word, value in facts.items():
        if isinstance(value, tuple):
            more[f"{counter}{word}"] = more.get(f"{counter}{word}", 0) + len(value)
    return more


def overlay_words(fact: FactReader, own: Mapping[str, Scalar]) -> FactReader:
    """The same, but for these words."""
    return lambda word: own[word] if word in own else fact(word)
