"""What a kubelet remembers from one life to the next: kubelet_internal_checkpoint."""

import base64
import json
import os
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from agent.core.struct import Struct, field
from agent.kubelet.messages import v1beta1

NAME = "kubelet_internal_checkpoint"

# The node of devices without topology.
NO_NODE = -1


class CheckpointEntry(Struct):
    """What one container holds of one resource: ids by NUMA node, and the plugin's answer for them."""

    pod: str
    container: str
    resource: str
    by_node: Mapping[int, tuple[str, ...]]
    answer: v1beta1.ContainerAllocateResponse

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(device_id for ids in self.by_node.values() for device_id in ids)


class Checkpoint(Struct):
    entries: list[CheckpointEntry] = field(default_factory=list)
    healthy_ids: dict[str, list[str]] = field(default_factory=dict)  # resource: healthy ids

    @classmethod
    def read(cls, directory: str) -> "Checkpoint":
        """Empty if there is none, or none that can be read."""
        try:
            with open(os.path.join(directory, NAME), "rb") as file:
                document = json.load(file)
            data = document["Data"]
            if document["Checksum"] != _compute_checksum(data):
                return cls()
            return cls(
                [_parse_entry(entry) for entry in data["PodDeviceEntries"] or ()], data["RegisteredDevices"] or {}
            )
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return cls()

    @staticmethod
    def write(directory: str, entries: Iterable[CheckpointEntry], healthy_ids: Mapping[str, Iterable[str]]) -> None:
        """A file of another name, renamed. The real one also syncs it, for every list that comes."""
        data = {
            "PodDeviceEntries": [_build_json(entry) for entry in entries],
            "RegisteredDevices": {resource: sorted(ids) for resource, ids in healthy_ids.items()},
        }
        descriptor, path = tempfile.mkstemp(prefix=".", dir=directory)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"Data": data, "Checksum": _compute_checksum(data)}, file)
        os.rename(path, os.path.join(directory, NAME))


def _compute_checksum(data: object) -> int:
    return zlib.crc32(json.dumps(data, sort_keys=True).encode())


def _build_json(entry: CheckpointEntry) -> dict[str, Any]:
    return {
        "PodUID": entry.pod,
        "ContainerName": entry.container,
        "ResourceName": entry.resource,
        "DeviceIDs": {str(node): list(ids) for node, ids in entry.by_node.items()},
        "AllocResp": base64.b64encode(bytes(entry.answer)).decode(),
    }


def _parse_entry(entry: Mapping[str, Any]) -> CheckpointEntry:
    return CheckpointEntry(
        entry["PodUID"],
        entry["ContainerName"],
        entry["ResourceName"],
        {int(node): tuple(ids) for node, ids in entry["DeviceIDs"].items()},
        v1beta1.ContainerAllocateResponse.parse(base64.b64decode(entry["AllocResp"])),
    )
