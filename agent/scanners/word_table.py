"""The word tables, and `LookCache`: the cache of host reads in one look."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from agent.core.inventory.device import DeviceNode
from agent.core.language.value import Absent, Scalar, Value, ValueType, get_kernel_parser, parse_kernel_text
from agent.core.struct import Struct
from agent.host import numa, udev
from agent.host.root import Root

T = TypeVar("T")

EMPTY = Absent("the file is empty")
PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")  # the format of sysfs; VMD has longer domains


class WordSubject(Struct):
    """A subject of words: a device by its canonical directory, or a node that sysfs does not know.

    table: the name of its word table.
    node: the path of its device node. Empty if the directory gives it.
    """

    table: str
    name: str
    directory: str = ""
    node: str = ""
    subsystem: str = ""

    @property
    def cache_key(self) -> tuple[str, str]:
        """The key of its cached results."""
        return self.table, self.directory or self.node


class Word(Struct):
    """A word: its type, its meaning for users, its source in the kernel, and the function that reads it.

    is_in_memory: for a device with a known node it needs only names below /dev, so that it never waits for hardware.
    """

    name: str
    kind: ValueType
    about: str
    kernel: str
    read: Callable[[LookCache, WordSubject], Value | Absent]
    is_list: bool = False
    is_in_memory: bool = False


class Relation(Struct):
    """A relation to one other subject with a word table, or to several (`is_list`)."""

    name: str
    table: str
    about: str
    kernel: str
    follow: Callable[[LookCache, WordSubject], WordSubject | tuple[WordSubject, ...] | Absent]
    is_list: bool = False


class WordTable(Struct):
    """The words of one kind of subject. `device`: it also has the words of every device."""

    name: str
    words: Mapping[str, Word]
    relations: Mapping[str, Relation]
    device: bool = True


def make_table(name: str, *entries: Word | Relation, device: bool = True) -> WordTable:
    """Return a table of these words and relations."""
    return WordTable(
        name,
        {entry.name: entry for entry in entries if isinstance(entry, Word)},
        {entry.name: entry for entry in entries if isinstance(entry, Relation)},
        device,
    )


def make_attribute(name: str, kind: ValueType, about: str, file: str = "") -> Word:
    """Return a word whose value is one file in the directory of the device."""
    file = file or name
    parse = get_kernel_parser(kind)

    def read(cache: LookCache, subject: WordSubject) -> Value | Absent:
        text = cache.read_text(f"{subject.directory}/{file}")
        if isinstance(text, Absent):
            return text
        value = parse(text) if text else EMPTY
        return parse_kernel_text(kind, text) if value is None else value

    return Word(name, kind, about, file, read)


class LookCache:
    """Cache of host reads within one look, so that each file is read once.

    paths: collects the paths that the current facts come from. The caller replaces it by its own set.
    nodes: the nodes that were read by path.
    """

    def __init__(self, root: Root) -> None:
        self.root = root
        self.paths: set[str] = set()
        self.nodes: dict[str, DeviceNode | Absent] = {}
        self._results: dict[tuple[str, str], Any] = {}
        self._texts: dict[str, str | Absent] = {}
        self._links: dict[str, str | Absent] = {}

    def get_or_read(self, category: str, object_name: str, read: Callable[[], T]) -> T:
        """Return the result of `read`, which is called only the first time for this category and object."""
        key = (category, object_name)
        if key in self._results:
            cached_result: T = self._results[key]
            return cached_result
        result = self._results[key] = read()
        return result

    def read_text(self, path: str) -> str | Absent:
        """Return the text of a file."""
        text = self._texts.get(path)
        if text is None:
            text = self._texts[path] = self.root.read(path)
        return text

    def read_value(self, kind: ValueType, path: str) -> Scalar | Absent:
        """Return the text of a file as a value of that type."""
        text = self.read_text(path)
        if isinstance(text, Absent):
            return text
        return parse_kernel_text(kind, text) if text else EMPTY

    def read_link_name(self, path: str) -> str | Absent:
        """Return the last part of a link target."""
        target = self._links.get(path)
        if target is None:
            target = self._links[path] = self.root.read_link_name(path)
        return target

    def find_node(self, path: str) -> DeviceNode | Absent:
        """Return the device node that a path leads to."""
        if path not in self.nodes:
            self.nodes[path] = self.root.find_node(path)
        return self.nodes[path]

    def list_names(self, directory: str) -> tuple[str, ...]:
        """Return the names in a directory. The result is empty if it does not exist."""
        names = self.get_or_read("names", directory, lambda: self.root.list_names(directory))
        return () if isinstance(names, Absent) else names

    def read_properties(self, directory: str) -> udev.UdevProperties:
        """Return the udev properties of a device."""
        return self.get_or_read("properties", directory, lambda: udev.read_properties(self.root, directory))

    def find_numa_node(self, directory: str) -> int | Absent:
        """Return the NUMA node of a device or of the nearest one above. -1 and unknown nodes do not count."""
        if not directory.startswith("/sys/devices/"):
            return Absent("no device above it says one")
        return self.get_or_read("numa", directory, lambda: self._read_numa_node(directory))

    def _read_numa_node(self, directory: str) -> int | Absent:
        node = self.read_value(ValueType.INT, f"{directory}/numa_node")
        if isinstance(node, int) and node in self.get_or_read("numa", "", lambda: numa.list_numa_nodes(self.root)):
            return node
        return self.find_numa_node(directory.rpartition("/")[0])
