"""What devices are preferred by, read from the machine: PCI Express, KFD's links, a file of scores."""

import pytest

from agent.config.load import load
from agent.core.grants.prefer import NO_LIMIT, build_choice_pool, prefer
from agent.core.inventory.device import make_list_sort_key
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.inventory.inventory import Inventory
from agent.core.lists.build_lists import build_lists
from agent.scanners.host_reader import HostView
from agent.tracker.look_thread import run_look
from tests.tree import Tree

COMPLEX = "/sys/devices/pci0000:00"
SWITCH = f"{COMPLEX}/0000:00:01.0/0000:01:00.0"
KFD = "/sys/devices/virtual/kfd/kfd/topology/nodes"
GPU = """[[resource]]
name = "example.com/gpu"
source = "pci"
match = { vendor = "1002" }
id = "{address}"
give.env.A = "1"
"""
JOINED = f"""{GPU}
prefer = [{{ near = "xgmi" }}]
[resource.join.kfd]
dir = "/sys/class/kfd/kfd/topology/nodes/{{number:int}}"
on = {{ location = "number" }}
let = {{ location = {{ field = "location_id", of = "./properties", type = "int" }} }}
[resource.links.xgmi]
dir = "kfd/io_links/*"
on = {{ to = "kfd.number" }}
cost = {{ by = "type", map = {{ "11" = 10, "2" = 40 }}, else = 50 }}
[resource.links.xgmi.let]
to = {{ field = "node_to", of = "./properties", type = "int" }}
type = {{ field = "type", of = "./properties", type = "int" }}
"""


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "host")


@pytest.fixture
def make_looking(tmp_path, tree):
    """Looks at the tree by an entry, again where something is touched, and says what is preferred of so many."""

    class Looking:
        def __init__(self, text):
            file = tmp_path / "config" / "resources.d" / "a.toml"
            file.parent.mkdir(parents=True)
            file.write_text(text)
            configuration = load(str(tmp_path / "config"))
            assert configuration.findings == ()
            self.specs = configuration.resources
            self.look = Inventory()

        def again(self, *paths):
            touched = DirtySet(frozenset(paths)) if paths else ALL_DIRTY
            self.look, _ = run_look(HostView(tree.root), self.specs, self.look, touched)
            (snapshot,) = build_lists(self.look, self.specs, frozenset(), {}, 0.0).lists.values()
            assert list(snapshot.devices) == sorted(snapshot.devices, key=make_list_sort_key)
            self.stock = build_choice_pool(
                snapshot, self.specs[0], *self.look.get_resource_candidates().values(), self.specs
            )
            return self

        def preferred(self, size, *must):
            ids = [device.id for device in self.stock.device_list.devices]
            return " ".join(one.removeprefix("0000:") for one in prefer(ids, must, size, NO_LIMIT, self.stock))

    return lambda text: Looking(text).again()


def gpu(tree, address, below, numa=0, **files):
    return tree.pci(address, below=below, vendor="0x1002\n", numa_node=f"{numa}\n", **files)


def test_the_same_switch_then_root_port_complex_and_node(tree, make_looking):
    gpu(tree, "0000:05:00.0", f"{SWITCH}/0000:02:00.0")
    gpu(tree, "0000:06:00.0", f"{SWITCH}/0000:02:01.0")
    gpu(tree, "0000:07:00.0", f"{COMPLEX}/0000:00:02.0")
    gpu(tree, "0000:81:00.0", "/sys/devices/pci0000:80/0000:80:01.0", numa=0)
    gpu(tree, "0000:c1:00.0", "/sys/devices/pci0000:c0/0000:c0:01.0", numa=1)
    seen = make_looking(f'{GPU}prefer = [{{ near = "pcie" }}]')
    assert seen.preferred(2) == "05:00.0 06:00.0"
    assert seen.preferred(3) == "05:00.0 06:00.0 07:00.0"
    assert seen.preferred(2, "0000:07:00.0") == "05:00.0 07:00.0"
    assert seen.preferred(2, "0000:81:00.0") == "05:00.0 81:00.0"


def kfd_node(tree, number, location, **links):
    """A compute node; its links by the number of the other end: n3=11."""
    tree.file(f"{KFD}/{number}/properties", f"simd_count 4\nlocation_id {location}\n")
    for n, (end, kind) in enumerate(links.items()):
        tree.file(f"{KFD}/{number}/io_links/{n}/properties", f"type {kind}\nnode_from {number}\nnode_to {end[1:]}\n")
    tree.link("/sys/class/kfd/kfd", "/sys/devices/virtual/kfd/kfd")


def test_the_links_of_a_partner(tree, make_looking):
    """Four GPUs, of which 1 and 4, and 2 and 3, are linked fast; node 0 is the processor."""
    for number in range(1, 5):
        gpu(tree, f"0000:{number:02x}:00.0", f"{COMPLEX}/0000:00:{number:02x}.0")
    kfd_node(tree, 0, 0, n1=2, n2=2, n3=2, n4=2)
    fast = {1: 4, 4: 1, 2: 3, 3: 2}
    for number in range(1, 5):
        ends = {f"n{end}": 11 if end == fast[number] else 2 for end in range(1, 5) if end != number}
        kfd_node(tree, number, number * 256, n0=2, **ends)
    seen = make_looking(JOINED)
    assert seen.preferred(2) == "01:00.0 04:00.0"
    assert seen.preferred(2, "0000:03:00.0") == "02:00.0 03:00.0"
    assert seen.preferred(3) == "01:00.0 02:00.0 03:00.0"
    tree.file(f"{KFD}/1/io_links/3/properties", "type 2\nnode_from 1\nnode_to 4\n")
    tree.file(f"{KFD}/4/io_links/1/properties", "type 2\nnode_from 4\nnode_to 1\n")
    assert seen.again(f"{KFD}/1/io_links/3", f"{KFD}/4/io_links/1").preferred(2) == "02:00.0 03:00.0"


def test_a_device_without_links_or_partner_is_far_from_all(tree, make_looking):
    for number in (1, 2, 3):
        gpu(tree, f"0000:{number:02x}:00.0", f"{COMPLEX}/0000:00:{number:02x}.0")
    kfd_node(tree, 2, 512, n3=2)
    kfd_node(tree, 3, 768)
    seen = make_looking(JOINED.replace("on = { location", "optional = true\non = { location"))
    assert seen.preferred(2) == "02:00.0 03:00.0"
    assert seen.preferred(2, "0000:01:00.0") == "01:00.0 02:00.0"


NAMED = 'cost = { by = "score", map = { NV4 = 1, PIX = 10 } }'
SCORES = f"""{GPU}
prefer = [{{ near = "nvlink" }}]
[resource.links.nvlink]
file = "/etc/device-agent/nvlink"
on = {{ end = "address" }}
"""


@pytest.mark.parametrize(
    ("cost", "lines"),
    [
        ("", "0000:01:00.0 0000:03:00.0 1\n0000:01:00.0 0000:02:00.0 9\n"),
        ("", "# one other score\n\n01:00.0 x 0\n0000:03:00.0 0000:01:00.0 1 # either way\n"),
        (NAMED, "0000:01:00.0 0000:03:00.0 NV4\n0000:01:00.0 0000:02:00.0 PIX"),
    ],
)  # fmt: skip
def test_a_file_of_scores(tree, make_looking, cost, lines):
    for number in (1, 2, 3):
        gpu(tree, f"0000:{number:02x}:00.0", f"{COMPLEX}/0000:00:{number:02x}.0")
    tree.file("/etc/device-agent/nvlink", lines)
    assert make_looking(SCORES + cost).preferred(2) == "01:00.0 03:00.0"


@pytest.mark.parametrize("lines", [None, "", b"\xff\xfe\x00 1 2\n0000:01:00.0 0000:03:00.0\n\n" * 100])
def test_without_scores_the_order_of_ids_is_left(tree, make_looking, lines):
    for number in (1, 2, 3):
        gpu(tree, f"0000:{number:02x}:00.0", f"{COMPLEX}/0000:00:{number:02x}.0")
    if lines is not None:
        tree.file("/etc/device-agent/nvlink", lines)
    assert make_looking(SCORES).preferred(2) == "01:00.0 02:00.0"
