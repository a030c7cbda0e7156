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
        self._named: set[str] = set()
        self._listed: set[str] = set()
        self._read: dict[str, bytes | Absent] = {}
        self._told: dict[str, KernelAnswer] = {}

    def _bytes(self, path: str, count: int, *, pieces: bool) -> bytes | Absent:
        """See `Root.head` and `Root.whole`; of several answers the longest is kept."""
        answer = super()._bytes(path, count, pieces=pieces)
        known = self._read.get(path)
        if not isinstance(known, bytes) or (isinstance(answer, bytes) and len(answer) > len(known)):
            self._read[path] = answer
        self._named.add(path)
        return answer

    def query_kernel(self, path: str, ask: Callable[[], KernelAnswer]) -> KernelAnswer | None:
        """See `Root.told`."""
        answer = super().query_kernel(path, ask)
        if answer is not None:
            self._told[path] = answer
        return answer

    def read_link_name(self, path: str) -> str | Absent:
        """See `Root.link`."""
        self._named.add(path)
        return super().read_link_name(path)

    def resolve(self, path: str) -> str | Absent:
        """See `Root.real`."""
        self._named.add(path)
        return super().resolve(path)

    def resolve_device(self, path: str) -> str | Absent:
        """See `Root.device`."""
        self._named.add(path)
        return super().resolve_device(path)

    def list_names(self, directory: str, *, ordered: bool = True) -> tuple[str, ...] | Absent:
        """See `Root.names`."""
        self._listed.add(directory)
        return super().list_names(directory, ordered=ordered)

    def list_directories(self, directory: str) -> tuple[str, ...]:
        """See `Root.directories`."""
        self._listed.add(directory)
        return super().list_directories(directory)

    def is_directory(self, path: str) -> bool:
        """See `Root.is_directory`."""
        self._named.add(path)
        return super().is_directory(path)

    def find_entry(self, path: str, *, within: bool = False) -> DirEntry | Absent:
        """See `Root.entry`."""
        self._named.add(path)
        return super().find_entry(path, within=within)

    def build_recording(self) -> Recording:
        """All of it so far. Beside what was read, things are looked at now by their kind only."""
        made = _Making(Root(self.prefix or "/"))
        for path in self._named | self._listed:
            made.keep(path)
        for directory in self._listed:
            made.keep_names(directory)
        return replace(made.recording(self._read), kernel_answers=self._told)


class _Making:
    """A recording while it is made."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._kinds: dict[str, int] = {}  # what stands at a canonical path, by its mode
        self._links: dict[str, str] = {}

    def keep(self, path: str) -> None:
        """Everything on the way to a path, the links on it and what they lead to."""
        waiting = path.split("/")[::-1]
        done: list[str] = []
        links = 0
        while waiting and links <= LINKS:
            part = waiting.pop()
            if part == "..":
                del done[-1:]
            elif part not in {"", "."}:
                done.append(part)
                here = "/" + "/".join(done)
                mode = self._look(here)
                if mode is None:
                    return
                if stat.S_ISLNK(mode):
                    links += 1
                    target = self._links[here]
                    done = [] if target.startswith("/") else done[:-1]
                    waiting.extend(target.split("/")[::-1])

    def keep_names(self, directory: str) -> None:
        """What stands in a directory, as far as its kind."""
        real = self._root.resolve(directory)
        names = Absent("") if isinstance(real, Absent) else self._root.list_names(real)
        for name in () if isinstance(names, Absent) else names:
            self._look(f"{real}/{name}")

    def recording(self, read: Mapping[str, bytes | Absent]) -> Recording:
        """What was kept, with what was read of it."""
        contents: dict[str, bytes] = {}
        absent: dict[str, Absent] = {}
        for path, answer in read.items():
            real = self._root.resolve(path)
            if isinstance(real, Absent) or not stat.S_ISREG(self._kinds.get(real, 0)):
                continue
            if isinstance(answer, bytes):
                contents[real] = answer
            else:
                absent[real] = answer
        others = [path for path, mode in self._kinds.items() if not stat.S_ISDIR(mode) and not stat.S_ISLNK(mode)]
        nodes = self._nodes(others)
        silent = [path for path in others if path not in contents and path not in nodes]
        return Recording(
            directories=frozenset(path for path, mode in self._kinds.items() if stat.S_ISDIR(mode)),
            links={path: _relative(path, target) for path, target in self._links.items()},
            nodes=nodes,
            contents={path: data for path, data in contents.items() if path not in nodes},
            absent={path: absent.get(path, NOT_RECORDED) for path in silent},
        )

    def _look(self, path: str) -> int | None:
        """The mode of what stands at a path whose directory is canonical; remembered, a link's target too."""
        if path not in self._kinds:
            try:
                mode = os.lstat(self._root.prefix + path).st_mode
                if stat.S_ISLNK(mode):
                    self._links[path] = os.readlink(self._root.prefix + path)
            except (OSError, ValueError):
                return None
            if stat.S_ISSOCK(mode):
                return None  # nobody listens in a recording: udev's would make what it knows look unfinished
            self._kinds[path] = mode
        return self._kinds[path]

    def _nodes(self, paths: Iterable[str]) -> dict[str, str]:
        """Those of the paths that are device nodes, or count as such in a tree."""
        found: dict[str, str] = {}
        for path in paths:
            node = self._root.find_node(path) if path.startswith("/dev/") else Absent("")
            if not isinstance(node, Absent):
                found[path] = f"{node.type} {node.major}:{node.minor}"
        return found


def _relative(path: str, target: str) -> str:
    """A link's target as seen from where it stands, for a recording lies anywhere."""
    return os.path.relpath(target, os.path.dirname(path)) if target.startswith("/") else target
