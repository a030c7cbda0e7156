"""The keys, operators, source kinds and warnings of the language. A key that is not here is an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from agent.config.toml.file_position import FilePosition
from agent.config.toml.finding import Finding, find_nearest


def _keys(names: str) -> tuple[str, ...]:
    return tuple(names.split())


_COMMON = _keys(
    "about name uses source match exclude id replicas give registration accept part let join options group"
    " adds_to expect wait gate slots limit topology health prefer links prepare prestart moves_into_pod probe"
)
_GIVEN = _keys("nodes mounts env annotations cdi vfio rdma")
_VARIABLE = _keys("value name join json key when")
_PROGRAM = _keys("run timeout when optional")

# The title of each place for errors, and its keys. A named table (`NAME`) inside a place is a place of its own.
PLACES: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "file": ("a file of resources", _keys("resource")),
        "entry": ("[[resource]]", (*_COMMON, "class")),
        "class": ("a device class", _COMMON),
        "source": ("source", _keys("kind subsystem node dir fixed every")),
        "let": (
            "a word of one's own",
            _keys(
                "read first_of read_all names_of name_of field take by text holds kfd_address bits base64url"
                " place_in probe of map type else if_absent"
            ),
        ),
        "join": ("a join", _keys("source dir class resource on match let optional")),
        "group": ("group", _keys("by claims parts")),
        "replicas": ("replicas", _keys("count by map else suffix")),
        "slots": ("slots", _keys("count id")),
        "limit": ("limit", _keys("per_container distinct")),
        "options": ("an option", _keys("about one_of some_of type default value")),
        "give": ("give", (*_GIVEN, "devinfo", "also", "via")),
        "give.nodes": ("a node", _keys("path to permissions optional when")),
        "give.mounts": ("a mount", _keys("path to read_only optional when")),
        "give.env": ("a variable", _VARIABLE),
        "give.annotations": ("an annotation", _VARIABLE),
        "give.cdi": ("a CDI device", _keys("name via unchecked when")),
        "give.vfio": ("give.vfio", _keys("backend to noiommu permissions when")),
        "give.rdma": ("give.rdma", _keys("required optional permissions when")),
        "give.also": ("give.also", (*_GIVEN, "when")),
        "health": (
            "a check",
            _keys(
                "holds log rises run socket of speaks probe"
                " only ignore when every timeout trip recover latch on_unknown reason"
            ),
        ),
        "links": ("links", _keys("dir file let on cost")),
        "links.cost": ("a cost", _keys("by map else")),
        "prepare": ("a program", _PROGRAM),
        "prestart": ("a program", _PROGRAM),
        "probe": ("a probe", _keys("run timeout")),
    }
)

# Verbs: keys that decide the purpose of a table. A table has one verb, and the first in this order counts.
VERBS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "let": (
            *("probe", "read", "first_of", "read_all", "names_of", "name_of", "field", "take", "by", "text", "holds"),
            *("kfd_address", "bits", "base64url", "place_in"),
        ),
        "join": ("source", "dir", "class", "resource"),
        "replicas": ("count", "by"),
        "give.env": ("value", "json"),
        "give.annotations": ("value", "json"),
        "links": ("dir", "file"),
        "health": ("holds", "log", "rises", "run", "socket", "probe"),
    }
)
_COMPANION_VERBS = MappingProxyType({("let", "probe"): ("field",)})  # verbs that another verb needs

SOURCE_KINDS = ("pci", "usb", "net", "infiniband", "drm", "auxiliary", "mdev")  # the values of `kind`

# Operators of a test. `either` joins clauses and is no word.
OPERATORS = _keys(
    "not like exists has matching contains in at_least at_most above below has_all has_any any every none count"
)
EITHER = "either"

# Clauses that exclude devices while they match. One more alternative excludes more devices.
KEEPS_OUT = frozenset({"exclude", "wait", "ignore"})

# Codes for `accept`, with their meanings.
WARNINGS: Mapping[str, str] = MappingProxyType(
    {
        "collides": "another resource gives something else under the same path, variable or annotation",
        "list-size": "a second device would make the list longer than the kubelet takes",
        "log-anywhere": "a line of the kernel log is one of these wherever it says so",
        "looks-by-chance": "a check counts looks, and nothing says how far these lie apart",
        "never-matches": "there is no device of it on this host",
        "no-topology": "a device without a NUMA node keeps that of the others from the kubelet",
        "nothing-left": "an earlier entry takes all that it could",
        "overlap": "an earlier entry has devices of this host that it would take, or gives the same nodes",
        "same-id": "another source's entry has the same id for what both find",
        "unsettled-name": "the resource's name says something else until a word of it is there",
        "unstable-id": "an id rests on what a reboot or a replug deals anew",
    }
)


def find_unknown_key(spot: FilePosition, place: str) -> Finding | None:
    """Return a finding if the place has no key with the last name of this position, else None."""
    key = str(spot.path[-1])
    title, keys = PLACES[place]
    if key in keys:
        return None
    if (place, key) == ("class", "class"):
        write = "a class takes others in by uses"
    else:
        write = _OLD_KEYS.get(key) or _suggest_key(key, keys)
    return spot.make_error("unknown-key", f"{title} has no such key, and nothing unknown is ignored", write, mark="key")


def find_verbs(place: str, keys: Iterable[str]) -> tuple[str, ...]:
    """Return the verbs among the keys of a place, without their companions."""
    present_keys = set(keys)
    verbs = [verb for verb in VERBS.get(place, ()) if verb in present_keys]
    companions = _COMPANION_VERBS.get((place, verbs[0]), ()) if verbs else ()
    return tuple(verb for verb in verbs if verb not in companions)


def make_hint(word: str, choices: Iterable[str]) -> str:
    """Return `nearest: …`, or an empty string if no choice is near."""
    nearest_word = find_nearest(word, choices)
    return f"nearest: {nearest_word}" if nearest_word else ""


def _suggest_key(key: str, keys: Iterable[str]) -> str:
    """Return a near key of the same place. Otherwise return a near key of another place, with this place in front."""
    if place_hint := make_hint(key, keys):
        return place_hint
    places_by_key: dict[str, str] = {}
    for place in sorted(PLACES.keys() - {"file", "entry", "class"}, key=lambda place: place not in _USUAL_PLACES):
        for name in PLACES[place][1]:
            places_by_key.setdefault(name, place)
    nearest_key = find_nearest(key, places_by_key)
    if nearest_key is None:
        return ""
    place = places_by_key[nearest_key]
    return f"nearest: {nearest_key}, of {place if place in _UNNAMED_PLACES else f'{place}.NAME'}"


_USUAL_PLACES = ("give.nodes", "give.env")  # preferred if several places have a key
_UNNAMED_PLACES = frozenset(
    ("source", "group", "replicas", "slots", "limit", "give", "give.vfio", "give.rdma", "links.cost")
)
_OLD_KEYS = {"helper": "write probe", "pci_of": "write kfd_address"}  # keys of earlier drafts of the language
