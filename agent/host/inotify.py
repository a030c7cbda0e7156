"""Watches on directories by inotify(7), also directories that do not exist yet, are created again, or are reached by
links.

inotify watches an inode, not a path. So every directory on the path to a requested one is watched too, for the one name
that leads on. When that name changes, the path is walked and watched again.
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

READ_SIZE = 16384  # bytes of one read: some hundred events, before other tasks of the event loop run

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
_WRITE_MASK = flags.CLOSE_WRITE | flags.ONLYDIR | flags.MASK_ADD
_DISAPPEARED = flags.DELETE_SELF | flags.MOVE_SELF | flags.UNMOUNT | flags.IGNORED
_NAME_CHANGED = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO
_SYSCTLS = {errno.EMFILE: "fs.inotify.max_user_instances", errno.ENOSPC: "fs.inotify.max_user_watches"}

log = logging.getLogger(__name__)


class _WatchedInode(MutableStruct):
    """One inode.

    path: its canonical path.
    next_names: the names in it that lead to requested directories.
    requested: the requested paths that lead to it.
    """

    path: str
    next_names: set[str] = field(default_factory=set)
    requested: set[str] = field(default_factory=set)


class PathWatch:
    """Watch on directories. Enter it on the event loop, which calls back.

    Args:
        root: paths are below its prefix. Without a prefix they may be anywhere.
        changed: called with paths and a flag. A path is of an entry that was added, removed or renamed, or whose
            permissions changed. It is reported under the requested and the canonical name of its directory. A requested
            directory itself is reported when another inode has its place. The flag is true if events were lost, so that
            anything may have changed.
        written: report entries that were written to as well. Below /dev this would be every use of a device, so not
            there.
    """

    def __init__(self, root: Root, changed: Callable[[frozenset[str], bool], None], *, written: bool = False) -> None:
        self.faults: Mapping[str, str] = {}  # reasons of the requested directories that cannot be watched
        self._root = root
        self._written = written
        self._changed = changed
        self._requested: frozenset[str] = frozenset()
        self._watched: dict[int, _WatchedInode] = {}
        self._inotify: inotify_simple.INotify | None = None
        self._is_entered = False
        self._failure = "not begun"

    async def __aenter__(self) -> Self:
        self._is_entered = True
        self._open()
        return self

    def _open(self) -> None:
        try:
            self._inotify = inotify_simple.INotify(nonblocking=True)
        except OSError as error:
            self._failure = _describe_fault(error)
            return
        asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._read_events)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None
        self._is_entered = False
        self._failure = "closed"

    def watch(self, directories: Iterable[str]) -> frozenset[str]:
        """Watch these directories and no others. Repeated calls are cheap. Each one finds changes without events, as a
        mount.

        Returns:
            Directories that were not watched before. Changes in them until now were not reported.
        """
        previous, self._requested = self._requested, frozenset(directories)
        replaced_directories = self._rewatch() & previous
        if replaced_directories:
            self._changed(self._add_canonical_names(replaced_directories), False)
        return self._requested - previous

    def _rewatch(self) -> frozenset[str]:
        """Walk to every requested directory.

        Return those with another inode than before, and those that were added or removed.
        """
        if self._inotify is None and self._is_entered:
            self._open()
        if self._inotify is None:
            self._log_faults(dict.fromkeys(self._requested, self._failure))
            return frozenset()
        old = {path: number for number, watched in self._watched.items() for path in watched.requested}
        watched: dict[int, _WatchedInode] = {}
        faults: dict[str, str] = {}
        for path in sorted(self._requested):
            try:
                self._walk(self._inotify, path, watched)
            except OSError as error:
                faults[path] = _describe_fault(error)
        for number in self._watched.keys() - watched.keys():
            try:
                self._inotify.rm_watch(number)
            except OSError:
                continue  # the kernel removed the watch with its directory
        self._watched = watched
        self._log_faults(faults)
        new = {path: number for number, inode in watched.items() for path in inode.requested}
        return frozenset(path for path in self._requested if old.get(path) != new.get(path))

    def _log_faults(self, faults: Mapping[str, str]) -> None:
        """Store the faults. Log each cause once, and again only after it was absent."""
        for fault in sorted({*faults.values()} - {*self.faults.values()}):
            paths = sorted(path for path, reason in faults.items() if reason == fault)
            suffix = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            log.warning("%s%s cannot be watched: %s; looking there from time to time", paths[0], suffix, fault)
        self.faults = faults

    def _walk(self, inotify: inotify_simple.INotify, directory: str, watched: dict[int, _WatchedInode]) -> None:
        """Watch every directory on the path, each before the next name in it is read, so that no change is missed."""
        parts = [part for part in directory.split("/") if part][::-1]
        components: list[str] = []
        links = 0
        while True:
            path = "/" + "/".join(components)
            try:
                number = inotify.add_watch(f"{self._root.prefix}{path}", _MASK | flags.MASK_ADD)
            except (FileNotFoundError, NotADirectoryError):
                return
            inode = watched.setdefault(number, _WatchedInode(path))
            while parts and parts[-1] in {"", ".", ".."}:
                components = components[:-1] if parts.pop() == ".." else components
                path = "/" + "/".join(components)
            if path != inode.path:
                continue
            if not parts:
                inode.requested.add(directory)
                if self._written and not f"{path}/".startswith("/dev/"):
                    inotify.add_watch(f"{self._root.prefix}{path}", _WRITE_MASK)
                return
            name = parts.pop()
            inode.next_names.add(name)
            try:
                target = os.readlink(f"{self._root.prefix}{path}/{name}")
            except FileNotFoundError:
                return
            except OSError:  # EINVAL: the name is no link
                components.append(name)
                continue
            links += 1
            if links > LINKS:
                return
            components = [] if target.startswith("/") else components
            parts.extend(target.split("/")[::-1])

    def _read_events(self) -> None:
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
            walk_again |= bool(event.mask & _DISAPPEARED) or (
                event.name in watched.next_names and bool(event.mask & _NAME_CHANGED)
            )
            if watched.requested:
                changed.update(f"{path}/{event.name}".rstrip("/") for path in (watched.path, *watched.requested))
        if walk_again:
            changed |= self._add_canonical_names(self._rewatch())
        if changed or overflow:
            self._changed(frozenset(changed), overflow)

    def _add_canonical_names(self, directories: Iterable[str]) -> frozenset[str]:
        """Return requested directories with their canonical names."""
        paths = frozenset(directories)
        return paths | {inode.path for inode in self._watched.values() if inode.requested & paths}


def _describe_fault(error: OSError) -> str:
    """Return the text of an error, with the kernel limit that may be its cause."""
    sysctl = _SYSCTLS.get(error.errno or 0)
    return f"inotify: {error.strerror or error}" + (f" (sysctl {sysctl} may be too low)" if sysctl else "")
