"""Recording a machine: a `Root` that remembers everything it is asked, and what it answered.

Played back below a prefix a recording answers as the machine did: links as links, nodes declared, files with the bytes
that were read, calls with what the kernel told. What was only seen to be there is there, and says that it was not
recorded.
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
    """A machine as it was looked at; all paths are canonical.

    links: to their targets, relative ones. nodes: to `c 10:229`. contents: what was read of files.
    absent: of the other files, why nothing was. told: what `Root.told` said.
    """

    directories: frozenset[str] = frozenset()
    links: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    contents: Mapping[str, bytes] = field(default_factory=dict)
    absent: Mapping[str, Absent] = field(default_factory=dict)
    kernel_answers: Mapping[str, KernelAnswer] = field(default_factory=dict)


class Recorder(Root):
    """The machine below a prefix, as `Root`; it remembers what it is asked."""

    def __init__(self, prefix: str = "/") -> None:
        super().__init__(prefix)
        self._named_paths: set[str] = set()
        self._listed_directories: set[str] = set()
        self._contents: dict[str, bytes | Absent] = {}
        self._kernel_answers: dict[str, KernelAnswer] = {}

    def _read_bytes(self, path: str, count: int, *, pieces: bool) -> bytes | Absent:
        """See `Root.head` and `Root.whole`; of several answers the longest is kept."""
        answer = super()._read_bytes(path, count, pieces=pieces)
        previous = self._contents.get(path)
        if not isinstance(previous, bytes) or (isinstance(answer, bytes) and len(answer) > len(previous)):
            self._contents[path] = answer
        self._named_paths.add(path)
        return answer

    def query_kernel(self, path: str, ask: Callable[[], KernelAnswer]) -> KernelAnswer | None:
        """See `Root.told`."""
        answer = super().query_kernel(path, ask)
        if answer is not None:
            self._kernel_answers[path] = answer
        return answer

    def read_link_name(self, path: str) -> str | Absent:
        """See `Root.link`."""
        self._named_paths.add(path)
        return super().read_link_name(path)

    def resolve(self, path: str) -> str | Absent:
        """See `Root.real`."""
        self._named_paths.add(path)
        return super().resolve(path)

    def resolve_device(self, path: str) -> str | Absent:
        """See `Root.device`."""
        self._named_paths.add(path)
        return super().resolve_device(path)

    def list_names(self, directory: str, *, ordered: bool = True) -> tuple[str, ...] | Absent:
        """See `Root.names`."""
        self._listed_directories.add(directory)
        return super().list_names(directory, ordered=ordered)

    def list_directories(self, directory: str) -> tuple[str, ...]:
        """See `Root.directories`."""
        self._listed_directories.add(directory)
        return super().list_directories(directory)

    def is_directory(self, path: str) -> bool:
        """See `Root.is_directory`."""
        self._named_paths.add(path)
        return super().is_directory(path)

    def find_entry(self, path: str, *, within: bool = False) -> DirEntry | Absent:
        """See `Root.entry`."""
        self._named_paths.add(path)
        return super().find_entry(path, within=within)

    def build_recording(self) -> Recording:
        """All of it so far. Beside what was read, things are looked at now by their kind only."""
        builder = _RecordingBuilder(Root(self.prefix or "/"))
        for path in self._named_paths | self._listed_directories:
            builder.add_path(path)
        for directory in self._listed_directories:
            builder.add_names(directory)
        return replace(builder.build(self._contents), kernel_answers=self._kernel_answers)


class _RecordingBuilder:
    """A recording while it is made."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._modes: dict[str, int] = {}  # what stands at a canonical path, by its mode
        self._links: dict[str, str] = {}

    def add_path(self, path: str) -> None:
        """Everything on the way to a path, the links on it and what they lead to."""
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
        """What stands in a directory, as far as its kind."""
        real = self._root.resolve(directory)
        names = Absent("") if isinstance(real, Absent) else self._root.list_names(real)
        for name in () if isinstance(names, Absent) else names:
            self._read_mode(f"{real}/{name}")

    def build(self, read: Mapping[str, bytes | Absent]) -> Recording:
        """What was kept, with what was read of it."""
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
        """The mode of what stands at a path whose directory is canonical; remembered, a link's target too."""
        if path not in self._modes:
            try:
                mode = os.lstat(self._root.prefix + path).st_mode
                if stat.S_ISLNK(mode):
                    self._links[path] = os.readlink(self._root.prefix + path)
            except (OSError, ValueError):
                return None
            if stat.S_ISSOCK(mode):
                return None  # nobody listens in a recording: udev's would make what it knows look unfinished
            self._modes[path] = mode
        return self._modes[path]

    def _find_nodes(self, paths: Iterable[str]) -> dict[str, str]:
        """Those of the paths that are device nodes, or count as such in a tree."""
        numbers: dict[str, str] = {}
        for path in paths:
            node = self._root.find_node(path) if path.startswith("/dev/") else Absent("")
            if not isinstance(node, Absent):
                numbers[path] = f"{node.type} {node.major}:{node.minor}"
        return numbers


def _make_relative(path: str, target: str) -> str:
    """A link's target as seen from where it stands, for a recording lies anywhere."""
    return os.path.relpath(target, os.path.dirname(path)) if target.startswith("/") else target
