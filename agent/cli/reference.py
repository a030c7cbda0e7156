"""Reference pages from the tables that check the language: `python -m agent.cli.reference words` or `keys`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from agent.config.language.key_table import PLACES
from agent.config.schema import describe_value
from agent.scanners import source_kinds
from agent.scanners.common_words import EVERY
from agent.scanners.host_words import HOST
from agent.scanners.word_route import TABLES
from agent.scanners.word_table import WordTable

_KEYS_HEADER = "| key | what stands there | default | what it says |"
_TITLES = {
    "every": "Every host device",
    "node": "Source `{ node = … }`",
    "pci": "Source `pci`, and behind `pci`, `pf`",
    "usb": "Source `usb`, and behind `usb`",
    "net": "Source `net`, and behind `netdev`, `netdevs`, and `net` of usb",
    "infiniband": "Source `infiniband`, and behind `rdma`",
    "port": "Behind `ports` of infiniband",
    "drm": "Source `drm`, and behind `drm`",
    "mdev": "Source `mdev`",
    "auxiliary": "Source `auxiliary`",
    "iommu": "Behind `iommu`",
    "vfio": "Behind `vfio`",
    "host": "The machine: `host.WORD`",
}


def build_words_page() -> str:
    """Return the page of all words as Markdown."""
    tables = {"every": EVERY, **{kind: scanner.TABLE for kind, scanner in sorted(source_kinds.KINDS.items())}, **TABLES}
    tables = {**{name: tables[name] for name in _TITLES if name in tables}, "host": HOST}
    lines = [
        "# Words",
        "",
        "Printed from the tables that check them (`make docs`). A word stands at the left of a line of `match` or",
        "`exclude`, and in braces in texts. `device-agent scan DEVICE` shows them with the values of one device.",
        "A relation leads to another thing, whose words follow behind a dot: `pf.netdev.name`. Besides these any udev",
        "property is a word, `udev.ID_MODEL`, and any file is one by its path: `./index` is in the device's own",
        "directory below /sys, `pf/sriov_numvfs` in that of a relation; a glob in a path makes a list.",
        "Devices of the sources `{ subsystem = … }`, `{ dir = … }` and `{ fixed = … }` have the words of every device.",
    ]
    for name, table in tables.items():
        lines += [
            "",
            f"## {_TITLES[name]}",
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
        "Printed from the tables that check them (`make docs`): every key of an entry or a class, place by place. How",
        "they work together is told in the [configuration](configuration.md); `device-agent schema` gives the same to",
        "editors.",
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
