"""Device-information files: what CNI plugins (Multus and those behind it) are told of a device that a pod has.

As the device-info-spec has it (k8snetworkplumbingwg, 1.1.0): one JSON file for each id of the kubelet's, there before
the pod's network is made.
"""

from __future__ import annotations

from typing import NamedTuple

DIRECTORY = "/var/run/k8s.cni.cncf.io/devinfo/dp"  # where Multus looks; it cannot be told otherwise


class DevInfo(NamedTuple):
    """What is written of one id of the kubelet's: the name of its file, and the JSON in it."""

    id: str
    name: str
    text: str


def make_file_name(resource: str, id: str) -> str:  # noqa: A002  the API's own word
    """The file of an id (`getDPDeviceInfoPath` of network-attachment-definition-client)."""
    return f"{resource.replace('/', '-')}-{id.replace('/', '-')}-device.json"
