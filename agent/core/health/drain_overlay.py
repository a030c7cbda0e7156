"""Draining: what a person has taken out of scheduling, and what that makes of candidates.

It is a fault that a person has made: no pod gets the device, those that have it keep it, and it lasts until a person
takes it back. Of a device it belongs to its place, like every condition: what is put there in its stead is drained too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from agent.core.inventory.candidate import Candidate
from agent.core.lists.resource_names import ResourceCandidates
from agent.core.reason import Reason, ReasonCause
from agent.core.struct import Struct, field, replace


class Drain(NamedTuple):
    """That something is drained: why, as the person said it, and since when (seconds since 1970)."""

    reason: str
    since: float

    @property
    def unhealthy_reason(self) -> Reason:
        """The reason of a device that is drained."""
        return Reason(ReasonCause.DRAIN, self.reason)


class DrainSet(Struct):
    """All that is drained: places, whoever takes what stands there, and resources with all that they have."""

    locations: Mapping[str, Drain] = field(default_factory=dict)
    resources: Mapping[str, Drain] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.locations or self.resources)

    def find_drain(self, resource: str, locations: Collection[str]) -> Drain | None:
        """What drains a device of that resource in these places; the device's own before that of the resource."""
        location_drain = next((self.locations[location] for location in locations if location in self.locations), None)
        return location_drain or self.resources.get(resource)

    def add_locations(self, locations: Collection[str], drain: Drain) -> DrainSet:
        """With these places drained too."""
        return replace(self, locations={**self.locations, **dict.fromkeys(locations, drain)})

    def add_resource(self, resource: str, drain: Drain) -> DrainSet:
        """With that resource drained too."""
        return replace(self, resources={**self.resources, resource: drain})

    def remove_locations(self, locations: Collection[str]) -> DrainSet:
        """With these places given back."""
        return replace(
            self, locations={location: drain for location, drain in self.locations.items() if location not in locations}
        )

    def remove_resource(self, resource: str) -> DrainSet:
        """With that resource given back, but for the places of its own that are drained."""
        return replace(self, resources={name: drain for name, drain in self.resources.items() if name != resource})


class DrainOverlay(Struct):
    """Candidates with what is drained as their fault.

    seen, drained: what it is made of.
    """

    original_candidates: ResourceCandidates = field(default_factory=dict)
    drains: DrainSet = field(default_factory=DrainSet)
    candidates: ResourceCandidates = field(default_factory=dict)


def apply_drains(previous: DrainOverlay, candidates: ResourceCandidates, drains: DrainSet) -> DrainOverlay:
    """The candidates with what is drained as their fault. What did not change is the same object as before.

    A device that fails as well is said to be drained: that is what keeps pods from it, whatever becomes of the rest.
    """
    if candidates is previous.original_candidates and drains is previous.drains:
        return previous
    if not drains:
        return DrainOverlay(candidates, drains, candidates)
    is_same = drains is previous.drains
    drained_candidates = {
        resource_key: previous.candidates[resource_key]
        if is_same and previous.original_candidates.get(resource_key) is by_key
        else _drain_resource(previous, resource_key, by_key, drains, is_same=is_same)
        for resource_key, by_key in candidates.items()
    }
    return DrainOverlay(candidates, drains, drained_candidates)


def _drain_resource(
    previous: DrainOverlay,
    resource_key: tuple[str, str],
    candidates: Mapping[str, Candidate],
    drains: DrainSet,
    *,
    is_same: bool,
) -> Mapping[str, Candidate]:
    previous_originals, previous_candidates = (
        previous.original_candidates.get(resource_key, {}),
        previous.candidates.get(resource_key, {}),
    )
    current: dict[str, Candidate] = {}
    for key, candidate in candidates.items():
        if is_same and previous_originals.get(key) is candidate:
            current[key] = previous_candidates[key]
        else:
            drain = drains.find_drain(resource_key[0], candidate.locations)
            current[key] = replace(candidate, unhealthy_reason=drain.unhealthy_reason) if drain else candidate
    return candidates if all(current[key] is candidate for key, candidate in candidates.items()) else current
