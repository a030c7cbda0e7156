"""NUMA nodes as the kubelet is told them: of the device, of what it hangs on, of a group, as is said, or none."""

import logging

import pytest

from agent.config.load import load
from agent.core.inventory.dirty_set import ALL_DIRTY
from agent.core.inventory.inventory import Inventory
from agent.core.lists.build_lists import build_lists
from agent.core.lists.list_findings import find_withheld_topology
from agent.scanners.host_reader import HostView
from agent.status.agent_status import Status
from agent.tracker.look_thread import run_look
from tests.tree import Tree

GIVE = 'give.env.A = "1"\n'


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "host")


@pytest.fixture
def look_at_topology(tmp_path, tree):
    """What is told of the resource that an entry makes: nodes by id, and the silence, if there is one."""

    def look(text):
        file = tmp_path / "config" / "resources.d" / "a.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'[[resource]]\nname = "example.com/a"\n{text}\n{GIVE}')
        configuration = load(str(tmp_path / "config"))
        assert configuration.is_valid, configuration.findings
        now, _ = run_look(HostView(tree.root), configuration.resources, Inventory(), ALL_DIRTY)
        (snapshot,) = build_lists(now, configuration.resources, frozenset(), {}, 0.0).lists.values()
        return {device.id: device.numa for device in snapshot.devices}, find_withheld_topology(snapshot, now)

    return look


def on_pci(tree):
    """A controller on node 1 with everything below it; one of each kind, by its directory."""
    controller = tree.pci("0000:3b:00.0", numa_node="1\n")
    usb = tree.usb(f"{controller}/usb1/1-2", "0403", "6001", serial="A")
    return {
        "pci": controller,
        "usb": usb,
        "tty": tree.class_device(f"{usb}/1-2:1.0/ttyUSB0/tty/ttyUSB0", "tty", "ttyUSB0", 188, 0),
        "video4linux": tree.class_device(f"{usb}/1-2:1.1/video4linux/video0", "video4linux", "video0", 81, 0),
        "block": tree.class_device(
            f"{controller}/ata1/host0/target0:0:0/0:0:0:0/block/sda", "block", "sda", 8, 0
        ),
        "hidraw": tree.class_device(f"{usb}/1-2:1.2/0003:0403:6001.0001/hidraw/hidraw0", "hidraw", "hidraw0", 240, 0),
        "net": tree.device(f"{controller}/net/eth0", "net", type="1\n"),
        "drm": tree.class_device(f"{controller}/drm/renderD128", "drm", "dri/renderD128", 226, 128),
    }  # fmt: skip


@pytest.mark.parametrize(
    "source",
    [
        '"pci"',
        '"usb"',
        '"net"',
        '"drm"',
        '{ subsystem = "tty" }',
        '{ subsystem = "video4linux" }',
        '{ subsystem = "block" }',
        '{ subsystem = "hidraw" }',
        '{ node = "/dev/ttyUSB*" }',
        '{ node = "/dev/video*" }',
        '{ node = "/dev/sd*" }',
        '{ node = "/dev/bus/usb/*/*" }',
    ],
)
def test_the_node_of_what_a_device_hangs_on(tree, look_at_topology, source):
    on_pci(tree)
    nodes, silent = look_at_topology(f'source = {source}\nid = "{{name}}"\naccept.unstable-id = "a test"')
    assert list(nodes.values()) == [(1,)]
    assert silent is None


def test_a_group_has_the_nodes_of_all(tree, look_at_topology):
    for bus, node in (("3b", 0), ("5e", 1)):
        tree.pci(f"0000:{bus}:00.0", numa_node=f"{node}\n", label="pair")
    nodes, _ = look_at_topology('source = "pci"\ngroup = { by = "label" }\nid = "{label}"')
    assert nodes == {"pair": (0, 1)}


@pytest.mark.parametrize(
    ("topology", "nodes"),
    [
        ('"numa"', (1,)),
        ('"none"', ()),
        ("[0, 1]", (0, 1)),
        ("[1, 0, 1]", (0, 1)),
        ('"pci.numa"', (1,)),
        ('"acpi_index"', ()),  # a number that is not there
    ],
)
def test_as_the_entry_says(tree, look_at_topology, topology, nodes):
    tree.pci("0000:3b:00.0", numa_node="1\n")
    assert look_at_topology(f'source = "pci"\ntopology = {topology}') == ({"0000:3b:00.0": nodes}, None)


def test_one_without_a_node_silences_the_others_and_is_named(tree, look_at_topology):
    tree.pci("0000:3b:00.0", numa_node="0\n")
    tree.pci("0000:5e:00.0", numa_node="1\n")
    assert look_at_topology('source = "pci"')[1] is None
    tree.pci("0000:86:00.0")
    nodes, silent = look_at_topology('source = "pci"')
    assert set(nodes.values()) == {()}
    assert silent == (2, ("0000:86:00.0",))
    assert silent.text == "0000:86:00.0 has no NUMA node, so that of the 2 others is not told to the kubelet"
    for number in range(4):
        tree.pci(f"0000:87:0{number}.0")
    names = "0000:86:00.0, 0000:87:00.0, 0000:87:01.0 and 2 more have no NUMA node"
    assert look_at_topology('source = "pci"')[1].text.startswith(names)
    assert look_at_topology('source = "pci"\nexclude.no = { numa = { exists = false } }') == (
        {"0000:3b:00.0": (0,), "0000:5e:00.0": (1,)},
        None,
    )
    assert look_at_topology('source = "pci"\ntopology = "none"')[1] is None


def test_no_device_with_a_node_is_no_silence(tree, look_at_topology):
    tree.pci("0000:3b:00.0")
    assert look_at_topology('source = "pci"') == ({"0000:3b:00.0": ()}, None)


def test_the_log_says_so_once_and_when_it_is_over(tree, look_at_topology, caplog):
    tree.pci("0000:3b:00.0", numa_node="0\n")
    tree.pci("0000:86:00.0")
    _, silent = look_at_topology('source = "pci"')
    status = Status()
    with caplog.at_level(logging.INFO, "agent"):
        for now in (silent, silent, None, None):
            status.set_withheld_topologies({"example.com/a": now})
    assert [record.message for record in caplog.records] == [
        "example.com/a: 0000:86:00.0 has no NUMA node, so that of the 1 other is not told to the kubelet",
        "example.com/a: the kubelet gets the NUMA nodes of its devices again",
    ]


def test_the_log_says_so_again_of_a_resource_that_comes_back(tree, look_at_topology, caplog):
    tree.pci("0000:3b:00.0", numa_node="0\n")
    tree.pci("0000:86:00.0")
    _, silent = look_at_topology('source = "pci"')
    status = Status()
    for _ in range(2):
        status.set_withheld_topologies({"example.com/a": silent})
        status.remove("example.com/a")
    assert len(caplog.records) == 2
