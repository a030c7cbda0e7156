"""The keys, operators, source kinds and warnings of the language. A key that is not here is an error.

`PLACES` is the one table of the keys. The merge, the findings, the JSON Schema and docs/keys.md read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType

from agent.config.toml.file_position import FilePosition
from agent.config.toml.finding import Finding, find_nearest
from agent.core.struct import Struct


class Shape(Enum):
    """The kind of value below a key."""

    VALUE = "value"  # a file replaces it as a whole
    LATE = "late"  # such a value, which the compiler checks
    TABLE = "table"  # a table with a fixed set of keys
    NAMED = "named"  # a table of tables with names that users choose
    CLAUSE = "clause"
    CLAUSES = "clauses"  # a table of named clauses
    OPEN = "open"  # a table with keys that users choose, at any depth
    PAIRS = "pairs"  # pairs of words, as one value


class Key(Struct):
    """One key of one place: the form of its value, its short form, and its text for people and editors.

    type: the type of the value, a name in `value_checks`, or empty. With the shape of a table or a clause, a value of
    this type is also allowed. default: in TOML form, or empty. inner_place: the place whose keys the table has, or each
    of its named tables. short: the key that a plain value sets. short_list: the key that a list sets, if it is another.
    allows_false: `false` removes the section. allows_true: `true` is the empty table.
    """

    name: str
    shape: Shape
    type: str
    meaning: str
    default: str = ""
    inner_place: str = ""
    short: str = ""
    short_list: str = ""
    allows_false: bool = False
    allows_true: bool = False


class Place(Struct):
    """A table of the language: its title in errors, and its keys by name."""

    title: str
    keys: Mapping[str, Key]


def _make_place(title: str, *keys: Key) -> Place:
    return Place(title, {key.name: key for key in keys})


def _make_variable_keys(shape: Shape, value_type: str) -> tuple[Key, ...]:
    """Return the keys of a variable or an annotation. The compiler checks the values of variables (`LATE`)."""
    return (
        Key("value", shape, value_type, "the value, a template"),
        Key("name", shape, "text", "the name, if it is a template", "NAME"),
        Key("join", shape, value_type, "the separator between the values of several devices; equal values appear once"),
        Key("json", _OPEN, "", "instead of value: a table for JSON output; absent values are left out"),
        Key("key", _VALUE, "text", "with json: one object with one member for each device, under this name"),
        _WHEN,
    )


_VALUE, _LATE, _TABLE, _NAMED, _CLAUSE, _CLAUSES, _OPEN, _PAIRS = Shape

_WHEN = Key("when", _CLAUSE, "", "condition, a clause")
_PROGRAM = (
    Key("run", _VALUE, "argv", "the program and its arguments; no shell runs"),
    Key("timeout", _VALUE, "duration", "maximum run time", '"5s"'),
    _WHEN,
    Key("optional", _VALUE, "bool", "true: the host can lack the program", "false"),
)
_GIVEN = (
    Key("nodes", _NAMED, "", "device nodes", "{}", "give.nodes", "path"),
    Key("mounts", _NAMED, "", "files and directories of the host", "{}", "give.mounts", "path"),
    Key("env", _NAMED, "", "environment variables", "{}", "give.env", "value"),
    Key(
        "annotations",
        _NAMED,
        "",
        "annotations of the container, for container runtimes",
        "{}",
        "give.annotations",
        "value",
    ),
    Key("cdi", _NAMED, "", "CDI devices, by name", "{}", "give.cdi", "name"),
    Key(
        "vfio",
        _TABLE,
        "",
        "the VFIO nodes of this function; true, or the backend",
        "",
        "give.vfio",
        "backend",
        allows_false=True,
        allows_true=True,
    ),
    Key(
        "rdma",
        _TABLE,
        "",
        "the RDMA nodes of this adapter; true, or a table",
        "",
        "give.rdma",
        allows_false=True,
        allows_true=True,
    ),
)
_COMMON = (
    Key("about", _LATE, "text", "description in one line; required in a class"),
    Key("name", _LATE, "text", "the extended resource, domain/name; a template generates several resources"),
    Key("uses", _LATE, "words", "base classes, merged from left to right", "[]"),
    Key("source", _VALUE, "source", "where the agent searches for devices"),
    Key("match", _CLAUSE, "", "a clause: the devices of this entry", "{}", allows_false=True),
    Key(
        "exclude",
        _CLAUSES,
        "",
        "named clauses: devices that the entry does not take; evaluated before match",
        "{}",
        allows_false=True,
    ),
    Key(
        "id",
        _LATE,
        "texts",
        "templates for the device ID; the agent uses the first whose words all have a value",
    ),
    Key("replicas", _TABLE, "", "number of shares of each device", "1", "replicas", "count", allows_false=True),
    Key("give", _TABLE, "", "the grant: everything that a container gets", "{}", "give"),
    Key(
        "registration",
        _VALUE,
        "registration",
        '"socket" (Register) or "watcher" (plugin directory)',
        "that of agent.toml",
    ),
    Key("accept", _OPEN, "", "accepted warnings, each with a reason", "{}"),
    Key("part", _VALUE, "bool", "base class: other classes and entries include it with uses", "false"),
    Key("let", _NAMED, "", "derived words", "{}", "let", "read", "first_of"),
    Key(
        "join",
        _NAMED,
        "",
        "partners: other devices that belong to this one, each a relation with this name",
        "{}",
        "join",
    ),
    Key("options", _NAMED, "", "in a class: its parameters; in an entry: their values", "{}", "options", "value"),
    Key("group", _TABLE, "", "several host devices form one device", "", "group", "by", allows_false=True),
    Key("adds_to", _VALUE, "text", "instead of name: add the devices to the resource of an earlier entry"),
    Key("expect", _VALUE, "count", "expected number of devices; fewer cause a warning"),
    Key(
        "wait",
        _CLAUSES,
        "",
        "not-ready conditions, named clauses: while one matches, a new device is not listed",
        "{}",
        allows_false=True,
    ),
    Key(
        "gate",
        _CLAUSES,
        "",
        "preconditions, named clauses about the host: the entry lists no device until all match",
        "{}",
        allows_false=True,
    ),
    Key(
        "slots",
        _TABLE,
        "",
        "instead of replicas: IDs that each give all devices",
        "",
        "slots",
        "count",
        allows_false=True,
    ),
    Key("limit", _TABLE, "", "limits for one container", "{}", "limit"),
    Key(
        "topology",
        _VALUE,
        "topology",
        'the word with the NUMA node, "none", or a list of nodes',
        '"numa"',
        allows_false=True,
    ),
    Key("health", _NAMED, "", "named checks: the device is Healthy while all pass", "{}", "health"),
    Key(
        "prefer",
        _VALUE,
        "prefer",
        "rules for preferred allocation; a rule decides if the rules before it are equal",
        "[]",
    ),
    Key("links", _NAMED, "", "links between devices, for prefer", "{}", "links"),
    Key("prepare", _NAMED, "", "named programs that run on the host before the gate is evaluated", "{}", "prepare"),
    Key("prestart", _NAMED, "", "named programs that run before a container starts", "{}", "prestart"),
    Key(
        "moves_into_pod",
        _VALUE,
        "bool",
        "true: a granted device stays Healthy if the host does not show it",
        "false",
    ),
    Key("probe", _NAMED, "", "named long-running programs that report facts and health", "{}", "probe"),
)

# The places by name. A named table (`NAME`) inside a place is a place of its own.
_PLACES = {
    "file": _make_place("a file of resources", Key("resource", _VALUE, "", "the entries, each a [[resource]] table")),
    "entry": _make_place("[[resource]]", *_COMMON, Key("class", _LATE, "text", "the device class of this entry")),
    "class": _make_place("a device class", *_COMMON),
    "source": _make_place(
        "source",
        Key(
            "kind",
            _LATE,
            "kind_of_source",
            "pci, usb, net, infiniband, drm, auxiliary or mdev: every device of that kind",
        ),
        Key("subsystem", _LATE, "text", "every device of a class or bus of the kernel"),
        Key("node", _LATE, "texts", "device nodes below /dev that match a glob, or one of several globs"),
        Key("dir", _LATE, "texts", "directories below /sys or /proc that match a glob, or one of several globs"),
        Key("fixed", _LATE, "words", "these names, always present"),
        Key("every", _LATE, "duration", "interval between looks, if no event reports changes", "full rescan"),
    ),
    "let": _make_place(
        "a derived word",
        Key("read", _VALUE, "text", "the value of a word or path; with a glob, of the one file that matches"),
        Key("first_of", _VALUE, "words", "the first of these words that has a value"),
        Key("read_all", _VALUE, "text", "the list of the contents of all files that match"),
        Key("names_of", _VALUE, "text", "the list of the names of all paths that match"),
        Key("name_of", _VALUE, "text", "the name of the one path that matches"),
        Key("field", _VALUE, "text", "a field of the file `of`: lines key: value, key = value, key value"),
        Key("take", _VALUE, "text", "the text at the brace of a glob, from the word `of`"),
        Key("by", _VALUE, "text", "the word whose value is the key in `map`"),
        Key("text", _VALUE, "text", "a template; absent if one of its words is absent"),
        Key("holds", _CLAUSE, "", "true if the clause matches"),
        Key("kfd_address", _VALUE, "words", "the PCI address in KFD's domain and location_id"),
        Key("bits", _VALUE, "texts", "bits of the number `of`, joined"),
        Key("base64url", _VALUE, "words", "the bytes of hexadecimal texts as base64url"),
        Key(
            "place_in",
            _VALUE,
            "text",
            "the number of values in a list that sort before the word `of`, in the order of their type",
        ),
        Key("probe", _VALUE, "text", "the fact that a probe reports as `field`"),
        Key("of", _VALUE, "text", "the input of the verb: a word or file"),
        Key("map", _OPEN, "", "for by: key or glob to value; an exact key comes before the longest glob"),
        Key("type", _VALUE, "kind", "type of the value", '"text"'),
        Key("else", _VALUE, "data", "the value if there is none; for by: if no key matches"),
        Key("if_absent", _VALUE, "data", "for by: the value if the word is absent"),
    ),
    "join": _make_place(
        "a join",
        Key("source", _VALUE, "source", "search the devices of this source"),
        Key("dir", _VALUE, "texts", "search the directories that match"),
        Key("class", _VALUE, "text", "search the devices of this class, with its words"),
        Key("resource", _VALUE, "text", "search the devices of the entry with this name, with its words"),
        Key("on", _PAIRS, "", "pairs of equal words: word of the partner = word of this device"),
        Key("match", _CLAUSE, "", "a clause about the partner", "{}"),
        Key("let", _NAMED, "", "derived words of the partner", "{}", "let", "read", "first_of"),
        Key("optional", _VALUE, "bool", "true: the device is listed even if it has no partner", "false"),
    ),
    "group": _make_place(
        "group",
        Key("by", _VALUE, "texts", "one or several words: devices with an equal value form a group"),
        Key("claims", _VALUE, "claims", '"all": no other entry takes devices with the same value', '"matched"'),
        Key("parts", _CLAUSES, "", "members, named clauses: one host device for each; a relation with this name", "{}"),
    ),
    "replicas": _make_place(
        "replicas",
        Key("count", _LATE, "count", "number of shares", "1"),
        Key("by", _VALUE, "text", "the word whose value is the key in map"),
        Key("map", _OPEN, "", "value of the word to number of shares"),
        Key("else", _VALUE, "count", "the number if no key matches"),
        Key("suffix", _VALUE, "text", "the text between the device ID and the number of the share", '"::"'),
    ),
    "slots": _make_place(
        "slots", Key("count", _VALUE, "count", "number of IDs"), Key("id", _VALUE, "text", "a template with {n}")
    ),
    "limit": _make_place(
        "limit",
        Key("per_container", _VALUE, "count", "maximum number for one container"),
        Key("distinct", _VALUE, "bool", "true: a container never gets two shares of one device", "false"),
    ),
    "options": _make_place(
        "an option",
        Key("about", _VALUE, "text", "description of the option"),
        Key("one_of", _VALUE, "words", "the possible values; an entry sets one"),
        Key("some_of", _VALUE, "words", "the possible values; an entry sets any number of them"),
        Key("type", _VALUE, "kind", "type of the value"),
        Key("default", _LATE, "data", "the value if an entry sets none"),
        Key("value", _LATE, "data", "in an entry: the value"),
    ),
    "give": _make_place(
        "give",
        *_GIVEN,
        Key("devinfo", _OPEN, "", "the content of the device-information file for CNI plugins", allows_false=True),
        Key("also", _NAMED, "", "named tables with the same keys, each with its when", "{}", "give.also"),
        Key(
            "via",
            _VALUE,
            "way",
            "how the container gets it: from the kubelet, or with a generated CDI spec",
            '"kubelet"',
        ),
    ),
    "give.nodes": _make_place(
        "a node",
        Key("path", _LATE, "text", "the node on the host"),
        Key(
            "to",
            _LATE,
            "texts",
            "one or several paths in the container; a path that ends in / keeps the file name",
            "path",
        ),
        Key("permissions", _LATE, "permissions", "letters of r, w, m", '"rw"'),
        Key("optional", _VALUE, "bool", "true: the path can be absent", "false"),
        _WHEN,
    ),
    "give.mounts": _make_place(
        "a mount",
        Key("path", _VALUE, "text", "a file or directory of the host, or a glob"),
        Key(
            "to",
            _VALUE,
            "texts",
            "one or several paths in the container; a path that ends in / keeps the name",
            "as on the host",
        ),
        Key("read_only", _VALUE, "bool", "true: the mount is read-only", "false"),
        Key("optional", _VALUE, "bool", "true: the path can be absent", "false"),
        _WHEN,
    ),
    "give.env": _make_place("a variable", *_make_variable_keys(_LATE, "any")),
    "give.annotations": _make_place("an annotation", *_make_variable_keys(_VALUE, "text")),
    "give.cdi": _make_place(
        "a CDI device",
        Key("name", _VALUE, "text", "the full name of a CDI device, vendor/class=device"),
        Key("via", _VALUE, "via", "how the container runtime gets the name: field or annotation", '"field"'),
        Key("unchecked", _VALUE, "bool", "true: give it even if no spec on the host contains it", "false"),
        _WHEN,
    ),
    "give.vfio": _make_place(
        "give.vfio",
        Key("backend", _VALUE, "backend", "auto: iommufd if its node exists, else legacy", '"auto"'),
        Key("to", _VALUE, "text", "the path of the group's node in the container", '"/dev/vfio/{iommu.group}"'),
        Key("noiommu", _VALUE, "bool", "true: also give functions without an IOMMU", "false"),
        Key("permissions", _VALUE, "text", "letters of r, w, m", '"rw"'),
        _WHEN,
    ),
    "give.rdma": _make_place(
        "give.rdma",
        Key("required", _VALUE, "rdma", "required nodes", '["uverbs"]'),
        Key("optional", _VALUE, "rdma", "nodes that are given if they exist", '["umad", "issm", "rdma_cm"]'),
        Key("permissions", _VALUE, "text", "letters of r, w, m", '"rw"'),
        _WHEN,
    ),
    "give.also": _make_place("give.also", *_GIVEN, _WHEN),
    "health": _make_place(
        "a check",
        Key("holds", _CLAUSE, "", "a clause that must match"),
        Key("log", _VALUE, "text", "a pattern for kernel log lines: a matching line is a fault"),
        Key("rises", _VALUE, "text", "a counter that must not grow"),
        Key("run", _VALUE, "argv", "a program that must exit with 0"),
        Key("socket", _VALUE, "text", "the socket of a service that reports the health of the device"),
        Key("of", _VALUE, "text", "the name of the device in the service at that socket", "the service as a whole"),
        Key("speaks", _VALUE, "speaks", "the protocol of that service", '"grpc-health"'),
        Key("probe", _VALUE, "text", "a probe that reports the health of the device"),
        Key("only", _CLAUSE, "", "a clause on the words of the log line: only matching lines count"),
        Key("ignore", _CLAUSE, "", "a clause on the words of the log line: matching lines do not count"),
        Key("when", _CLAUSE, "", "a clause: the check applies while it matches"),
        Key(
            "every",
            _VALUE,
            "duration",
            "interval between looks or queries",
            'events and full rescan; for run and socket "30s"',
        ),
        Key("timeout", _VALUE, "duration", "maximum time for run and socket", '"2s"'),
        Key("trip", _VALUE, "trip", 'failure threshold: "2 looks", "2s", or "3 in 10m"', "1"),
        Key("recover", _VALUE, "recover", 'recovery threshold: "2 looks", "30s", or "never"', "1"),
        Key(
            "latch",
            _CLAUSE,
            "bool",
            "the failure stays until `device-agent clear`; true, or a clause on the words of the log line",
            "false",
        ),
        Key(
            "on_unknown", _VALUE, "on_unknown", "the result if a word is absent or a query has no result", '"unhealthy"'
        ),
        Key("reason", _VALUE, "text", "the reason that the agent shows", "the test and the value"),
    ),
    "links": _make_place(
        "links",
        Key("dir", _VALUE, "text", "one directory for each link"),
        Key("file", _VALUE, "text", "a file with one line for each link: one end, the other end, score"),
        Key("let", _NAMED, "", "derived words of the link; a line has end and score", "{}", "let", "read", "first_of"),
        Key(
            "on",
            _PAIRS,
            "",
            "the word of the link with the name of the other end = the word of the device with this name",
        ),
        Key(
            "cost",
            _TABLE,
            "int",
            "distance to the other end: a number, or by a word; less is nearer",
            "for a line: its score",
            "links.cost",
        ),
    ),
    "links.cost": _make_place(
        "a cost",
        Key("by", _VALUE, "text", "a word of the link"),
        Key("map", _OPEN, "", "value of the word to cost"),
        Key("else", _VALUE, "int", "the cost if no key matches"),
    ),
    "prepare": _make_place("a program", *_PROGRAM),
    "prestart": _make_place("a program", *_PROGRAM),
    "probe": _make_place(
        "a probe",
        Key("run", _VALUE, "argv", "the program and its arguments; no shell runs"),
        Key("timeout", _VALUE, "duration", "maximum time without a report", '"30s"'),
    ),
}
PLACES: Mapping[str, Place] = MappingProxyType(_PLACES)

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
OPERATORS = (
    *("not", "like", "exists", "has", "matching", "contains", "in", "at_least", "at_most", "above", "below"),
    *("has_all", "has_any", "any", "every", "none", "count"),
)
EITHER = "either"

# Clauses that exclude devices while they match. One more alternative excludes more devices.
KEEPS_OUT = frozenset({"exclude", "wait", "ignore"})

# Codes for `accept`, with their meanings.
WARNINGS: Mapping[str, str] = MappingProxyType(
    {
        "collides": "another resource gives another value under the same path, variable or annotation",
        "list-size": "a second device would make the list longer than the kubelet accepts",
        "log-anywhere": "the pattern matches anywhere in a kernel log line",
        "looks-by-chance": "a check counts looks, but the time between looks is not defined",
        "never-matches": "this host has no device for the entry",
        "no-topology": "one device has no NUMA node, so the agent sends none for the others",
        "nothing-left": "an earlier entry takes all its devices",
        "overlap": "an earlier entry takes devices of this entry on this host, or gives the same nodes",
        "same-id": "an entry with another source has the same ID for the same device",
        "unsettled-name": "the resource name is different until one of its words has a value",
        "unstable-id": "an ID contains a value that changes after a reboot or a replug",
    }
)


def find_unknown_key(spot: FilePosition, place: str) -> Finding | None:
    """Return a finding if the place has no key with the last name of this position, else None."""
    key = str(spot.path[-1])
    title, keys = PLACES[place].title, PLACES[place].keys
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
    for place in (place for place in (*_USUAL_PLACES, *PLACES) if place not in {"file", "entry", "class"}):
        for name in PLACES[place].keys:
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
