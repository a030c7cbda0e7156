"""The rule for paths in a configuration: absolute and in their shortest form."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from agent.core.language.text import has_control


@dataclass(frozen=True, slots=True)
class PathFault:
    """Why a text cannot be a path, and what to write instead."""

    message: str
    write: str = ""


def path_fault(path: str, *, directory_mark: bool = False) -> PathFault | None:
    """What is wrong with a path; `directory_mark`: it may end in a slash."""
    if has_control(path):
        return PathFault("a path has no control characters")
    if not path.startswith("/"):
        return PathFault(
            'a path is absolute: it begins with "/"', f'write "/{path.removeprefix("./")}"' if path else ""
        )
    if ".." in path.split("/"):
        return PathFault('a path has no ".." in it', f'write "{posixpath.normpath(path)}"')
    bare = path[:-1] if directory_mark and path.endswith("/") and len(path) > 1 else path
    shortest = "/" + posixpath.normpath(bare).lstrip("/")  # normpath keeps two leading slashes
    if bare != shortest:
        return PathFault("a path is in its shortest form", f'write "{shortest}"')
    return None
