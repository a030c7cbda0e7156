"""The form of each section of the language: what may stand under a key, and what its short form stands for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from agent.core.struct import Struct


class Shape(Enum):
    """What stands under a key."""

    VALUE = "value"  # replaced whole
    TABLE = "table"  # a table with a fixed set of keys
    NAMED = "named"  # a table of things that people name, each such a table
    CLAUSE = "clause"
    CLAUSES = "clauses"  # a table of named clauses
    OPEN = "open"  # a table whose keys people choose, at any depth
    PAIRS = "pairs"  # words with words: one value


class Form(Struct):
    """How a key is written.

    place: the keys of the table, or of each of the named. short: the key that a value stands for, where no table
    stands; short_list: the same for a list, if that is another. type: what a value has to be, by the names in
    `kinds`; with another shape than VALUE, a value that may stand there as well. compiled: it is judged only where it
    is compiled, so that its type is for the schema. out: `false` takes it out. switch: `true` is the empty table.
    """

    shape: Shape = Shape.VALUE
    place: str = ""
    short: str = ""
    short_list: str = ""
    type: str = ""
    is_checked_later: bool = False
    allows_false: bool = False
    allows_true: bool = False


ANY = Form()  # a value that is judged where it is compiled


def get_form(place: str, key: str) -> Form:
    """The form of a key of a place."""
    return FORMS.get(place, {}).get(key, ANY)


def _values(type_: str, keys: str) -> dict[str, Form]:
    return dict.fromkeys(keys.split(), Form(type=type_))


def _compiled(type_: str, keys: str) -> dict[str, Form]:
    return dict.fromkeys(keys.split(), Form(type=type_, is_checked_later=True))


_CLAUSE = Form(Shape.CLAUSE)
_GIVEN: Mapping[str, Form] = {
    "nodes": Form(Shape.NAMED, "give.nodes", short="path"),
    "mounts": Form(Shape.NAMED, "give.mounts", short="path"),
    "env": Form(Shape.NAMED, "give.env", short="value"),
    "annotations": Form(Shape.NAMED, "give.annotations", short="value"),
    "cdi": Form(Shape.NAMED, "give.cdi", short="name"),
    "vfio": Form(Shape.TABLE, "give.vfio", short="backend", allows_false=True, allows_true=True),
    "rdma": Form(Shape.TABLE, "give.rdma", allows_false=True, allows_true=True),
}
_LET = Form(Shape.NAMED, "let", short="read", short_list="first_of")
_PROGRAM: Mapping[str, Form] = {
    **_values("argv", "run"),
    **_values("duration", "timeout"),
    **_values("bool", "optional"),
    "when": _CLAUSE,
}
_SENTENCE: Mapping[str, Form] = {
    "match": Form(Shape.CLAUSE, allows_false=True),
    "exclude": Form(Shape.CLAUSES, allows_false=True),
    "wait": Form(Shape.CLAUSES, allows_false=True),
    "gate": Form(Shape.CLAUSES, allows_false=True),
    "let": _LET,
    "join": Form(Shape.NAMED, "join"),
    "group": Form(Shape.TABLE, "group", short="by", allows_false=True),
    "replicas": Form(Shape.TABLE, "replicas", short="count", allows_false=True),
    "slots": Form(Shape.TABLE, "slots", short="count", allows_false=True),
    "limit": Form(Shape.TABLE, "limit"),
    "options": Form(Shape.NAMED, "options", short="value"),
    "give": Form(Shape.TABLE, "give"),
    "health": Form(Shape.NAMED, "health"),
    "links": Form(Shape.NAMED, "links"),
    "prepare": Form(Shape.NAMED, "prepare"),
    "prestart": Form(Shape.NAMED, "prestart"),
    "probe": Form(Shape.NAMED, "probe"),
    "topology": Form(type="topology", allows_false=True),
    "prefer": Form(type="prefer"),
    "accept": Form(Shape.OPEN),
    "source": Form(type="source"),
    **_values("count", "expect"),
    **_values("bool", "moves_into_pod"),
    **_values("text", "adds_to"),
    **_compiled("text", "about name"),
    **_compiled("words", "uses"),
    **_compiled("texts", "id"),
    **_compiled("registration", "registration"),
    **_compiled("bool", "part"),
}

FORMS: Mapping[str, Mapping[str, Form]] = MappingProxyType(
    {
        "entry": {**_SENTENCE, **_compiled("text", "class")},
        "class": _SENTENCE,
        "source": {
            **_compiled("kind_of_source", "kind"),
            **_compiled("text", "subsystem"),
            **_compiled("texts", "node dir"),
            **_compiled("words", "fixed"),
            **_compiled("duration", "every"),
        },
        "let": {
            **_values("text", "read read_all names_of name_of field of take by text place_in probe"),
            **_values("words", "first_of kfd_address base64url"),
            **_values("texts", "bits"),
            **_values("kind", "type"),
            **_values("data", "else if_absent"),
            "holds": _CLAUSE,
            "map": Form(Shape.OPEN),
        },
        "join": {
            "source": Form(type="source"),
            **_values("texts", "dir"),
            **_values("text", "class resource"),
            **_values("bool", "optional"),
            "on": Form(Shape.PAIRS),
            "match": _CLAUSE,
            "let": _LET,
        },
        "group": {**_values("texts", "by"), **_values("claims", "claims"), "parts": Form(Shape.CLAUSES)},
        "replicas": {
            **_compiled("count", "count"),
            **_values("text", "by suffix"),
            **_values("count", "else"),
            "map": Form(Shape.OPEN),
        },
        "slots": {**_values("count", "count"), **_values("text", "id")},
        "limit": {**_values("count", "per_container"), **_values("bool", "distinct")},
        "options": {
            **_values("text", "about"),
            **_values("words", "one_of some_of"),
            **_values("kind", "type"),
            **_compiled("data", "default value"),
        },
        "give": {
            **_GIVEN,
            "devinfo": Form(Shape.OPEN, allows_false=True),
            "also": Form(Shape.NAMED, "give.also"),
            **_values("way", "via"),
        },
        "give.also": {**_GIVEN, "when": _CLAUSE},
        "give.nodes": {
            **_compiled("text", "path"),
            **_compiled("texts", "to"),
            **_compiled("permissions", "permissions"),
            **_compiled("bool", "optional"),
            "when": _CLAUSE,
        },
        "give.mounts": {
            **_values("text", "path"),
            **_values("texts", "to"),
            **_values("bool", "read_only optional"),
            "when": _CLAUSE,
        },
        "give.env": {
            **_compiled("any", "value join"),
            **_compiled("text", "name"),
            **_values("text", "key"),
            "json": Form(Shape.OPEN),
            "when": _CLAUSE,
        },
        "give.annotations": {"json": Form(Shape.OPEN), **_values("text", "value name key join"), "when": _CLAUSE},
        "give.cdi": {
            **_values("text", "name"),
            **_values("via", "via"),
            **_values("bool", "unchecked"),
            "when": _CLAUSE,
        },
        "give.vfio": {
            **_values("backend", "backend"),
            **_values("text", "to permissions"),
            **_values("bool", "noiommu"),
            "when": _CLAUSE,
        },
        "give.rdma": {**_values("rdma", "required optional"), **_values("text", "permissions"), "when": _CLAUSE},
        "health": {
            "holds": _CLAUSE,
            "only": _CLAUSE,
            "ignore": _CLAUSE,
            "when": _CLAUSE,
            "latch": Form(Shape.CLAUSE, type="bool"),
            **_values("text", "log rises socket of probe reason"),
            **_values("argv", "run"),
            **_values("duration", "every timeout"),
            **_values("trip", "trip"),
            **_values("recover", "recover"),
            **_values("on_unknown", "on_unknown"),
            **_values("speaks", "speaks"),
        },
        "links": {
            **_values("text", "dir file"),
            "let": _LET,
            "on": Form(Shape.PAIRS),
            "cost": Form(Shape.TABLE, "links.cost", type="int"),
        },
        "links.cost": {**_values("text", "by"), **_values("int", "else"), "map": Form(Shape.OPEN)},
        "prepare": _PROGRAM,
        "prestart": _PROGRAM,
        "probe": {**_values("argv", "run"), **_values("duration", "timeout")},
    }
)
