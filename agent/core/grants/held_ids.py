"""Held IDs: the IDs that a pod may use, from the grants and from PodResources of the kubelet.

The kubelet does not report the end of a pod. Current kubelets crash if a held ID leaves a list. So an uncertain ID
counts as held. It is free only after two answers of PodResources without it. These answers must be `SURE_SECONDS`
apart, and later than the last grant by the same time. One answer is not enough, because a kubelet that has just
started may not know all its pods.

These two answers are the only proof of a release. While PodResources is away, an ID that was granted stays held and
excludes others for good. These are no proof:
- A second Allocate of the same ID: an app container gets the devices of its pod's init container again.
- A reboot: the kubelet starts its pods again with the devices in its checkpoint.
- A restart of the agent, or a device that is absent and comes back: the pod is not told, and runs on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from agent.core.struct import Struct, field

SURE_SECONDS = 60.0


class Holder(Struct):
    """A container that holds a device."""

    namespace: str
    pod: str
    container: str


Holders: TypeAlias = Mapping[tuple[str, str], tuple[Holder, ...]]  # by resource and id


class HeldIdHistory(Struct):
    """IDs that a pod may still use.

    unnamed_since: for each ID the monotonic time of the first answer without it. None if the last answer named the ID,
    or if no answer came late enough after the grant.
    """

    unnamed_since: Mapping[str, float | None] = field(default_factory=dict)
    granted_at: Mapping[str, float] = field(default_factory=dict)

    @property
    def ids(self) -> frozenset[str]:
        """The ids."""
        return frozenset(self.unnamed_since)

    def __contains__(self, id: object) -> bool:  # noqa: A002  the API's own word
        return id in self.unnamed_since

    def add_grants(self, grant_times: Mapping[str, float]) -> HeldIdHistory:
        """Return the history after grants of these IDs, each with its time."""
        return HeldIdHistory({**self.unnamed_since, **dict.fromkeys(grant_times)}, {**self.granted_at, **grant_times})

    def apply_answer(self, named_ids: frozenset[str], current_time: float) -> HeldIdHistory:
        """Return the history after an answer of PodResources that names these IDs."""
        unnamed_since: dict[str, float | None] = dict.fromkeys(named_ids)
        for id, since in self.unnamed_since.items():  # noqa: A001  the API's own word
            if id in named_ids:
                continue
            grant_time = self.granted_at.get(id)
            if grant_time is not None and current_time - grant_time < SURE_SECONDS:
                unnamed_since[id] = None
            elif since is None:
                unnamed_since[id] = current_time
            elif current_time - since < SURE_SECONDS:
                unnamed_since[id] = since
        granted_at = {id_: time for id_, time in self.granted_at.items() if id_ in unnamed_since}
        return HeldIdHistory(unnamed_since, granted_at)


def restore_held_ids(ids: Iterable[str]) -> HeldIdHistory:
    """Return the history of IDs that an earlier agent process saved as held."""
    return HeldIdHistory(dict.fromkeys(ids))
