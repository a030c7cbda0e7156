"""The options of one container, merged from the answers of several resources."""

from collections.abc import Iterable
from typing import TypeVar

from agent.core.struct import Struct, field
from agent.kubelet.messages import v1beta1

V = TypeVar("V")


class ContainerOptions(Struct):
    """The merged options, by key. `conflicts` names keys for which a later resource had another value."""

    envs: dict[str, str] = field(default_factory=dict)
    devices: dict[str, tuple[str, str]] = field(default_factory=dict)  # container path: (host path, permissions)
    mounts: dict[str, tuple[str, bool]] = field(default_factory=dict)  # container path: (host path, read only)
    annotations: dict[str, str] = field(default_factory=dict)
    cdi_devices: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    # Requested resources that this kubelet does not know. The container runs without them.
    without: tuple[str, ...] = ()


def merge_options(
    answers: Iterable[v1beta1.ContainerAllocateResponse], without: tuple[str, ...] = ()
) -> ContainerOptions:
    """Merge answers as deviceRunContainerOptions of dm/pod_devices.go: the first value of a key wins."""
    options = ContainerOptions(without=without)

    def put(table: dict[str, V], kind: str, key: str, value: V) -> None:
        if table.setdefault(key, value) != value:
            options.conflicts.append(f"{kind} {key}")

    for answer in answers:
        for key, value in answer.envs.items():
            put(options.envs, "env", key, value)
        for device in answer.devices:
            put(options.devices, "device", device.container_path, (device.host_path, device.permissions))
        for mount in answer.mounts:
            put(options.mounts, "mount", mount.container_path, (mount.host_path, mount.read_only))
        for key, value in answer.annotations.items():
            put(options.annotations, "annotation", key, value)
        options.cdi_devices.extend(d.name for d in answer.cdi_devices if d.name not in options.cdi_devices)
    return options
