"""Words of a GPU as the kernel's DRM lists it (Documentation/gpu/drm-uapi.rst: primary and render nodes)."""

from __future__ import annotations

from collections.abc import Callable

from agent.core.language.value import Absent, Value, ValueType
from agent.scanners.common_words import find_own_node
from agent.scanners.word_table import LookCache, Word, WordSubject, make_table


def _minor(sight: LookCache, thing: WordSubject, begins: str) -> WordSubject | Absent:
    """The minor of that kind that goes with this one; `thing` is the card, or the render node where there is none."""
    above, _, own = thing.directory.rpartition("/")
    if own.removeprefix(begins).isdecimal():
        return thing
    if not above.endswith("/drm") or above == "/sys/devices/virtual/drm":
        return Absent(f"it has no {begins}N")
    sight.paths.add(above)
    listed = sight.list_names(above)
    mine = select_numbered(listed, own.rstrip("0123456789"))
    others = select_numbered(listed, begins)
    index = mine.index(own) if own in mine else len(others)
    if index >= len(others):
        return Absent(f"it has no {begins}N")
    return WordSubject("drm", others[index], f"{above}/{others[index]}", subsystem="drm")


def select_numbered(names: tuple[str, ...], begins: str) -> list[str]:
    """The names that are this one and a number: no connectors, no control nodes."""
    return [name for name in names if name.startswith(begins) and name.removeprefix(begins).isdecimal()]


def _node(begins: str) -> Callable[[LookCache, WordSubject], Value | Absent]:
    def read(sight: LookCache, thing: WordSubject) -> Value | Absent:
        minor = _minor(sight, thing, begins)
        return minor if isinstance(minor, Absent) else find_own_node(sight, minor)

    return read


def _nodes(sight: LookCache, thing: WordSubject) -> Value | Absent:
    found = [_node(begins)(sight, thing) for begins in ("card", "renderD")]
    return tuple(node for node in found if isinstance(node, str))


def _render_minor(sight: LookCache, thing: WordSubject) -> Value | Absent:
    minor = _minor(sight, thing, "renderD")
    return minor if isinstance(minor, Absent) else int(minor.name.removeprefix("renderD"))


def _device_name(sight: LookCache, thing: WordSubject) -> Value | Absent:
    name = sight.read_link_name(f"{thing.directory}/device")
    return Absent("no device carries it") if isinstance(name, Absent) and not name.unreadable else name


DRM = make_table(
    "drm",
    Word("card", ValueType.PATH, "its /dev/dri/cardN", "card*", _node("card")),
    Word("render", ValueType.PATH, "its /dev/dri/renderDN", "renderD*", _node("renderD")),
    Word(
        "render_minor", ValueType.INT, "number of the render node, dealt anew at each boot", "renderD*", _render_minor
    ),
    Word("nodes", ValueType.PATH, "its card and its render node", "card*, renderD*", _nodes, is_list=True),
    Word("device_name", ValueType.TEXT, "name of the device that carries it", "device", _device_name),
)
