"""Gathering: which host devices make a group, after each was judged by itself. Entry by entry, in file order.

An entry that claims all of a group has its members before later entries have them, whatever these match; what an
earlier entry has stays there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, TypeAlias

from agent.core.entry.group import Grouping, GroupKey
from agent.core.inventory.device import HostDevice
from agent.core.language.value import make_sort_key
from agent.core.struct import Struct, field


class GroupMembership(Struct):
    """What one host device says to the grouping of one entry.

    device: as the entry's source sees it. ties: what it shares with others of its group. part: which one it is, if the
    entry takes it and has parts.
    """

    device: HostDevice
    group_keys: tuple[GroupKey, ...]
    member_name: str = ""


class MatchOutcome(Protocol):
    """What entries make of one host device by itself.

    stopped: the number of the entry that takes it, or that may do so once more is known (`undecided`); later ones were
        not asked.
    tied: by number of the entry, for those whose group it may be in.
    """

    @property
    def taking_entry(self) -> int | None: ...
    @property
    def is_undecided(self) -> bool: ...
    @property
    def memberships(self) -> Mapping[int, GroupMembership]: ...


class Group(Struct):
    """Host devices that are one device of the entry with that number, in natural order of place.

    matched: those that made it; the other members come along.
    parts: by name, all that fit; every name of the grouping that is not here is missing.
    strangers: of the group too, but with an earlier entry.
    """

    entry: int
    members: tuple[HostDevice, ...]
    matched_members: tuple[HostDevice, ...]
    named_members: Mapping[str, tuple[HostDevice, ...]] = field(default_factory=dict)
    foreign_members: tuple[HostDevice, ...] = ()


GroupKeyIndex: TypeAlias = Mapping[GroupKey, frozenset[str]]  # the keys of all that have a tie


class Groups(Struct):
    """All groups, by key of each member; and what ties host devices together, by number of the entry."""

    groups: Mapping[str, Group] = field(default_factory=dict)
    group_keys: Mapping[int, GroupKeyIndex] = field(default_factory=dict)


def build_groups(
    groupings: Mapping[int, Grouping],
    now: Mapping[str, MatchOutcome],
    previous: Groups,
    before: Mapping[str, MatchOutcome],
    doubtful: Collection[str],
) -> tuple[Groups, set[str]]:
    """The groups as they are now, and the keys of all whose group was looked at again, or is none any more.

    Args:
        groupings: by number of the entry, in file order.
        now: what each host device was judged to be, by key.
        previous: the groups of the look before.
        before: what that look judged.
        doubtful: the keys of which `now` and `before` may differ.
    """
    groups, bonds = {**previous.groups}, {**previous.group_keys}
    renewed: set[str] = set()
    for entry, grouping in groupings.items():
        old = bonds.get(entry, {})
        new = bonds[entry] = _bonds(old, entry, before, now, doubtful)
        concerned = {*doubtful, *renewed}
        stirred = _reached(concerned, entry, before, old) | _reached(concerned, entry, now, new)
        for key in stirred:
            group = previous.groups.get(key)
            if group is not None and group.entry == entry:
                renewed.add(key)
                if groups.get(key) is group:
                    del groups[key]
        earlier = {key for key in stirred if key in groups and groups[key].entry < entry}
        mine = {key for key in stirred - earlier if _takes(now.get(key), entry)}
        while mine:
            first = next(iter(mine))
            together = _reached((first,), entry, now, new, None if grouping.includes_unmatched else mine)
            made = _group(entry, now, together & mine, together, earlier)
            for member in made.members:
                groups[member.key] = made
                renewed.add(member.key)
            mine -= together
    return Groups(groups, bonds), renewed


def _group(
    entry: int, now: Mapping[str, MatchOutcome], matched: set[str], together: set[str], earlier: set[str]
) -> Group:
    """The group of all that are together."""
    strangers = {key for key in together if key in earlier or _is_earlier(now[key], entry)}
    parts: dict[str, list[HostDevice]] = {}
    for device in _in_order(matched, entry, now):
        if part := now[device.key].memberships[entry].member_name:
            parts.setdefault(part, []).append(device)
    return Group(
        entry,
        _in_order(together - strangers, entry, now),
        _in_order(matched, entry, now),
        {name: tuple(found) for name, found in parts.items()},
        _in_order(strangers, entry, now),
    )


def _takes(judged: MatchOutcome | None, entry: int) -> bool:
    return judged is not None and judged.taking_entry == entry and not judged.is_undecided


def _is_earlier(judged: MatchOutcome, entry: int) -> bool:
    return judged.taking_entry is not None and judged.taking_entry < entry


def _in_order(keys: Iterable[str], entry: int, now: Mapping[str, MatchOutcome]) -> tuple[HostDevice, ...]:
    return tuple(
        sorted((now[key].memberships[entry].device for key in keys), key=lambda device: make_sort_key(device.location))
    )


def _bonds(
    old: GroupKeyIndex,
    entry: int,
    before: Mapping[str, MatchOutcome],
    now: Mapping[str, MatchOutcome],
    doubtful: Iterable[str],
) -> GroupKeyIndex:
    """What ties all together now; the old one with what changed."""
    changed: dict[GroupKey, set[str]] = {}
    for key in doubtful:
        for tie in _ties(key, entry, before):
            changed.setdefault(tie, {*old.get(tie, ())}).discard(key)
        for tie in _ties(key, entry, now):
            changed.setdefault(tie, {*old.get(tie, ())}).add(key)
    now_tied = {**old, **{tie: frozenset(keys) for tie, keys in changed.items()}}
    for tie in changed:
        if not now_tied[tie]:
            del now_tied[tie]
    return now_tied


def _ties(key: str, entry: int, judged: Mapping[str, MatchOutcome]) -> tuple[GroupKey, ...]:
    found = judged.get(key)
    tied = None if found is None else found.memberships.get(entry)
    return () if tied is None else tied.group_keys


def _reached(
    keys: Iterable[str],
    entry: int,
    judged: Mapping[str, MatchOutcome],
    bonds: GroupKeyIndex,
    within: Collection[str] | None = None,
) -> set[str]:
    """All that are together with one of these, themselves included, as far as the entry's source sees them."""
    reached: set[str] = set()
    followed: set[GroupKey] = set()
    ahead = [key for key in keys if key in judged and entry in judged[key].memberships]
    while ahead:
        key = ahead.pop()
        if key in reached or (within is not None and key not in within):
            continue
        reached.add(key)
        for tie in _ties(key, entry, judged):
            if tie not in followed:
                followed.add(tie)
                ahead.extend(bonds[tie])
    return reached
