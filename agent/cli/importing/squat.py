"""Import of generic-device-plugin: its configuration file, its `--device` arguments in a manifest, or MicroShift's
section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agent.cli.importing.foreign_file import ForeignValue, parse_documents
from agent.cli.importing.toml_entry import DIRECTORY_NAMES, ImportedEntry, TomlValue, build_directory_entry

_PERMISSIONS = "rwm"  # the default of that program

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
    """Return the groups as lists. Groups with one path that differ only in this path are one list: the paths are
    alternatives.
    """
    result: list[list[ForeignValue]] = []
    for group in groups:
        earlier = next((candidate for candidate in result if _is_mergeable(candidate[0], group)), None)
        if earlier is None:
            result.append([group])
        else:
            earlier.append(group)
    return result


def _is_mergeable(first_group: ForeignValue, second_group: ForeignValue) -> bool:
    first_paths, second_paths = first_group.get_items("paths"), second_group.get_items("paths")
    if len(first_paths) != 1 or len(second_paths) != 1 or _is_mount(first_paths[0]) or _is_mount(second_paths[0]):
        return False
    keys = ("mountPath", "permissions")
    ids = [_TTY.match(path[0].get_text("path")) is None for path in (first_paths, second_paths)]
    is_same = all(first_paths[0].get_text(key) == second_paths[0].get_text(key) for key in keys) and ids[0] == ids[1]
    return is_same and first_group.get_text("count", "1") == second_group.get_text("count", "1")


def build_group_entry(entry: ImportedEntry, groups: Sequence[ForeignValue]) -> dict[str, TomlValue] | None:
    """Return an entry without name, or None if the language cannot express the group. `entry` gets the reason."""
    group = groups[0]
    for member in groups:
        check_keys(entry, member, _GROUP_KEYS)
    paths = [path for member in groups for path in member.get_items("paths")]
    usb = group.get_items("usb") or group.get_items("usbs")
    table: dict[str, TomlValue] | None
    if usb:
        table = _build_usb_table(entry, usb)
    elif len(paths) == 1 and paths[0].get_text("path").removeprefix("/dev/").rstrip("/") in DIRECTORY_NAMES:
        node = _build_node(entry, paths[0], "")
        to = node.pop("to", "")
        table = build_directory_entry(
            entry,
            paths[0].get_text("path").removeprefix("/dev/").rstrip("/"),
            {key: value for key, value in node.items() if key != "path"},
            str(to).rstrip("/"),
        )
    elif len(groups) > 1 or (len(paths) == 1 and not _is_mount(paths[0])):
        table = _build_node_table(entry, paths)
    elif paths:
        table = _build_set_table(entry, paths)
    else:
        entry.checks.append(f"line {group.line}: a group without paths and usb")
        return None
    return _set_replicas(entry, table, group.get_text("count", "1"))


def _set_replicas(entry: ImportedEntry, table: dict[str, TomlValue] | None, count: str) -> dict[str, TomlValue] | None:
    if table is not None and count != "1":
        if not count.isdecimal() or not int(count):
            entry.checks.append(f"count {count} is no number of shares")
        else:
            entry.changes.append(f"count {count} → replicas = {count}")
            table["replicas"] = int(count)
    return table


def _build_node_table(entry: ImportedEntry, paths: Sequence[ForeignValue]) -> dict[str, TomlValue]:
    """Return an entry in which each node that matches a path is a device."""
    for path in paths:
        check_keys(entry, path, _PATH_KEYS)
    patterns = list(dict.fromkeys(_get_pattern(entry, path) for path in paths))
    table: dict[str, TomlValue] = {"source": {"node": patterns if len(patterns) > 1 else patterns[0]}}
    if any(_TTY.match(pattern) for pattern in patterns):
        table["id"] = list(_TTY_IDS)
        entry.changes.append("ids follow the USB device, no longer the path: drain its pods before the change")
    elif any(_is_glob(pattern) for pattern in patterns):
        table["accept"] = {"unstable-id": "as generic-device-plugin had it"}
    table["give"] = {"nodes": {"node": _build_node(entry, paths[0], "{node}")}}
    return table


def _build_set_table(entry: ImportedEntry, paths: Sequence[ForeignValue]) -> dict[str, TomlValue] | None:
    """Return an entry in which several paths are one device. The number in the name pairs the globs."""
    nodes = [path for path in paths if not _is_mount(path)]
    required = [path for path in nodes if not path.is_true("optional")]
    globs = [path for path in required if _is_glob(path.get_text("path"))]
    if fault := _find_pairing_fault(paths, globs):
        entry.checks.append(f"{fault}: write a class")
        return None
    leading = (globs or required)[:1]
    give: dict[str, TomlValue] = {}
    node_tables: dict[str, dict[str, TomlValue]] = {}
    mounts: dict[str, TomlValue] = {}
    for index, path in enumerate(paths):
        check_keys(entry, path, _PATH_KEYS)
        name = f"{'mount' if _is_mount(path) else 'node'}{index}"
        template = path.get_text("path").replace("*", "{number}") if globs else path.get_text("path")
        if _is_mount(path):
            mounts[name] = _build_mount(path, template)
        else:
            node_tables[name] = _build_node(entry, path, "{node}" if path in leading else template)
            if path.is_true("optional"):
                node_tables[name]["optional"] = True
    if node_tables:
        give["nodes"] = node_tables
    if mounts:
        give["mounts"] = mounts
    if not leading:
        table: dict[str, TomlValue] = {"source": {"fixed": [entry.label]}, "id": "{name}"}
        if all(path.is_true("optional") for path in paths):  # one of the optional paths must exist
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


def _find_pairing_fault(paths: Sequence[ForeignValue], globs: Sequence[ForeignValue]) -> str:
    """Return the reason why the entry cannot pair the globs, or an empty string. globs: the globs of required paths."""
    if any(path.get_text("path").count("*") > 1 or set("?[") & set(path.get_text("path")) for path in globs):
        return "paths were paired by the order of their globs, which cannot be said here"
    if not globs and any(_is_glob(path.get_text("path")) for path in paths if path.is_true("optional")):
        return "a glob that is optional has nothing to be paired with"
    return ""


def _build_usb_table(entry: ImportedEntry, specs: Sequence[ForeignValue]) -> dict[str, TomlValue]:
    """Return an entry for USB devices.

    With one kind, each USB device is a device. With several kinds, a device consists of one USB device of each kind.
    """
    clauses: dict[str, TomlValue] = {}
    for index, spec in enumerate(specs):
        check_keys(entry, spec, _USB_KEYS)
        clause: dict[str, TomlValue] = {
            key: _format_usb_id(entry, spec, key) for key in ("vendor", "product") if spec.get_text(key)
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


def _format_usb_id(entry: ImportedEntry, spec: ForeignValue, key: str) -> str:
    item = spec.get(key)
    text = (item.text if item else "").lower().removeprefix("0x")
    if item is not None and not item.quoted and text.isdecimal():
        entry.changes.append(
            f'{key} {text} was unquoted YAML, hence decimal, and matched nothing; now "{text.zfill(4)}"'
        )
    return text.zfill(4)


def _build_node(entry: ImportedEntry, path: ForeignValue, template: str) -> dict[str, TomlValue]:
    node: dict[str, TomlValue] = {"path": template}
    to = path.get_text("mountPath")
    if to and to != path.get_text("path"):
        node["to"] = to
    requested = path.get_text("permissions", _PERMISSIONS)
    permissions = "".join(letter for letter in _PERMISSIONS if letter in requested)
    if set(requested) - set(_PERMISSIONS) or not permissions:
        entry.checks.append(f"permissions {requested!r}: letters of r, w, m")
    if permissions not in {"", "rw"}:
        node["permissions"] = permissions
    return node


def _build_mount(path: ForeignValue, template: str) -> dict[str, TomlValue]:
    mount: dict[str, TomlValue] = {"path": template}
    if path.get_text("mountPath") not in {"", path.get_text("path")}:
        mount["to"] = path.get_text("mountPath")
    for foreign_key, key in (("readOnly", "read_only"), ("optional", "optional")):
        if path.is_true(foreign_key):
            mount[key] = True
    return mount


def _get_pattern(entry: ImportedEntry, path: ForeignValue) -> str:
    text = path.get_text("path")
    if "**" in text or "{" in text:
        entry.checks.append(f"{text}: ** and {{a,b}} matched nothing there, and are errors here")
    return text


def _is_mount(path: ForeignValue) -> bool:
    return path.get_text("type").lower() == "mount"


def _is_glob(text: str) -> bool:
    return any(c in text for c in "*?[")


def check_keys(entry: ImportedEntry, item: ForeignValue, keys: Sequence[str]) -> None:
    """Report the keys that generic-device-plugin does not have. That program ignored them."""
    for key in item.find_other_keys(*keys):
        entry.checks.append(f"line {item.table[key].line}: {key} is no key of generic-device-plugin and did nothing")


DOMAIN = "squat.ai"
MICROSHIFT_DOMAIN = "device.microshift.io"
_DEVICE_KEYS = ("name", "groups")


NOT_FOUND = "no device of generic-device-plugin in it (looked for `devices`, and --device in manifests)"


def import_entries(documents: Sequence[ForeignValue]) -> list[ImportedEntry]:
    """Return the content of the file as entries. The list is empty if the file is of another program."""
    return [_import_entry(domain, device) for domain, device in _find_devices(documents)]


def _find_devices(documents: Sequence[ForeignValue]) -> Iterator[tuple[str, ForeignValue]]:
    """Yield each device with the domain of its resource name."""
    for document in documents:
        microshift = document.get("genericDevicePlugin")
        if microshift is not None:
            domain = microshift.get_text("domain", MICROSHIFT_DOMAIN)
            yield from ((domain, device) for device in microshift.get_items("devices"))
        elif document.get("groups") is not None:
            yield DOMAIN, document
        elif (listed := document.get_items("devices") or document.get_items("device")) and document.get("kind") is None:
            yield from ((document.get_text("domain", DOMAIN), device) for device in listed)
        else:
            yield from _find_argument_devices(document)


def _find_argument_devices(manifest: ForeignValue) -> Iterator[tuple[str, ForeignValue]]:
    """Yield the devices in the arguments of the containers of a manifest."""
    for item in manifest.walk():
        words = [*item.get_items("args"), *item.get_items("command")]
        pairs = [*_pair_flags(words)]
        domain = next((value.text for flag, value in pairs if flag == "--domain"), DOMAIN)
        for flag, value in pairs:
            if flag == "--device":
                block = value.line + (0 if value.text.lstrip().startswith("{") else 1)
                yield from ((domain, device) for device in parse_documents(value.text, block))


def _pair_flags(words: Sequence[ForeignValue]) -> Iterator[tuple[str, ForeignValue]]:
    """Yield flags with their values. A flag and its value are one word or two."""
    for index, word in enumerate(words):
        flag, mark, value = word.text.partition("=")
        if mark:
            yield flag, ForeignValue(word.line, value)
        elif index + 1 < len(words):
            yield word.text, words[index + 1]


def _import_entry(domain: str, device: ForeignValue) -> ImportedEntry:
    name = device.get_text("name")
    entry = ImportedEntry(name or "a device without name", device.line)
    groups = device.get_items("groups")
    if not name or not groups:
        entry.checks.append("a device has a name and groups")
        return entry
    check_keys(entry, device, _DEVICE_KEYS)
    resource = f"{domain}/{name}"
    for group in merge_groups(groups):
        table = build_group_entry(entry, group)
        if table is not None:
            is_first = not entry.tables
            entry.tables.append({("name" if is_first else "adds_to"): resource, **table})
    return entry
