"""Types of values in a section, by name: the check and the error text of each type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeGuard

from agent.config.toml.finding import find_nearest
from agent.core.language.value import ValueType

DURATION = r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m|h|d)"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str) -> float | None:
    """Return the seconds of `50ms`, `1.5s`, `10m`, `2h` or `1d`. Return None for any other text."""
    match = re.fullmatch(DURATION, text)
    return float(match[1]) * _SECONDS[match[2]] if match else None


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
        "speaks": ("grpc-health", "amd-metrics"),
    }
)


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
    fits, message, write = _KINDS[kind]
    if fits(value):
        return None
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


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_duration(value: object) -> bool:
    return isinstance(value, str) and parse_duration(value) is not None


def _is_list_of(fits: Callable[[object], bool], value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(fits(item) for item in value)


def _is_scalar(value: object) -> bool:
    return isinstance(value, (str, int, bool))


def _is_trip(value: object) -> bool:
    events = isinstance(value, str) and re.fullmatch(EVENTS, value) is not None
    return parse_looks(value) is not None or _is_duration(value) or events


def _is_recover(value: object) -> bool:
    return parse_looks(value) is not None or _is_duration(value) or value == "never"


def _is_rule(value: object) -> bool:
    return (
        isinstance(value, dict)
        and len(value) == 1
        and all(key in PREFER for key in value)
        and _is_list_of(_is_text, list(value.values()))
    )


def _is_prefer(value: object) -> bool:
    return value == [] or _is_list_of(_is_rule, value)


def _is_topology(value: object) -> bool:
    return _is_text(value) or _is_list_of(lambda item: _is_int(item) and item >= 0, value)


_KINDS: Mapping[str, tuple[Callable[[object], bool], str, str]] = MappingProxyType(
    {
        "text": (_is_text, "is text", 'write "…"'),
        "texts": (
            lambda value: _is_text(value) or _is_list_of(_is_text, value),
            "is text, or a list of text",
            'write "…"',
        ),
        "words": (lambda value: _is_list_of(_is_text, value), "is a list of text", 'write ["…", "…"]'),
        "argv": (
            lambda value: _is_list_of(lambda item: isinstance(item, str), value),
            "is a program and its arguments, each a text of its own",
            'write ["/usr/bin/…", "…"]',
        ),
        "int": (_is_int, "is a whole number", "write for example 10"),
        "count": (lambda value: _is_int(value) and value >= 1, "is a whole number from 1", "write for example 4"),
        "bool": (lambda value: isinstance(value, bool), "is true or false, without quotes", "write true"),
        "data": (
            lambda value: _is_scalar(value) or value == [] or _is_list_of(_is_scalar, value),
            "is text, a number, true, false, or a list of these",
            "",
        ),
        "duration": (_is_duration, "is a time", 'write for example "5s"'),
        "trip": (
            _is_trip,
            'is looks ("2 looks"), a time ("2s"), or events in a window ("3 in 10m")',
            'write for example "2 looks"',
        ),
        "recover": (
            _is_recover,
            'is looks ("2 looks"), a time ("30s"), or "never"',
            'write for example "30s"',
        ),
        "rdma": (
            lambda value: isinstance(value, list) and all(item in RDMA for item in value),
            f"is a list of {', '.join(RDMA)}",
            'write for example ["umad"]',
        ),
        "prefer": (
            _is_prefer,
            f"is a list of rules, each {', '.join(PREFER[:-1])} or {PREFER[-1]}",
            'write for example [{ same = "numa" }]',
        ),
        "topology": (_is_topology, 'is a word, "none", or a list of NUMA nodes', 'write for example "numa"'),
    }
)
