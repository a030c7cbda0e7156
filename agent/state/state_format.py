"""The saved state and its JSON text, one line for each resource. The reader checks every value."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from itertools import pairwise
from operator import attrgetter

from agent.core.health.check_states import CheckMap
from agent.core.health.drain_overlay import Drain, DrainSet
from agent.core.health.saved_checks import SavedChecks
from agent.core.inventory.device import SHARE_SUFFIX, Device, DeviceList, Health, make_list_sort_key
from agent.core.inventory.hardware import get_key_without_number, is_device_node
from agent.core.language.template import ID_LIMIT
from agent.core.reason import Reason
from agent.core.struct import Struct, asdict, convert, field, replace

VERSION = 1
NOT_FOUND_YET = Reason.from_text("not seen since the agent started")
_ID = re.compile(rf"[A-Za-z0-9_.:@-]{{1,{ID_LIMIT}}}")
_SHARES_LIMIT = 1_000_000
# The keys of a device in the file, and the fields of `Device`. The optional ones are written if they have a value.
_REQUIRED_KEYS = {
    "id": "id",
    "place": "location",
    "key": "key",
    "stamp": "instance_id",
    "numa": "numa",
    "shares": "shares",
    "first_share": "first_share",
}
_OPTIONAL_KEYS = {
    "members": "members",
    "lost": "missing_members",
    "lead": "id_location",
    "grouping": "grouping_digest",
    "carried": "moved_words",
    "contested": "has_contested_id",
    "suffix": "share_suffix",
    "shuts": "exclusive_keys",
}
_get_required_values = attrgetter(*_REQUIRED_KEYS.values())
_get_optional_values = attrgetter(*_OPTIONAL_KEYS.values())
_EMPTY_VALUES = _get_optional_values(Device("", "", "", Health.UNHEALTHY))


class _SavedDrains(Struct):
    """The drains in the file. See `DrainSet`."""

    places: Mapping[str, Drain] = field(default_factory=dict)
    resources: Mapping[str, Drain] = field(default_factory=dict)


_FILE_KEYS = {
    "held_ids": "held",
    "generated_names": "fanned",
    "failure_reasons": "failing",
    "latches": "latched",
    "counter_values": "counted",
    "cleared_lines": "cleared",
    "boot_id": "boot",
    "healthy_locations": "well",
    "drains": "drained",
}


class _StateContent(Struct, rename=_FILE_KEYS):
    """The content of the file. See `SavedState` and `SavedChecks`."""

    version: int
    lists: Mapping[str, tuple[Mapping[str, object], ...]]
    held_ids: frozenset[str]
    generated_names: Mapping[str, str] = field(default_factory=dict)
    failure_reasons: CheckMap[str] = field(default_factory=dict)
    latches: CheckMap[bool] = field(default_factory=dict)
    counter_values: CheckMap[int] = field(default_factory=dict)
    cleared_lines: CheckMap[int] = field(default_factory=dict)
    boot_id: str = ""
    healthy_locations: Mapping[str, AbstractSet[str]] = field(default_factory=dict)
    drains: _SavedDrains = field(default_factory=_SavedDrains)


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
    """The text of a state. A device that is the same object keeps its text."""

    def __init__(self) -> None:
        self._lists: dict[str, tuple[DeviceList, list[str]]] = {}

    def format_state(self, state: SavedState) -> str:
        """Return the text of the file, with one line for each resource."""
        self._lists = {name: self._format_devices(name, device_list) for name, device_list in state.lists.items()}
        lists = ",\n".join(f" {json.dumps(name)}: [{', '.join(texts)}]" for name, (_, texts) in self._lists.items())
        locations_by_entry = {
            entry: sorted(locations) for entry, locations in state.saved_checks.healthy_locations.items()
        }
        fields = {
            "fanned": dict(sorted(state.generated_names.items())),
            "held": sorted(state.held_ids),
            "boot": state.boot_id,
            **{_FILE_KEYS[name]: value for name, value in asdict(state.saved_checks).items()},
            "well": locations_by_entry,
            "drained": {"places": state.drain_set.locations, "resources": state.drain_set.resources},
        }
        other_lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in fields.items())
        return f'{{"version": {VERSION},\n"lists": {{\n{lists}\n}},\n{other_lines}}}\n'

    def _format_devices(self, name: str, device_list: DeviceList) -> tuple[DeviceList, list[str]]:
        previous_list, texts = self._lists.get(name, (DeviceList(name), []))
        if previous_list is not device_list:
            # The previous list keeps its devices alive, so their ids are unique.
            known_texts = dict(zip(map(id, previous_list.devices), texts, strict=True))
            texts = [known_texts.get(id(device)) or json.dumps(_build_device(device)) for device in device_list.devices]
        return device_list, texts


def _build_device(device: Device) -> dict[str, object]:
    table = dict(zip(_REQUIRED_KEYS, _get_required_values(device), strict=True))
    optional_values = _get_optional_values(device)
    if optional_values != _EMPTY_VALUES:
        named_values = zip(_OPTIONAL_KEYS, optional_values, _EMPTY_VALUES, strict=True)
        table |= {key: value for key, value, empty_value in named_values if value != empty_value}
    return table


def parse_state(content: object) -> SavedState:
    """Return the state of a file.

    Raises:
        KeyError, TypeError, ValueError: the content differs from the format of `StateWriter`.
    """
    if isinstance(content, dict) and content.get("version") != VERSION:
        raise ValueError(f"version {content.get('version')}")
    state = convert(content, _StateContent)
    lists = {
        name: DeviceList(name, tuple(sorted(map(_parse_device, devices), key=make_list_sort_key)))
        for name, devices in state.lists.items()
    }
    devices = sorted((device for list_ in lists.values() for device in list_.devices), key=make_list_sort_key)
    for device, following in pairwise(devices):
        if device.share_base == following.share_base and following.first_share < (device.shares or 1):
            raise ValueError(f"{device.id} is in it twice")
    return SavedState(
        lists,
        state.held_ids,
        {name: written_name for name, written_name in state.generated_names.items() if name in lists},
        SavedChecks(
            state.failure_reasons,
            state.latches,
            state.counter_values,
            state.cleared_lines,
            state.healthy_locations,
        ),
        state.boot_id,
        DrainSet(state.drains.places, state.drains.resources),
    )


def _parse_device(entry: Mapping[str, object]) -> Device:
    values = {name: entry[key] for key, name in _REQUIRED_KEYS.items()}
    values |= {name: entry[key] for key, name in _OPTIONAL_KEYS.items() if key in entry}
    device = convert(values | {"health": Health.UNHEALTHY.value}, Device)
    if not _ID.fullmatch(device.id):
        raise ValueError(f"{device.id[:ID_LIMIT]!r} is no id")
    first_share, shares = device.first_share, device.shares
    if not (first_share == 0 if shares is None else 0 <= first_share < shares <= _SHARES_LIMIT):
        raise ValueError(f"{device.id} has shares from {first_share} to {shares}")
    if any(node < 0 for node in device.numa):
        raise ValueError(f"{device.id} has NUMA nodes {device.numa}")
    if not SHARE_SUFFIX.fullmatch(device.share_suffix):
        raise ValueError(f"{device.id} has shares behind {device.share_suffix[:ID_LIMIT]!r}")
    return replace(device, reason=NOT_FOUND_YET)


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
