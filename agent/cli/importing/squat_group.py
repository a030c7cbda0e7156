"""A group of generic-device-plugin as an entry of ours.

Each group that is found is one device of the kubelet's, `count` times. Paths of one group are paired by the order of
their globs; USB devices of one kind are all in one device.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.cli.importing.foreign_file import ForeignValue
from agent.cli.importing.node_directory import DIRECTORY_NAMES, build_directory_entry
from agent.cli.importing.toml_entry import ImportedEntry, TomlValue

_PERMISSIONS = "rwm"  # what a path has there unless it says less

_TTY_IDS = (
    "{usb.vendor}:{usb.product}-{usb.serial}",
    "{usb.vendor}:{usb.product}@{usb.path_id}",
    "{usb.vendor}:{usb.product}@{usb.port}",
    "{path_id}",
)
_TTY = re.compile(r"/dev/tty(?:USB|ACM)[*?\[]")
_GROUP_KEYS = ("paths", "usb", "usbs", "count")
_PATH_KEYS = ("path", "mountPath", "permissions", "readOnly", "type", "limit", "optional")
_USB_KEYS = ("vendor", "product", "serial")


def merge_groups(groups: Sequence[ForeignValue]) -> list[list[ForeignValue]]:
    """Groups of one path each that differ in nothing but it are one entry: their devices are alternatives."""
    merged: list[list[ForeignValue]] = []
    for group in groups:
        earlier = next((others for others in merged if _alike(others[0], group)), None)
        if earlier is None:
            merged.append([group])
        else:
            earlier.append(group)
    return merged


def _alike(first: ForeignValue, second: ForeignValue) -> bool:
    one, other = first.get_items("paths"), second.get_items("paths")
    if len(one) != 1 or len(other) != 1 or _is_mount(one[0]) or _is_mount(other[0]):
        return False
    keys = ("mountPath", "permissions")
    ids = [_TTY.match(path[0].get_text("path")) is None for path in (one, other)]
    same = all(one[0].get_text(key) == other[0].get_text(key) for key in keys) and ids[0] == ids[1]
    return same and first.get_text("count", "1") == second.get_text("count", "1")


def build_group_entry(entry: ImportedEntry, groups: Sequence[ForeignValue]) -> dict[str, TomlValue] | None:
    """One entry without its name; none, with the reason, if it cannot be said."""
    group = groups[0]
    for each in groups:
        check_keys(entry, each, _GROUP_KEYS)
    paths = [path for each in groups for path in each.get_items("paths")]
    usb = group.get_items("usb") or group.get_items("usbs")
    table: dict[str, TomlValue] | None
    if usb:
        table = _usb(entry, usb)
    elif len(paths) == 1 and paths[0].get_text("path").removeprefix("/dev/").rstrip("/") in DIRECTORY_NAMES:
        given = _give(entry, paths[0], "")
        to = given.pop("to", "")
        table = build_directory_entry(
            entry,
            paths[0].get_text("path").removeprefix("/dev/").rstrip("/"),
            {key: value for key, value in given.items() if key != "path"},
            str(to).rstrip("/"),
        )
    elif len(groups) > 1 or (len(paths) == 1 and not _is_mount(paths[0])):
        table = _nodes(entry, paths)
    elif paths:
        table = _set(entry, paths)
    else:
        entry.checks.append(f"line {group.line}: a group without paths and usb")
        return None
    return _shared(entry, table, group.get_text("count", "1"))


def _shared(entry: ImportedEntry, table: dict[str, TomlValue] | None, count: str) -> dict[str, TomlValue] | None:
    if table is not None and count != "1":
        if not count.isdecimal() or not int(count):
            entry.checks.append(f"count {count} is no number of shares")
        else:
            entry.changes.append(f"count {count} → replicas = {count}")
            table["replicas"] = int(count)
    return table


def _nodes(entry: ImportedEntry, paths: Sequence[ForeignValue]) -> dict[str, TomlValue]:
    """Each node that fits one of the paths is a device."""
    for path in paths:
        check_keys(entry, path, _PATH_KEYS)
    patterns = list(dict.fromkeys(_pattern(entry, path) for path in paths))
    table: dict[str, TomlValue] = {"source": {"node": patterns if len(patterns) > 1 else patterns[0]}}
    if any(_TTY.match(pattern) for pattern in patterns):
        table["id"] = list(_TTY_IDS)
        entry.changes.append("ids follow the USB device, no longer the path: drain its pods before the change")
    elif any(_is_glob(pattern) for pattern in patterns):
        table["accept"] = {"unstable-id": "as generic-device-plugin had it"}
    table["give"] = {"nodes": {"node": _give(entry, paths[0], "{node}")}}
    return table


def _set(entry: ImportedEntry, paths: Sequence[ForeignValue]) -> dict[str, TomlValue] | None:
    """Several paths together are one device; globs among them go by the number in their names."""
    nodes = [path for path in paths if not _is_mount(path)]
    required = [path for path in nodes if not path.is_true("optional")]
    globs = [path for path in required if _is_glob(path.get_text("path"))]
    if unsayable := _unpaired(paths, globs):
        entry.checks.append(f"{unsayable}: write a class")
        return None
    leading = (globs or required)[:1]
    give: dict[str, TomlValue] = {}
    given: dict[str, dict[str, TomlValue]] = {}
    mounts: dict[str, TomlValue] = {}
    for index, path in enumerate(paths):
        check_keys(entry, path, _PATH_KEYS)
        name = f"{'mount' if _is_mount(path) else 'node'}{index}"
        where = path.get_text("path").replace("*", "{number}") if globs else path.get_text("path")
        if _is_mount(path):
            mounts[name] = _mount(path, where)
        else:
            given[name] = _give(entry, path, "{node}" if path in leading else where)
            if path.is_true("optional"):
                given[name]["optional"] = True
    if given:
        give["nodes"] = given
    if mounts:
        give["mounts"] = mounts
    if not leading:
        table: dict[str, TomlValue] = {"source": {"fixed": [entry.label]}, "id": "{name}"}
        if all(path.is_true("optional") for path in paths):  # then one of them makes it a device
            table["exclude"] = {"none": {path.get_text("path"): {"exists": False} for path in paths}}
        return {**table, "give": give}
    source = leading[0].get_text("path")
    if globs:
        source = source.replace("*", "{number:int}")
        if len(globs) > 1:
            entry.checks.append("paths were paired by the order of their globs, now by the number in their names")
    table = {"source": {"node": source}}
    if globs:
        table["accept"] = {"unstable-id": "as generic-device-plugin had it"}
    return {**table, "give": give}


def _unpaired(paths: Sequence[ForeignValue], globs: Sequence[ForeignValue]) -> str:
    """Why globs among several paths cannot be paired here; empty if they can. globs: those that have to be there."""
    if any(path.get_text("path").count("*") > 1 or set("?[") & set(path.get_text("path")) for path in globs):
        return "paths were paired by the order of their globs, which cannot be said here"
    if not globs and any(_is_glob(path.get_text("path")) for path in paths if path.is_true("optional")):
        return "a glob that is optional has nothing to be paired with"
    return ""


def _usb(entry: ImportedEntry, specs: Sequence[ForeignValue]) -> dict[str, TomlValue]:
    """One kind of USB device: each is a device. Several kinds: one of each, together."""
    clauses: dict[str, TomlValue] = {}
    for index, spec in enumerate(specs):
        check_keys(entry, spec, _USB_KEYS)
        clause: dict[str, TomlValue] = {
            key: _hex(entry, spec, key) for key in ("vendor", "product") if spec.get_text(key)
        }
        if spec.get_text("serial"):
            clause["serial"] = spec.get_text("serial")
        clauses[f"part{index}"] = clause
    if len(specs) > 1:
        entry.checks.append("several USB devices are one; if there can be two of a kind: group.by")
        nodes: dict[str, TomlValue] = {name: f"{{{name}.node}}" for name in clauses}
        return {
            "source": "usb",
            "id": ["{vendor}:{product}@{path_id}", "{vendor}:{product}@{port}"],
            "group": {"parts": clauses},
            "give": {"nodes": nodes},
        }
    entry.changes.append("of several alike each is a device now; they were one device together")
    return {"class": "usb-device", "match": clauses["part0"]}


def _hex(entry: ImportedEntry, spec: ForeignValue, key: str) -> str:
    item = spec.get(key)
    text = (item.text if item else "").lower().removeprefix("0x")
    if item is not None and not item.quoted and text.isdecimal():
        entry.changes.append(
            f'{key} {text} was unquoted YAML, hence decimal, and matched nothing; now "{text.zfill(4)}"'
        )
    return text.zfill(4)


def _give(entry: ImportedEntry, path: ForeignValue, where: str) -> dict[str, TomlValue]:
    give: dict[str, TomlValue] = {"path": where}
    to = path.get_text("mountPath")
    if to and to != path.get_text("path"):
        give["to"] = to
    asked = path.get_text("permissions", _PERMISSIONS)
    permissions = "".join(letter for letter in _PERMISSIONS if letter in asked)
    if set(asked) - set(_PERMISSIONS) or not permissions:
        entry.checks.append(f"permissions {asked!r}: letters of r, w, m")
    if permissions not in {"", "rw"}:
        give["permissions"] = permissions
    return give


def _mount(path: ForeignValue, where: str) -> dict[str, TomlValue]:
    mount: dict[str, TomlValue] = {"path": where}
    if path.get_text("mountPath") not in {"", path.get_text("path")}:
        mount["to"] = path.get_text("mountPath")
    for theirs, ours in (("readOnly", "read_only"), ("optional", "optional")):
        if path.is_true(theirs):
            mount[ours] = True
    return mount


def _pattern(entry: ImportedEntry, path: ForeignValue) -> str:
    text = path.get_text("path")
    if "**" in text or "{" in text:
        entry.checks.append(f"{text}: ** and {{a,b}} matched nothing there, and are errors here")
    return text


def _is_mount(path: ForeignValue) -> bool:
    return path.get_text("type").lower() == "mount"


def _is_glob(text: str) -> bool:
    return any(c in text for c in "*?[")


def check_keys(entry: ImportedEntry, item: ForeignValue, known: Sequence[str]) -> None:
    """A key that this program does not have, either, did nothing there."""
    for key in item.find_other_keys(*known):
        entry.checks.append(f"line {item.table[key].line}: {key} is no key of generic-device-plugin and did nothing")
