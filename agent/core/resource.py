"""A resource as configured: a frozen sentence about host devices, compiled from an entry and its classes."""

from __future__ import annotations

from dataclasses import dataclass

from agent.core.clause import Clause, Origin
from agent.core.text import Text

SHARE_MARK = "::"  # between a device's id and the number of its share


@dataclass(frozen=True, slots=True)
class Source:
    """A place to look: its kind and what the kind needs (node: patterns; subsystem: one name; pci: nothing)."""

    kind: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As people say it."""
        return " ".join((self.kind, *self.arguments))


@dataclass(frozen=True, slots=True)
class NodeGive:
    """`give.nodes.NAME`: device nodes to hand out. `permissions` is one of r, w, m in that order, never empty."""

    name: str
    path: Text
    to: tuple[Text, ...]
    permissions: str
    optional: bool
    origin: Origin


@dataclass(frozen=True, slots=True)
class EnvGive:
    """`give.env.KEY`: a variable. `name` and `value` are texts; `join` glues the values of several devices."""

    key: str
    name: Text
    value: Text
    join: str | None
    origin: Origin


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """One `[[resource]]` entry with its classes merged in, checked and compiled.

    `id` holds the alternatives, best first. `shares` is None where devices are whole (ids without a suffix).
    `registration` is "socket" or "watcher".
    """

    name: str
    origin: Origin
    class_name: str | None
    source: Source
    match: Clause
    exclude: tuple[Clause, ...]
    id: tuple[Text, ...]
    shares: int | None
    nodes: tuple[NodeGive, ...]
    env: tuple[EnvGive, ...]
    registration: str
    expect: int | None = None

    def giving_words(self) -> frozenset[str]:
        """The words that its nodes and variables mention: what is read anew for each grant."""
        texts = [text for node in self.nodes for text in (node.path, *node.to)]
        texts += [text for env in self.env for text in (env.name, env.value)]
        return frozenset(slot.word for text in texts for slot in text.slots)
