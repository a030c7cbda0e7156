"""Globs on the file system: paths that match, one component after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from agent.core.language.glob import Glob, parse
from agent.core.language.glob_parts import CapturedWords
from agent.core.language.value import Absent
from agent.host.root import Root


@lru_cache(maxsize=1024)
def parse_component(component: str) -> Glob:
    """Parse one component of a path as a glob. It may have captures."""
    return parse(component, allow_captures=True)


def is_glob(text: str) -> bool:
    """Return whether the text can match more than itself."""
    return "*" in text or "?" in text or "[" in text or "{" in text


@lru_cache(maxsize=1024)
def get_literal_prefix(glob: str) -> str:
    """Return the beginning that all matches have."""
    return re.split(r"[*?[{]", glob, maxsplit=1)[0]


@lru_cache(maxsize=1024)
def make_matcher(component: str) -> Callable[[str], bool]:
    """Return a function that matches names. Hidden names match only a glob that begins with the dot.

    Nearly all globs are a word and a star. For these a prefix test is enough.
    """
    if not is_glob(component):
        return component.__eq__
    prefix = get_literal_prefix(component)
    matches = None if component == f"{prefix}*" else parse_component(component).matches

    def fit(name: str) -> bool:
        if not name.startswith(prefix) or (name[:1] == "." and not prefix):
            return False
        return matches is None or matches(name)

    return fit


def matches_path(glob: str, path: str) -> bool:
    """Return whether a whole path matches a whole glob."""
    parts, names = glob.split("/"), path.split("/")
    return len(parts) == len(names) and all(make_matcher(part)(name) for part, name in zip(parts, names, strict=True))


def extract_words(globs: tuple[str, ...], path: str) -> CapturedWords:
    """Return the captures of the first glob that matches a path."""
    if not _has_capture(globs):
        return ()
    for glob in globs:
        if matches_path(glob, path):
            return parse_component(glob).extract_words(path) or ()
    return ()


@lru_cache(maxsize=256)
def _has_capture(globs: tuple[str, ...]) -> bool:
    return any("{" in glob.replace("[{]", "") for glob in globs)


def expand(root: Root, base: str, components: tuple[str, ...]) -> Iterator[str | tuple[str, Absent]]:
    """Yield the paths below `base` that match, in no order, or a directory that could not be listed, with the reason.

    The last component is not looked up if it is no glob. The reader finds out whether it exists.
    """
    if not components:
        yield base
        return
    component, remaining_components = components[0], components[1:]
    if not is_glob(component):
        yield from expand(root, f"{base}/{component}", remaining_components)
        return
    names = root.list_names(base or "/", ordered=False)
    if isinstance(names, Absent):
        yield base or "/", names
        return
    prefix, matches = get_literal_prefix(component), make_matcher(component)
    for name in [name for name in names if name.startswith(prefix)]:  # this test excludes most names of a long list
        if matches(name):
            path = f"{base}/{name}"
            if not remaining_components:
                yield path
            elif root.is_directory(path):
                yield from expand(root, path, remaining_components)
