"""Types of values in a section, by name: the check and the error text of each type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, TypeGuard

from agent.config.language.key_table import SOURCE_KINDS
from agent.config.toml.finding import find_nearest
from agent.core.language.value import ValueType

DURATION = r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m|h|d)"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str) -> float | None:
    """Return the seconds of `50ms`, `1.5s`, `10m`, `2h` or `1d`. Return None for any other text."""
    match = re.fullmatch(DURATION, text)
    return float(match[1]) * _SECONDS[match[2]] if match else None


Schema: TypeAlias = dict[str, Any]

PREFER = ("same", "packed", "balanced", "order", "near")
RDMA = ("uverbs", "umad", "issm", "rdma_cm", "ucm")
LOOKS = r"([1-9][0-9]{0,5}) looks?"
EVENTS = rf"[1-9][0-9]{{0,5}} in {DURATION}"

# The values of types with a fixed set of values.
CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "kind": tuple(kind.value for kind in ValueType),
        "claims": ("matched", "all"),
        "via": ("field", "annotation"),
        "way": ("kubelet", "cdi", "cdi-annotation"),
        "backend": ("auto", "legacy", "iommufd", "both"),
        "on_unknown": ("unhealthy", "healthy", "keep"),
        "registration": ("socket", "watcher"),
        "speaks": ("grpc-health", "amd-metrics"),
    }
)


TEXT_SCHEMA: Schema = {"type": "string", "minLength": 1}
_TEXTS: Schema = {"type": "array", "items": TEXT_SCHEMA, "minItems": 1}
_COUNT: Schema = {"type": "integer", "minimum": 1}
SCALAR_SCHEMA: Schema = {"type": ["string", "integer", "boolean"]}

# The schema of each kind of value.
SCHEMAS: Mapping[str, Schema] = {
    "text": TEXT_SCHEMA,
    "texts": {"anyOf": [TEXT_SCHEMA, _TEXTS]},
    "words": _TEXTS,
    "argv": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    "int": {"type": "integer"},
    "count": _COUNT,
    "bool": {"type": "boolean"},
    "data": {"anyOf": [SCALAR_SCHEMA, {"type": "array", "items": SCALAR_SCHEMA}]},
    "duration": {"type": "string", "pattern": f"^{DURATION}$"},
    "trip": {"anyOf": [{"const": 1}, {"type": "string", "pattern": f"^({DURATION}|{LOOKS}|{EVENTS})$"}]},
    "recover": {"anyOf": [{"const": 1}, {"type": "string", "pattern": f"^({DURATION}|{LOOKS}|never)$"}]},
    "rdma": {"type": "array", "items": {"enum": [*RDMA]}},
    "prefer": {
        "type": "array",
        "items": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "properties": dict.fromkeys(PREFER, TEXT_SCHEMA),
            "additionalProperties": False,
        },
    },
    "topology": {"anyOf": [TEXT_SCHEMA, {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}]},
    "source": {"anyOf": [{"enum": [*SOURCE_KINDS]}, {"$ref": "#/definitions/source"}]},
    "permissions": {"type": "string", "pattern": "^(?=.)r?w?m?$"},
    "kind_of_source": {"enum": [*SOURCE_KINDS]},
    "any": {},
    **{name: {"enum": [*choices]} for name, choices in CHOICES.items()},
}


def find_value_fault(kind: str, key: str, value: object, source_text: str) -> tuple[str, str] | None:
    """Return the fault of a value and its correction, or None if the value has this type.

    Args:
        kind: one of `CHOICES` or of the types below.
        key: the key in the message.
        value: the TOML value.
        source_text: the value as written in the file, on one line.
    """
    if kind in CHOICES:
        choices = CHOICES[kind]
        if isinstance(value, str) and value in choices:
            return None
        nearest_choice = find_nearest(value, choices) if isinstance(value, str) else None
        return f"{key} is one of {', '.join(choices)}", f'write "{nearest_choice or choices[0]}"'
    if _fits(SCHEMAS[kind], value):
        return None
    message, write = _FAULTS[kind]
    if kind in {"trip", "recover"} and _is_int(value):
        write = f'write "{value} looks"' if value > 1 else write
    if kind == "text" and (_is_int(value) or isinstance(value, float)):
        write = f'write "{source_text}"'
    return f"{key} {message}", write


def parse_looks(value: object) -> int | None:
    """Return the number of looks of a `trip` or `recover`, or None if it is no number of looks."""
    match = re.fullmatch(LOOKS, value) if isinstance(value, str) else None
    if match:
        return int(match[1])
    return 1 if value == 1 and _is_int(value) else None


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _fits(schema: Schema, value: object) -> bool:
    """Return whether a value has the form of a schema. Only the keywords of `SCHEMAS` are known."""
    if "anyOf" in schema:
        return any(_fits(form, value) for form in schema["anyOf"])
    if "enum" in schema:
        return any(value == choice for choice in schema["enum"])
    if "const" in schema:
        return value == schema["const"] and type(value) is type(schema["const"])
    names = schema.get("type", ())
    if type(value) not in {_TYPES[name] for name in ([names] if isinstance(names, str) else names)}:
        return False
    match value:
        case str():
            pattern = schema.get("pattern")
            return len(value) >= schema.get("minLength", 0) and (not pattern or bool(re.fullmatch(pattern, value)))
        case list():
            return len(value) >= schema.get("minItems", 0) and all(_fits(schema["items"], item) for item in value)
        case dict():
            forms = schema["properties"]
            is_whole = schema["minProperties"] <= len(value) <= schema["maxProperties"]
            return is_whole and all(key in forms and _fits(forms[key], item) for key, item in value.items())
        case bool():
            return True
        case int():
            return bool(value >= schema.get("minimum", value))
    return False


_TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}

# The message and the correction of each type.
_FAULTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "text": ("is text", 'write "…"'),
        "texts": ("is text, or a list of text", 'write "…"'),
        "words": ("is a list of text", 'write ["…", "…"]'),
        "argv": ("is a program and its arguments, each a text of its own", 'write ["/usr/bin/…", "…"]'),
        "int": ("is a whole number", "write for example 10"),
        "count": ("is a whole number from 1", "write for example 4"),
        "bool": ("is true or false, without quotes", "write true"),
        "data": ("is text, a number, true, false, or a list of these", ""),
        "duration": ("is a time", 'write for example "5s"'),
        "trip": (
            'is looks ("2 looks"), a time ("2s"), or events in a window ("3 in 10m")',
            'write for example "2 looks"',
        ),
        "recover": ('is looks ("2 looks"), a time ("30s"), or "never"', 'write for example "30s"'),
        "rdma": (f"is a list of {', '.join(RDMA)}", 'write for example ["umad"]'),
        "prefer": (
            f"is a list of rules, each {', '.join(PREFER[:-1])} or {PREFER[-1]}",
            'write for example [{ same = "numa" }]',
        ),
        "topology": ('is a word, "none", or a list of NUMA nodes', 'write for example "numa"'),
    }
)
