"""The host below a root prefix: every read of /sys, /proc, /dev and /run is done by `Root`.

Arguments and results are paths without the prefix. No method raises for something that the host lacks. No file is
opened that is known to wait. Yet the kernel may ask the hardware for the content of a sysfs file: only names below
/dev, and names and links of sysfs, are in memory.
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
natural_key = lru_cache(maxsize=65536)(make_sort_key)  # cached: each look sorts the same names

LINKS = 40  # the limit of the kernel (MAXSYMLINKS, include/linux/namei.h)

# Reading these files waits, consumes data, changes the device or never ends: the kernel log and trace
# pipes, memory images, PCI I/O ports, option ROM and VPD (which hangs on some cards), statistics that clear.
_DENIED = re.compile(
    r"trace_pipe(?:_raw)?|kmsg|kcore|k?mem|pagemap|kpage\w+|clear_refs|resource[0-9]+(?:_wc)?|rom|vpd|legacy_\w+"
)
_CONFIG = re.compile(r".*/[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]/config")
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class DirEntry(NamedTuple):
    """A device node with its instance ID, which differs when the node is created again."""

    node: DeviceNode
    instance_id: str


class Root:
    """The host below `prefix`. Unless the prefix is "/", links are followed inside it.

    The text of a sysfs attribute comes from the driver, and dead hardware may never give one. So each thread stores the
    path that it reads. A caller that waits for the thread can add that path to `silent_paths`. Then no thread reads the
    file again before that one read returns.

    paths_in_read: the path that each thread reads now, by thread.
    silent_paths: files that did not respond in time.
    """

    def __init__(self, prefix: str = "/") -> None:
        top = os.path.realpath(prefix)
        self.paths_in_read: dict[int, str] = {}
        self.silent_paths: set[str] = set()
        self.prefix = "" if top == "/" else top
        self._tree = RecordedTree(self.prefix) if self.prefix else None
        self._listings: dict[int, dict[str, tuple[str, ...] | Absent]] = {}  # by thread, in `list_once`

    def read(self, path: str) -> str | Absent:
        """Return the text of a regular file without outer white space and NULs, at most `LIMIT` bytes of it."""
        if path.endswith("/config") and _CONFIG.fullmatch(path):
            return Absent("is binary, and reading it may wake the device", unreadable=True)
        data = self.read_head(path, LIMIT)
        if isinstance(data, Absent):
            return data
        return data.strip(b" \t\r\n\v\f\0").decode("utf-8", "surrogateescape")

    def read_head(self, path: str, count: int) -> bytes | Absent:
        """Return the first `count` bytes of a regular file. Other files are not opened, because opening one may act.

        This is the result of one read, which is enough for a sysfs attribute. Lists in /proc come in pieces, see
        `read_list`.
        """
        return self._read_bytes(path, count, pieces=False)

    def read_list(self, path: str, limit: int) -> bytes | Absent:
        """Return a list in /proc, at most `limit` bytes of it. The kernel gives it a page or so at a time."""
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
            if self.prefix or not path.startswith("/sys/"):  # sysfs has only files and directories
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
        """Return the reason why a file must not be read, or None if it may be read."""
        if _is_denied(path.rpartition("/")[2]) or (host is not path and _is_denied(host.rpartition("/")[2])):
            return Absent("is never read: that would wait or act", unreadable=True)
        if path in self.silent_paths:
            return Absent("does not answer", unreadable=True)
        return self._tree.unreadable.get(host.removeprefix(self.prefix)) if self._tree else None

    def query_kernel(self, path: str, ask: Callable[[], KernelAnswer]) -> KernelAnswer | None:
        """Return an answer of the kernel that is in no file. `path` is the path that such a file would have.

        Below a prefix this is the answer in the tree (`recorded_tree.KERNEL_ANSWERS`), or None if the tree has none.
        """
        return self._tree.kernel_answers.get(path) if self._tree else ask()

    def read_link_name(self, path: str) -> str | Absent:
        """Return the last part of a link target: so sysfs names a driver or a subsystem."""
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
        real_path = self.resolve(path)  # links of the kernel always end in the name
        return real_path if isinstance(real_path, Absent) else real_path.rpartition("/")[2]

    def resolve(self, path: str) -> str | Absent:
        """Return the path with every link followed.

        The result is absent for a loop, a missing file, and a link that leads out of the
        prefix.

        Absolute links start at the prefix again. A link from elsewhere into /proc is refused, because its content
        depends on the reader: /dev/stdin would be the standard input of the agent.
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
        """Return the canonical directory of a device that a sysfs link leads to (/sys/class/X/Y, /sys/dev/char/1:3).

        This is one readlink where possible: links that the kernel creates lead straight to the real directory.
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
        """Return the names in a directory, in natural order or, if not `ordered`, in any order, which is faster."""
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
        """List each directory at most once in this thread until the context ends.

        So one look has one state of each directory.
        """
        self._listings[threading.get_ident()] = {}
        try:
            yield
        finally:
            del self._listings[threading.get_ident()]

    def list_directories(self, directory: str) -> tuple[str, ...]:
        """Return the subdirectories of a directory in natural order, without links.

        The result is empty if it cannot be listed.
        """
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
        """Return whether the path exists, links followed."""
        return not isinstance(self.resolve(path), Absent)

    def is_directory(self, path: str) -> bool:
        """Return whether the path is a directory, links followed."""
        status = self._read_status(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def read_directory_instance_id(self, path: str) -> str:
        """Return the instance ID of a directory. The result is empty if the path is no directory."""
        status = self._read_status(path)
        return str(status.st_ino) if status is not None and stat.S_ISDIR(status.st_mode) else ""

    def read_instance_id(self, path: str) -> str:
        """Return a value that differs when a file or directory is created again.

        The result is empty if it does not exist.
        """
        status = self._read_status(path)
        return "" if status is None else str(status.st_ino)

    def read_version(self, path: str) -> tuple[int, ...]:
        """Return a value that differs when a file or its content may have changed.

        The result is empty if it does not exist.
        """
        status = self._read_status(path)
        return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns) if status else ()

    def get_age(self, path: str) -> float:
        """Return the seconds since the creation or the last change of ownership.

        The result is infinite if the path is missing or the clock was set back.
        """
        status = self._read_status(path)
        age = inf if status is None else time.time() - status.st_ctime
        return age if age >= 0 else inf

    def find_node(self, path: str) -> DeviceNode | Absent:
        """Return the device node that a path leads to, links followed."""
        entry = self.find_entry(path)
        return entry if isinstance(entry, Absent) else entry.node

    def find_entry(self, path: str, *, within: bool = False) -> DirEntry | Absent:
        """Return the node with its instance ID. `within`: the directory of the path is canonical, which saves time."""
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

    def _read_status(self, path: str) -> os.stat_result | None:
        """Return the status of a path, links followed, or None if it cannot be read."""
        host = self._get_host_path(path)
        try:
            return None if isinstance(host, Absent) else os.stat(host)
        except (OSError, ValueError):
            return None

    def _get_host_path(self, path: str) -> str | Absent:
        """Return the path for the kernel.

        The kernel follows links itself, but they stay inside the prefix only for "/".
        """
        if not self.prefix:
            return path
        real = self.resolve(path)
        return real if isinstance(real, Absent) else self.prefix + real


@lru_cache(maxsize=4096)
def _is_denied(name: str) -> bool:
    """Return whether a file of this name must not be read. Cached, because the same names occur again and again."""
    return _DENIED.fullmatch(name) is not None


def _read_target(host: str) -> str | None:
    """Return the target of a link, or None if the path exists and is no link.

    Raises:
        OSError: the path cannot be read.
    """
    try:
        return os.readlink(host)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
