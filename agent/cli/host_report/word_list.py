"""The words of a source, with their types, their present values, and their origin in the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.cli.host_report.device_summary import format_value
from agent.cli.table import Column, Row, render
from agent.cli.terminal import Terminal, cut
from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import ALL_DIRTY
from agent.core.language.glob import parse
from agent.core.language.glob_parts import Capture
from agent.core.language.safe_text import LIMIT, escape, format_count
from agent.core.language.value import Absent, make_sort_key
from agent.core.struct import Struct
from agent.host.root import Root
from agent.scanners import source_kinds
from agent.scanners.common_words import EVERY
from agent.scanners.host_reader import HostReader, HostView

# Source kinds that need an argument, with the argument to write.
SOURCE_HINTS = {
    "node": "write the path of the nodes: --words '/dev/video*'",
    "dir": "write the path of the directories: --words '/sys/class/npu/npu*'",
    "subsystem": "write the class or bus of the kernel: --words tty",
    "fixed": "it has no device on the host: its only word is name",
}
_MAX_VALUES = 3  # different values that are shown for a word
_COLUMNS = (Column("WORD"), Column("TYPE"), Column("HERE", min_width=12), Column("IN THE KERNEL", drop_order=1))


class ListedWord(Struct):
    """A word or a relation. values: its different values on the present devices."""

    name: str
    type: str
    kernel: str
    values: tuple[str, ...]


class WordList(Struct):
    """All words of a source.

    files: other names in the directories of the devices. A clause can use them as paths, like `./state`.
    """

    source: Source
    devices: tuple[HostDevice, ...]
    entries: tuple[ListedWord, ...]
    files: tuple[str, ...]


def parse_source(root: Root, name: str) -> Source | None:
    """Return the source that a user names: a source kind, a glob of nodes or directories, or a class or bus of the
    kernel.

    Return None if there is no such source on this host.

    Raises:
            PatternError: the glob is not valid.
    """
    if name.startswith(("/dev/", "/sys/", "/proc/")):
        parse(name, allow_captures=True)
        return Source("node" if name.startswith("/dev/") else "dir", (name,))
    if name in source_kinds.KINDS and name not in SOURCE_HINTS:
        return Source(name)
    is_known = (
        any(root.is_directory(f"/sys/{place}/{name}") for place in ("class", "bus")) if "/" not in name else False
    )
    return Source("subsystem", (name,)) if is_known and name not in {"", ".", ".."} else None


def build_word_list(root: Root, source: Source) -> WordList:
    """Read the devices of a source and return the words with their values."""
    devices = source_kinds.list_devices(root, (source,), None, ALL_DIRTY).devices[source]
    reader = HostReader(HostView(root))
    table = source_kinds.KINDS[source.kind].TABLE

    def list_values(word: str) -> tuple[str, ...]:
        values = (reader.read_fact(device, word) for device in devices)
        return tuple(
            dict.fromkeys(format_value(value) for value in values if not isinstance(value, Absent) and value != ())
        )

    entries = [
        ListedWord(
            word.name,
            f"list of {word.kind.value}" if word.is_list else word.kind.value,
            word.kernel,
            list_values(word.name),
        )
        for word in {**EVERY.words, **table.words}.values()
    ]
    if source.kind in {"node", "dir"}:
        entries += [
            _build_captured_word(capture, devices)
            for capture in parse(source.arguments[0], allow_captures=True).captures
        ]
    entries += [
        ListedWord(relation.name, "several" if relation.is_list else "→", relation.kernel, list_values(relation.name))
        for relation in {**EVERY.relations, **table.relations}.values()
    ]
    return WordList(source, devices, tuple(entries), _list_files(root, devices, {entry.kernel for entry in entries}))


def _build_captured_word(capture: Capture, devices: Sequence[HostDevice]) -> ListedWord:
    """Return the word that a part of the glob captures."""
    texts = (format_value(value) for device in devices for word, value in device.captures if word == capture.word)
    return ListedWord(capture.word, capture.kind.value, "the pattern", tuple(dict.fromkeys(texts)))


def format_word_list(word_list: WordList, terminal: Terminal) -> list[str]:
    """Return the lines for people."""
    rows = [
        Row(
            (entry.name, entry.type, _format_values(entry.values), "–" if entry.kernel == "-" else entry.kernel),
            "" if entry.values else "dim",
        )
        for entry in word_list.entries
    ]
    count = len(word_list.devices)
    title = f"source {word_list.source}: {format_count(count, 'device')} here"
    lines = [terminal.style(title, "bold"), *render(_COLUMNS, rows, terminal)]
    lines.append(
        "After a relation (→, several) write a dot: pf.driver. Other words: udev.PROPERTY, host.WORD, and paths."
    )
    if word_list.files:
        lines.append(f"other files: {' '.join(word_list.files)}")
    return [terminal.make_displayable(line) for line in lines]


def build_word_list_json(word_list: WordList) -> dict[str, object]:
    """Return the object for programs."""
    return {
        "source": str(word_list.source),
        "devices": [device.name for device in word_list.devices],
        "words": [
            {"word": entry.name, "type": entry.type, "kernel": entry.kernel, "here": list(entry.values)}
            for entry in word_list.entries
        ],
        "paths": list(word_list.files),
    }


def _format_values(values: Sequence[str]) -> str:
    text = ", ".join(cut(value, LIMIT) for value in values[:_MAX_VALUES])  # `format_value` made them printable
    return f"{text}, … ({len(values)})" if len(values) > _MAX_VALUES else text


def _list_files(root: Root, devices: Sequence[HostDevice], read_names: set[str]) -> tuple[str, ...]:
    """Return the other files in the directories of the devices, as quoted paths."""
    quoted_paths = (path for device in devices for path in list_paths(root, device.directory, read_names))
    return tuple(sorted(dict.fromkeys(quoted_paths), key=make_sort_key))


def list_paths(root: Root, directory: str, read_names: set[str]) -> tuple[str, ...]:
    """Return the files in the directory of a device that are no words, as quoted paths."""
    names = root.list_names(directory) if directory else Absent("")
    return () if isinstance(names, Absent) else tuple(_quote_paths(names, read_names))


def _quote_paths(names: Sequence[str], read_names: set[str]) -> Iterator[str]:
    for name in names:
        if name not in read_names and name not in {"uevent", "power", "subsystem"} and escape(name) == name:
            yield f'"./{name}"'
