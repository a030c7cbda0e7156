"""Drains: candidates with the drains of an administrator.

A drain is an unhealthy reason that an administrator sets, like `kubectl cordon`: no pod gets the device, pods that have
the device keep it, and the drain stays until `undrain`. A drain applies to the location: a replacement is drained too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from agent.core.changes import Stage
from agent.core.inventory.candidate import Candidate
from agent.core.lists.resource_names import ResourceCandidates
from agent.core.reason import Reason, ReasonCause
from agent.core.struct import Struct, field, replace


class Drain(NamedTuple):
    """A drain: the reason that the administrator gave, and its time in seconds since 1970."""

    reason: str
    since: float

    @property
    def unhealthy_reason(self) -> Reason:
        """The reason of a device that is drained."""
        return Reason(ReasonCause.DRAIN, self.reason)


class DrainSet(Struct):
    """All drains: of locations, for any device there, and of resources, for all their devices."""

    locations: Mapping[str, Drain] = field(default_factory=dict)
    resources: Mapping[str, Drain] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.locations or self.resources)

    def find_drain(self, resource: str, locations: Collection[str]) -> Drain | None:
        """Return the drain of a device at these locations, or None.

        A drain of a location precedes one of the resource.
        """
        location_drain = next((self.locations[location] for location in locations if location in self.locations), None)
        return location_drain or self.resources.get(resource)

    def add_locations(self, locations: Collection[str], drain: Drain) -> DrainSet:
        """Return the drains with these locations."""
        return replace(self, locations={**self.locations, **dict.fromkeys(locations, drain)})

    def add_resource(self, resource: str, drain: Drain) -> DrainSet:
        """Return the drains with this resource."""
        return replace(self, resources={**self.resources, resource: drain})

    def remove_locations(self, locations: Collection[str]) -> DrainSet:
        """Return the drains without these locations."""
        return replace(
            self, locations={location: drain for location, drain in self.locations.items() if location not in locations}
        )

    def remove_resource(self, resource: str) -> DrainSet:
        """Return the drains without this resource. Drains of its locations stay."""
        return replace(self, resources={name: drain for name, drain in self.resources.items() if name != resource})


class DrainOverlay:
    """The candidates with the drains as unhealthy reasons. An unchanged candidate is the same object.

    The drain replaces the reason of a failing check: the drain keeps pods away even after the check recovers.
    """

    def __init__(self) -> None:
        self._stages: dict[tuple[str, str], Stage[str, Candidate, Candidate]] = {}

    def update(self, candidates: ResourceCandidates, drains: DrainSet) -> ResourceCandidates:
        """Return the candidates with these drains."""
        if not drains:
            self._stages = {}
            return candidates
        self._stages = {
            resource_key: self._stages.get(resource_key) or Stage(_drain_candidate) for resource_key in candidates
        }
        return {
            resource_key: self._stages[resource_key].update(by_key, resource_key[0], drains)
            for resource_key, by_key in candidates.items()
        }


def _drain_candidate(_: str, candidate: Candidate, resource: str, drains: DrainSet) -> Candidate:
    drain = drains.find_drain(resource, candidate.locations)
    return replace(candidate, unhealthy_reason=drain.unhealthy_reason) if drain else candidate
