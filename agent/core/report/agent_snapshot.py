"""A moment of an agent: all that it knows then, as frozen values. Times are monotonic seconds where nothing else is
said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.grants.held_ids import Holder
from agent.core.health.check_states import CheckStates
from agent.core.health.drain_overlay import DrainSet
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device
from agent.core.inventory.inventory import Inventory
from agent.core.lists.build_lists import DeviceLists
from agent.core.lists.resource_names import ResourceCandidates
from agent.core.lists.transitions import TransitionRecord
from agent.core.reason import NO_REASON, Reason, ReasonCause
from agent.core.registration_phase import Phase
from agent.core.struct import Struct, field, not_compared

STARTING = Reason(ReasonCause.STARTING, "starting")


@not_compared("since")
class ResourceState(Struct):
    """Where a resource's registration stands, why it is not further, and since when."""

    phase: Phase
    reason: Reason = NO_REASON
    since: float = 0.0

    @property
    def waits_for_kubelet(self) -> bool:
        """Whether the resource waits because the kubelet is down or was replaced."""
        return self.reason.cause is ReasonCause.KUBELET


class KubeletState(Struct):
    """The kubelet as all resources together see it; `up` is None while that cannot be said."""

    up: bool | None = None
    since: float | None = None
    reason: str = ""
    restarts: int = 0


class ActiveConfigState(Struct):
    """The configuration in force.

    errors: in files that are left out. refused: why the last reload changed nothing; empty if it was done.
    """

    digest: str
    load_time: float
    file_count: int
    error_count: int = 0
    reload_error: str = ""


class Stream(Struct):
    """How many streams of a resource are open, and whether all have its newest list."""

    open_count: int = 0
    has_newest_list: bool = False


class AgentSnapshot(Struct):
    """Everything at one moment.

    time: seconds since 1970, at `now`. started: when the agent did.
    states, streams: by resource.
    held: ids that pods may hold. holders: the containers that hold each id of a resource, as the kubelet said at
        `holders_at`.
    changes: the last of each device, by resource and id.
    missing: what there is of entries that expect more, by name as written.
    unwritten: why the state file is not as it should be; `NO_REASON` if it is.
    deaf: why the kernel log cannot be read; empty if it can, or nobody listens.
    crowded: that the process may open few more files; empty if it may open enough.
    """

    node: str
    version: str
    wall_time: float
    current_time: float
    start_time: float
    configuration: ActiveConfigState
    specs: Sequence[ResourceSpec]
    inventory: Inventory
    candidates: ResourceCandidates
    check_states: CheckStates
    lists: DeviceLists
    states: Mapping[str, ResourceState]
    streams: Mapping[str, Stream] = field(default_factory=dict)
    kubelet: KubeletState = field(default_factory=KubeletState)
    drains: DrainSet = field(default_factory=DrainSet)
    held_ids: frozenset[str] = frozenset()
    holders: Mapping[tuple[str, str], tuple[Holder, ...]] = field(default_factory=dict)
    holders_time: float | None = None
    pod_resources_up: bool = False
    changes: Mapping[tuple[str, str], Sequence[TransitionRecord]] = field(default_factory=dict)
    missing_devices: Mapping[str, str] = field(default_factory=dict)
    state_file_fault: Reason = NO_REASON
    kernel_log_fault: str = ""
    open_files_fault: str = ""

    def format_time(self, monotonic_time: float | None) -> str | None:
        """A monotonic time as RFC 3339 in UTC, by the clock of this moment."""
        return (
            None if monotonic_time is None else format_timestamp(self.wall_time - (self.current_time - monotonic_time))
        )

    def find_entry(self, resource: str) -> ResourceSpec | None:
        """The entry that a resource is of; none if it is retired."""
        written = self.lists.written_names.get(resource)
        if written is None:
            return None
        return next((spec for spec in self.specs if spec.name == (written or resource)), None)

    def find_candidate(self, resource: str, device: Device) -> Candidate | None:
        """What the last look made of a device; none if it is not there, or not offered any more."""
        written = self.lists.written_names.get(resource)
        return None if written is None else self.candidates.get((resource, written), {}).get(device.key)


def format_timestamp(seconds: float) -> str:
    """Seconds since 1970 as RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
