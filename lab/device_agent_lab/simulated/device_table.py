"""The devices of every resource, and their plugins, as known to one kubelet process."""

from collections.abc import Callable, Iterable
from typing import Protocol

from agent.core.struct import MutableStruct, Struct, field
from agent.kubelet.messages import v1beta1

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


class ListedDevice(Struct):
    """A device as listed by a plugin. `nodes` are its NUMA nodes, empty without topology."""

    id: str
    health: str
    nodes: tuple[int, ...] = ()

    @classmethod
    def from_message(cls, message: v1beta1.Device) -> "ListedDevice":
        nodes = () if message.topology is None else tuple(node.id for node in message.topology.nodes)
        return cls(message.id, message.health, nodes)


class ReceivedList(Struct):
    """One message of a ListAndWatch stream."""

    number: int  # over all streams of this kubelet
    at: float  # time.monotonic()
    resource: str
    socket: str
    devices: tuple[ListedDevice, ...]
    size: int  # of the message in bytes
    repeated: bool  # equal to the previous one of this stream: a needless fsync in the kubelet

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(device.id for device in self.devices)

    @property
    def healthy(self) -> frozenset[str]:
        return frozenset(device.id for device in self.devices if device.health == HEALTHY)

    @property
    def healths(self) -> frozenset[str]:
        return frozenset(device.health for device in self.devices)

    @property
    def duplicates(self) -> frozenset[str]:
        """IDs that are listed more than once. The kubelet counts them twice."""
        previous_ids: set[str] = set()
        return frozenset(d.id for d in self.devices if d.id in previous_ids or previous_ids.add(d.id))  # type: ignore[func-returns-value]


class ReceivedLists(list[ReceivedList]):
    """All received lists, over all restarts of the kubelet."""

    def select(self, resource: str) -> list[ReceivedList]:
        return [message for message in self if message.resource == resource]

    def repeated(self, resource: str | None = None) -> int:
        """Return the number of lists without a change. A good plugin sends none."""
        return sum(message.repeated for message in self if resource in (None, message.resource))


class PluginConnection(Protocol):
    """The part of a client that the table needs."""

    @property
    def socket(self) -> str: ...


class PluginEndpoint(MutableStruct, eq=False):
    """The plugin of a resource. Without a connection: restored from a checkpoint."""

    connection: PluginConnection | None
    options: v1beta1.DevicePluginOptions | None
    stopped_at: float | None = None


class NodeStatus(Struct):
    """The status of the node object. A known resource keeps its key, with count 0."""

    capacity: dict[str, int] = field(default_factory=dict)
    allocatable: dict[str, int] = field(default_factory=dict)


class DeviceTable:
    """allDevices, healthyDevices, unhealthyDevices, endpoints of dm/manager.go."""

    def __init__(self, clock: Callable[[], float], grace: float) -> None:
        self._clock = clock
        self._grace = grace
        self._all_resources: set[str] = set()
        self.devices: dict[str, dict[str, ListedDevice]] = {}
        self.healthy: dict[str, set[str]] = {}
        self.unhealthy: dict[str, set[str]] = {}
        # The newest last. More than one only if registrations are keyed by path.
        self.endpoints: dict[str, list[PluginEndpoint]] = {}

    def remember(self, resources: Iterable[str]) -> None:
        """Add the resources of a checkpoint, without devices. Their grace period starts (readCheckpoint)."""
        for resource in resources:
            self.healthy[resource] = set()
            self.unhealthy[resource] = set()
            self.endpoints[resource] = [PluginEndpoint(None, None, self._clock())]

    def get_endpoint(self, resource: str) -> PluginEndpoint | None:
        served = self.endpoints.get(resource)
        return served[-1] if served else None

    def set_endpoint(self, resource: str, connection: PluginConnection, options: v1beta1.DevicePluginOptions) -> None:
        self.endpoints[resource] = [PluginEndpoint(connection, options)]

    def add_endpoint(self, resource: str, connection: PluginConnection, options: v1beta1.DevicePluginOptions) -> None:
        """Add an endpoint and keep the other live ones (1.37)."""
        alive = [e for e in self.endpoints.get(resource, ()) if e.stopped_at is None]
        self.endpoints[resource] = [*alive, PluginEndpoint(connection, options)]

    def find_live_sockets(self, resource: str) -> set[str]:
        served = self.endpoints.get(resource, ())
        return {e.connection.socket for e in served if e.connection and e.stopped_at is None}

    def replace_devices(self, resource: str, devices: Iterable[ListedDevice]) -> None:
        """Replace all devices of a resource. For a duplicate ID the last one wins here, but both count in the sets."""
        self._all_resources.add(resource)
        self.devices[resource] = {}
        self.healthy[resource], self.unhealthy[resource] = set(), set()
        for device in devices:
            self.devices[resource][device.id] = device
            (self.healthy if device.health == HEALTHY else self.unhealthy)[resource].add(device.id)

    def get_health(self, resource: str, device_id: str) -> str:
        """Return the health in the status of a pod. There, an absent device that was listed once is Healthy."""
        device = self.devices.get(resource, {}).get(device_id)
        return HEALTHY if device is None or device.health == HEALTHY else UNHEALTHY

    def stop_endpoint(self, resource: str) -> None:
        """Mark the newest endpoint of the resource as stopped, and its devices as Unhealthy (PluginDisconnected)."""
        endpoint = self.get_endpoint(resource)
        if endpoint is None:
            return
        healthy = self.healthy.get(resource, set())
        if resource in self.healthy:
            self.healthy[resource] = set()
        self.unhealthy[resource] = self.unhealthy.get(resource, set()) | healthy
        endpoint.stopped_at = self._clock()

    def remove_endpoint(self, resource: str, connection: PluginConnection) -> None:
        """Remove the endpoint of this connection. Another live one takes its place (1.37). The last one is stopped."""
        other_endpoints = [e for e in self.endpoints.get(resource, ()) if e.connection is not connection]
        if other_endpoints:
            self.endpoints[resource] = other_endpoints
        else:
            self.stop_endpoint(resource)

    def forget_expired(self) -> set[str]:
        """Forget and return the resources whose grace period is over, as the node-status pass does."""
        expired = set()
        for resource in self.healthy.keys() | self.unhealthy.keys():
            endpoint = self.get_endpoint(resource)
            stopped = None if endpoint is None else endpoint.stopped_at
            if endpoint is None or (stopped is not None and self._clock() - stopped > self._grace):
                for table in (self.endpoints, self.healthy, self.unhealthy):
                    table.pop(resource, None)
                expired.add(resource)
        return expired

    def compute_status(self) -> NodeStatus:
        """Return capacity and allocatable of GetCapacity. Each call is a node-status pass."""
        self._all_resources |= self.healthy.keys() | self.unhealthy.keys()
        self.forget_expired()
        status = NodeStatus(
            dict.fromkeys(sorted(self._all_resources), 0), dict.fromkeys(sorted(self._all_resources), 0)
        )
        for resource, ids in self.healthy.items():
            status.capacity[resource] = status.allocatable[resource] = len(ids)
        for resource, ids in self.unhealthy.items():
            status.capacity[resource] += len(ids)
        return status
