"""The form of each section of the language: the allowed value of a key, and the meaning of its short form."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from agent.core.struct import Struct


class Shape(Enum):
    """The kind of value below a key."""

    VALUE = "value"  # a file replaces it as a whole
    TABLE = "table"  # a table with a fixed set of keys
    NAMED = "named"  # a table of tables with names that users choose
    CLAUSE = "clause"
    CLAUSES = "clauses"  # a table of named clauses
    OPEN = "open"  # a table with keys that users choose, at any depth
    PAIRS = "pairs"  # pairs of words, as one value


class Form(Struct):
    """The form of the value of a key.

    place: the place whose keys the table has, or each of its named tables. short: the key that a plain value sets.
    short_list: the key that a list sets, if it is another. type: the type of the value, a name in `value_checks`.
    With a shape other than VALUE, a value of this type is also allowed.
    is_checked_later: the compiler checks the value, and the schema uses its type.
    allows_false: `false` removes the section. allows_true: `true` is the empty table.
    """

    shape: Shape = Shape.VALUE
    place: str = ""
    short: str = ""
    short_list: str = ""
    type: str = ""
    is_checked_later: bool = False
    allows_false: bool = False
    allows_true: bool = False


ANY = Form()  # a value that the compiler checks


def get_form(place: str, key: str) -> Form:
    """Return the form of a key of a place."""
    return FORMS.get(place, {}).get(key, ANY)


def _make_forms(type_: str, keys: str) -> dict[str, Form]:
    return dict.fromkeys(keys.split(), Form(type=type_))


def _make_late_forms(type_: str, keys: str) -> dict[str, Form]:
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
    **_make_forms("argv", "run"),
    **_make_forms("duration", "timeout"),
    **_make_forms("bool", "optional"),
    "when": _CLAUSE,
}
_ENTRY_FORMS: Mapping[str, Form] = {
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
    **_make_forms("count", "expect"),
    **_make_forms("bool", "moves_into_pod"),
    **_make_forms("text", "adds_to"),
    **_make_late_forms("text", "about name"),
    **_make_late_forms("words", "uses"),
    **_make_late_forms("texts", "id"),
    **_make_late_forms("registration", "registration"),
    **_make_late_forms("bool", "part"),
}

FORMS: Mapping[str, Mapping[str, Form]] = MappingProxyType(
    {
        "entry": {**_ENTRY_FORMS, **_make_late_forms("text", "class")},
        "class": _ENTRY_FORMS,
        "source": {
            **_make_late_forms("kind_of_source", "kind"),
            **_make_late_forms("text", "subsystem"),
            **_make_late_forms("texts", "node dir"),
            **_make_late_forms("words", "fixed"),
            **_make_late_forms("duration", "every"),
        },
        "let": {
            **_make_forms("text", "read read_all names_of name_of field of take by text place_in probe"),
            **_make_forms("words", "first_of kfd_address base64url"),
            **_make_forms("texts", "bits"),
            **_make_forms("kind", "type"),
            **_make_forms("data", "else if_absent"),
            "holds": _CLAUSE,
            "map": Form(Shape.OPEN),
        },
        "join": {
            "source": Form(type="source"),
            **_make_forms("texts", "dir"),
            **_make_forms("text", "class resource"),
            **_make_forms("bool", "optional"),
            "on": Form(Shape.PAIRS),
            "match": _CLAUSE,
            "let": _LET,
        },
        "group": {**_make_forms("texts", "by"), **_make_forms("claims", "claims"), "parts": Form(Shape.CLAUSES)},
        "replicas": {
            **_make_late_forms("count", "count"),
            **_make_forms("text", "by suffix"),
            **_make_forms("count", "else"),
            "map": Form(Shape.OPEN),
        },
        "slots": {**_make_forms("count", "count"), **_make_forms("text", "id")},
        "limit": {**_make_forms("count", "per_container"), **_make_forms("bool", "distinct")},
        "options": {
            **_make_forms("text", "about"),
            **_make_forms("words", "one_of some_of"),
            **_make_forms("kind", "type"),
            **_make_late_forms("data", "default value"),
        },
        "give": {
            **_GIVEN,
            "devinfo": Form(Shape.OPEN, allows_false=True),
            "also": Form(Shape.NAMED, "give.also"),
            **_make_forms("way", "via"),
        },
        "give.also": {**_GIVEN, "when": _CLAUSE},
        "give.nodes": {
            **_make_late_forms("text", "path"),
            **_make_late_forms("texts", "to"),
            **_make_late_forms("permissions", "permissions"),
            **_make_late_forms("bool", "optional"),
            "when": _CLAUSE,
        },
        "give.mounts": {
            **_make_forms("text", "path"),
            **_make_forms("texts", "to"),
            **_make_forms("bool", "read_only optional"),
            "when": _CLAUSE,
        },
        "give.env": {
            **_make_late_forms("any", "value join"),
            **_make_late_forms("text", "name"),
            **_make_forms("text", "key"),
            "json": Form(Shape.OPEN),
            "when": _CLAUSE,
        },
        "give.annotations": {"json": Form(Shape.OPEN), **_make_forms("text", "value name key join"), "when": _CLAUSE},
        "give.cdi": {
            **_make_forms("text", "name"),
            **_make_forms("via", "via"),
            **_make_forms("bool", "unchecked"),
            "when": _CLAUSE,
        },
        "give.vfio": {
            **_make_forms("backend", "backend"),
            **_make_forms("text", "to permissions"),
            **_make_forms("bool", "noiommu"),
            "when": _CLAUSE,
        },
        "give.rdma": {
            **_make_forms("rdma", "required optional"),
            **_make_forms("text", "permissions"),
            "when": _CLAUSE,
        },
        "health": {
            "holds": _CLAUSE,
            "only": _CLAUSE,
            "ignore": _CLAUSE,
            "when": _CLAUSE,
            "latch": Form(Shape.CLAUSE, type="bool"),
            **_make_forms("text", "log rises socket of probe reason"),
            **_make_forms("argv", "run"),
            **_make_forms("duration", "every timeout"),
            **_make_forms("trip", "trip"),
            **_make_forms("recover", "recover"),
            **_make_forms("on_unknown", "on_unknown"),
            **_make_forms("speaks", "speaks"),
        },
        "links": {
            **_make_forms("text", "dir file"),
            "let": _LET,
            "on": Form(Shape.PAIRS),
            "cost": Form(Shape.TABLE, "links.cost", type="int"),
        },
        "links.cost": {**_make_forms("text", "by"), **_make_forms("int", "else"), "map": Form(Shape.OPEN)},
        "prepare": _PROGRAM,
        "prestart": _PROGRAM,
        "probe": {**_make_forms("argv", "run"), **_make_forms("duration", "timeout")},
    }
)
