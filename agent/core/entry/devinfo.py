"""Device-information files: the data of an allocated device for CNI plugins, for example Multus.

The format is the device-info-spec of k8snetworkplumbingwg, 1.1.0. Each device ID has one JSON file. The file must
exist before the network of the pod is set up.
"""

from __future__ import annotations

from typing import NamedTuple

DIRECTORY = "/var/run/k8s.cni.cncf.io/devinfo/dp"  # fixed in Multus


class DevInfo(NamedTuple):
    """The device-information file of one device ID. name: the name of the file. text: its JSON."""

    id: str
    name: str
    text: str


def make_file_name(resource: str, id: str) -> str:  # noqa: A002  name in the API
    """Return the file name of a device ID, as `getDPDeviceInfoPath` of network-attachment-definition-client does."""
    return f"{resource.replace('/', '-')}-{id.replace('/', '-')}-device.json"
