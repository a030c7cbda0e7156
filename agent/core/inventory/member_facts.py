"""The words of a device that is several host devices: its first one's, those of its parts by name, and of all.

A device that is one host device has them too: it is all its own members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.core.entry.joins import Join
from agent.core.entry.query import Query, QueryResult, QueryStatus
from agent.core.inventory.facts import Facts
from agent.core.language.value import Absent, Value, merge_values

MATCHED, MEMBERS = "matched", "members"
MEMBER_LISTS = frozenset((MATCHED, MEMBERS))
_GONE = Absent("it is gone")


class MemberFacts:
    """What words say of such a device. What has no name of a part and none of all in front is the first one's.

    Args:
        first: of the member whose words stand for the device; None if that is gone, and so they say nothing.
        members, matched: of all members, and of those that made it.
        parts: of each part by name; None for one that is not there.
    """

    def __init__(
        self,
        first: Facts | None,
        members: Sequence[Facts],
        matched: Sequence[Facts],
        parts: Mapping[str, Facts | None],
    ) -> None:
        self._first = first
        self._several = {MEMBERS: members, MATCHED: matched}
        self._parts = parts

    def __call__(self, word: str) -> Value | Absent:
        """What a word or path says."""
        head, rest = split_member_word(word)
        if head in self._several:
            return merge_values([_one(facts, rest) for facts in self._several[head]])
        if head in self._parts:
            part = self._parts[head]
            return Absent(f"there is no {head}") if part is None else _one(part, rest)
        return _GONE if self._first is None else self._first(word)

    def replace_first(self, first: Facts | None) -> MemberFacts:
        """The same device by the words of another member."""
        return MemberFacts(first, self._several[MEMBERS], self._several[MATCHED], self._parts)

    def get_query_result(self, inquiry: Query) -> QueryResult:
        """What is known of an inquiry about the first one."""
        return (
            QueryResult(QueryStatus.UNKNOWN, _GONE.reason)
            if self._first is None
            else self._first.get_query_result(inquiry)
        )

    def find_partner(self, join: Join) -> Facts | Absent:
        """What is known of a partner of the first one."""
        return _GONE if self._first is None else self._first.find_partner(join)

    def follow_relation(self, word: str) -> tuple[Facts, ...] | Absent:
        """What is known of each thing that a many leads to; of all members themselves these are."""
        head, rest = split_member_word(word)
        if head in self._several:
            several = self._several[head]
            found = [facts.follow_relation(rest) for facts in several] if rest else [tuple(several)]
            absent = next(
                (each for each in found if isinstance(each, Absent) and (each.unreadable or each.pending)), None
            )
            return absent or tuple(facts for each in found if not isinstance(each, Absent) for facts in each)
        if head in self._parts:
            part = self._parts[head]
            return Absent(f"there is no {head}") if part is None else part.follow_relation(rest)
        return _GONE if self._first is None else self._first.follow_relation(word)


def wrap_single_member(facts: Facts) -> MemberFacts:
    """The words of a device that is one host device."""
    return MemberFacts(facts, (facts,), (facts,), {})


def split_member_word(word: str) -> tuple[str, str]:
    """The part's name, or that of all, that a word or path begins with, and what follows for the one it leads to.

    `kit.tty.node` is `kit` and `tty.node`, `kit/serial` is `kit` and `./serial`.
    """
    head = word.partition("/")[0].partition(".")[0]
    end = len(head)
    mark, rest = word[end : end + 1], word[end + 1 :]
    return head, f"./{rest}" if mark == "/" else rest


def _one(facts: Facts, word: str) -> Value | Absent:
    return facts(word) if word else _name(facts)


def _name(facts: Facts) -> str:
    """Of a device as people name it; of a node the last part, as its word `name`."""
    return facts.device.name.rpartition("/")[2]
