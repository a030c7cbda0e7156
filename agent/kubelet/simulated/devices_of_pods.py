"""Which container holds which devices (dm/pod_devices.go), and what counts as taken."""

from collections.abc import Callable, Iterable

from agent.kubelet.simulated.checkpoint import CheckpointEntry


class Holdings:
    """`taken` is the kubelet's own set, and can differ from what pods hold: that is how devices leak."""

    def __init__(self, held: Iterable[CheckpointEntry] = ()) -> None:
        self._held = {(h.pod, h.container, h.resource): h for h in held}
        self.taken: dict[str, set[str]] = {}
        # Devices of a pod's init containers, for its containers to come. One pod at a time.
        self.reusable: dict[str, dict[str, set[str]]] = {}
        self.recount()

    def all(self) -> list[CheckpointEntry]:
        return list(self._held.values())

    def of(self, pod: str, container: str) -> list[CheckpointEntry]:
        return [h for h in self._held.values() if (h.pod, h.container) == (pod, container)]

    def ids(self, pod: str, container: str, resource: str) -> frozenset[str] | None:
        held = self._held.get((pod, container, resource))
        return None if held is None else held.ids

    def put(self, held: CheckpointEntry) -> None:
        self._held[held.pod, held.container, held.resource] = held

    def recount(self) -> None:
        """Taken is what pods hold, again."""
        self.taken = {}
        for held in self._held.values():
            self.taken.setdefault(held.resource, set()).update(held.ids)

    def drop_finished(self, active: Callable[[str], bool]) -> bool:
        """UpdateAllocatedDevices. If no finished pod held anything, `taken` stays what it was."""
        gone = [key for key in self._held if not active(key[0])]
        for key in gone:
            del self._held[key]
        if gone:
            self.recount()
        return bool(gone)

    def reuse(self, pod: str) -> dict[str, set[str]]:
        self.reusable = {pod: self.reusable.get(pod, {})}
        return self.reusable[pod]

    def offer(self, pod: str, container: str) -> None:
        """A plain init container is over before the next starts: its devices can be taken again."""
        for held in self.of(pod, container):
            self.reuse(pod).setdefault(held.resource, set()).update(held.ids)

    def withdraw(self, pod: str, container: str) -> None:
        for held in self.of(pod, container):
            self.reuse(pod).setdefault(held.resource, set()).difference_update(held.ids)
