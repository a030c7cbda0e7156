"""The kinds of source: every module of this package that says it is one (`KIND`). Nothing else names them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from typing import cast

import agent.scanners
from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.inventory.listing import Listing, SkippedPath
from agent.core.language.value import ValueType
from agent.core.struct import Struct
from agent.host.root import Root
from agent.scanners import word_route
from agent.scanners.scanner import Scanner, SourceListing
from agent.scanners.word_route import UnknownWordError

__all__ = [
    "KINDS",
    "UnknownWordError",
    "WordType",
    "get_default_ids",
    "get_word_type",
    "list_devices",
    "list_watched_directories",
    "list_words",
]


class WordType(Struct):
    """What a word is before it is read; `many` is a list, for which there are list tests only.

    table: it is several things, and this is the table of their words.
    """

    kind: ValueType
    is_list: bool
    table: str = ""


_READERS = {"full_rescan", "host_reader", "source_kinds"}  # they read the catalog, so it cannot import them


def _find_kinds() -> Mapping[str, Scanner]:
    names = [module.name for module in pkgutil.iter_modules(agent.scanners.__path__) if module.name not in _READERS]
    modules = [importlib.import_module(f"agent.scanners.{name}") for name in names]
    return {module.KIND: cast("Scanner", module) for module in modules if hasattr(module, "KIND")}


KINDS: Mapping[str, Scanner] = _find_kinds()


def get_word_type(kind: str, written: str) -> WordType:
    """The type of a word or path of a source kind, or of the things of a table.

    Raises:
        UnknownWord: it has none such.
        agent.core.language.glob.PatternError: a glob in a path that is none.
    """
    route = word_route.parse_route(KINDS[kind].TABLE if kind in KINDS else word_route.TABLES[kind], written)
    is_subject_list = route.is_list and route.word is None and not route.property and not route.path
    return WordType(route.kind, route.is_list, route.relations[-1].table if is_subject_list else "")


def list_words(kind: str) -> tuple[str, ...]:
    """All words that stand by themselves for a source kind, sorted."""
    return word_route.list_choices(KINDS[kind].TABLE)


def get_default_ids(kind: str) -> tuple[str, ...]:
    """The texts of `id` where an entry says none, best first; empty if it must say one."""
    return KINDS[kind].DEFAULT_IDS


def list_devices(root: Root, sources: Iterable[Source], previous: Listing | None, dirty_set: DirtySet) -> Listing:
    """What the sources see now; those that nothing touched concerns are taken over. One that fails, fails alone.

    However many of them look into one directory, it is listed once.
    """
    with root.list_once():
        return _scan_sources(root, sources, previous, dirty_set)


def _scan_sources(root: Root, sources: Iterable[Source], previous: Listing | None, dirty_set: DirtySet) -> Listing:
    devices: dict[Source, tuple[HostDevice, ...]] = {}
    skipped_paths: dict[Source, tuple[SkippedPath, ...]] = {}
    directories: dict[Source, frozenset[str]] = {}
    for source in dict.fromkeys(sources):
        is_known = previous is not None and source in previous.devices
        previous_source = _get_source_listing(previous, source)
        scanner = KINDS[source.kind]
        is_full_scan = not is_known or source in dirty_set.sources
        if previous is not None and not is_full_scan and not scanner.is_affected(source, previous_source, dirty_set):
            devices[source], skipped_paths[source] = previous_source
            directories[source] = previous.watched_directories[source]
            continue
        try:
            current = scanner.scan(root, source, previous_source, ALL_DIRTY if is_full_scan else dirty_set)
        except OSError as error:
            current = SourceListing(
                previous_source.devices,
                (SkippedPath(error.filename or str(source), f"cannot be read: {error}", is_source_failure=True),),
            )
        devices[source], skipped_paths[source] = current
        directories[source] = scanner.list_directories(root, source, current)
    return Listing(devices, skipped_paths, directories)


def is_same_device(root: Root, device: HostDevice) -> bool:
    """Whether what stands at a device's place now is the very thing that was listed."""
    return KINDS[device.source].is_same_device(root, device)


def list_watched_directories(root: Root, sources: Iterable[Source]) -> frozenset[str]:
    """The directories to watch by inotify for sources of which nothing is known yet."""
    return frozenset().union(
        *(KINDS[source.kind].list_directories(root, source, SourceListing()) for source in sources)
    )


def _get_source_listing(listing: Listing | None, source: Source) -> SourceListing:
    if listing is None:
        return SourceListing()
    return SourceListing(listing.devices.get(source, ()), listing.skipped_paths.get(source, ()))
