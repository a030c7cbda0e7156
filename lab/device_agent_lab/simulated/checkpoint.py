"""The file kubelet_internal_checkpoint, which keeps the state of the kubelet over restarts."""

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

# NUMA node of devices without topology.
NO_NODE = -1


class CheckpointEntry(Struct):
    """The devices of one container for one resource: IDs by NUMA node, and the answer of the plugin."""

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
        """Return the checkpoint of a directory, or an empty one if the file is missing or not valid."""
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
        """Write another file and rename it. The real kubelet also syncs the file, for every received list."""
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
