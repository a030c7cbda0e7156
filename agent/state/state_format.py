"""What outlasts the agent, and its text: JSON, a line for each resource. What is read is taken as nobody's word."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from agent.core.entry.resource_spec import SHARE_MARK
from agent.core.health.check_states import By
from agent.core.health.drain_overlay import Drain, DrainSet
from agent.core.health.saved_checks import SavedChecks
from agent.core.inventory.device import SHARE_SUFFIX, Device, DeviceList, Health, Member, make_list_sort_key
from agent.core.inventory.hardware import get_key_without_number, is_device_node
from agent.core.language.template import ID_LIMIT
from agent.core.reason import Reason
from agent.core.struct import Struct, field, replace

VERSION = 1
NOT_FOUND_YET = Reason.of("not seen since the agent started")
_ID = re.compile(rf"[A-Za-z0-9_.:@-]{{1,{ID_LIMIT}}}")
_SHARES_LIMIT = 1_000_000

T = TypeVar("T")


class SavedState(Struct):
    """The lists as last told, and the ids that pods may hold.

    fanned: those lists whose name came out of words, with the name as its entry writes it.
    memory: what is known of checks. boot: the boot that this was in.
    drained: what a person has taken out of scheduling.
    """

    lists: Mapping[str, DeviceList] = field(default_factory=dict)
    held_ids: frozenset[str] = frozenset()
    generated_names: Mapping[str, str] = field(default_factory=dict)
    saved_checks: SavedChecks = field(default_factory=SavedChecks)
    boot_id: str = ""
    drain_set: DrainSet = field(default_factory=DrainSet)


class StateWriter:
    """The text of a state; a list in which nothing of what is remembered has changed is not written anew."""

    def __init__(self) -> None:
        self._lists: dict[str, tuple[DeviceList, str]] = {}

    def format_state(self, state: SavedState) -> str:
        """As the file has it, a line for each resource."""
        self._lists = {name: self._list(name, snapshot) for name, snapshot in state.lists.items()}
        lists = ",\n".join(f" {json.dumps(name)}: {text}" for name, (_, text) in self._lists.items())
        memory = state.saved_checks
        said = {
            "fanned": dict(sorted(state.generated_names.items())),
            "held": sorted(state.held_ids),
            "failing": memory.failing,
        }
        said |= {"boot": state.boot_id, "latched": memory.latched, "counted": memory.counted, "cleared": memory.cleared}
        said |= {"well": {entry: sorted(places) for entry, places in memory.well.items()}}
        said |= {"drained": {"places": state.drain_set.places, "resources": state.drain_set.resources}}
        others = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in said.items())
        return f'{{"version": {VERSION},\n"lists": {{\n{lists}\n}},\n{others}}}\n'

    def _list(self, name: str, snapshot: DeviceList) -> tuple[DeviceList, str]:
        before, text = self._lists.get(name, (None, ""))
        if before is None or not _alike(before.devices, snapshot.devices):
            text = json.dumps([_remembered(device) for device in snapshot.devices])
        return snapshot, text


def _alike(before: Sequence[Device], now: Sequence[Device]) -> bool:
    """Whether the file would say the same of both. What did not change is the same object (`assemble`)."""
    return len(before) == len(now) and all(
        one is other or _remembered(one) == _remembered(other) for one, other in zip(before, now, strict=True)
    )


def _remembered(device: Device) -> dict[str, object]:
    return {
        "id": device.id,
        "place": device.location,
        "key": device.key,
        "stamp": device.instance_id,
        "numa": list(device.numa),
        "shares": device.shares,
        "first_share": device.first_share,
        **({} if not device.grouping_digest else _grouped(device)),
        **({} if not device.moved_words else {"carried": list(device.moved_words)}),
        **({} if not device.has_contested_id else {"contested": True}),
        **({} if device.share_suffix == SHARE_MARK else {"suffix": device.share_suffix}),
        **({} if not device.exclusive_keys else {"shuts": list(device.exclusive_keys)}),
    }


def _grouped(device: Device) -> dict[str, object]:
    """What is remembered of a device that is several host devices."""
    return {
        "members": list(map(list, device.members)),
        "lost": list(map(list, device.missing_members)),
        "lead": device.id_location,
        "grouping": device.grouping_digest,
    }


def parse_state(content: Any) -> SavedState:  # noqa: ANN401  JSON is anything
    """The state that a file says.

    Raises:
        KeyError, TypeError, ValueError: it is not as `Writer` writes it.
    """
    content = _typed(content, dict)
    if content["version"] != VERSION:
        raise ValueError(f"version {content['version']}")
    lists = {
        name: DeviceList(name, tuple(sorted(map(_device, _typed(devices, list)), key=make_list_sort_key)))
        for name, devices in _typed(content["lists"], dict).items()
    }
    devices = sorted((device for list_ in lists.values() for device in list_.devices), key=make_list_sort_key)
    for device, following in pairwise(devices):
        if device.share_base == following.share_base and following.first_share < (device.shares or 1):
            raise ValueError(f"{device.id} is in it twice")
    held = frozenset(_typed(id, str) for id in _typed(content["held"], list))  # noqa: A001  the API's own word
    said = _typed(content.get("fanned", {}), dict)
    fanned = {name: _typed(written, str) for name, written in said.items() if name in lists}
    failing, latched = _by(content.get("failing", {}), str), _by(content.get("latched", {}), bool)
    counted, cleared = _by(content.get("counted", {}), int), _by(content.get("cleared", {}), int)
    boot = _typed(content.get("boot", ""), str)
    drained = _drained(content.get("drained", {}))
    well = {
        entry: {_typed(place, str) for place in _typed(places, list)}
        for entry, places in _typed(content.get("well", {}), dict).items()
    }
    return SavedState(lists, held, fanned, SavedChecks(failing, latched, counted, cleared, well), boot, drained)


def rebooted(lists: Mapping[str, DeviceList]) -> dict[str, DeviceList]:
    """The lists of another boot, without the numbers of device nodes: they are dealt anew."""
    return {
        name: DeviceList(name, tuple(_without_number(device) for device in list_.devices))
        for name, list_ in lists.items()
    }


def _without_number(device: Device) -> Device:
    if not is_device_node(device):
        return device
    members = tuple(member._replace(instance_id="", key=get_key_without_number(member)) for member in device.members)
    return replace(device, instance_id="", key=get_key_without_number(device), members=members)


def _by(entries: Any, kind: type[T]) -> By[T]:  # noqa: ANN401  JSON is anything
    return {
        entry: {
            place: {check: _typed(said, kind) for check, said in _typed(checks, dict).items()}
            for place, checks in _typed(places, dict).items()
        }
        for entry, places in _typed(entries, dict).items()
    }


def _drained(content: Any) -> DrainSet:  # noqa: ANN401  JSON is anything
    said = _typed(content, dict)
    places, resources = (_typed(said.get(part, {}), dict) for part in ("places", "resources"))
    return DrainSet(
        {name: _drain(drain) for name, drain in places.items()},
        {name: _drain(drain) for name, drain in resources.items()},
    )


def _drain(entry: Any) -> Drain:  # noqa: ANN401  JSON is anything
    reason, since = _typed(entry, list)
    return Drain(_typed(reason, str), float(_typed(since, float)))


def _device(entry: Any) -> Device:  # noqa: ANN401  JSON is anything
    entry = _typed(entry, dict)
    id, first = _typed(entry["id"], str), _typed(entry["first_share"], int)  # noqa: A001  the API's own word
    shares = None if entry["shares"] is None else _typed(entry["shares"], int)
    if not _ID.fullmatch(id):
        raise ValueError(f"{id[:ID_LIMIT]!r} is no id")
    if not (first == 0 if shares is None else 0 <= first < shares <= _SHARES_LIMIT):
        raise ValueError(f"{id} has shares from {first} to {shares}")
    numa = tuple(_typed(node, int) for node in _typed(entry["numa"], list))
    if any(node < 0 for node in numa):
        raise ValueError(f"{id} has NUMA nodes {numa}")
    suffix = _typed(entry.get("suffix", SHARE_MARK), str)
    if not SHARE_SUFFIX.fullmatch(suffix):
        raise ValueError(f"{id} has shares behind {suffix[:ID_LIMIT]!r}")
    return Device(
        id=id,
        location=_typed(entry["place"], str),
        key=_typed(entry["key"], str),
        health=Health.UNHEALTHY,
        reason=NOT_FOUND_YET,
        numa=numa,
        shares=shares,
        first_share=first,
        instance_id=_typed(entry["stamp"], str),
        members=_members(entry.get("members", [])),
        missing_members=_members(entry.get("lost", [])),
        id_location=_typed(entry.get("lead", ""), str),
        grouping_digest=_typed(entry.get("grouping", ""), str),
        share_suffix=suffix,
        exclusive_keys=tuple(_typed(key, str) for key in _typed(entry.get("shuts", []), list)),
        moved_words=tuple(_typed(word, str) for word in _typed(entry.get("carried", []), list)),
        has_contested_id=_typed(entry.get("contested", False), bool),
    )


def _members(entries: Any) -> tuple[Member, ...]:  # noqa: ANN401  JSON is anything
    return tuple(Member(*(_typed(part, str) for part in _typed(entry, list))) for entry in _typed(entries, list))


def _typed(value: Any, kind: type[T]) -> T:  # noqa: ANN401  JSON is anything
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} expected, not {value!r:.64}")
    return value
