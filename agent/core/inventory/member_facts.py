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
_NO_MEMBER = Absent("it is gone")


class MemberFacts:
    """What words say of such a device. What has no name of a part and none of all in front is the first one's.

    Args:
        first: of the member whose words stand for the device; None if that is gone, and so they say nothing.
        members, matched: of all members, and of those that made it.
        parts: of each part by name; None for one that is not there.
    """

    def __init__(
        self,
        id_member: Facts | None,
        members: Sequence[Facts],
        matched: Sequence[Facts],
        named_members: Mapping[str, Facts | None],
    ) -> None:
        self._id_member = id_member
        self._member_lists = {MEMBERS: members, MATCHED: matched}
        self._named_members = named_members

    def __call__(self, word: str) -> Value | Absent:
        """What a word or path says."""
        member_name, member_word = split_member_word(word)
        if member_name in self._member_lists:
            return merge_values([_read_member_word(facts, member_word) for facts in self._member_lists[member_name]])
        if member_name in self._named_members:
            member = self._named_members[member_name]
            return Absent(f"there is no {member_name}") if member is None else _read_member_word(member, member_word)
        return _NO_MEMBER if self._id_member is None else self._id_member(word)

    def replace_id_member(self, id_member: Facts | None) -> MemberFacts:
        """The same device by the words of another member."""
        return MemberFacts(id_member, self._member_lists[MEMBERS], self._member_lists[MATCHED], self._named_members)

    def get_query_result(self, inquiry: Query) -> QueryResult:
        """What is known of an inquiry about the first one."""
        return (
            QueryResult(QueryStatus.UNKNOWN, _NO_MEMBER.reason)
            if self._id_member is None
            else self._id_member.get_query_result(inquiry)
        )

    def find_partner(self, join: Join) -> Facts | Absent:
        """What is known of a partner of the first one."""
        return _NO_MEMBER if self._id_member is None else self._id_member.find_partner(join)

    def follow_relation(self, word: str) -> tuple[Facts, ...] | Absent:
        """What is known of each thing that a many leads to; of all members themselves these are."""
        member_name, member_word = split_member_word(word)
        if member_name in self._member_lists:
            members = self._member_lists[member_name]
            results = [facts.follow_relation(member_word) for facts in members] if member_word else [tuple(members)]
            absent = next(
                (result for result in results if isinstance(result, Absent) and (result.unreadable or result.pending)),
                None,
            )
            return absent or tuple(facts for result in results if not isinstance(result, Absent) for facts in result)
        if member_name in self._named_members:
            member = self._named_members[member_name]
            return Absent(f"there is no {member_name}") if member is None else member.follow_relation(member_word)
        return _NO_MEMBER if self._id_member is None else self._id_member.follow_relation(word)


def wrap_single_member(facts: Facts) -> MemberFacts:
    """The words of a device that is one host device."""
    return MemberFacts(facts, (facts,), (facts,), {})


def split_member_word(word: str) -> tuple[str, str]:
    """The part's name, or that of all, that a word or path begins with, and what follows for the one it leads to.

    `kit.tty.node` is `kit` and `tty.node`, `kit/serial` is `kit` and `./serial`.
    """
    member_name = word.partition("/")[0].partition(".")[0]
    end = len(member_name)
    mark, ending = word[end : end + 1], word[end + 1 :]
    return member_name, f"./{ending}" if mark == "/" else ending


def _read_member_word(facts: Facts, word: str) -> Value | Absent:
    return facts(word) if word else _get_display_name(facts)


def _get_display_name(facts: Facts) -> str:
    """Of a device as people name it; of a node the last part, as its word `name`."""
    return facts.device.name.rpartition("/")[2]
