"""The saved state and its JSON text, one line for each resource. The reader checks every value."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from agent.core.entry.resource_spec import SHARE_MARK
from agent.core.health.check_states import CheckMap
from agent.core.health.drain_overlay import Drain, DrainSet
from agent.core.health.saved_checks import SavedChecks
from agent.core.inventory.device import SHARE_SUFFIX, Device, DeviceList, Health, Member, make_list_sort_key
from agent.core.inventory.hardware import get_key_without_number, is_device_node
from agent.core.language.template import ID_LIMIT
from agent.core.reason import Reason
from agent.core.struct import Struct, field, replace

VERSION = 1
NOT_FOUND_YET = Reason.from_text("not seen since the agent started")
_ID = re.compile(rf"[A-Za-z0-9_.:@-]{{1,{ID_LIMIT}}}")
_SHARES_LIMIT = 1_000_000

T = TypeVar("T")


class SavedState(Struct):
    """The last lists, and the IDs that pods use.

    generated_names: for each list with a generated name, the name template of its entry. saved_checks: the states of
    checks. boot_id: the boot in which this was saved. drain_set: the drains.
    """

    lists: Mapping[str, DeviceList] = field(default_factory=dict)
    held_ids: frozenset[str] = frozenset()
    generated_names: Mapping[str, str] = field(default_factory=dict)
    saved_checks: SavedChecks = field(default_factory=SavedChecks)
    boot_id: str = ""
    drain_set: DrainSet = field(default_factory=DrainSet)


class StateWriter:
    """The text of a state. A list without a change keeps its text."""

    def __init__(self) -> None:
        self._lists: dict[str, tuple[DeviceList, str]] = {}

    def format_state(self, state: SavedState) -> str:
        """Return the text of the file, with one line for each resource."""
        self._lists = {name: self._format_list(name, snapshot) for name, snapshot in state.lists.items()}
        lists = ",\n".join(f" {json.dumps(name)}: {text}" for name, (_, text) in self._lists.items())
        checks = state.saved_checks
        fields = {
            "fanned": dict(sorted(state.generated_names.items())),
            "held": sorted(state.held_ids),
            "failing": checks.failure_reasons,
        }
        fields |= {
            "boot": state.boot_id,
            "latched": checks.latches,
            "counted": checks.counter_values,
            "cleared": checks.cleared_lines,
        }
        fields |= {"well": {entry: sorted(places) for entry, places in checks.healthy_locations.items()}}
        fields |= {"drained": {"places": state.drain_set.locations, "resources": state.drain_set.resources}}
        other_lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in fields.items())
        return f'{{"version": {VERSION},\n"lists": {{\n{lists}\n}},\n{other_lines}}}\n'

    def _format_list(self, name: str, device_list: DeviceList) -> tuple[DeviceList, str]:
        previous_list, text = self._lists.get(name, (None, ""))
        if previous_list is None or not _is_same_text(previous_list.devices, device_list.devices):
            text = json.dumps([_build_device(device) for device in device_list.devices])
        return device_list, text


def _is_same_text(previous_devices: Sequence[Device], current_devices: Sequence[Device]) -> bool:
    """Return whether both lists have the same text. An unchanged device is the same object (`build_lists`)."""
    return len(previous_devices) == len(current_devices) and all(
        previous_device is current_device or _build_device(previous_device) == _build_device(current_device)
        for previous_device, current_device in zip(previous_devices, current_devices, strict=True)
    )


def _build_device(device: Device) -> dict[str, object]:
    return {
        "id": device.id,
        "place": device.location,
        "key": device.key,
        "stamp": device.instance_id,
        "numa": list(device.numa),
        "shares": device.shares,
        "first_share": device.first_share,
        **({} if not device.grouping_digest else _build_group(device)),
        **({} if not device.moved_words else {"carried": list(device.moved_words)}),
        **({} if not device.has_contested_id else {"contested": True}),
        **({} if device.share_suffix == SHARE_MARK else {"suffix": device.share_suffix}),
        **({} if not device.exclusive_keys else {"shuts": list(device.exclusive_keys)}),
    }


def _build_group(device: Device) -> dict[str, object]:
    """Return the saved values of a device with several host devices."""
    return {
        "members": list(map(list, device.members)),
        "lost": list(map(list, device.missing_members)),
        "lead": device.id_location,
        "grouping": device.grouping_digest,
    }


def parse_state(content: Any) -> SavedState:  # noqa: ANN401  JSON is anything
    """Return the state of a file.

    Raises:
        KeyError, TypeError, ValueError: the content differs from the format of `StateWriter`.
    """
    content = _require_type(content, dict)
    if content["version"] != VERSION:
        raise ValueError(f"version {content['version']}")
    lists = {
        name: DeviceList(name, tuple(sorted(map(_parse_device, _require_type(devices, list)), key=make_list_sort_key)))
        for name, devices in _require_type(content["lists"], dict).items()
    }
    devices = sorted((device for list_ in lists.values() for device in list_.devices), key=make_list_sort_key)
    for device, following in pairwise(devices):
        if device.share_base == following.share_base and following.first_share < (device.shares or 1):
            raise ValueError(f"{device.id} is in it twice")
    held_ids = frozenset(_require_type(id, str) for id in _require_type(content["held"], list))  # noqa: A001  the API's own word
    name_table = _require_type(content.get("fanned", {}), dict)
    generated_names = {name: _require_type(written, str) for name, written in name_table.items() if name in lists}
    failing, latched = (
        _parse_check_values(content.get("failing", {}), str),
        _parse_check_values(content.get("latched", {}), bool),
    )
    counted, cleared = (
        _parse_check_values(content.get("counted", {}), int),
        _parse_check_values(content.get("cleared", {}), int),
    )
    boot_id = _require_type(content.get("boot", ""), str)
    drain_set = _parse_drain_set(content.get("drained", {}))
    passed_checks = {
        entry: {_require_type(place, str) for place in _require_type(places, list)}
        for entry, places in _require_type(content.get("well", {}), dict).items()
    }
    return SavedState(
        lists,
        held_ids,
        generated_names,
        SavedChecks(failing, latched, counted, cleared, passed_checks),
        boot_id,
        drain_set,
    )


def reset_for_boot(lists: Mapping[str, DeviceList]) -> dict[str, DeviceList]:
    """Return the lists of another boot, without the numbers of device nodes. The kernel assigns new numbers."""
    return {
        name: DeviceList(name, tuple(_without_number(device) for device in list_.devices))
        for name, list_ in lists.items()
    }


def _without_number(device: Device) -> Device:
    if not is_device_node(device):
        return device
    members = tuple(member._replace(instance_id="", key=get_key_without_number(member)) for member in device.members)
    return replace(device, instance_id="", key=get_key_without_number(device), members=members)


def _parse_check_values(entries: Any, kind: type[T]) -> CheckMap[T]:  # noqa: ANN401  JSON is anything
    return {
        entry: {
            place: {check: _require_type(value, kind) for check, value in _require_type(checks, dict).items()}
            for place, checks in _require_type(places, dict).items()
        }
        for entry, places in _require_type(entries, dict).items()
    }


def _parse_drain_set(content: Any) -> DrainSet:  # noqa: ANN401  JSON is anything
    table = _require_type(content, dict)
    places, resources = (_require_type(table.get(part, {}), dict) for part in ("places", "resources"))
    return DrainSet(
        {name: _parse_drain(drain) for name, drain in places.items()},
        {name: _parse_drain(drain) for name, drain in resources.items()},
    )


def _parse_drain(entry: Any) -> Drain:  # noqa: ANN401  JSON is anything
    reason, since = _require_type(entry, list)
    return Drain(_require_type(reason, str), float(_require_type(since, float)))


def _parse_device(entry: Any) -> Device:  # noqa: ANN401  JSON is anything
    entry = _require_type(entry, dict)
    id, first_share = _require_type(entry["id"], str), _require_type(entry["first_share"], int)  # noqa: A001  the API's own word
    shares = None if entry["shares"] is None else _require_type(entry["shares"], int)
    if not _ID.fullmatch(id):
        raise ValueError(f"{id[:ID_LIMIT]!r} is no id")
    if not (first_share == 0 if shares is None else 0 <= first_share < shares <= _SHARES_LIMIT):
        raise ValueError(f"{id} has shares from {first_share} to {shares}")
    numa = tuple(_require_type(node, int) for node in _require_type(entry["numa"], list))
    if any(node < 0 for node in numa):
        raise ValueError(f"{id} has NUMA nodes {numa}")
    suffix = _require_type(entry.get("suffix", SHARE_MARK), str)
    if not SHARE_SUFFIX.fullmatch(suffix):
        raise ValueError(f"{id} has shares behind {suffix[:ID_LIMIT]!r}")
    return Device(
        id=id,
        location=_require_type(entry["place"], str),
        key=_require_type(entry["key"], str),
        health=Health.UNHEALTHY,
        reason=NOT_FOUND_YET,
        numa=numa,
        shares=shares,
        first_share=first_share,
        instance_id=_require_type(entry["stamp"], str),
        members=_parse_members(entry.get("members", [])),
        missing_members=_parse_members(entry.get("lost", [])),
        id_location=_require_type(entry.get("lead", ""), str),
        grouping_digest=_require_type(entry.get("grouping", ""), str),
        share_suffix=suffix,
        exclusive_keys=tuple(_require_type(key, str) for key in _require_type(entry.get("shuts", []), list)),
        moved_words=tuple(_require_type(word, str) for word in _require_type(entry.get("carried", []), list)),
        has_contested_id=_require_type(entry.get("contested", False), bool),
    )


def _parse_members(entries: Any) -> tuple[Member, ...]:  # noqa: ANN401  JSON is anything
    return tuple(
        Member(*(_require_type(part, str) for part in _require_type(entry, list)))
        for entry in _require_type(entries, list)
    )


def _require_type(value: Any, kind: type[T]) -> T:  # noqa: ANN401  JSON is anything
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} expected, not {value!r:.64}")
    return value
