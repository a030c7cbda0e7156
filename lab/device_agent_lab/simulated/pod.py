"""Pods and their containers, with their devices."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from agent.core.struct import MutableStruct, Struct, field
from device_agent_lab.simulated.checkpoint import CheckpointEntry

Kind = Literal["init", "sidecar", "app"]  # a sidecar is a restartable init container


class Container(Struct):
    name: str
    limits: Mapping[str, int]
    kind: Kind = "app"


class Pod(MutableStruct):
    """A pod with the name `name` or `namespace/name`. After a refused admission, `phase` stays Failed."""

    key: str
    containers: dict[str, Container] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    phase: str = "Running"
    message: str = ""

    @property
    def namespace(self) -> str:
        return self.key.rpartition("/")[0] or "default"

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def is_active(self) -> bool:
        return self.phase == "Running"


class PodDevices:
    """The devices of all containers (dm/pod_devices.go).

    `allocated` is the kubelet's own set. It can differ from the entries: a leak.
    """

    def __init__(self, entries: Iterable[CheckpointEntry] = ()) -> None:
        self._entries = {(h.pod, h.container, h.resource): h for h in entries}
        self.allocated: dict[str, set[str]] = {}
        # Devices of the init containers of a pod, for its next containers. One pod at a time.
        self.reusable: dict[str, dict[str, set[str]]] = {}
        self.recount()

    def list_entries(self) -> list[CheckpointEntry]:
        return list(self._entries.values())

    def find_entries(self, pod: str, container: str) -> list[CheckpointEntry]:
        return [h for h in self._entries.values() if (h.pod, h.container) == (pod, container)]

    def get_ids(self, pod: str, container: str, resource: str) -> frozenset[str] | None:
        entry = self._entries.get((pod, container, resource))
        return None if entry is None else entry.ids

    def put(self, entry: CheckpointEntry) -> None:
        self._entries[entry.pod, entry.container, entry.resource] = entry

    def recount(self) -> None:
        """Compute `allocated` again from the entries."""
        self.allocated = {}
        for entry in self._entries.values():
            self.allocated.setdefault(entry.resource, set()).update(entry.ids)

    def drop_finished(self, is_active: Callable[[str], bool]) -> bool:
        """Drop the entries of finished pods (UpdateAllocatedDevices). Without such an entry, `allocated` does not
        change.
        """
        finished = [key for key in self._entries if not is_active(key[0])]
        for key in finished:
            del self._entries[key]
        if finished:
            self.recount()
        return bool(finished)

    def get_reusable(self, pod: str) -> dict[str, set[str]]:
        self.reusable = {pod: self.reusable.get(pod, {})}
        return self.reusable[pod]

    def offer(self, pod: str, container: str) -> None:
        """Make the devices of an init container reusable. It ends before the next container starts."""
        for entry in self.find_entries(pod, container):
            self.get_reusable(pod).setdefault(entry.resource, set()).update(entry.ids)

    def withdraw(self, pod: str, container: str) -> None:
        for entry in self.find_entries(pod, container):
            self.get_reusable(pod).setdefault(entry.resource, set()).difference_update(entry.ids)
