"""RDMA devices: their nodes, ports and interfaces."""

import pytest

from agent.core.entry.resource_spec import Source
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.language.value import Absent
from agent.host.root import Root
from agent.scanners import source_kinds
from agent.scanners.host_reader import HostReader, HostView

SOURCE = Source("infiniband")


def list_devices(root):
    devices = source_kinds.list_devices(root, [SOURCE], None, ALL_DIRTY).devices[SOURCE]
    return HostReader(HostView(root)), {device.name: device for device in devices}


def test_the_nodes_of_an_adapter_with_two_ports(tree):
    tree.infiniband(tree.pci("0000:3b:00.0", driver="mlx5_core", numa_node="1"), "mlx5_0", number=0, ports=2)
    tree.infiniband(tree.pci("0000:86:00.0", driver="mlx5_core"), "mlx5_1", number=1)
    reader, devices = list_devices(tree.root)
    device = devices["mlx5_0"]
    assert (device.location, device.node) == ("infiniband:pci-0000:3b:00.0", "")
    words = ("uverbs", "umad", "issm", "driver", "numa", "firmware", "node_guid", "node_type", "rdma.name")
    assert [reader.read_fact(device, word) for word in words] == [
        "/dev/infiniband/uverbs0",
        ("/dev/infiniband/umad1", "/dev/infiniband/umad2"),
        ("/dev/infiniband/issm1", "/dev/infiniband/issm2"),
        "mlx5_core", 1, "28.1", "b83f:d203:0011:0022", "1: CA", "mlx5_0",
    ]  # fmt: skip
    assert reader.read_fact(devices["mlx5_1"], "uverbs") == "/dev/infiniband/uverbs1"
    assert isinstance(reader.read_fact(device, "board"), Absent)
    for subsystem in ("infiniband_verbs", "infiniband_mad"):
        assert DirtySet(subsystems=frozenset({subsystem})).overlaps(reader.get_read_paths(device))


def test_nodes_that_are_not_there_are_absent_and_harm_nothing(tree):
    nic = tree.pci("0000:3b:00.0", driver="efa")
    tree.device(f"{nic}/infiniband/efa_0", "infiniband", node_type="4: usnic")
    tree.infiniband(tree.pci("0000:86:00.0"), "mlx5_1", number=1)
    tree.at("/dev/infiniband/uverbs1").unlink()
    reader, devices = list_devices(tree.root)
    assert reader.read_fact(devices["efa_0"], "uverbs").reason == "it has no verbs node: is ib_uverbs loaded?"
    assert reader.read_fact(devices["efa_0"], "umad") == ()
    assert reader.read_fact(devices["efa_0"], "ports.state") == ()
    assert isinstance(reader.read_fact(devices["mlx5_1"], "uverbs"), Absent)  # nothing but sysfs knows of it


def test_ports(tree):
    directory = tree.infiniband(tree.pci("0000:3b:00.0"), "mlx5_0", ports=2)
    for file, text in {"state": "1: DOWN\n", "phys_state": "2: Polling\n", "link_layer": "Ethernet\n"}.items():
        tree.file(f"{directory}/ports/2/{file}", text)
    reader, devices = list_devices(tree.root)
    said = {
        word: reader.read_fact(devices["mlx5_0"], f"ports.{word}")
        for word in ("number", "state", "phys_state", "link_layer", "rate", "pkey")
    }
    assert said == {
        "number": (1, 2),
        "state": ("active", "down"),
        "phys_state": ("linkup", "polling"),
        "link_layer": ("InfiniBand", "Ethernet"),
        "rate": ("100 Gb/sec (4X EDR)",) * 2,
        "pkey": ("0xffff",) * 2,
    }
    assert reader.read_fact(devices["mlx5_0"], "link_layers") == ("InfiniBand", "Ethernet")
    assert f"{directory}/ports/2" in reader.get_read_paths(devices["mlx5_0"])


class CountingRoot(Root):
    """Counts how often each file is asked for."""

    def __init__(self, prefix):
        super().__init__(prefix)
        self.reads = {}

    def read_head(self, path, count):
        self.reads[path] = self.reads.get(path, 0) + 1
        return super().read_head(path, count)


def test_the_interfaces_of_ethernet_ports_are_those_of_its_gids_and_not_all_entries_are_read(tree):
    nic = tree.pci("0000:3b:00.0")
    directory = tree.infiniband(nic, "mlx5_0", link="Ethernet")
    tree.netdev(nic, "eth0")
    tree.netdev(nic, "eth1", phys_port_name="pf0vf0")
    tree.device("/sys/devices/virtual/net/bond0.7", "net")
    for index in range(256):
        name = {0: "eth0\n", 1: "eth0\n", 9: "bond0.7\n", 200: "far\n"}.get(index, "")
        tree.file(f"{directory}/ports/1/gid_attrs/ndevs/{index}", name)
    root = CountingRoot(str(tree.top))
    reader, devices = list_devices(root)
    assert reader.read_fact(devices["mlx5_0"], "netdevs.name") == ("eth0", "bond0.7")
    assert reader.read_fact(devices["mlx5_0"], "netdevs.carrier") == (True,)
    entries = [path for path in root.reads if "/ndevs/" in path]
    assert len(entries) == 9 + 1 + 16
    assert max(root.reads[path] for path in entries) == 1


def test_the_interfaces_of_infiniband_ports_are_those_of_its_function(tree):
    nic = tree.pci("0000:3b:00.0")
    tree.infiniband(nic, "mlx5_0")
    tree.netdev(nic, "ib0", type="32")
    tree.netdev(nic, "eth0", phys_port_name="pf0vf1")
    reader, devices = list_devices(tree.root)
    assert reader.read_fact(devices["mlx5_0"], "netdevs.link") == ("infiniband",)


def test_software_devices_have_no_place_but_their_name(tree):
    tree.infiniband("", "rxe0", link="Ethernet")
    reader, devices = list_devices(tree.root)
    assert devices["rxe0"].location == "infiniband:rxe0"
    assert reader.read_fact(devices["rxe0"], "uverbs") == "/dev/infiniband/uverbs0"
    assert isinstance(reader.read_fact(devices["rxe0"], "pci.address"), Absent)


@pytest.mark.parametrize(("text", "said"), [("Y\n", "shared"), ("N\n", "exclusive"), (None, "ib_core is not loaded")])
def test_the_mode_of_rdma_network_namespaces(tree, text, said):
    tree.infiniband("", "rxe0")
    if text:
        tree.file("/sys/module/ib_core/parameters/netns_mode", text)
    reader, devices = list_devices(tree.root)
    value = reader.read_fact(devices["rxe0"], "host.rdma_netns")
    assert (value.reason if isinstance(value, Absent) else value) == said
