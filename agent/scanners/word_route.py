"""How a word or path as written leads to what is read: through which relations, and to which word or file."""

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
        word: as written, whole.
        table: what lacks it, as a person says it: the source's kind, or the relations so far (`pf.netdev`).
        choices: what may stand there.
        segment: the piece that is unknown.
    """

    def __init__(self, word: str, table: str, choices: Iterable[str], segment: str) -> None:
        self.word = word
        self.table = table
        self.choices = tuple(choices)
        self.segment = segment
        super().__init__(f"no word {segment!r} of {table}")


class Route(Struct):
    """What to do to learn a fact of a thing.

    relations: to follow first, in order. Then one of: `word` to read; `property` of udev; `path`, components of a
    file below the thing's directory, or below / if `absolute`; or nothing, and the fact is the thing's name.
    """

    kind: ValueType = ValueType.TEXT
    is_list: bool = False
    relations: tuple[Relation, ...] = ()
    word: Word | None = None
    property: str = ""
    path: tuple[str, ...] = ()
    absolute: bool = False


def parse_route(start: WordTable, written: str) -> Route:
    """The way that a word or path means for things of the table `start`.

    Raises:
        UnknownWord: a piece of it is in no table.
        PatternError: a glob in a path that is none.
    """
    if "/" in written:
        return _path(start, written)
    segments = written.split(".")
    if segments[0] == "host":
        word = _entry(HOST, "host", written, ".".join(segments[1:]))
        return Route(word.kind, word.is_list, word=word) if isinstance(word, Word) else Route()
    relations: list[Relation] = []
    here, said = start, start.name
    for index, segment in enumerate(segments):
        rest = ".".join(segments[index + 1 :])
        many = any(relation.is_list for relation in relations)
        if segment == "udev" and here.device:
            if not _PROPERTY.fullmatch(rest):
                raise UnknownWordError(written, "udev", (), rest)
            return Route(is_list=many, relations=tuple(relations), property=rest)
        entry = _entry(here, said, written, segment)
        if isinstance(entry, Word):
            if rest:
                raise UnknownWordError(written, ".".join(segments[: index + 1]), (), segments[index + 1])
            return Route(entry.kind, many or entry.is_list, tuple(relations), entry)
        relations.append(entry)
        here, said = TABLES[entry.table], ".".join(segments[: index + 1])
    return Route(is_list=any(relation.is_list for relation in relations), relations=tuple(relations))


def list_choices(table: WordTable) -> tuple[str, ...]:
    """All that may be said of things of a table."""
    own = {*table.words, *table.relations}
    return tuple(sorted(own | {*EVERY.words, *EVERY.relations, "udev"} if table.device else own))


def _entry(table: WordTable, said: str, written: str, segment: str) -> Word | Relation:
    for each in (table, EVERY) if table.device else (table,):
        found = each.words.get(segment) or each.relations.get(segment)
        if found is not None:
            return found
    raise UnknownWordError(written, said, list_choices(table), segment)


def _path(start: WordTable, written: str) -> Route:
    head, _, rest = written.partition("/")
    components = tuple(part for part in rest.split("/") if part not in {"", "."})
    for component in components:
        parse_component(component)
    many = any(is_glob(component) for component in components)
    if not head:
        if not written.startswith(_ABSOLUTE) or ".." in components:
            raise UnknownWordError(
                written,
                "paths",
                ("./", *_ABSOLUTE),
                ".." if ".." in components else f"/{components[0]}" if components else "/",
            )
        return Route(is_list=many, path=components, absolute=True)
    if not components:
        raise UnknownWordError(written, "paths", (), written)
    if head == ".":
        return Route(is_list=many, path=components)
    relations: list[Relation] = []
    here, said = start, start.name
    for segment in head.split("."):
        entry = _entry(here, said, written, segment)
        if isinstance(entry, Word):
            relating = {*here.relations, *EVERY.relations} if here.device else {*here.relations}
            raise UnknownWordError(written, f"the relations of {said}", sorted(relating), segment)
        relations.append(entry)
        here, said = TABLES[entry.table], segment
    return Route(is_list=many or any(each.is_list for each in relations), relations=tuple(relations), path=components)
