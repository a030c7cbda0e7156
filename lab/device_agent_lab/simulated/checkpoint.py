"""The file kubelet_internal_checkpoint, which keeps the state of the kubelet over restarts."""

import os
import tempfile
import zlib
from collections.abc import Iterable, Mapping

import msgspec

from agent.core.struct import Struct, field

NAME = "kubelet_internal_checkpoint"

# NUMA node of devices without topology.
NO_NODE = -1


class CheckpointEntry(
    Struct,
    rename={
        "pod": "PodUID",
        "container": "ContainerName",
        "resource": "ResourceName",
        "by_node": "DeviceIDs",
        "answer": "AllocResp",
    },
):
    """The devices of one container for one resource: IDs by NUMA node, and the encoded answer of the plugin."""

    pod: str
    container: str
    resource: str
    by_node: Mapping[int, tuple[str, ...]]
    answer: bytes

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(device_id for ids in self.by_node.values() for device_id in ids)


class Checkpoint(Struct, rename={"entries": "PodDeviceEntries", "healthy_ids": "RegisteredDevices"}):
    entries: list[CheckpointEntry] = field(default_factory=list)
    healthy_ids: dict[str, list[str]] = field(default_factory=dict)  # by resource

    @classmethod
    def read(cls, directory: str) -> "Checkpoint":
        """Return the checkpoint of a directory, or an empty one if the file is missing or not valid."""
        try:
            with open(os.path.join(directory, NAME), "rb") as file:
                document = msgspec.json.decode(file.read(), type=_Document)
        except (FileNotFoundError, UnicodeDecodeError, msgspec.DecodeError):
            return cls()
        return document.data if document.checksum == _compute_checksum(document.data) else cls()

    @staticmethod
    def write(directory: str, entries: Iterable[CheckpointEntry], healthy_ids: Mapping[str, Iterable[str]]) -> None:
        """Write another file and rename it. The real kubelet also syncs the file, for every received list."""
        data = Checkpoint(list(entries), {resource: sorted(ids) for resource, ids in healthy_ids.items()})
        descriptor, path = tempfile.mkstemp(prefix=".", dir=directory)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(_Document(data, _compute_checksum(data))))
        os.rename(path, os.path.join(directory, NAME))


class _Document(Struct, rename="pascal"):
    data: Checkpoint
    checksum: int


def _compute_checksum(data: Checkpoint) -> int:
    return zlib.crc32(msgspec.json.encode(data))
