"""The differences between kubelet releases."""

from agent.core.struct import Struct

# The known grpc-go versions of the releases. A plugin sees the version in `user-agent`.
_GRPC_GO = {34: "1.72.1", 35: "1.72.2", 36: "1.79.3", 37: "1.82.1"}


class Release(Struct, order=True):
    """A minor release, 1.30 to 1.37. 1.34 and 1.37 are compared with the real kubelets (tests/real)."""

    minor: int

    @classmethod
    def parse(cls, text: str) -> "Release":
        major, _, minor = text.partition(".")
        if major != "1" or not minor.isdecimal() or not 30 <= int(minor) <= 37:
            raise ValueError(f"kubelet release {text!r}: 1.30 to 1.37 are modelled")
        return cls(int(minor))

    def __str__(self) -> str:
        return f"1.{self.minor}"

    @property
    def user_agent(self) -> str:
        return f"grpc-go/{_GRPC_GO.get(self.minor, '1.65.0')}"

    @property
    def wipes_all_files(self) -> bool:
        """The start removes every file, not only sockets (dm/manager.go until 1.32)."""
        return self.minor <= 32

    @property
    def crashes_on_lost_ids(self) -> bool:
        """An ID without a device is a nil dereference, because the device messages are pointers (#133028)."""
        return self.minor >= 34

    @property
    def dials_under_register(self) -> bool:
        """Dial and GetDevicePluginOptions end when the caller of Register gives up."""
        return self.minor >= 35

    @property
    def hints_from_used_nodes(self) -> bool:
        """Only NUMA nodes that carry devices are combined (#138244)."""
        return self.minor >= 36

    @property
    def retries_watched_registration(self) -> bool:
        """A failed registration from the plugin watcher is retried (#133335)."""
        return self.minor >= 36

    @property
    def lists_active_pods_only(self) -> bool:
        """PodResources leaves out pods that have finished (#132028)."""
        return self.minor >= 34

    @property
    def tells_device_health(self) -> bool:
        """The status of a pod has allocatedResourcesStatus (ResourceHealthStatus is on)."""
        return self.minor >= 36

    @property
    def keyed_by_path(self) -> bool:
        """Registrations of one resource are distinguished by their socket (#135437)."""
        return self.minor >= 37
