"""Words of a GPU in the DRM class of the kernel (Documentation/gpu/drm-uapi.rst: primary and render nodes)."""

from __future__ import annotations

from collections.abc import Callable

from agent.core.language.value import Absent, Value, ValueType
from agent.scanners.common_words import find_own_node
from agent.scanners.word_table import LookCache, Word, WordSubject, make_table


def _find_minor(cache: LookCache, subject: WordSubject, prefix: str) -> WordSubject | Absent:
    """Return the minor with this prefix that belongs to the same GPU.

    `subject` is the card, or the render node without a card.
    """
    above, _, own_name = subject.directory.rpartition("/")
    if own_name.removeprefix(prefix).isdecimal():
        return subject
    if not above.endswith("/drm") or above == "/sys/devices/virtual/drm":
        return Absent(f"it has no {prefix}N")
    cache.paths.add(above)
    listed = cache.list_names(above)
    siblings = select_numbered(listed, own_name.rstrip("0123456789"))
    candidates = select_numbered(listed, prefix)
    index = siblings.index(own_name) if own_name in siblings else len(candidates)
    if index >= len(candidates):
        return Absent(f"it has no {prefix}N")
    return WordSubject("drm", candidates[index], f"{above}/{candidates[index]}", subsystem="drm")


def select_numbered(names: tuple[str, ...], prefix: str) -> list[str]:
    """Return the names that are the prefix and a number: no connectors, no control nodes."""
    return [name for name in names if name.startswith(prefix) and name.removeprefix(prefix).isdecimal()]


def _make_node_reader(prefix: str) -> Callable[[LookCache, WordSubject], Value | Absent]:
    def read(cache: LookCache, subject: WordSubject) -> Value | Absent:
        minor = _find_minor(cache, subject, prefix)
        return minor if isinstance(minor, Absent) else find_own_node(cache, minor)

    return read


def _list_nodes(cache: LookCache, subject: WordSubject) -> Value | Absent:
    nodes = [_make_node_reader(prefix)(cache, subject) for prefix in ("card", "renderD")]
    return tuple(node for node in nodes if isinstance(node, str))


def _read_render_minor(cache: LookCache, subject: WordSubject) -> Value | Absent:
    minor = _find_minor(cache, subject, "renderD")
    return minor if isinstance(minor, Absent) else int(minor.name.removeprefix("renderD"))


def _read_device_name(cache: LookCache, subject: WordSubject) -> Value | Absent:
    name = cache.read_link_name(f"{subject.directory}/device")
    return Absent("no device carries it") if isinstance(name, Absent) and not name.unreadable else name


DRM = make_table(
    "drm",
    Word("card", ValueType.PATH, "its /dev/dri/cardN", "card*", _make_node_reader("card")),
    Word("render", ValueType.PATH, "its /dev/dri/renderDN", "renderD*", _make_node_reader("renderD")),
    Word(
        "render_minor",
        ValueType.INT,
        "number of the render node; can change at each boot",
        "renderD*",
        _read_render_minor,
    ),
    Word("nodes", ValueType.PATH, "its card and its render node", "card*, renderD*", _list_nodes, is_list=True),
    Word("device_name", ValueType.TEXT, "name of its parent device", "device", _read_device_name),
)
