"""The source kinds: every module of this package with a `KIND`. No other code lists them."""

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
    """The type of a word before it is read.

    is_list: the value is a list, for which there are list tests only.
    table: the name of the word table, if the word is a list of subjects.
    """

    kind: ValueType
    is_list: bool
    table: str = ""


_READERS = {"full_rescan", "host_reader", "source_kinds"}  # these modules import this one


def _find_kinds() -> Mapping[str, Scanner]:
    names = [module.name for module in pkgutil.iter_modules(agent.scanners.__path__) if module.name not in _READERS]
    modules = [importlib.import_module(f"agent.scanners.{name}") for name in names]
    return {module.KIND: cast("Scanner", module) for module in modules if hasattr(module, "KIND")}


KINDS: Mapping[str, Scanner] = _find_kinds()


def get_word_type(kind: str, written: str) -> WordType:
    """Return the type of a word or path of a source kind, or of a word table.

    Raises:
        UnknownWordError: the source kind has no such word.
        agent.core.language.glob.PatternError: a glob in the path is malformed.
    """
    route = word_route.parse_route(KINDS[kind].TABLE if kind in KINDS else word_route.TABLES[kind], written)
    is_subject_list = route.is_list and route.word is None and not route.property and not route.path
    return WordType(route.kind, route.is_list, route.relations[-1].table if is_subject_list else "")


def list_words(kind: str) -> tuple[str, ...]:
    """Return all words of a source kind that need no argument, sorted."""
    return word_route.list_choices(KINDS[kind].TABLE)


def get_default_ids(kind: str) -> tuple[str, ...]:
    """Return the templates of `id` for an entry without one, best first.

    The result is empty if the entry must have one.
    """
    return KINDS[kind].DEFAULT_IDS


def list_devices(root: Root, sources: Iterable[Source], previous: Listing | None, dirty_set: DirtySet) -> Listing:
    """Return the listing of the sources. Sources that nothing dirty affects keep their previous one. Each one fails
    alone.

    A directory is listed once, also if several sources read it.
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
    """Return whether the device at this path is still the listed one."""
    return KINDS[device.source].is_same_device(root, device)


def list_watched_directories(root: Root, sources: Iterable[Source]) -> frozenset[str]:
    """Return the directories to watch by inotify for sources that are not listed yet."""
    return frozenset().union(
        *(KINDS[source.kind].list_directories(root, source, SourceListing()) for source in sources)
    )


def _get_source_listing(listing: Listing | None, source: Source) -> SourceListing:
    if listing is None:
        return SourceListing()
    return SourceListing(listing.devices.get(source, ()), listing.skipped_paths.get(source, ()))
