"""Facts of a group: those of the ID member, of the named members, and of all members.

A device with one host device has them too: it is its own only member.
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
    """The facts of a group. A word without a member name and without `members` or `matched` belongs to the ID member.

    Args:
        id_member: the facts of the ID member. None if it does not exist, and all its words are absent.
        members: the facts of all members.
        matched: the facts of the members that match.
        named_members: the facts of each named member. None for a missing one.
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
        """Return the value of a word or path."""
        member_name, member_word = split_member_word(word)
        if member_name in self._member_lists:
            return merge_values([_read_member_word(facts, member_word) for facts in self._member_lists[member_name]])
        if member_name in self._named_members:
            member = self._named_members[member_name]
            return Absent(f"there is no {member_name}") if member is None else _read_member_word(member, member_word)
        return _NO_MEMBER if self._id_member is None else self._id_member(word)

    def replace_id_member(self, id_member: Facts | None) -> MemberFacts:
        """Return the facts of the same group with another ID member."""
        return MemberFacts(id_member, self._member_lists[MEMBERS], self._member_lists[MATCHED], self._named_members)

    def get_query_result(self, inquiry: Query) -> QueryResult:
        """Return the result of a query about the ID member."""
        return (
            QueryResult(QueryStatus.UNKNOWN, _NO_MEMBER.reason)
            if self._id_member is None
            else self._id_member.get_query_result(inquiry)
        )

    def find_partner(self, join: Join) -> Facts | Absent:
        """Return the facts of a partner of the ID member, or why there is none."""
        return _NO_MEMBER if self._id_member is None else self._id_member.find_partner(join)

    def follow_relation(self, word: str) -> tuple[Facts, ...] | Absent:
        """Return the facts of each device that a list relation leads to.

        `members` and `matched` are list relations too.
        """
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
    """Return the facts of a device with one host device."""
    return MemberFacts(facts, (facts,), (facts,), {})


def split_member_word(word: str) -> tuple[str, str]:
    """Split a word or path into the name at its beginning and the word of that member.

    `kit.tty.node` gives `kit` and `tty.node`. `kit/serial` gives `kit` and `./serial`.
    """
    member_name = word.partition("/")[0].partition(".")[0]
    end = len(member_name)
    mark, ending = word[end : end + 1], word[end + 1 :]
    return member_name, f"./{ending}" if mark == "/" else ending


def _read_member_word(facts: Facts, word: str) -> Value | Absent:
    return facts(word) if word else _get_display_name(facts)


def _get_display_name(facts: Facts) -> str:
    """Return the usual name of a device: for a device node the last part of the path, like its word `name`."""
    return facts.device.name.rpartition("/")[2]
