"""The directories of CDI specs, as the container runtime reads them: JSON and YAML, no directory below."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from agent.core.entry.cdi import DIRECTORIES, SUFFIXES, SpecError, SpecFile, Specs, merge_specs, parse_device_names
from agent.core.entry.generated_cdi import MARK
from agent.core.language.value import Absent
from agent.host.root import Root

LIMIT = 16 * 1024 * 1024  # bytes of a spec; those of the largest nodes have some hundred thousand
_YOUNG_SECONDS = 1.0  # a file that changed so lately may change again within one tick of the clock


class _ReadSpec(NamedTuple):
    """A file as it was read. version: that of the file, empty if it is to be read again in any case."""

    version: tuple[int, ...]
    file: SpecFile


_Files: TypeAlias = Mapping[str, _ReadSpec]


class SpecDirectories:
    """Reads specs again once their files change; what does not change costs a `stat` a file.

    directories: in the order of the runtime, the last one going first.
    """

    def __init__(self, directories: Sequence[str] = DIRECTORIES) -> None:
        self.directories = tuple(directories)
        self._cached: tuple[_Files, Specs] = ({}, Specs(self.directories))  # one value, as any thread may replace it

    def read(self, root: Root) -> Specs:
        """What all specs define now; the same object as before where no file differs. Any thread may ask."""
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
    """A spec from its text. YAML is read as text alone, whatever its values look like."""
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
    if data.startswith(MARK):  # of an agent, this or another: JSON behind one line
        return json.loads(data.partition(b"\n")[2])
    return json.loads(data) if path.endswith(".json") else _parse_yaml(data)


def _parse_yaml(data: bytes) -> object:
    import yaml  # only for those who have such a spec

    try:
        return yaml.load(data, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))  # noqa: S506  it makes text only
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        position = getattr(error, "problem_mark", None)
        line = f"line {position.line + 1}: " if position else ""
        raise SpecError(f"is no YAML: {line}{getattr(error, 'problem', None) or error}") from None
