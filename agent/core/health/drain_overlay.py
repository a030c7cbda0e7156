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

    def find_drain(self, resource: str, places: Collection[str]) -> Drain | None:
        """What drains a device of that resource in these places; the device's own before that of the resource."""
        own = next((self.locations[place] for place in places if place in self.locations), None)
        return own or self.resources.get(resource)

    def add_locations(self, places: Collection[str], drain: Drain) -> DrainSet:
        """With these places drained too."""
        return replace(self, locations={**self.locations, **dict.fromkeys(places, drain)})

    def add_resource(self, resource: str, drain: Drain) -> DrainSet:
        """With that resource drained too."""
        return replace(self, resources={**self.resources, resource: drain})

    def remove_locations(self, places: Collection[str]) -> DrainSet:
        """With these places given back."""
        return replace(self, locations={place: drain for place, drain in self.locations.items() if place not in places})

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


def apply_drains(before: DrainOverlay, seen: ResourceCandidates, drained: DrainSet) -> DrainOverlay:
    """The candidates with what is drained as their fault. What did not change is the same object as before.

    A device that fails as well is said to be drained: that is what keeps pods from it, whatever becomes of the rest.
    """
    if seen is before.original_candidates and drained is before.drains:
        return before
    if not drained:
        return DrainOverlay(seen, drained, seen)
    same = drained is before.drains
    offers = {
        of: before.candidates[of]
        if same and before.original_candidates.get(of) is found
        else _over(before, of, found, drained, same=same)
        for of, found in seen.items()
    }
    return DrainOverlay(seen, drained, offers)


def _over(
    before: DrainOverlay, of: tuple[str, str], found: Mapping[str, Candidate], drained: DrainSet, *, same: bool
) -> Mapping[str, Candidate]:
    was, made = before.original_candidates.get(of, {}), before.candidates.get(of, {})
    after: dict[str, Candidate] = {}
    for key, candidate in found.items():
        if same and was.get(key) is candidate:
            after[key] = made[key]
        else:
            drain = drained.find_drain(of[0], candidate.locations)
            after[key] = replace(candidate, unhealthy_reason=drain.unhealthy_reason) if drain else candidate
    return found if all(after[key] is candidate for key, candidate in found.items()) else after
