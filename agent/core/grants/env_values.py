"""Environment variables and annotations of a container. Several devices can add to one value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from agent.core.entry.resource_spec import EnvGive
from agent.core.grants.grant_words import GrantWords
from agent.core.language.json_template import build_json_object
from agent.core.language.template import FactReader, Template
from agent.core.language.value import Absent

RESERVED = "io.kubernetes."  # annotations of the kubelet, which override those of a plugin

_ANNOTATION_KEY = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9.-]{0,252}/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def is_annotation_key(text: str) -> bool:
    """Return whether a text can be the key of an annotation of the agent: `domain/name`, as in Kubernetes."""
    return _ANNOTATION_KEY.fullmatch(text) is not None and not text.startswith(RESERVED)


class EnvValue(NamedTuple):
    """One value of one device. member: the name of its part in a JSON object that all devices share."""

    name: str
    value: str
    join: str | None
    member: str | None = None


class EnvValues:
    """Texts by name. They are joined once at the end, because a request can have hundreds of devices."""

    def __init__(self) -> None:
        self._separators: dict[str, str] = {}  # by all names, in the order of the texts
        self._values: dict[str, dict[str, None]] = {}
        self._members: dict[str, dict[str, str]] = {}

    @property
    def texts(self) -> dict[str, str]:
        """The joined texts, by name."""
        return {
            name: build_json_object(self._members[name]) if name in self._members else join.join(self._values[name])
            for name, join in self._separators.items()
        }

    def add(self, env_value: EnvValue) -> str:
        """Add a value; equal values count once. Return the conflict with earlier values, or an empty string."""
        name, value, join, member = env_value
        if name in (self._members if member is None else self._values):
            return f"{name} would be both a text and an object with a member for each device"
        self._separators[name] = join or ""
        if member is not None:
            members = self._members.setdefault(name, {})
            if members.setdefault(member, value) != value:
                return f"{name} would have both {members[member]} and {value} as {member}"
            return ""
        values = self._values.setdefault(name, {})
        values[value] = None
        return f"{name} would be both {' and '.join([*values][:2])}" if join is None and len(values) > 1 else ""


def list_env_values(give: EnvGive, words: GrantWords) -> Iterator[EnvValue]:
    """Yield the values of one line for a device, one for each element of a list word. Absent words give no value."""
    if isinstance(give.value, Template):
        for _, fact in words.list_elements(give.value):
            yield from _fill_line(give, fact, give.value.write(fact))
    elif value := give.value.write(words):
        yield from _fill_line(give, words, value)


def _fill_line(give: EnvGive, fact: FactReader, value: str | Absent) -> Iterator[EnvValue]:
    name = give.name.write(fact)
    member = None if give.member_key is None else give.member_key.write(fact)
    if not isinstance(name, Absent) and not isinstance(value, Absent) and not isinstance(member, Absent):
        yield EnvValue(name, value, give.separator, member)
