"""What the machine itself uses: mounted disks, its console, and the clock of a network interface."""

import os

import pytest

from agent.core.entry.resource_spec import Source
from agent.core.inventory.dirty_set import ALL_DIRTY
from agent.host.root import Root
from agent.scanners import source_kinds
from agent.scanners.host_reader import HostReader, HostView

MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/mapper/root rw
28 27 259:3 / /data rw - xfs /dev/nvme1n1p1 rw
29 27 0:45 / /pool rw - btrfs /dev/sdc rw
rubbish
30 27 0:50 / /none rw - tmpfs tmpfs rw
"""


def disk(tree, directory, numbers, *partitions):
    major, minor = numbers
    name = directory.rpartition("/")[2]
    tree.class_device(directory, "block", name, major, minor)
    for index in partitions:
        part = f"{directory}/{name}{'p' if name[-1].isdecimal() else ''}{index}"
        tree.class_device(part, "block", part.rpartition("/")[2], major, minor + index)
        tree.file(f"{part}/partition", f"{index}\n")
    return directory


@pytest.fixture
def facts(tree):
    tree.file("/proc/self/mountinfo", MOUNTS)
    tree.file("/proc/swaps", "Filename Type Size Used Priority\n/dev/sdd2 partition 1 0 -2\n")
    made = {}
    for index, name in enumerate(("sda", "sdb", "sdc", "sdd", "sde")):
        host = tree.pci(f"0000:0{index}:00.0")
        target = tree.device(f"{host}/host{index}/{index}:0:0:0", "scsi", bus=True)
        made[name] = disk(tree, f"{target}/block/{name}", (8, 16 * index), *((1, 2) if name != "sdc" else ()))
        tree.class_device(f"{target}/scsi_generic/sg{index}", "scsi_generic", f"sg{index}", 21, index)
    root = disk(tree, "/sys/devices/virtual/block/dm-0", (254, 0))
    tree.link(f"{root}/slaves/sda2", f"{made['sda']}/sda2")
    tree.link(f"{root}/slaves/sdb1", f"{made['sdb']}/sdb1")
    tree.link("/sys/fs/btrfs/f00d/devices/sdc", made["sdc"])
    tree.link("/sys/fs/btrfs/f00d/devices/sde1", f"{made['sde']}/sde1")
    for index in (0, 1):
        nvme = tree.class_device(
            f"{tree.pci(f'0000:1{index}:00.0')}/nvme/nvme{index}", "nvme", f"nvme{index}", 240, index
        )
        disk(tree, f"{nvme}/nvme{index}n1", (259, 2 * index), *([1] if index else []))
        tree.class_device(f"{nvme}/ng{index}n1", "nvme-generic", f"ng{index}n1", 241, index)
        tree.class_device(f"{nvme}/ng{index}n2", "nvme-generic", f"ng{index}n2", 241, 8 + index)
    sources = [Source("pci"), *(Source("subsystem", (n,)) for n in ("block", "scsi_generic", "nvme", "nvme-generic"))]
    listing = source_kinds.list_devices(tree.root, sources, None, ALL_DIRTY)
    devices = {device.name: device for source in sources for device in listing.devices[source]}
    reader = HostReader(HostView(tree.root))
    return lambda name, word: reader.read_fact(devices[name], word)


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("dm-0", True), ("sda2", True), ("sda", True), ("sda1", False), ("sdb1", True), ("sdb2", False),
        ("sdc", True), ("sdd", True), ("sdd1", False), ("sdd2", True), ("sde", True), ("sde1", True),
        ("nvme1n1p1", True), ("nvme1n1", True), ("nvme0n1", False), ("nvme1", True), ("nvme0", False),
        ("ng1n1", True), ("ng1n2", False), ("ng0n1", False), ("sg0", True), ("sg4", True),
        ("0000:11:00.0", True), ("0000:10:00.0", False), ("0000:00:00.0", True),
    ],
)  # fmt: skip
def test_what_is_mounted_and_what_that_rests_on(facts, name, used):
    assert facts(name, "mounted") is used


def test_the_disks_of_the_root_file_system(facts):
    assert facts("sda", "host.root_disks") == ("sda", "sdb")


def test_ways_to_one_namespace(tree):
    above = "/sys/devices/virtual/nvme-subsystem/nvme-subsys0"
    disk(tree, f"{above}/nvme0n1", (259, 0))
    used = tree.class_device(f"{tree.pci('0000:10:00.0')}/nvme/nvme0", "nvme", "nvme0", 240, 0)
    tree.class_device(f"{tree.pci('0000:11:00.0')}/nvme/nvme1", "nvme", "nvme1", 240, 1)

    tree.link(f"{above}/nvme0", used)
    tree.file("/proc/self/mountinfo", "27 1 259:0 / / rw - ext4 /dev/nvme0n1 rw\n")
    source = Source("pci")
    devices = source_kinds.list_devices(tree.root, [source], None, ALL_DIRTY).devices[source]
    reader = HostReader(HostView(tree.root))
    assert [reader.read_fact(device, "mounted") for device in devices] == [True, False]


def test_a_list_of_mounts_of_many_pages(tree):
    lines = [f"{n} 27 0:{n} / /pods/{n} rw - tmpfs tmpfs rw" for n in range(4000)]
    tree.file("/proc/self/mountinfo", "\n".join([*lines, "27 1 8:0 / / rw - ext4 /dev/sda rw", ""]))
    disk(tree, "/sys/devices/x/block/sda", (8, 0))
    source = Source("subsystem", ("block",))
    (device,) = source_kinds.list_devices(tree.root, [source], None, ALL_DIRTY).devices[source]
    assert HostReader(HostView(tree.root)).read_fact(device, "mounted") is True


@pytest.mark.skipif(not os.access("/proc/kallsyms", os.R_OK), reason="this kernel lists no symbols")
def test_a_list_of_proc_is_read_whole():
    whole = Root().read_list("/proc/kallsyms", 1 << 20)
    assert isinstance(whole, bytes)
    assert len(whole) == 1 << 20
    assert isinstance(Root().read_head("/proc/kallsyms", 1 << 20), bytes)


def test_consoles(tree):
    for name, minor in (("tty1", 1), ("ttyS0", 64), ("ttyS1", 65)):
        tree.class_device(f"/sys/devices/x/tty/{name}", "tty", name, 4, minor)
    source = Source("subsystem", ("tty",))

    def consoles():
        devices = source_kinds.list_devices(tree.root, [source], None, ALL_DIRTY).devices[source]
        reader = HostReader(HostView(tree.root))
        return [device.name for device in devices if reader.read_fact(device, "console")]

    assert consoles() == []
    tree.file("/sys/class/tty/console/active", "tty0 ttyS0\n")
    assert consoles() == ["tty1", "ttyS0"]
    tree.file("/sys/class/tty/console/active", "ttyS1\n")
    assert consoles() == ["ttyS1"]


def test_the_clock_of_an_interface(tree):
    nic = tree.pci("0000:3b:00.0")
    tree.netdev(nic, "eth0")
    tree.netdev(tree.pci("0000:3c:00.0"), "eth1")
    tree.class_device(f"{nic}/ptp/ptp3", "ptp", "ptp3", 249, 3)

    source = Source("net")
    one, two = source_kinds.list_devices(tree.root, [source], None, ALL_DIRTY).devices[source]
    reader = HostReader(HostView(tree.root))
    assert reader.read_fact(one, "ptp.node") == "/dev/ptp3"
    assert reader.read_fact(two, "ptp").reason == "ptp: it has no clock"


def test_the_clock_of_a_real_interface_is_asked_of_its_driver():
    source = Source("net")
    root = Root()
    devices = source_kinds.list_devices(root, [source], None, ALL_DIRTY).devices[source]
    lo = next(device for device in devices if device.name == "lo")
    assert HostReader(HostView(root)).read_fact(lo, "ptp").reason == "ptp: it has no clock"
