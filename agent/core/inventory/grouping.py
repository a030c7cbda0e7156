"""Groups: which host devices form one device. Each is matched alone first, then grouped entry by entry in file order.

An entry that takes whole groups gets its members before all later entries. A device that an earlier entry has stays
there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, TypeAlias

from agent.core.entry.group import Grouping, GroupKey
from agent.core.inventory.device import HostDevice
from agent.core.language.value import make_sort_key
from agent.core.struct import Struct, field


class GroupMembership(Struct):
    """The possible membership of one host device in a group of one entry.

    device: the host device as the source of the entry shows it.
    group_keys: the values that it shares with other devices of its group.
    member_name: its name in `group.parts`, if the entry takes it and has parts.
    """

    device: HostDevice
    group_keys: tuple[GroupKey, ...]
    member_name: str = ""


class MatchOutcome(Protocol):
    """The outcome of matching one host device alone.

    taking_entry: the number of the entry that takes the device, or can take it later (`is_undecided`). Later entries
        were not tried.
    memberships: the group memberships, by number of each entry whose group can contain the device.
    """

    @property
    def taking_entry(self) -> int | None: ...
    @property
    def is_undecided(self) -> bool: ...
    @property
    def memberships(self) -> Mapping[int, GroupMembership]: ...


class Group(Struct):
    """Host devices that form one device of the entry with that number, in natural order of location.

    matched_members: the members that the entry takes. The other members belong to the group by their group key.
    named_members: the members by name of `group.parts`. A name without an item here is missing.
    foreign_members: devices of the group that belong to an earlier entry.
    """

    entry: int
    members: tuple[HostDevice, ...]
    matched_members: tuple[HostDevice, ...]
    named_members: Mapping[str, tuple[HostDevice, ...]] = field(default_factory=dict)
    foreign_members: tuple[HostDevice, ...] = ()


GroupKeyIndex: TypeAlias = Mapping[GroupKey, frozenset[str]]  # the device keys by group key


class Groups(Struct):
    """All groups, by key of each member, and the group keys of all devices, by number of the entry."""

    groups: Mapping[str, Group] = field(default_factory=dict)
    group_keys: Mapping[int, GroupKeyIndex] = field(default_factory=dict)


def build_groups(
    groupings: Mapping[int, Grouping],
    outcomes: Mapping[str, MatchOutcome],
    previous: Groups,
    previous_outcomes: Mapping[str, MatchOutcome],
    dirty_keys: Collection[str],
) -> tuple[Groups, set[str]]:
    """Build the groups, and return them with the keys of all devices whose group was built again or no longer exists.

    Args:
        groupings: the `group` tables, by number of the entry, in file order.
        outcomes: the match outcome of each host device, by key.
        previous: the groups of the last look.
        previous_outcomes: the match outcomes of the last look.
        dirty_keys: the keys for which `outcomes` and `previous_outcomes` can differ.
    """
    groups, key_indexes = {**previous.groups}, {**previous.group_keys}
    changed_keys: set[str] = set()
    for entry, grouping in groupings.items():
        old_index = key_indexes.get(entry, {})
        new_index = key_indexes[entry] = _update_index(old_index, entry, previous_outcomes, outcomes, dirty_keys)
        start_keys = {*dirty_keys, *changed_keys}
        reached_keys = _find_connected_keys(start_keys, entry, previous_outcomes, old_index) | _find_connected_keys(
            start_keys, entry, outcomes, new_index
        )
        for key in reached_keys:
            group = previous.groups.get(key)
            if group is not None and group.entry == entry:
                changed_keys.add(key)
                if groups.get(key) is group:
                    del groups[key]
        earlier_keys = {key for key in reached_keys if key in groups and groups[key].entry < entry}
        matched_keys = {key for key in reached_keys - earlier_keys if _is_taken(outcomes.get(key), entry)}
        while matched_keys:
            start_key = next(iter(matched_keys))
            group_device_keys = _find_connected_keys(
                (start_key,), entry, outcomes, new_index, None if grouping.includes_unmatched else matched_keys
            )
            new_group = _make_group(entry, outcomes, group_device_keys & matched_keys, group_device_keys, earlier_keys)
            for member in new_group.members:
                groups[member.key] = new_group
                changed_keys.add(member.key)
            matched_keys -= group_device_keys
    return Groups(groups, key_indexes), changed_keys


def _make_group(
    entry: int,
    outcomes: Mapping[str, MatchOutcome],
    matched_keys: set[str],
    device_keys: set[str],
    earlier_keys: set[str],
) -> Group:
    """Build the group of these devices."""
    foreign_keys = {key for key in device_keys if key in earlier_keys or _is_taken_earlier(outcomes[key], entry)}
    named_members: dict[str, list[HostDevice]] = {}
    for device in _sort_devices(matched_keys, entry, outcomes):
        if part := outcomes[device.key].memberships[entry].member_name:
            named_members.setdefault(part, []).append(device)
    return Group(
        entry,
        _sort_devices(device_keys - foreign_keys, entry, outcomes),
        _sort_devices(matched_keys, entry, outcomes),
        {name: tuple(devices) for name, devices in named_members.items()},
        _sort_devices(foreign_keys, entry, outcomes),
    )


def _is_taken(outcome: MatchOutcome | None, entry: int) -> bool:
    return outcome is not None and outcome.taking_entry == entry and not outcome.is_undecided


def _is_taken_earlier(outcome: MatchOutcome, entry: int) -> bool:
    return outcome.taking_entry is not None and outcome.taking_entry < entry


def _sort_devices(keys: Iterable[str], entry: int, outcomes: Mapping[str, MatchOutcome]) -> tuple[HostDevice, ...]:
    return tuple(
        sorted(
            (outcomes[key].memberships[entry].device for key in keys), key=lambda device: make_sort_key(device.location)
        )
    )


def _update_index(
    old_index: GroupKeyIndex,
    entry: int,
    previous_outcomes: Mapping[str, MatchOutcome],
    outcomes: Mapping[str, MatchOutcome],
    dirty_keys: Iterable[str],
) -> GroupKeyIndex:
    """Return the index of an entry after these keys have changed."""
    changed: dict[GroupKey, set[str]] = {}
    for key in dirty_keys:
        for group_key in _get_group_keys(key, entry, previous_outcomes):
            changed.setdefault(group_key, {*old_index.get(group_key, ())}).discard(key)
        for group_key in _get_group_keys(key, entry, outcomes):
            changed.setdefault(group_key, {*old_index.get(group_key, ())}).add(key)
    index = {**old_index, **{group_key: frozenset(keys) for group_key, keys in changed.items()}}
    for group_key in changed:
        if not index[group_key]:
            del index[group_key]
    return index


def _get_group_keys(key: str, entry: int, outcomes: Mapping[str, MatchOutcome]) -> tuple[GroupKey, ...]:
    outcome = outcomes.get(key)
    membership = None if outcome is None else outcome.memberships.get(entry)
    return () if membership is None else membership.group_keys


def _find_connected_keys(
    keys: Iterable[str],
    entry: int,
    outcomes: Mapping[str, MatchOutcome],
    index: GroupKeyIndex,
    allowed_keys: Collection[str] | None = None,
) -> set[str]:
    """Return the keys that share group keys with these, directly or through others, and these keys themselves.

    Only devices that the source of the entry shows count.
    """
    connected_keys: set[str] = set()
    followed_group_keys: set[GroupKey] = set()
    pending_keys = [key for key in keys if key in outcomes and entry in outcomes[key].memberships]
    while pending_keys:
        key = pending_keys.pop()
        if key in connected_keys or (allowed_keys is not None and key not in allowed_keys):
            continue
        connected_keys.add(key)
        for group_key in _get_group_keys(key, entry, outcomes):
            if group_key not in followed_group_keys:
                followed_group_keys.add(group_key)
                pending_keys.extend(index[group_key])
    return connected_keys
