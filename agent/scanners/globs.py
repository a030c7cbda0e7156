"""Globs on the file system: which paths fit, one component after the other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from agent.core.pattern import Pattern, parse
from agent.core.value import Absent
from agent.host.root import Root


@lru_cache(maxsize=1024)
def pattern(component: str) -> Pattern:
    """One component of a path as a glob."""
    return parse(component)


def is_glob(text: str) -> bool:
    """Whether it can fit more than itself."""
    return any(character in text for character in "*?[")


def fits(component: str, name: str) -> bool:
    """Whether a name fits; a hidden one only where the pattern begins with its dot."""
    if not is_glob(component):
        return component == name
    if name.startswith(".") and not component.startswith("."):
        return False
    return pattern(component).matches(name)


def fits_path(glob: str, path: str) -> bool:
    """Whether a whole path fits a whole glob."""
    parts, names = glob.split("/"), path.split("/")
    return len(parts) == len(names) and all(fits(part, name) for part, name in zip(parts, names, strict=True))


def expand(root: Root, base: str, components: tuple[str, ...]) -> Iterator[str | tuple[str, Absent]]:
    """Paths below `base` that fit, in natural order; or a directory that could not be listed, and why.

    The last component, if it is no glob, is not looked up: whether it is there is for the reader to see.
    """
    if not components:
        yield base
        return
    first, rest = components[0], components[1:]
    if not is_glob(first):
        yield from expand(root, f"{base}/{first}", rest)
        return
    names = root.names(base or "/")
    if isinstance(names, Absent):
        yield base or "/", names
        return
    for name in names:
        if fits(first, name) and (not rest or root.is_directory(f"{base}/{name}")):
            yield from expand(root, f"{base}/{name}", rest)
