"""Devices by the names that users know."""

import pytest

from agent.core.inventory.device import Member
from agent.core.lists.device_lookup import find_devices
from tests.core.builders import candidate, host, make_listed, snapshot

A, B = "example.com/a", "example.com/b"
GPU = "GPU-b03fd8a1-7e52"
CARD = host("0000:9d:00.0", key="pci:9d")
LISTS = (
    snapshot(
        make_listed(GPU, "0000:9d:00.0", key="pci:9d"),
        make_listed("GPU-7c1e94d2-05b3", "0000:61:00.0", key="pci:61"),
        make_listed("kvm", "/dev/kvm", key="node:/dev/kvm", shares=3),
    ),
    snapshot(
        make_listed("kit", "usb:1-1", key="usb:1-1", members=(Member("usb:1-1", "usb:1-1", "1", "1-1"),) * 1),
        resource=B,
    ),
)
OFFERS = {
    (A, ""): {"pci:9d": candidate(CARD, GPU), "pci:61": candidate(host("0000:61:00.0", key="pci:61"), "x")},
    (B, ""): {"usb:1-1": candidate(host("usb:1-1", key="usb:1-1", source="usb"), "kit", resource=B)},
}


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        (GPU, [GPU]),
        ("kvm::2", ["kvm"]),
        ("kvm", ["kvm"]),
        ("kvm::3", []),
        ("0000:9d:00.0", [GPU]),
        ("9d:00.0", [GPU]),
        ("9D:00.0", [GPU]),
        ("9d:00.1", []),
        ("usb:1-1", ["kit"]),
        ("GPU-b", [GPU]),
        ("GPU-", []),
        ("", []),
        ("none", []),
    ],
)
def test_a_name_means(name, ids):
    assert [device.id for _, device in find_devices(name, LISTS, OFFERS)] == ids


def test_what_slots_give_is_in_no_list_and_has_a_name():
    (found,) = find_devices("9d:00.0", (snapshot(make_listed("slot-0", "slot:0", key="slot:0")),), OFFERS)
    assert (found.resource, found.device.id, found.device.locations) == (A, GPU, ("0000:9d:00.0",))
