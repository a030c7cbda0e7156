"""The directories of CDI specs, read as the container runtime reads them: JSON and YAML, no subdirectories."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from agent.core.entry.cdi import DIRECTORIES, SUFFIXES, SpecError, SpecFile, Specs, merge_specs, parse_device_names
from agent.core.entry.generated_cdi import MARK
from agent.core.language.value import Absent
from agent.core.struct import Struct
from agent.host.root import Root

LIMIT = 16 * 1024 * 1024  # bytes of a spec. On the largest nodes it has some hundred thousand
_YOUNG_SECONDS = 1.0  # a file that changed so recently may change again within one clock tick


class _ReadSpec(Struct):
    """A spec with the version of its file. An empty version means: read the file again."""

    version: tuple[int, ...]
    file: SpecFile


_Files: TypeAlias = Mapping[str, _ReadSpec]


class SpecDirectories:
    """Reader of CDI specs. It reads a file again when the file changes. An unchanged file costs one `stat`.

    directories: in the order of the runtime. The last one has priority.
    """

    def __init__(self, directories: Sequence[str] = DIRECTORIES) -> None:
        self.directories = tuple(directories)
        # One value, because any thread may replace it.
        self._cached: tuple[_Files, Specs] = ({}, Specs(self.directories))

    def read(self, root: Root) -> Specs:
        """Return the content of all specs.

        The object stays the same while no file differs. Any thread may call this.
        """
        previous, specs = self._cached
        current = {path: _read_spec(root, path, previous.get(path)) for path in self._list_paths(root)}
        files = [read.file for read in current.values()]
        if files != [read.file for read in previous.values()]:
            specs = merge_specs(self.directories, files)
        self._cached = current, specs
        return specs

    def _list_paths(self, root: Root) -> Iterator[str]:
        for directory in self.directories:
            names = root.list_names(directory)
            for name in () if isinstance(names, Absent) else names:
                if name.endswith(SUFFIXES):
                    yield f"{directory}/{name}"


def _read_spec(root: Root, path: str, previous: _ReadSpec | None) -> _ReadSpec:
    version = root.read_version(path) if root.get_age(path) >= _YOUNG_SECONDS else ()
    if version and previous is not None and previous.version == version:
        return previous
    return _ReadSpec(version, _parse(path, root.read_head(path, LIMIT + 1)))


def _parse(path: str, data: bytes | Absent) -> SpecFile:
    """Parse a spec. YAML values stay text, whatever they look like."""
    if isinstance(data, Absent):
        return SpecFile(path, fault=data.reason)
    if len(data) > LIMIT:
        return SpecFile(path, fault=f"has more than {LIMIT >> 20} MiB")
    try:
        return SpecFile(path, parse_device_names(_parse_document(path, data)))
    except SpecError as error:
        return SpecFile(path, fault=str(error))
    except (ValueError, RecursionError) as error:
        return SpecFile(path, fault=f"is no JSON: {error}")


def _parse_document(path: str, data: bytes) -> object:
    if data.startswith(MARK):  # from this or another agent: JSON after one line
        return json.loads(data.partition(b"\n")[2])
    return json.loads(data) if path.endswith(".json") else _parse_yaml(data)


def _parse_yaml(data: bytes) -> object:
    import yaml  # import on demand: few hosts have a YAML spec

    try:
        return yaml.load(data, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))  # noqa: S506  this loader makes text only
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        position = getattr(error, "problem_mark", None)
        line = f"line {position.line + 1}: " if position else ""
        raise SpecError(f"is no YAML: {line}{getattr(error, 'problem', None) or error}") from None
