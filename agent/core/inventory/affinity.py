"""Affinities: the values by which `prefer` ranks a device.

They are computed in a look, so that a choice reads nothing from the host.
"""

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
    """The path of a device on PCI Express, from the root complex over the bridges to itself, and its NUMA nodes."""

    path: tuple[str, ...] = ()
    numa: tuple[int, ...] = ()


class LinkDistances(Struct, dict=True):
    """The name of a device as a link end, and its distance to each other end, by name of the end."""

    name: Scalar | None = None
    distances: Mapping[Scalar | None, int] = field(default_factory=dict)

    def __hash__(self) -> int:
        """Return the hash of the name, because a mapping of distances has no hash."""
        return hash(self.name)

    @cached_property
    def min_distance(self) -> int:
        """The distance to the nearest end, or 0 if there is no other end."""
        return min(self.distances.values(), default=0)

    @cached_property
    def max_distance(self) -> int:
        """The distance to the farthest end, or 0 if there is no other end."""
        return max(self.distances.values(), default=0)


# None: the word is absent. An absent value equals no other value, not even another absent one.
Affinity: TypeAlias = Scalar | tuple[Scalar, ...] | PciePath | LinkDistances | None


def compute_affinities(spec: ResourceSpec, facts: Facts, numa: tuple[int, ...]) -> tuple[Affinity, ...]:
    """Return the affinity for each `prefer` rule of the entry.

    `facts` belong to the first host device of the device.
    """
    return tuple(_compute_affinity(rule, facts, numa) for rule in spec.prefer)


def _compute_affinity(rule: WordRule | DistanceRule, facts: Facts, numa: tuple[int, ...]) -> Affinity:
    if isinstance(rule, WordRule):
        value = facts(rule.word)
        return None if isinstance(value, Absent) else value
    if rule.links is None:
        return PciePath(_find_device_path(facts), numa)
    return _read_scores(rule.links, facts) if isinstance(rule.links, Scores) else _measure_links(rule.links, facts)


def find_pci_path(directory: str) -> tuple[str, ...]:
    """Return the steps from the root complex to the last PCI function of a canonical path below /sys.

    The result is empty for other paths.
    """
    steps = directory.split("/")
    if steps[1:3] != ["sys", "devices"]:
        return ()
    path_steps: list[str] = []
    for step in steps[3:]:
        if _STEP.fullmatch(step):
            path_steps.append(step)
        elif path_steps:
            break
    return tuple(path_steps)


def _find_device_path(facts: Facts) -> tuple[str, ...]:
    """Return the PCI path of the device, or else of its first dependency that has one."""
    own_path = find_pci_path(facts.device.directory)
    dependencies = () if own_path else facts.list_dependencies().values()
    return own_path or next((path for dependency in dependencies if (path := find_pci_path(dependency.directory))), ())


def _measure_links(links: Links, facts: Facts) -> LinkDistances:
    name = _make_end_name(facts(links.device_word), links.kind)
    distances: dict[Scalar | None, int] = {}
    for link in links.directory.list_directories(facts):
        link_facts = link.add_derived_words(links.derived_words)
        end_name = _make_end_name(link_facts(links.link_word), links.kind)
        cost = _find_cost(links.cost, None if links.cost.word is None else link_facts(links.cost.word))
        if end_name is not None and cost is not None:
            distances[end_name] = min(cost, distances.get(end_name, cost))
    return LinkDistances(name, distances)


def _read_scores(scores: Scores, facts: Facts) -> LinkDistances:
    """Return the distances from the lines of a file. A score counts in both directions."""
    name = _make_end_name(facts(scores.device_word), scores.kind)
    distances: dict[Scalar | None, int] = {}
    text = facts.reader.read_text(scores.file)
    for line in () if isinstance(text, Absent) or name is None else text.splitlines():
        fields = line.partition("#")[0].split()
        if len(fields) != 3:  # first end, second end, score
            continue
        first_end, second_end = (_make_end_name(parse_kernel_text(scores.kind, end), scores.kind) for end in fields[:2])
        other_end = second_end if first_end == name else first_end if second_end == name else None
        cost = _parse_score(fields[2]) if scores.cost is None else _find_cost(scores.cost, fields[2])
        if other_end is not None and cost is not None:
            distances[other_end] = min(cost, distances.get(other_end, cost))
    return LinkDistances(name, distances)


def _make_end_name(value: object, kind: ValueType) -> Scalar | None:
    return make_comparable(kind, value) if isinstance(value, (str, int)) else None


def _parse_score(text: str) -> int | None:
    score = parse_kernel_text(ValueType.INT, text)
    return score if isinstance(score, int) else None


def _find_cost(cost: Cost, value: object) -> int | None:
    if isinstance(value, (str, int)):
        exact = cost.exact.get(canonicalize(cost.kind, value))
        if exact is not None:
            return exact
    return cost.default
