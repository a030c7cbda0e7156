"""What a container is told by names, variables or annotations, of which several devices may have a part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agent.core.entry.resource import EnvGive
from agent.core.grants.giving import GivingWords
from agent.core.language.structure import object_of
from agent.core.language.text import Fact, Text
from agent.core.language.value import Absent


class Said(NamedTuple):
    """One value of one device. member: the name of its JSON in the one object that all devices are in."""

    name: str
    value: str
    join: str | None
    member: str | None = None


class Sayings:
    """Texts by name."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._values: dict[str, list[str]] = {}
        self._members: dict[str, dict[str, str]] = {}

    def add(self, said: Said) -> str:
        """Put in a value, equal ones once; why it cannot be beside what is there, or nothing."""
        name, value, _, member = said
        others = self._members if member is None else self._values
        if name in others:
            return f"{name} would be both a text and an object with a member for each device"
        if member is not None:
            members = self._members.setdefault(name, {})
            if members.setdefault(member, value) != value:
                return f"{name} would have both {members[member]} and {value} as {member}"
            self.texts[name] = object_of(members)
            return ""
        values = self._values.setdefault(name, [])
        if value not in values:
            values.append(value)
            self.texts[name] = (said.join or "").join(values)
        return f"{name} would be both {values[0]} and {values[1]}" if said.join is None and len(values) > 1 else ""


def said_of(give: EnvGive, words: GivingWords) -> Iterator[Said]:
    """What one line says of a device, for each element of its list word; what has an absent word is left out."""
    if isinstance(give.value, Text):
        for _, fact in words.elements(give.value):
            yield from _filled(give, fact, give.value.write(fact))
    elif value := give.value.write(words):
        yield from _filled(give, words, value)


def _filled(give: EnvGive, fact: Fact, value: str | Absent) -> Iterator[Said]:
    name = give.name.write(fact)
    member = None if give.member is None else give.member.write(fact)
    if not isinstance(name, Absent) and not isinstance(value, Absent) and not isinstance(member, Absent):
        yield Said(name, value, give.join, member)
