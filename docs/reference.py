"""Reference pages from the tables that check the language: `python -m docs.reference words` or `keys`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from agent.config.language.key_table import PLACES, SOURCE_KINDS
from agent.config.schema import describe_value
from agent.scanners import source_kinds
from agent.scanners.common_words import EVERY
from agent.scanners.host_words import HOST
from agent.scanners.word_route import TABLES
from agent.scanners.word_table import WordTable

_KEYS_HEADER = "| key | value | default | meaning |"
_TITLES = {
    "every": "Every host device",
    "node": "Source `{ node = … }`",
    "pci": "Source `pci`, and after `pci`, `pf`",
    "usb": "Source `usb`, and after `usb`",
    "net": "Source `net`, and after `netdev`, `netdevs`, and `net` of usb",
    "infiniband": "Source `infiniband`, and after `rdma`",
    "port": "After `ports` of infiniband",
    "drm": "Source `drm`, and after `drm`",
    "mdev": "Source `mdev`",
    "auxiliary": "Source `auxiliary`",
    "iommu": "After `iommu`",
    "vfio": "After `vfio`",
    "host": "The host: `host.WORD`",
}


def build_words_page() -> str:
    """Return the page of all words as Markdown."""
    tables = {"every": EVERY, **{kind: scanner.TABLE for kind, scanner in sorted(source_kinds.KINDS.items())}, **TABLES}
    titles = {**_TITLES, **{name: f"Source `{name}`" for name in SOURCE_KINDS if name not in _TITLES}}
    tables = {**{name: tables[name] for name in titles if name in tables}, "host": HOST}
    lines = [
        "# Words",
        "",
        "Generated from the word tables (`make docs`). A word (device attribute) is the left side of a line of",
        "`match` or `exclude`. Templates contain it in braces. `device-agent scan DEVICE` shows the words of one",
        "device with their values. A relation leads to another device, and its words follow after a dot:",
        "`pf.netdev.name`. Each udev property is also a word (`udev.ID_MODEL`), and each file by its path.",
        "`./index` is in the directory of the device below /sys, `pf/sriov_numvfs` in that of a relation. A glob",
        "in a path makes a list.",
        "Devices of the sources `{ subsystem = … }`, `{ dir = … }` and `{ fixed = … }` have the words of every device.",
    ]
    for name, table in tables.items():
        lines += [
            "",
            f"## {titles[name]}",
            "",
            "| word | type | meaning | in the kernel |",
            "| --- | --- | --- | --- |",
        ]
        lines += _format_rows(table)
    return "\n".join(lines) + "\n"


def build_keys_page() -> str:
    """Return the page of all keys of the language as Markdown."""
    lines = [
        "# Keys",
        "",
        "Generated from the key table (`make docs`): each key of an entry or a class, by table. The",
        "[configuration](configuration.md) explains how they work together. `device-agent schema` prints the same",
        "for editors.",
    ]
    for name, place in PLACES.items():
        if name in {"file", "class"}:
            continue
        title = (
            "An entry `[[resource]]`, or a class"
            if name == "entry"
            else f"{place.title[0].upper()}{place.title[1:]}: `{name}`"
        )
        lines += ["", f"## {title}", "", _KEYS_HEADER, "| --- | --- | --- | --- |"]
        for key in place.keys.values():
            is_code = key.default.startswith(('"', "{", "[")) or key.default in {"1", "true", "false"}
            code = f"`{key.default}`" if is_code else key.default
            lines.append(f"| `{key.name}` | {describe_value(key)} | {code} | {key.meaning} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def _format_rows(table: WordTable) -> Iterator[str]:
    for word in table.words.values():
        kind = f"list of {word.kind.value}" if word.is_list else word.kind.value
        yield f"| `{word.name}` | {kind} | {word.about} | {_format_code(word.kernel)} |"
    for relation in table.relations.values():
        kind = "several" if relation.is_list else "relation"
        table_text = "" if relation.table == "every" else f", with the words of {relation.table}"
        yield f"| `{relation.name}` | {kind} | {relation.about}{table_text} | {_format_code(relation.kernel)} |"


def _format_code(text: str) -> str:
    return "" if text == "-" else text.replace("*", r"\*")


if __name__ == "__main__":
    print(build_keys_page() if sys.argv[1:] == ["keys"] else build_words_page(), end="")
