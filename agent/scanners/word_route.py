"""The route of a word or path: its relations, and the word or file at its end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from agent.core.language.value import ValueType
from agent.core.struct import Struct
from agent.scanners.auxiliary_words import AUXILIARY
from agent.scanners.common_words import EVERY
from agent.scanners.drm_words import DRM
from agent.scanners.glob_files import is_glob, parse_component
from agent.scanners.host_words import HOST
from agent.scanners.infiniband_words import INFINIBAND, PORT
from agent.scanners.iommu_words import IOMMU
from agent.scanners.mdev_words import MDEV
from agent.scanners.net_words import NET
from agent.scanners.pci_words import PCI
from agent.scanners.usb_words import USB
from agent.scanners.vfio_words import VFIO
from agent.scanners.word_table import Relation, Word, WordTable

TABLES: Mapping[str, WordTable] = {
    item.name: item for item in (EVERY, PCI, USB, NET, INFINIBAND, PORT, DRM, AUXILIARY, MDEV, IOMMU, VFIO, HOST)
}

_PROPERTY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ABSOLUTE = ("/sys/", "/proc/", "/dev/")


class UnknownWordError(ValueError):
    """A word that no table has.

    Args:
        word: the complete word as written.
        table: the table without the word, as users know it: the source kind, or the relations so far (`pf.netdev`).
        choices: the words that are possible there.
        segment: the unknown part.
    """

    def __init__(self, word: str, table: str, choices: Iterable[str], segment: str) -> None:
        self.word = word
        self.table = table
        self.choices = tuple(choices)
        self.segment = segment
        super().__init__(f"no word {segment!r} of {table}")


class Route(Struct):
    """The steps to a fact of a subject.

    relations: the relations to follow first, in order. After them the route has one of: `word` to read, `property` of
        udev, `path`, or nothing. With nothing the fact is the name of the subject.
    path: components of a file below the directory of the subject, or below / if `absolute`.
    """

    kind: ValueType = ValueType.TEXT
    is_list: bool = False
    relations: tuple[Relation, ...] = ()
    word: Word | None = None
    property: str = ""
    path: tuple[str, ...] = ()
    absolute: bool = False


def parse_route(start: WordTable, written: str) -> Route:
    """Parse a word or path for subjects of the table `start`.

    Raises:
        UnknownWordError: a part of it is in no table.
        PatternError: a glob in the path is malformed.
    """
    if "/" in written:
        return _parse_path_route(start, written)
    segments = written.split(".")
    if segments[0] == "host":
        word = _find_entry(HOST, "host", written, ".".join(segments[1:]))
        return Route(word.kind, word.is_list, word=word) if isinstance(word, Word) else Route()
    relations: list[Relation] = []
    table, table_name = start, start.name
    for index, segment in enumerate(segments):
        remainder = ".".join(segments[index + 1 :])
        is_list = any(relation.is_list for relation in relations)
        if segment == "udev" and table.device:
            if not _PROPERTY.fullmatch(remainder):
                raise UnknownWordError(written, "udev", (), remainder)
            return Route(is_list=is_list, relations=tuple(relations), property=remainder)
        entry = _find_entry(table, table_name, written, segment)
        if isinstance(entry, Word):
            if remainder:
                raise UnknownWordError(written, ".".join(segments[: index + 1]), (), segments[index + 1])
            return Route(entry.kind, is_list or entry.is_list, tuple(relations), entry)
        relations.append(entry)
        table, table_name = TABLES[entry.table], ".".join(segments[: index + 1])
    return Route(is_list=any(relation.is_list for relation in relations), relations=tuple(relations))


def list_choices(table: WordTable) -> tuple[str, ...]:
    """Return all words and relations of the subjects of a table."""
    names = {*table.words, *table.relations}
    return tuple(sorted(names | {*EVERY.words, *EVERY.relations, "udev"} if table.device else names))


def _find_entry(table: WordTable, table_name: str, written: str, segment: str) -> Word | Relation:
    for candidate in (table, EVERY) if table.device else (table,):
        entry = candidate.words.get(segment) or candidate.relations.get(segment)
        if entry is not None:
            return entry
    raise UnknownWordError(written, table_name, list_choices(table), segment)


def _parse_path_route(start: WordTable, written: str) -> Route:
    head, _, remainder = written.partition("/")
    components = tuple(part for part in remainder.split("/") if part not in {"", "."})
    for component in components:
        parse_component(component)
    is_list = any(is_glob(component) for component in components)
    if not head:
        if not written.startswith(_ABSOLUTE) or ".." in components:
            raise UnknownWordError(
                written,
                "paths",
                ("./", *_ABSOLUTE),
                ".." if ".." in components else f"/{components[0]}" if components else "/",
            )
        return Route(is_list=is_list, path=components, absolute=True)
    if not components:
        raise UnknownWordError(written, "paths", (), written)
    if head == ".":
        return Route(is_list=is_list, path=components)
    relations: list[Relation] = []
    table, table_name = start, start.name
    for segment in head.split("."):
        entry = _find_entry(table, table_name, written, segment)
        if isinstance(entry, Word):
            relation_names = {*table.relations, *EVERY.relations} if table.device else {*table.relations}
            raise UnknownWordError(written, f"the relations of {table_name}", sorted(relation_names), segment)
        relations.append(entry)
        table, table_name = TABLES[entry.table], segment
    return Route(
        is_list=is_list or any(relation.is_list for relation in relations), relations=tuple(relations), path=components
    )
