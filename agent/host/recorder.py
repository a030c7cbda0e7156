"""Recorder of a machine: a `Root` that stores each query and its answer.

Below a prefix a recording answers as the machine did. Links are links, nodes are declared, files have the bytes that
were read, calls have the answers of the kernel. A file that was only listed exists, and reading it gives
`NOT_RECORDED`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping

from agent.core.language.value import Absent
from agent.core.struct import Struct, field, replace
from agent.host.recorded_tree import KernelAnswer
from agent.host.root import LINKS, DirEntry, Root

NOT_RECORDED = Absent("was not recorded", unreadable=True)


class Recording(Struct):
    """A machine as it was read. All paths are canonical.

    links: to their relative targets.
    nodes: to `c 10:229`.
    contents: the read bytes of files.
    absent: of the other files, why nothing was read.
    kernel_answers: the answers of `Root.query_kernel`.
    """

    directories: frozenset[str] = frozenset()
    links: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    contents: Mapping[str, bytes] = field(default_factory=dict)
    absent: Mapping[str, Absent] = field(default_factory=dict)
    kernel_answers: Mapping[str, KernelAnswer] = field(default_factory=dict)


class Recorder(Root):
    """The machine below a prefix, as `Root`. It stores what it reads."""

    def __init__(self, prefix: str = "/") -> None:
        super().__init__(prefix)
        self._named_paths: set[str] = set()
        self._listed_directories: set[str] = set()
        self._contents: dict[str, bytes | Absent] = {}
        self._kernel_answers: dict[str, KernelAnswer] = {}

    def _read_bytes(self, path: str, count: int, *, pieces: bool) -> bytes | Absent:
        """See `Root.read_head` and `Root.read_list`. The longest of several answers is kept."""
        answer = super()._read_bytes(path, count, pieces=pieces)
        previous = self._contents.get(path)
        if not isinstance(previous, bytes) or (isinstance(answer, bytes) and len(answer) > len(previous)):
            self._contents[path] = answer
        self._named_paths.add(path)
        return answer

    def query_kernel(self, path: str, ask: Callable[[], KernelAnswer]) -> KernelAnswer | None:
        """See `Root.query_kernel`."""
        answer = super().query_kernel(path, ask)
        if answer is not None:
            self._kernel_answers[path] = answer
        return answer

    def read_link_name(self, path: str) -> str | Absent:
        """See `Root.read_link_name`."""
        self._named_paths.add(path)
        return super().read_link_name(path)

    def resolve(self, path: str) -> str | Absent:
        """See `Root.resolve`."""
        self._named_paths.add(path)
        return super().resolve(path)

    def resolve_device(self, path: str) -> str | Absent:
        """See `Root.resolve_device`."""
        self._named_paths.add(path)
        return super().resolve_device(path)

    def list_names(self, directory: str, *, ordered: bool = True) -> tuple[str, ...] | Absent:
        """See `Root.list_names`."""
        self._listed_directories.add(directory)
        return super().list_names(directory, ordered=ordered)

    def list_directories(self, directory: str) -> tuple[str, ...]:
        """See `Root.list_directories`."""
        self._listed_directories.add(directory)
        return super().list_directories(directory)

    def is_directory(self, path: str) -> bool:
        """See `Root.is_directory`."""
        self._named_paths.add(path)
        return super().is_directory(path)

    def find_entry(self, path: str, *, within: bool = False) -> DirEntry | Absent:
        """See `Root.find_entry`."""
        self._named_paths.add(path)
        return super().find_entry(path, within=within)

    def build_recording(self) -> Recording:
        """Return the recording so far. Paths that were not read are checked now, for their type only."""
        builder = _RecordingBuilder(Root(self.prefix or "/"))
        for path in self._named_paths | self._listed_directories:
            builder.add_path(path)
        for directory in self._listed_directories:
            builder.add_names(directory)
        return replace(builder.build(self._contents), kernel_answers=self._kernel_answers)


class _RecordingBuilder:
    """Builder of a recording."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._modes: dict[str, int] = {}  # by canonical path
        self._links: dict[str, str] = {}

    def add_path(self, path: str) -> None:
        """Add everything on the way to a path, with the links on it and their targets."""
        remaining = path.split("/")[::-1]
        components: list[str] = []
        links = 0
        while remaining and links <= LINKS:
            part = remaining.pop()
            if part == "..":
                del components[-1:]
            elif part not in {"", "."}:
                components.append(part)
                path_here = "/" + "/".join(components)
                mode = self._read_mode(path_here)
                if mode is None:
                    return
                if stat.S_ISLNK(mode):
                    links += 1
                    target = self._links[path_here]
                    components = [] if target.startswith("/") else components[:-1]
                    remaining.extend(target.split("/")[::-1])

    def add_names(self, directory: str) -> None:
        """Add the entries of a directory, with their types only."""
        real = self._root.resolve(directory)
        names = Absent("") if isinstance(real, Absent) else self._root.list_names(real)
        for name in () if isinstance(names, Absent) else names:
            self._read_mode(f"{real}/{name}")

    def build(self, read: Mapping[str, bytes | Absent]) -> Recording:
        """Return the recording of the added paths, with the read contents."""
        contents: dict[str, bytes] = {}
        absent: dict[str, Absent] = {}
        for path, answer in read.items():
            real = self._root.resolve(path)
            if isinstance(real, Absent) or not stat.S_ISREG(self._modes.get(real, 0)):
                continue
            if isinstance(answer, bytes):
                contents[real] = answer
            else:
                absent[real] = answer
        files = [path for path, mode in self._modes.items() if not stat.S_ISDIR(mode) and not stat.S_ISLNK(mode)]
        nodes = self._find_nodes(files)
        unread_paths = [path for path in files if path not in contents and path not in nodes]
        return Recording(
            directories=frozenset(path for path, mode in self._modes.items() if stat.S_ISDIR(mode)),
            links={path: _make_relative(path, target) for path, target in self._links.items()},
            nodes=nodes,
            contents={path: data for path, data in contents.items() if path not in nodes},
            absent={path: absent.get(path, NOT_RECORDED) for path in unread_paths},
        )

    def _read_mode(self, path: str) -> int | None:
        """Return the mode of a path in a canonical directory, or None if it does not exist.

        Store it, and the target of a link.
        """
        if path not in self._modes:
            try:
                mode = os.lstat(self._root.prefix + path).st_mode
                if stat.S_ISLNK(mode):
                    self._links[path] = os.readlink(self._root.prefix + path)
            except (OSError, ValueError):
                return None
            if stat.S_ISSOCK(mode):
                return None  # a recording has no listener: the socket of udevd would make devices look pending
            self._modes[path] = mode
        return self._modes[path]

    def _find_nodes(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the numbers of those paths that are device nodes, or count as such in a tree."""
        numbers: dict[str, str] = {}
        for path in paths:
            node = self._root.find_node(path) if path.startswith("/dev/") else Absent("")
            if not isinstance(node, Absent):
                numbers[path] = f"{node.type} {node.major}:{node.minor}"
        return numbers


def _make_relative(path: str, target: str) -> str:
    """Return the target of a link relative to its directory, because a recording can be at any path."""
    return os.path.relpath(target, os.path.dirname(path)) if target.startswith("/") else target
