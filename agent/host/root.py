"""The machine under a root prefix: every read of /sys, /proc, /dev and /run goes through `Root`.

Paths go in and come out without the prefix. Nothing raises for what the machine lacks. Nothing is opened that is known
to wait, yet the kernel may ask the hardware for what a file of sysfs says: only names below /dev, and the names and
links of sysfs, are in memory.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from math import inf
from typing import NamedTuple

from agent.core.inventory.device import DeviceNode
from agent.core.language.value import Absent, make_sort_key
from agent.host.read_errors import get_type_reason, make_absent
from agent.host.recorded_tree import KernelAnswer, RecordedTree

LIMIT = 4096  # bytes: a sysfs attribute is at most a page (Documentation/filesystems/sysfs.rst)
natural_key = lru_cache(maxsize=65536)(make_sort_key)  # of names on the host: the same ones again at each look

LINKS = 40  # as many as the kernel follows (MAXSYMLINKS, include/linux/namei.h)

# Reading these waits, takes something away, does something to the device or never ends: the kernel log and trace
# pipes, memory images, PCI I/O ports, option ROM and VPD (which hangs on some cards), statistics that clear.
_DENIED = re.compile(
    r"trace_pipe(?:_raw)?|kmsg|kcore|k?mem|pagemap|kpage\w+|clear_refs|resource[0-9]+(?:_wc)?|rom|vpd|legacy_\w+"
)
_CONFIG = re.compile(r".*/[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]/config")
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class DirEntry(NamedTuple):
    """A device node, and a mark that differs once the node is made anew."""

    node: DeviceNode
    instance_id: str


class Root:
    """The machine as it stands below `prefix`; for anything but "/" links are followed inside of it.

    The text of a sysfs attribute comes from the device's driver, and dead hardware may never give one. So each thread
    says what it is asking, and who waits for the thread can name a file `silent`: then nobody asks it again before
    that one read returns.

    asked: the file that each thread is reading now. silent: files that did not answer in time.
    """

    def __init__(self, prefix: str = "/") -> None:
        top = os.path.realpath(prefix)
        self.paths_in_read: dict[int, str] = {}
        self.silent_paths: set[str] = set()
        self.prefix = "" if top == "/" else top
        self._tree = RecordedTree(self.prefix) if self.prefix else None
        self._listings: dict[int, dict[str, tuple[str, ...] | Absent]] = {}  # by thread, while it asks once

    def read(self, path: str) -> str | Absent:
        """The text of a regular file, outer white space and NULs off, at most `LIMIT` bytes of it."""
        if path.endswith("/config") and _CONFIG.fullmatch(path):
            return Absent("is binary, and reading it may wake the device", unreadable=True)
        data = self.read_head(path, LIMIT)
        if isinstance(data, Absent):
            return data
        return data.strip(b" \t\r\n\v\f\0").decode("utf-8", "surrogateescape")

    def read_head(self, path: str, count: int) -> bytes | Absent:
        """The first `count` bytes of a regular file; of no other kind of file, since opening one may act.

        What one read gives: an attribute of sysfs is whole. A list in /proc comes in pieces (see `whole`).
        """
        return self._read_bytes(path, count, pieces=False)

    def read_list(self, path: str, limit: int) -> bytes | Absent:
        """A list in /proc, up to `limit` bytes of it; the kernel gives it a page or so at a time."""
        return self._read_bytes(path, limit, pieces=True)

    def _read_bytes(self, path: str, count: int, *, pieces: bool) -> bytes | Absent:
        host = self._get_host_path(path) if self.prefix else path
        if isinstance(host, Absent):
            return host
        if barrier := self._find_barrier(path, host):
            return barrier
        reader = threading.get_ident()
        self.paths_in_read[reader] = path
        try:
            if self.prefix or not path.startswith("/sys/"):  # in sysfs there are files and directories only
                mode = os.stat(host).st_mode
                if not stat.S_ISREG(mode):
                    return get_type_reason(mode)
            handle = os.open(host, _FLAGS)
            try:
                data = os.read(handle, count)
                while pieces and len(data) < count and (chunk := os.read(handle, count - len(data))):
                    data += chunk
            finally:
                os.close(handle)
        except (OSError, ValueError) as error:
            return make_absent(error)
        else:
            return data
        finally:
            del self.paths_in_read[reader]
            if self.silent_paths:
                self.silent_paths.discard(path)

    def _find_barrier(self, path: str, host: str) -> Absent | None:
        """Why a file is not read, if it is not."""
        if _is_denied(path.rpartition("/")[2]) or (host is not path and _is_denied(host.rpartition("/")[2])):
            return Absent("is never read: that would wait or act", unreadable=True)
        if path in self.silent_paths:
            return Absent("does not answer", unreadable=True)
        return self._tree.unreadable.get(host.removeprefix(self.prefix)) if self._tree else None

    def query_kernel(self, path: str, ask: Callable[[], KernelAnswer]) -> KernelAnswer | None:
        """What the kernel tells who asks it, and no file says; `path` is that of the file that would.

        Below a prefix it is what the tree says that it told (`host.tree.TOLD`), or None: the tree does not say.
        """
        return self._tree.kernel_answers.get(path) if self._tree else ask()

    def read_link_name(self, path: str) -> str | Absent:
        """The last part of what a link leads to: how sysfs names a driver or a subsystem."""
        host = path
        if self.prefix:
            parent, _, name = path.rpartition("/")
            directory = self._get_host_path(parent or "/")
            if isinstance(directory, Absent):
                return directory
            host = f"{directory}/{name}"
        try:
            target = os.readlink(host).rstrip("/").rpartition("/")[2]
        except OSError as error:
            return Absent("is no link") if error.errno == errno.EINVAL else make_absent(error)
        except ValueError as error:
            return make_absent(error)
        if target not in {"", ".", ".."}:
            return target
        real_path = self.resolve(path)  # the kernel's own links always end in the name
        return real_path if isinstance(real_path, Absent) else real_path.rpartition("/")[2]

    def resolve(self, path: str) -> str | Absent:
        """The path with every link followed; absent for loops, what is not there, and what leads out.

        Absolute links start at the prefix again. A link from elsewhere into /proc is refused: what is there
        depends on who looks (/dev/stdin would be our own standard input).
        """
        remaining = path.split("/")[::-1]
        components: list[str] = []
        links = 0
        try:
            while remaining:
                part = remaining.pop()
                if part in {"", "."}:
                    continue
                if part == "..":
                    if not components and self.prefix:
                        return Absent("leads out of the root")
                    del components[-1:]
                    continue
                components.append(part)
                target = _read_target(f"{self.prefix}/{'/'.join(components)}")
                if target is None:
                    continue
                links += 1
                if links > LINKS:
                    return Absent("a loop of links")
                components = [] if target.startswith("/") else components[:-1]
                if target.startswith("/proc/") and not path.startswith("/proc/"):
                    return Absent("leads into /proc, which differs for each process")
                remaining.extend(target.split("/")[::-1])
        except (OSError, ValueError) as error:
            is_missing = isinstance(error, OSError) and error.errno in {errno.ENOENT, errno.ENOTDIR}
            return Absent("dangling link") if is_missing and links else make_absent(error)
        return "/" + "/".join(components)

    def resolve_device(self, path: str) -> str | Absent:
        """The canonical directory of a device that a link of sysfs leads to (/sys/class/X/Y, /sys/dev/char/1:3).

        One readlink where it can: links that the kernel makes lead straight to the real directory.
        """
        if not self.prefix:
            try:
                real = os.path.normpath(f"{path.rpartition('/')[0]}/{os.readlink(path)}")
            except (OSError, ValueError):
                return self.resolve(path)
            if real.startswith("/sys/devices/"):
                return real
        return self.resolve(path)

    def list_names(self, directory: str, *, ordered: bool = True) -> tuple[str, ...] | Absent:
        """What is in a directory, in natural order (or in any, which is faster)."""
        listed = self._listings.get(threading.get_ident()) if self._listings else None
        if listed is not None and directory in listed:
            names = listed[directory]
        else:
            names = self._read_names(directory)
            if listed is not None:
                listed[directory] = names
        return tuple(sorted(names, key=natural_key)) if ordered and not isinstance(names, Absent) else names

    def _read_names(self, directory: str) -> tuple[str, ...] | Absent:
        host = self._get_host_path(directory)
        if isinstance(host, Absent):
            return host
        try:
            return tuple(os.listdir(host))
        except (OSError, ValueError) as error:
            return make_absent(error)

    @contextmanager
    def list_once(self) -> Iterator[None]:
        """While it lasts this thread lists each directory once: what is said of one look is said of one moment."""
        self._listings[threading.get_ident()] = {}
        try:
            yield
        finally:
            del self._listings[threading.get_ident()]

    def list_directories(self, directory: str) -> tuple[str, ...]:
        """The directories in a directory, links not among them, in natural order; none if it cannot be listed."""
        host = self._get_host_path(directory)
        if isinstance(host, Absent):
            return ()
        try:
            with os.scandir(host) as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except (OSError, ValueError):
            return ()
        return tuple(sorted(names, key=natural_key))

    def exists(self, path: str) -> bool:
        """Whether something is there, links followed."""
        return not isinstance(self.resolve(path), Absent)

    def is_directory(self, path: str) -> bool:
        """Whether a directory is there, links followed."""
        host = self._get_host_path(path)
        return not isinstance(host, Absent) and os.path.isdir(host)

    def read_directory_instance_id(self, path: str) -> str:
        """The `stamp` of a directory; empty if there is none."""
        host = self._get_host_path(path)
        try:
            status = None if isinstance(host, Absent) else os.stat(host)
        except (OSError, ValueError):
            return ""
        return str(status.st_ino) if status and stat.S_ISDIR(status.st_mode) else ""

    def read_instance_id(self, path: str) -> str:
        """A mark that differs once the file or directory is made anew; empty if there is none."""
        host = self._get_host_path(path)
        try:
            return "" if isinstance(host, Absent) else str(os.stat(host).st_ino)
        except (OSError, ValueError):
            return ""

    def read_version(self, path: str) -> tuple[int, ...]:
        """A mark that differs once a file is another, or its content may be; empty if there is none."""
        host = self._get_host_path(path)
        try:
            status = None if isinstance(host, Absent) else os.stat(host)
        except (OSError, ValueError):
            return ()
        return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns) if status else ()

    def get_age(self, path: str) -> float:
        """Seconds since it was made, or last changed hands; infinite if it is not there or the clock was set back."""
        host = self._get_host_path(path)
        try:
            age = inf if isinstance(host, Absent) else time.time() - os.stat(host).st_ctime
        except (OSError, ValueError):
            return inf
        return age if age >= 0 else inf

    def find_node(self, path: str) -> DeviceNode | Absent:
        """The device node that a path leads to, links followed."""
        entry = self.find_entry(path)
        return entry if isinstance(entry, Absent) else entry.node

    def find_entry(self, path: str, *, within: bool = False) -> DirEntry | Absent:
        """The node with its stamp. `within`: the path's directory is known to be canonical, which saves time."""
        try:
            status = os.lstat(self.prefix + path) if within else None
            if status is None or stat.S_ISLNK(status.st_mode):
                real = self.resolve(path)
                if isinstance(real, Absent):
                    return real
                path = real
                status = os.lstat(self.prefix + path)
        except (OSError, ValueError) as error:
            return make_absent(error)
        if not path.startswith("/dev/"):
            return Absent("leads out of /dev")
        mode = status.st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            kind = "c" if stat.S_ISCHR(mode) else "b"
            number = (kind, os.major(status.st_rdev), os.minor(status.st_rdev))
        elif stat.S_ISREG(mode) and self._tree and (declared := self._tree.read_nodes().get(path)):
            number = declared
        else:
            return get_type_reason(mode)
        return DirEntry(DeviceNode(path, *number), f"{number[0]}{number[1]}:{number[2]} {status.st_ino}")

    def _get_host_path(self, path: str) -> str | Absent:
        """The path as the kernel takes it. It follows links itself, but only at "/" do they stay inside."""
        if not self.prefix:
            return path
        real = self.resolve(path)
        return real if isinstance(real, Absent) else self.prefix + real


@lru_cache(maxsize=4096)
def _is_denied(name: str) -> bool:
    """Whether a file of that name is not to be read; the same names come again and again."""
    return _DENIED.fullmatch(name) is not None


def _read_target(host: str) -> str | None:
    """What a link says; None for what is there and no link."""
    try:
        return os.readlink(host)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
