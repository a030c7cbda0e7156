"""Directories watched by inotify (inotify(7)), also those that are missing, come again or are reached by links.

inotify watches an inode, not a path. So for each wanted directory every directory on the way to it is watched too,
for the one name that leads on; when that name changes, the way is walked and watched anew.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

import inotify_simple
from inotify_simple import flags

from agent.core.struct import MutableStruct, field
from agent.host.root import LINKS, Root

READ_SIZE = 16384  # bytes taken in one go: some hundred events, before others on the event loop have their turn

_MASK = (
    flags.CREATE
    | flags.DELETE
    | flags.MOVED_FROM
    | flags.MOVED_TO
    | flags.ATTRIB
    | flags.DELETE_SELF
    | flags.MOVE_SELF
    | flags.ONLYDIR
)
_WRITTEN = flags.CLOSE_WRITE | flags.ONLYDIR | flags.MASK_ADD
_GONE = flags.DELETE_SELF | flags.MOVE_SELF | flags.UNMOUNT | flags.IGNORED
_MOVED = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO
_SYSCTLS = {errno.EMFILE: "fs.inotify.max_user_instances", errno.ENOSPC: "fs.inotify.max_user_watches"}

log = logging.getLogger(__name__)


class _Watched(MutableStruct):
    """One inode: its canonical path, the names in it that lead on to wanted directories, and which of these it is."""

    path: str
    ways: set[str] = field(default_factory=set)
    wanted: set[str] = field(default_factory=set)


class PathWatch:
    """Tells what changed in directories. Entered on the event loop, which it calls back from.

    Args:
        root: paths are below its prefix, and without it everywhere else.
        changed: called with paths: what came, went, was renamed or got other permissions (under the directory's
            wanted name and its canonical one), or a wanted directory itself when it is another than before; and
            whether events were lost, so that anything may have changed.
        written: also what was written to, but below /dev, where that would be every use of a device.
    """

    def __init__(self, root: Root, changed: Callable[[frozenset[str], bool], None], *, written: bool = False) -> None:
        self.faults: Mapping[str, str] = {}  # wanted directories that cannot be watched, and why
        self._root = root
        self._written = written
        self._changed = changed
        self._wanted: frozenset[str] = frozenset()
        self._watched: dict[int, _Watched] = {}
        self._inotify: inotify_simple.INotify | None = None
        self._entered = False
        self._failed = "not begun"

    async def __aenter__(self) -> Self:
        self._entered = True
        self._open()
        return self

    def _open(self) -> None:
        try:
            self._inotify = inotify_simple.INotify(nonblocking=True)
        except OSError as error:
            self._failed = _fault(error)
            return
        asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._readable)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None
        self._entered = False
        self._failed = "closed"

    def watch(self, directories: Iterable[str]) -> frozenset[str]:
        """Watch these, and no others. Cheap to repeat; each time, ways that changed unseen (a mount) are found.

        Returns:
            Those that were not watched before: what happened in them until now, nobody saw.
        """
        before, self._wanted = self._wanted, frozenset(directories)
        moved = self._arm() & before
        if moved:
            self._changed(self._both_names(moved), False)
        return self._wanted - before

    def _arm(self) -> frozenset[str]:
        """Walk to every wanted directory anew; those that are another directory than before, or gone, or come."""
        if self._inotify is None and self._entered:
            self._open()
        if self._inotify is None:
            self._find(dict.fromkeys(self._wanted, self._failed))
            return frozenset()
        old = {path: number for number, watched in self._watched.items() for path in watched.wanted}
        watched: dict[int, _Watched] = {}
        faults: dict[str, str] = {}
        for path in sorted(self._wanted):
            try:
                self._walk(self._inotify, path, watched)
            except OSError as error:
                faults[path] = _fault(error)
        for number in self._watched.keys() - watched.keys():
            try:
                self._inotify.rm_watch(number)
            except OSError:
                continue  # the kernel has dropped it with its directory
        self._watched = watched
        self._find(faults)
        new = {path: number for number, found in watched.items() for path in found.wanted}
        return frozenset(path for path in self._wanted if old.get(path) != new.get(path))

    def _find(self, faults: Mapping[str, str]) -> None:
        """Note what cannot be watched; each cause is said once, and again only when it was gone in between."""
        for fault in sorted({*faults.values()} - {*self.faults.values()}):
            paths = sorted(path for path, why in faults.items() if why == fault)
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            log.warning("%s%s cannot be watched: %s; looking there from time to time", paths[0], more, fault)
        self.faults = faults

    def _walk(self, inotify: inotify_simple.INotify, wanted: str, watched: dict[int, _Watched]) -> None:
        """Watch every directory on the way, each before the next name in it is looked up: no change is missed."""
        parts = [part for part in wanted.split("/") if part][::-1]
        here: list[str] = []
        links = 0
        while True:
            path = "/" + "/".join(here)
            try:
                number = inotify.add_watch(f"{self._root.prefix}{path}", _MASK | flags.MASK_ADD)
            except (FileNotFoundError, NotADirectoryError):
                return
            found = watched.setdefault(number, _Watched(path))
            while parts and parts[-1] in {"", ".", ".."}:
                here = here[:-1] if parts.pop() == ".." else here
                path = "/" + "/".join(here)
            if path != found.path:
                continue
            if not parts:
                found.wanted.add(wanted)
                if self._written and not f"{path}/".startswith("/dev/"):
                    inotify.add_watch(f"{self._root.prefix}{path}", _WRITTEN)
                return
            name = parts.pop()
            found.ways.add(name)
            try:
                target = os.readlink(f"{self._root.prefix}{path}/{name}")
            except FileNotFoundError:
                return
            except OSError:  # EINVAL: no link
                here.append(name)
                continue
            links += 1
            if links > LINKS:
                return
            here = [] if target.startswith("/") else here
            parts.extend(target.split("/")[::-1])

    def _readable(self) -> None:
        if self._inotify is None:
            return
        try:
            data = os.read(self._inotify.fileno(), READ_SIZE)
        except BlockingIOError:
            return
        changed: set[str] = set()
        overflow = walk_again = False
        for event in inotify_simple.parse_events(data):
            if event.mask & flags.Q_OVERFLOW:
                overflow = walk_again = True
                continue
            watched = self._watched.get(event.wd)
            if watched is None:
                continue
            walk_again |= bool(event.mask & _GONE) or (event.name in watched.ways and bool(event.mask & _MOVED))
            if watched.wanted:
                changed.update(f"{path}/{event.name}".rstrip("/") for path in (watched.path, *watched.wanted))
        if walk_again:
            changed |= self._both_names(self._arm())
        if changed or overflow:
            self._changed(frozenset(changed), overflow)

    def _both_names(self, wanted: Iterable[str]) -> frozenset[str]:
        """Wanted directories as asked for, and as they are called canonically now."""
        paths = frozenset(wanted)
        return paths | {found.path for found in self._watched.values() if found.wanted & paths}


def _fault(error: OSError) -> str:
    """What went wrong, with the limit that it may have been."""
    sysctl = _SYSCTLS.get(error.errno or 0)
    return f"inotify: {error.strerror or error}" + (f" (sysctl {sysctl} may be too low)" if sysctl else "")
