"""Agent snapshot: the state of the agent at one time, as frozen values.

Times are monotonic seconds, if no other unit is given.
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
from agent.core.struct import Struct, field, ignore_in_comparison

STARTING = Reason(ReasonCause.STARTING, "starting")


@ignore_in_comparison("since")
class ResourceState(Struct):
    """Registration state of a resource: its phase, the reason for the phase, and the time of the last change."""

    phase: Phase
    reason: Reason = NO_REASON
    since: float = 0.0

    @property
    def waits_for_kubelet(self) -> bool:
        """Return whether the resource waits because the kubelet is down or was replaced."""
        return self.reason.cause is ReasonCause.KUBELET


class KubeletState(Struct):
    """State of the kubelet, from the streams of all resources. `up` is None while the state is not known."""

    up: bool | None = None
    since: float | None = None
    reason: str = ""
    restarts: int = 0


class ActiveConfigState(Struct):
    """The active configuration.

    error_count: errors in files that the agent leaves out.
    reload_error: the reason why the last reload changed nothing. It is empty if the reload succeeded.
    """

    digest: str
    load_time: float
    file_count: int
    error_count: int = 0
    reload_error: str = ""


class Stream(Struct):
    """Open streams of a resource, and whether all of them have the newest device list."""

    open_count: int = 0
    has_newest_list: bool = False


class AgentSnapshot(Struct):
    """The agent at one time.

    wall_time: seconds since 1970, at `current_time`.
    start_time: the start of the agent.
    states, streams: by resource.
    held_ids: IDs that a pod may still use.
    holders: the containers that use an ID, by resource and ID. PodResources reported them at `holders_time`.
    changes: the last changes of each device, by resource and ID.
    missing_devices: the number of devices of entries with too few devices, by resource name as written.
    state_file_fault: the reason why the state file is not up to date. It is `NO_REASON` if the file is up to date.
    kernel_log_fault: the reason why the kernel log is not readable. It is empty if the log is readable or not used.
    open_files_fault: a text if the process can open few more files, else empty.
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
        """Return a monotonic time as RFC 3339 text in UTC, or None. The clocks of this snapshot give the difference."""
        return (
            None if monotonic_time is None else format_timestamp(self.wall_time - (self.current_time - monotonic_time))
        )

    def find_entry(self, resource: str) -> ResourceSpec | None:
        """Return the entry of a resource, or None if the resource is retired."""
        written = self.lists.written_names.get(resource)
        if written is None:
            return None
        return next((spec for spec in self.specs if spec.name == (written or resource)), None)

    def find_candidate(self, resource: str, device: Device) -> Candidate | None:
        """Return the candidate of a device from the last look. Return None for an absent or retiring device."""
        written = self.lists.written_names.get(resource)
        return None if written is None else self.candidates.get((resource, written), {}).get(device.key)


def format_timestamp(seconds: float) -> str:
    """Return seconds since 1970 as RFC 3339 text in UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
