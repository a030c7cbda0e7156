"""What the language has, and what of it this version has: the one table of keys, operators and source kinds.

A key that is here with `LATER` is refused by name; one that is not here is a mistake, and the nearest is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from agent.config.finding import Finding, nearest
from agent.config.spot import Mark, Spot

NOW = True
LATER = False


def _keys(now: str, later: str = "") -> Mapping[str, bool]:
    return MappingProxyType(dict.fromkeys(now.split(), NOW) | dict.fromkeys(later.split(), LATER))


_COMMON = _keys(
    "about name uses source match exclude id replicas give registration accept part",
    "adds_to expect let join wait group slots limit moves_into_pod options"
    " gate health topology prefer links prepare prestart",
)

# What is said of a place in an error, and the keys it may have.
PLACES: Mapping[str, tuple[str, Mapping[str, bool]]] = MappingProxyType(
    {
        "file": ("a file of resources", _keys("resource")),
        "entry": ("[[resource]]", MappingProxyType({**_COMMON, "class": NOW})),
        "class": ("a device class", _COMMON),
        "source": ("source", _keys("kind subsystem node", "dir fixed every")),
        "replicas": ("replicas", _keys("count", "by map else suffix")),
        "give": ("give", _keys("nodes env", "mounts annotations cdi devinfo vfio rdma also")),
        "give.nodes": ("a node", _keys("path to permissions optional", "when")),
        "give.env": ("a variable", _keys("value name join", "json key when")),
    }
)

SOURCE_KINDS = ("pci", "usb", "net", "infiniband", "drm", "auxiliary", "mdev")  # what `kind` may say

# Operators of a test; `either` joins clauses and is no word either.
OPERATORS = _keys(
    "not like exists has",
    "matching contains in at_least at_most has_all has_any any every none count",
)
EITHER = "either"

# What `false` takes out whole; besides these, anything named below `exclude`, `give.nodes` and `give.env`.
REMOVABLE = frozenset({"match", "exclude"})

WARNINGS = frozenset({"list-size", "unstable-id"})  # codes that `accept` may name


def key_finding(spot: Spot, place: str) -> Finding | None:
    """What is wrong with the last key of a spot where it stands; none if this version has it."""
    key = str(spot.path[-1])
    said, keys = PLACES[place]
    match keys.get(key):
        case True:
            return None
        case False:
            return not_yet(spot, spot.address_within, mark="key")
    write = "a class takes others in by uses" if (place, key) == ("class", "class") else _nearest_key(key, keys)
    return spot.error("unknown-key", f"{said} has no such key, and nothing unknown is ignored", write, mark="key")


def not_yet(spot: Spot, what: str, *, mark: Mark = "value") -> Finding:
    """That something of the language is not in this version."""
    return spot.error("not-supported-yet", f"{what} is in the language, but not in this version yet", mark=mark)


def hint(word: str, choices: Iterable[str]) -> str:
    """`nearest: …`, or nothing if none is near."""
    near = nearest(word, choices)
    return f"nearest: {near}" if near else ""


def _nearest_key(key: str, keys: Iterable[str]) -> str:
    """A near key of the same place, else a near one of another place with the place in front."""
    if here := hint(key, keys):
        return here
    elsewhere = {name: place for place, (_, names) in PLACES.items() if "." in place for name in names}
    near = nearest(key, elsewhere)
    return f"nearest: {near}, of {elsewhere[near]}.NAME" if near else ""
