"""The words of a template under `give`, for one device in one container."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence

from agent.core.entry.fact_copy import FactCopy
from agent.core.grants.grant import RereadDevice, RereadMember
from agent.core.language.template import FactReader, Template
from agent.core.language.value import Absent, Scalar, Value

_MEMBER_PREFIX = "each "  # prefix of element counts over all members of a group; no word contains a blank


class GrantWords:
    """The words of a template under `give`: the words of the grant, then the words of the device.

    `{n}` is the number of the device in the container. In a template with a list word, `{n}` is the number of the
    element, counted over all devices. element_counts: the number of elements of each list word in the earlier devices.
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
        """Return the value of a word, or the reason for no value."""
        if word in self._grant_facts:
            return self._grant_facts[word]
        absent = Absent("was not given" if word.startswith("given.") else "was not read")
        return self._facts.get(word, absent)

    def follow_relation(self, word: str) -> tuple[FactCopy, ...] | Absent:
        """Return the facts of each device that a relation leads to, as far as a clause needs them."""
        return self._related_facts.get(word, Absent("was not read"))

    def list_elements(self, text: Template) -> Iterator[tuple[int, FactReader]]:
        """Yield the words for each element of the template's list word, or these words if it has no list word."""
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
        """Yield the words of each host device of a group, with whether it matched the entry.

        Without `per_member` (`each`), or for a single host device, yield these words.
        """
        if not per_member or not self._members:
            yield self, True
            return
        element_counts = dict(self._element_counts)
        for member in self._members:
            yield copy.copy(self).use_member(member, element_counts), member.is_match
            element_counts = _add_fact_counts(element_counts, member.facts, _MEMBER_PREFIX)

    def use_member(self, member: RereadMember, element_counts: Mapping[str, int]) -> GrantWords:
        """Change these words to those of one member of a group, and return them."""
        self._facts, self._related_facts = member.facts, member.related_facts
        self._element_counts, self._count_prefix = element_counts, _MEMBER_PREFIX
        return self

    def set_given_paths(self, name: str, paths: Sequence[tuple[int, str]], *, is_list: bool) -> None:
        """Set `given.NAME` to the container path of a node, or to a list if there can be several.

        If several conditional nodes have one name, the first one with a path counts.
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
        """Return the counts with the list words of this device added."""
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
    """Return a reader that uses these values first, and then the other reader."""
    return lambda word: values[word] if word in values else fact(word)
