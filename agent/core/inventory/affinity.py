"""Traits: what a device is preferred by, worked out when it is looked at, so that a choice reads nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import TypeAlias

from agent.core.entry.derived_words import canonicalize
from agent.core.entry.prefer import Cost, DistanceRule, Links, Scores, WordRule
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.facts import Facts
from agent.core.language.value import Absent, Scalar, ValueType, make_comparable, parse_kernel_text
from agent.core.struct import Struct, field

_STEP = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}|[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class PciePath(Struct):
    """Where a device sits on PCI Express: root complex, root port, bridges and itself; and its NUMA nodes."""

    path: tuple[str, ...] = ()
    numa: tuple[int, ...] = ()


class LinkDistances(Struct, dict=True):
    """A device among its links: what names it as an end, and how far each other end is, by what names that."""

    name: Scalar | None = None
    distances: Mapping[Scalar | None, int] = field(default_factory=dict)

    def __hash__(self) -> int:
        """Of its name: how far the others are cannot be hashed."""
        return hash(self.name)

    @cached_property
    def min_distance(self) -> int:
        """How far the nearest end is; 0 where there is none."""
        return min(self.distances.values(), default=0)

    @cached_property
    def max_distance(self) -> int:
        """How far the farthest end is; 0 where there is none."""
        return max(self.distances.values(), default=0)


# None: the word is absent, which is like no other, not even another absent one.
Affinity: TypeAlias = Scalar | tuple[Scalar, ...] | PciePath | LinkDistances | None


def compute_affinities(spec: ResourceSpec, facts: Facts, numa: tuple[int, ...]) -> tuple[Affinity, ...]:
    """What a device is preferred by, one for each of the entry's rules; `facts` are of its first host device."""
    return tuple(_trait(rule, facts, numa) for rule in spec.prefer)


def _trait(rule: WordRule | DistanceRule, facts: Facts, numa: tuple[int, ...]) -> Affinity:
    if isinstance(rule, WordRule):
        said = facts(rule.word)
        return None if isinstance(said, Absent) else said
    if rule.links is None:
        return PciePath(_ancestry(facts), numa)
    return _scored(rule.links, facts) if isinstance(rule.links, Scores) else _linked(rule.links, facts)


def find_pci_path(directory: str) -> tuple[str, ...]:
    """The steps from the root complex to the last PCI function of a canonical path below /sys; of others none."""
    steps = directory.split("/")
    if steps[1:3] != ["sys", "devices"]:
        return ()
    found: list[str] = []
    for step in steps[3:]:
        if _STEP.fullmatch(step):
            found.append(step)
        elif found:
            break
    return tuple(found)


def _ancestry(facts: Facts) -> tuple[str, ...]:
    """Where the device sits; one that is in no such place, where the first of its partners does that is."""
    here = find_pci_path(facts.device.directory)
    ends = () if here else facts.list_dependencies().values()
    return here or next((there for end in ends if (there := find_pci_path(end.directory))), ())


def _linked(links: Links, facts: Facts) -> LinkDistances:
    name = _name(facts(links.device_word), links.kind)
    far: dict[Scalar | None, int] = {}
    for link in links.directory.list_directories(facts):
        words = link.add_derived_words(links.derived_words)
        other = _name(words(links.link_word), links.kind)
        cost = _cost(links.cost, None if links.cost.word is None else words(links.cost.word))
        if other is not None and cost is not None:
            far[other] = min(cost, far.get(other, cost))
    return LinkDistances(name, far)


def _scored(scores: Scores, facts: Facts) -> LinkDistances:
    """By the lines of a file: what one says of a pair it says both ways."""
    name = _name(facts(scores.device_word), scores.kind)
    far: dict[Scalar | None, int] = {}
    text = facts.reader.read_text(scores.file)
    for line in () if isinstance(text, Absent) or name is None else text.splitlines():
        said = line.partition("#")[0].split()
        if len(said) != 3:  # one, other, score
            continue
        one, other = (_name(parse_kernel_text(scores.kind, end), scores.kind) for end in said[:2])
        there = other if one == name else one if other == name else None
        cost = _score(said[2]) if scores.cost is None else _cost(scores.cost, said[2])
        if there is not None and cost is not None:
            far[there] = min(cost, far.get(there, cost))
    return LinkDistances(name, far)


def _name(said: object, kind: ValueType) -> Scalar | None:
    return make_comparable(kind, said) if isinstance(said, (str, int)) else None


def _score(text: str) -> int | None:
    score = parse_kernel_text(ValueType.INT, text)
    return score if isinstance(score, int) else None


def _cost(cost: Cost, said: object) -> int | None:
    if isinstance(said, (str, int)):
        exact = cost.exact.get(canonicalize(cost.kind, said))
        if exact is not None:
            return exact
    return cost.default
