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
        Key("value", shape, value_type, "the text"),
        Key("name", shape, "text", "its name, if that has words in it", "NAME"),
        Key("join", shape, value_type, "what stands between the values of several devices; equal ones are said once"),
        Key("json", _OPEN, "", "instead of value: a table that is written as JSON; what is absent is left out"),
        Key("key", _VALUE, "text", "with json: one object, with a member of this name for each device"),
        _WHEN,
    )


_VALUE, _LATE, _TABLE, _NAMED, _CLAUSE, _CLAUSES, _OPEN, _PAIRS = Shape

_WHEN = Key("when", _CLAUSE, "", "a clause: only then")
_PROGRAM = (
    Key("run", _VALUE, "argv", "the program and its arguments, never a shell"),
    Key("timeout", _VALUE, "duration", "how long it may take", '"5s"'),
    _WHEN,
    Key("optional", _VALUE, "bool", "the program need not be on the host", "false"),
)
_GIVEN = (
    Key("nodes", _NAMED, "", "device nodes", "{}", "give.nodes", "path"),
    Key("mounts", _NAMED, "", "files and directories of the host", "{}", "give.mounts", "path"),
    Key("env", _NAMED, "", "environment variables", "{}", "give.env", "value"),
    Key(
        "annotations",
        _NAMED,
        "",
        "annotations of the container, for runtimes that read them",
        "{}",
        "give.annotations",
        "value",
    ),
    Key("cdi", _NAMED, "", "CDI devices, by name", "{}", "give.cdi", "name"),
    Key(
        "vfio",
        _TABLE,
        "",
        "the nodes by which VFIO hands out this function; true, or its backend",
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
    Key("about", _LATE, "text", "a line for people; a class has one"),
    Key("name", _LATE, "text", "the extended resource, domain/name; with words in it one entry makes several"),
    Key("uses", _LATE, "words", "classes that are merged in, left to right", "[]"),
    Key("source", _VALUE, "source", "where devices are looked for"),
    Key("match", _CLAUSE, "", "a clause: which are taken", "{}", allows_false=True),
    Key("exclude", _CLAUSES, "", "named clauses, asked before match: which are not", "{}", allows_false=True),
    Key(
        "id",
        _LATE,
        "texts",
        "what a device is known as: a text, or a list of texts of which the first is taken that can be said",
    ),
    Key(
        "replicas", _TABLE, "", "in how many shares each device is offered", "1", "replicas", "count", allows_false=True
    ),
    Key("give", _TABLE, "", "what a container gets", "{}", "give"),
    Key(
        "registration",
        _LATE,
        "registration",
        '"socket" (Register) or "watcher" (plugin directory)',
        "that of agent.toml",
    ),
    Key("accept", _OPEN, "", "warnings that are meant, each with the reason", "{}"),
    Key("part", _LATE, "bool", "of a class: not for itself, only for others to use", "false"),
    Key("let", _NAMED, "", "words of one's own", "{}", "let", "read", "first_of"),
    Key("join", _NAMED, "", "other devices that belong to this one, each a relation by its name", "{}", "join"),
    Key("options", _NAMED, "", "what a class asks of its user; in an entry the answers", "{}", "options", "value"),
    Key("group", _TABLE, "", "several host devices as one device", "", "group", "by", allows_false=True),
    Key("adds_to", _VALUE, "text", "instead of name: its devices go to the resource of an earlier entry"),
    Key("expect", _VALUE, "count", "how many devices there should be; fewer are a warning"),
    Key("wait", _CLAUSES, "", "named clauses: while one holds, the device is not offered yet", "{}", allows_false=True),
    Key(
        "gate",
        _CLAUSES,
        "",
        "named clauses about the host: until all hold, nothing is offered",
        "{}",
        allows_false=True,
    ),
    Key(
        "slots",
        _TABLE,
        "",
        "instead: shares of the whole, each of which gives everything",
        "",
        "slots",
        "count",
        allows_false=True,
    ),
    Key("limit", _TABLE, "", "what one container may ask for", "{}", "limit"),
    Key(
        "topology",
        _VALUE,
        "topology",
        'the word that says the NUMA node, "none", or a list of nodes',
        '"numa"',
        allows_false=True,
    ),
    Key("health", _NAMED, "", "named checks: healthy while all hold", "{}", "health"),
    Key(
        "prefer",
        _VALUE,
        "prefer",
        "rules for choosing among free devices; the first decides, the next breaks ties",
        "[]",
    ),
    Key("links", _NAMED, "", "what connects devices, for prefer", "{}", "links"),
    Key("prepare", _NAMED, "", "named programs, run on the host before the gate is asked", "{}", "prepare"),
    Key("prestart", _NAMED, "", "named programs, run before a container starts", "{}", "prestart"),
    Key(
        "moves_into_pod",
        _VALUE,
        "bool",
        "a device that is granted and gone from the host is not Unhealthy for that",
        "false",
    ),
    Key("probe", _NAMED, "", "named programs that run on and report facts and verdicts", "{}", "probe"),
)

# The places by name. A named table (`NAME`) inside a place is a place of its own.
_PLACES = {
    "file": _make_place("a file of resources", Key("resource", _VALUE, "", "the entries, each under [[resource]]")),
    "entry": _make_place(
        "[[resource]]", *_COMMON, Key("class", _LATE, "text", "the device class whose keys this entry takes over")
    ),
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
        Key("node", _LATE, "texts", "device nodes below /dev that fit a pattern, or one of a list"),
        Key("dir", _LATE, "texts", "directories below /sys or /proc that fit a pattern, or one of a list"),
        Key("fixed", _LATE, "words", "these names, always there"),
        Key("every", _LATE, "duration", "look again so often, where no event tells", "the sweep"),
    ),
    "let": _make_place(
        "a word of one's own",
        Key("read", _VALUE, "text", "what a word or path says; of a glob the one file that fits"),
        Key("first_of", _VALUE, "words", "the first of these that is there"),
        Key("read_all", _VALUE, "text", "the list of what all files say that fit"),
        Key("names_of", _VALUE, "text", "the list of the names of all that fits"),
        Key("name_of", _VALUE, "text", "the name of the one that fits"),
        Key("field", _VALUE, "text", "a field of the file `of`: lines key: value, key = value, key value"),
        Key("take", _VALUE, "text", "the piece at the brace of a pattern, out of the word `of`"),
        Key("by", _VALUE, "text", "a word that is looked up in `map`"),
        Key("text", _VALUE, "text", "a text with words in it; absent if one of them is"),
        Key("holds", _CLAUSE, "", "whether a clause holds"),
        Key("kfd_address", _VALUE, "words", "the PCI address in KFD's domain and location_id"),
        Key("bits", _VALUE, "texts", "bits of the number `of`, side by side"),
        Key("base64url", _VALUE, "words", "the bytes of hexadecimal texts, in base64url"),
        Key("place_in", _VALUE, "text", "how many of a list come before the word `of`, in the order of their type"),
        Key("probe", _VALUE, "text", "what a probe reports as `field`"),
        Key("of", _VALUE, "text", "the word or file that the verb works on"),
        Key("map", _OPEN, "", "for by: key or pattern to value; the exact key first, then the longest pattern"),
        Key("type", _VALUE, "kind", "its type", '"text"'),
        Key("else", _VALUE, "data", "the value where there is none; for by: where no key fits"),
        Key("if_absent", _VALUE, "data", "for by: the value where the word itself is absent"),
    ),
    "join": _make_place(
        "a join",
        Key("source", _VALUE, "source", "its devices are those of this source"),
        Key("dir", _VALUE, "texts", "its devices are the directories that fit"),
        Key("class", _VALUE, "text", "its devices are those of this class, with its words"),
        Key("resource", _VALUE, "text", "its devices are those of the entry with this name, with its words"),
        Key("on", _PAIRS, "", "pairs of words that are equal: theirs = ours"),
        Key("match", _CLAUSE, "", "a clause about it", "{}"),
        Key("let", _NAMED, "", "words of its own", "{}", "let", "read", "first_of"),
        Key("optional", _VALUE, "bool", "none is no reason to wait", "false"),
    ),
    "group": _make_place(
        "group",
        Key("by", _VALUE, "texts", "a word, or several: what is equal in one of them goes together"),
        Key(
            "claims", _VALUE, "claims", '"all": others with the same value come along and go nowhere else', '"matched"'
        ),
        Key("parts", _CLAUSES, "", "named clauses: one of each makes a device, each a relation by its name", "{}"),
    ),
    "replicas": _make_place(
        "replicas",
        Key("count", _LATE, "count", "how many shares", "1"),
        Key("by", _VALUE, "text", "a word that says it, through map"),
        Key("map", _OPEN, "", "value of the word to number of shares"),
        Key("else", _VALUE, "count", "the number where no key fits"),
        Key("suffix", _VALUE, "text", "what stands between the id and the number of the share", '"::"'),
    ),
    "slots": _make_place(
        "slots", Key("count", _VALUE, "count", "how many"), Key("id", _VALUE, "text", "a text with {n} in it")
    ),
    "limit": _make_place(
        "limit",
        Key("per_container", _VALUE, "count", "at most so many in one container"),
        Key("distinct", _VALUE, "bool", "never two shares of one device in one container", "false"),
    ),
    "options": _make_place(
        "an option",
        Key("about", _VALUE, "text", "what is asked, for people"),
        Key("one_of", _VALUE, "words", "the answers, of which one is given"),
        Key("some_of", _VALUE, "words", "the answers, of which any are given"),
        Key("type", _VALUE, "kind", "the type of the answer"),
        Key("default", _LATE, "data", "the answer where an entry gives none"),
        Key("value", _LATE, "data", "in an entry: the answer"),
    ),
    "give": _make_place(
        "give",
        *_GIVEN,
        Key(
            "devinfo", _OPEN, "", "what stands in the device-information file that CNI plugins read", allows_false=True
        ),
        Key("also", _NAMED, "", "named tables of the same, each with its when", "{}", "give.also"),
        Key(
            "via",
            _VALUE,
            "way",
            "how it reaches the container: kubelet, or a CDI spec that is written for it",
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
            "the path in the container, or several; one that ends in / keeps the file's name",
            "path",
        ),
        Key("permissions", _LATE, "permissions", "letters of r, w, m", '"rw"'),
        Key("optional", _LATE, "bool", "it need not be there", "false"),
        _WHEN,
    ),
    "give.mounts": _make_place(
        "a mount",
        Key("path", _VALUE, "text", "a file or directory of the host, or a pattern"),
        Key(
            "to",
            _VALUE,
            "texts",
            "the path in the container, or several; one that ends in / keeps the name",
            "as on the host",
        ),
        Key("read_only", _VALUE, "bool", "it cannot be written to", "false"),
        Key("optional", _VALUE, "bool", "it need not be there", "false"),
        _WHEN,
    ),
    "give.env": _make_place("a variable", *_make_variable_keys(_LATE, "any")),
    "give.annotations": _make_place("an annotation", *_make_variable_keys(_VALUE, "text")),
    "give.cdi": _make_place(
        "a CDI device",
        Key("name", _VALUE, "text", "the full name of a CDI device, vendor/class=device"),
        Key("via", _VALUE, "via", "how the runtime is told: field or annotation", '"field"'),
        Key("unchecked", _VALUE, "bool", "it is given whether or not a spec on the host has it", "false"),
        _WHEN,
    ),
    "give.vfio": _make_place(
        "give.vfio",
        Key("backend", _VALUE, "backend", "auto: iommufd where its node is there, else legacy", '"auto"'),
        Key("to", _VALUE, "text", "the path of the group's node in the container", '"/dev/vfio/{iommu.group}"'),
        Key("noiommu", _VALUE, "bool", "functions without an IOMMU are given, too", "false"),
        Key("permissions", _VALUE, "text", "letters of r, w, m", '"rw"'),
        _WHEN,
    ),
    "give.rdma": _make_place(
        "give.rdma",
        Key("required", _VALUE, "rdma", "nodes that have to be there", '["uverbs"]'),
        Key("optional", _VALUE, "rdma", "nodes that are given where they are", '["umad", "issm", "rdma_cm"]'),
        Key("permissions", _VALUE, "text", "letters of r, w, m", '"rw"'),
        _WHEN,
    ),
    "give.also": _make_place("give.also", *_GIVEN, _WHEN),
    "health": _make_place(
        "a check",
        Key("holds", _CLAUSE, "", "a clause that has to hold"),
        Key("log", _VALUE, "text", "a pattern of kernel-log lines: one that fits is a fault"),
        Key("rises", _VALUE, "text", "a counter that must not grow"),
        Key("run", _VALUE, "argv", "a program that has to end with 0"),
        Key("socket", _VALUE, "text", "a socket that answers for the device"),
        Key("of", _VALUE, "text", "what the service at that socket calls the device", "the service as a whole"),
        Key("speaks", _VALUE, "speaks", "what that service speaks", '"grpc-health"'),
        Key("probe", _VALUE, "text", "a probe whose verdict counts"),
        Key("only", _CLAUSE, "", "a clause over what log took: only these lines count"),
        Key("ignore", _CLAUSE, "", "a clause over what log took: these lines do not count"),
        Key("when", _CLAUSE, "", "a clause: whether the check applies"),
        Key(
            "every", _VALUE, "duration", "look so often; ask so often", 'events and the sweep; of run and socket "30s"'
        ),
        Key("timeout", _VALUE, "duration", "how long run and socket may take", '"2s"'),
        Key("trip", _VALUE, "trip", 'when it fails: "2 looks", "2s", or "3 in 10m"', "1"),
        Key("recover", _VALUE, "recover", 'when it is well again: "2 looks", "30s", or "never"', "1"),
        Key(
            "latch", _CLAUSE, "bool", "failing until a person clears it; true, or a clause over what log took", "false"
        ),
        Key("on_unknown", _VALUE, "on_unknown", "what counts where a word is absent, or nobody answers", '"unhealthy"'),
        Key("reason", _VALUE, "text", "the text that is shown", "the test and what was read"),
    ),
    "links": _make_place(
        "links",
        Key("dir", _VALUE, "text", "one directory for each link"),
        Key("file", _VALUE, "text", "or a file, in which a line for each link says: one, the other, score"),
        Key("let", _NAMED, "", "words of the link; a line has end and score", "{}", "let", "read", "first_of"),
        Key(
            "on", _PAIRS, "", "the word of the link that names the other end, and the word of the device that it names"
        ),
        Key(
            "cost",
            _TABLE,
            "int",
            "how far the other end is: a number, or by a word; less is nearer",
            "of a line the score",
            "links.cost",
        ),
    ),
    "links.cost": _make_place(
        "a cost",
        Key("by", _VALUE, "text", "a word of the link"),
        Key("map", _OPEN, "", "value of the word to cost"),
        Key("else", _VALUE, "int", "the cost where no key fits"),
    ),
    "prepare": _make_place("a program", *_PROGRAM),
    "prestart": _make_place("a program", *_PROGRAM),
    "probe": _make_place(
        "a probe",
        Key("run", _VALUE, "argv", "the program and its arguments, never a shell"),
        Key("timeout", _VALUE, "duration", "how long it may be silent", '"30s"'),
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
