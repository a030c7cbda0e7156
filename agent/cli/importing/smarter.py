"""Import of smarter-device-manager: a list of regular expressions for names below /dev, or the ConfigMap with the
list.

Each matching name is a resource `smarter-devices/NAME`, with `nummaxdevices` shares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agent.cli.importing.foreign_file import ForeignValue, parse_documents
from agent.cli.importing.toml_entry import ImportedEntry, TomlValue, build_directory_entry

DOMAIN = "smarter-devices"
_JETSON = "nvidia-gpu"
_KEYS = ("devicematch", "nummaxdevices")
# Nearly all of these expressions are a literal name, with digits or any text at the end.
_SIMPLE = re.compile(r"\^?(?P<name>[A-Za-z0-9_./:-]+?)(?P<tail>\[0-9\][*+]|\\d[*+]|\.[*+])?(?P<end>\$?)")


NOT_FOUND = "no devicematch of smarter-device-manager in it"


def import_entries(documents: Sequence[ForeignValue]) -> list[ImportedEntry]:
    """Return the content of the file as entries. The list is empty if the file is of another program."""
    entries = [_import_entry(item) for item in _find_matches(documents)]
    names: set[TomlValue] = set()
    for table in (table for entry in entries for table in entry.tables):
        if table["name"] in names:  # several expressions have the template {name}
            table["adds_to"] = table.pop("name")
        else:
            names.add(table["name"])
    return entries


def _find_matches(documents: Sequence[ForeignValue]) -> Iterator[ForeignValue]:
    for document in documents:
        for item in document.walk():
            if item.get("devicematch") is not None:
                yield item
            elif "devicematch" in item.text:  # a file within a ConfigMap
                yield from _find_matches(parse_documents(item.text, item.line + 1))


def _import_entry(item: ForeignValue) -> ImportedEntry:
    written = item.get_text("devicematch")
    entry = ImportedEntry(written, item.line)
    for key in item.find_other_keys(*_KEYS):
        entry.checks.append(f"{key} is no key of smarter-device-manager and did nothing")
    table = _build_jetson_table() if written == _JETSON else _build_node_table(entry, written)
    if table is None:
        return entry
    count = item.get_text("nummaxdevices", "0")
    if not count.isdecimal() or not int(count):
        entry.checks.append(f"nummaxdevices {count}: nothing was offered")
        return entry
    if int(count) > 1:
        table["replicas"] = int(count)
    entry.tables.append(table)
    return entry


def _build_node_table(entry: ImportedEntry, written: str) -> dict[str, TomlValue] | None:
    expression = _SIMPLE.fullmatch(written)
    if expression is None:
        entry.checks.append("this regular expression has no pattern of ours: list the nodes in source.node")
        return None
    if not (written.startswith("^") and expression["end"]):
        entry.checks.append("the expression was not anchored and fitted more names; now only whole ones")
    name = expression["name"]
    if expression["tail"] is None:
        pattern = f"/dev/{name}"
        if name == "snd":
            return {"name": f"{DOMAIN}/{name}", **build_directory_entry(entry, name, {"permissions": "rwm"})}
    elif expression["tail"].startswith("."):
        pattern = f"/dev/{name}*"
    else:
        pattern = f"/dev/{name}{{number:int}}"
    table: dict[str, TomlValue] = {
        "name": f"{DOMAIN}/{_build_resource_name(pattern, name)}",
        "source": {"node": pattern},
    }
    if expression["tail"]:
        entry.changes.append("one resource for each node, as before; they come and go with the nodes")
        table["accept"] = {"unstable-id": "as smarter-device-manager had it"}
    table["give"] = {"nodes": {"node": {"path": "{node}", "permissions": "rwm"}}}
    return table


def _build_resource_name(pattern: str, name: str) -> str:
    """Return the name of the resource, with `_` in place of slashes."""
    if pattern.endswith("{number:int}"):
        return f"{name.replace('/', '_')}{{number}}"
    if pattern.endswith("*"):
        return f"{name.rpartition('/')[0].replace('/', '_')}_{{name}}" if "/" in name else "{name}"
    return name.replace("/", "_")


def _build_jetson_table() -> dict[str, TomlValue]:
    """Return an entry for the GPU of a Jetson board. The GPU has no device node, so the container gets only its
    number.
    """
    return {
        "name": f"{DOMAIN}/nvidia-gpu{{number}}",
        "source": {"dir": "/sys/devices/gpu.{number:int}"},
        "id": "gpu.{number}",
        "give": {"env": {"NVIDIA_VISIBLE_DEVICES": {"value": "{number}", "join": ","}}},
    }
