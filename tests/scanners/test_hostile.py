"""Machines that lie, break, or change while they are looked at: one device may be worse off for it, and no other."""

import errno
import os
import re
import shutil

import pytest

from agent.core.entry.resource_spec import Source
from agent.core.inventory.dirty_set import ALL_DIRTY
from agent.core.inventory.inventory import update_inventory
from agent.core.language.template import parse
from agent.core.language.value import Absent
from agent.core.lists.build_lists import build_lists
from agent.host.root import Root
from agent.scanners import source_kinds
from agent.scanners.host_reader import HostReader, HostView
from agent.scanners.word_route import TABLES
from agent.scanners.word_table import Relation
from tests.core.builders import spec

UUID = "c0b1e4f8-0000-4000-8000-000000000001"
SOURCES = (
    *(Source(kind) for kind in ("pci", "usb", "net", "infiniband", "drm", "auxiliary", "mdev")),
    *(Source("subsystem", (name,)) for name in ("tty", "npu", "net", "pci", "usb", "drm", "block")),
    Source("node", ("/dev/*", "/dev/dri/*", "/dev/infiniband/*")),
    Source("dir", ("/sys/class/npu/*", "/proc/driver/npu/*", "/sys/bus/pci/devices/*")),
    Source("fixed", ("a",)),
)


@pytest.fixture
def machine(tree):
    """Two of everything: the first is to be broken, the second is to be as before."""
    for index, bus in enumerate(("3b", "86")):
        pf = tree.pci(f"0000:{bus}:00.0", driver="mlx5_core", numa_node="1\n")
        tree.virtual_functions(pf, f"0000:{bus}:01.0", f"0000:{bus}:01.1", driver="vfio-pci")
        tree.netdev(pf, f"eth{index}", phys_port_name="p0\n", address="02:00:00:00:00:01\n", operstate="up\n")
        tree.infiniband(pf, f"mlx5_{index}", number=index, link="Ethernet")
        tree.file(f"{pf}/infiniband/mlx5_{index}/ports/1/gid_attrs/ndevs/0", f"eth{index}\n")
        sub = tree.device(f"{pf}/mlx5_core.sf.{index}", "auxiliary", bus=True, sfnum=f"{88 + index}\n")
        tree.netdev(sub, f"sf{index}")
        gpu = tree.pci(f"0000:{bus}:02.0", driver="amdgpu")
        tree.drm(gpu, index, 128 + index)
        tree.iommu_group(index, gpu)
        made = tree.mdev(gpu, f"{UUID[:-1]}{index}", "kind", "A B")
        tree.iommu_group(10 + index, made)
        host = tree.pci(f"0000:{bus}:03.0")
        stick = tree.usb(f"{host}/usb{index + 1}/{index + 1}-1", "0403", "6001", serial=f"S{index}", devnum=index + 2)
        interface = tree.device(f"{stick}/{index + 1}-1:1.0", "usb", bus=True, bInterfaceClass="ff\n")
        tree.class_device(f"{interface}/tty/ttyUSB{index}", "tty", f"ttyUSB{index}", 188, index)
        tree.class_device(f"{gpu}/npu/npu{index}", "npu", f"npu{index}", 240, index)
        tree.file(f"/proc/driver/npu/{index}/state", "ready\n")
    tree.file("/proc/self/mountinfo", "27 1 8:0 / / rw - ext4 /dev/sda rw\n")
    tree.file("/proc/net/route", "Iface\tDestination\n")
    tree.file("/sys/class/tty/console/active", "tty0\n")
    return tree


def list_words(kind):
    """Yield every word of a source, and every word after each of its relations."""
    table = source_kinds.KINDS[kind].TABLE
    for name in source_kinds.list_words(kind):
        yield name if name != "udev" else "udev.ID_MODEL"
        entry = table.relations.get(name) or TABLES["every"].relations.get(name)
        if isinstance(entry, Relation):
            yield from (f"{name}.{word}" for word in TABLES[entry.table].words)
    yield from ("./uevent", "./device/vendor", "./*", "./power/control")


def read_all_facts(root, reader=None):
    """Return all facts of all devices by source, device name and word."""
    listing = source_kinds.list_devices(root, SOURCES, None, ALL_DIRTY)
    reader = reader or HostReader(HostView(root))
    return {
        (str(source), device.name): {word: reader.read_fact(device, word) for word in list_words(device.source)}
        for source, devices in listing.devices.items()
        for device in devices
    }


def is_second(name):
    return bool(re.search(r"86:0|eth1|sf[.]?1|mlx5_1|card1|129|0001$|2-1|USB1|npu1|npu/1|issm9|umad9|uverbs1", name))


def keep_second_device(facts):
    return {key: said for key, said in facts.items() if is_second(key[1])}


FILES = sorted([
    "vendor", "class", "config", "numa_node", "uevent", "driver", "sriov_totalvfs", "virtfn0", "virtfn1", "physfn",
    "phys_port_name", "carrier", "speed", "address", "type", "ibdev", "state", "link_layer", "node_guid", "sfnum",
    "mdev_type", "idVendor", "serial", "bDeviceClass", "bInterfaceClass", "devnum", "dev", "subsystem", "device",
    "iommu_group", "0",
])  # fmt: skip


def below(tree, name):
    """Every file or link of that name that belongs to the first of everything."""
    found = [
        os.path.join(directory, name)
        for directory, directories, files in os.walk(tree.at("/sys/devices"))
        if name in files or name in directories
    ]
    return [path for path in found if "0000:3b" in path]


def loop(path):
    os.symlink(os.path.basename(path), path)


def junk(path):
    with open(path, "wb") as file:
        file.write(b"\xff\xfe\x00\x1b[2J\x7f" * 3 + b"\n\n" + bytes(range(256)))


def huge(path):
    with open(path, "wb") as file:
        file.write(b"x" * (1 << 20))


DAMAGES = {
    "loop": loop,
    "fifo": os.mkfifo,
    "junk": junk,
    "huge": huge,
    "empty": lambda path: open(path, "w").close(),
    "directory": os.mkdir,
    "leads out": lambda path: os.symlink("/etc", path),
    "leads nowhere": lambda path: os.symlink("../../../../nowhere", path),
    "leads above": lambda path: os.symlink("..", path),
    "gone": lambda path: None,
}


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_damage_is_a_reason_of_that_device_and_of_no_other(machine, damage):
    reader = HostReader(HostView(machine.root))
    before = read_all_facts(machine.root, reader)
    known = keys(machine.root)
    assert len(keep_second_device(before)) > 20
    for name in FILES:
        for path in below(machine, name):
            if os.path.islink(path) or os.path.isfile(path):
                os.unlink(path)
                DAMAGES[damage](path)
    after = read_all_facts(machine.root)
    assert keep_second_device(after) == keep_second_device(before)
    sweep = HostReader(HostView(machine.root)).reread([reader.reads], changed_keys=())
    worse = {name for (source, name), said in before.items() if after.get((source, name), said) != said}
    touched = {name for (source, name), key in known.items() if key in sweep.keys}
    assert worse <= touched
    assert not any(map(is_second, touched))


def keys(root):
    """By what all that is listed is known."""
    found = source_kinds.list_devices(root, SOURCES, None, ALL_DIRTY).devices
    return {(str(source), device.name): device.key for source, devices in found.items() for device in devices}


@pytest.mark.parametrize(
    ("call", "code"),
    [(call, errno.EIO) for call in ("open", "read", "readlink", "listdir", "stat")]
    + [("open", errno.EACCES), ("listdir", errno.EACCES), ("read", errno.ENODEV), ("read", errno.ETIMEDOUT)],
)
def test_what_the_kernel_refuses_is_a_reason_of_that_device_and_of_no_other(machine, monkeypatch, call, code):
    root = machine.root
    before = keep_second_device(read_all_facts(root))
    real = getattr(os, call)
    opened = {}

    def refusing(path, *more, **named):
        said = opened.get(path, "") if isinstance(path, int) else os.fspath(path)
        if "0000:3b" in said:
            raise OSError(code, os.strerror(code), said)
        return real(path, *more, **named)

    if call == "read":
        real_open = os.open

        def opening(path, *more, **named):
            handle = real_open(path, *more, **named)
            opened[handle] = os.fspath(path)
            return handle

        monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(os, call, refusing)
    assert keep_second_device(read_all_facts(root)) == before


class Vanishing(Root):
    """A machine from which the first of everything goes while it is looked at."""

    def __init__(self, tree, after):
        super().__init__(str(tree.top))
        self.tree = tree
        self.left = after

    def _host(self, path):
        self.left -= 1
        if self.left == 0:
            for name in ("0000:3b:00.0", "0000:3b:02.0", "0000:3b:03.0"):
                shutil.rmtree(self.tree.at(f"/sys/devices/pci0000:00/{name}"), ignore_errors=True)
        return super()._get_host_path(path)


@pytest.mark.parametrize("after", [1, 5, 34, 144, 610, 2584])
def test_devices_that_go_while_they_are_looked_at(machine, after):
    before = keep_second_device(read_all_facts(machine.root))
    assert keep_second_device(read_all_facts(Vanishing(machine, after))) == before


NAMES = [
    b"npu\xff\xfe", b"npu 7", b"npu\n8", b"npu\x1b[31m9", b"..npu", b"npu*", b"npu?[a]", b"{npu}", b"npu\\", b"-rf",
    b"npu!x", "nüp".encode(), "n\u202epu".encode(), b"x" * 255, b"npu\t", b"$(npu)", b"npu'\"",
]  # fmt: skip


def test_names_of_any_bytes(tree):
    card = tree.pci("0000:3b:00.0")
    for name in NAMES:
        directory = os.fsencode(tree.at(f"{card}/npu")) + b"/" + name
        os.makedirs(directory)
        os.makedirs(os.fsencode(tree.at("/sys/class/npu")), exist_ok=True)
        os.symlink(
            b"../../devices/pci0000:00/0000:3b:00.0/npu/" + name, os.fsencode(tree.at("/sys/class/npu/")) + b"/" + name
        )
        with open(directory + b"/uevent", "wb") as file:
            file.write(b"DEVNAME=../../etc/" + name + b"\nMAJOR=x\n")
        os.symlink(b"../../../../../class/npu", directory + b"/subsystem")
        with open(os.fsencode(tree.at("/dev")) + b"/" + name, "wb"):
            pass
    facts = read_all_facts(tree.root)
    assert sum(key[0] == "subsystem npu" for key in facts) == len(NAMES)
    assert all(isinstance(said["node"], Absent) for key, said in facts.items() if key[0] == "subsystem npu")
    source = Source("subsystem", ("npu",))
    entries = [spec(source=source, id=(parse("{name}"), parse("{path_id}")))]
    listing = source_kinds.list_devices(tree.root, [source], None, ALL_DIRTY)
    now = update_inventory(entries, listing, HostReader(HostView(tree.root)))
    devices = build_lists(now, entries, frozenset(), {}, 0.0).lists["example.com/a"].devices
    assert len(devices) > len(NAMES) - 4
    assert all(re.fullmatch(r"[A-Za-z0-9._:@-]{1,63}", device.id) for device in devices)


def test_loops_of_directories_end(tree):
    card = tree.pci("0000:3b:00.0")
    tree.device(f"{card}/npu/npu0", "npu")
    tree.link(f"{card}/npu/npu0/again", card)
    tree.link(f"{card}/npu/npu0/device", f"{card}/npu/npu0")
    tree.link("/sys/class/loop1", "/sys/class/loop2")
    tree.link("/sys/class/loop2", "/sys/class/loop1")
    here = f"{card}/deep"
    for depth in range(60):
        here = tree.device(f"{here}/{depth}", "npu2")
    sources = (Source("dir", ("/sys/class/npu/*/again/npu/*/again/npu/*",)), Source("subsystem", ("loop1",)))
    listing = source_kinds.list_devices(tree.root, sources, None, ALL_DIRTY)
    (device,) = listing.devices[sources[0]]
    assert device.directory == f"{card}/npu/npu0"
    assert listing.devices[sources[1]] == ()
    read_all_facts(tree.root)


def test_functions_of_wide_domains_behind_a_volume_management_device(tree):
    vmd = tree.pci("0000:5d:05.5", driver="vmd")
    port = tree.pci("10000:80:02.0", below=f"{vmd}/pci10000:80", **{"class": "0x060400"})
    disk = tree.pci("10000:81:00.0", below=port, driver="nvme", numa_node="1\n")
    tree.class_device(f"{disk}/nvme/nvme0", "nvme", "nvme0", 240, 0)
    facts = read_all_facts(tree.root)[("pci", "10000:81:00.0")]
    assert {word: facts[word] for word in ("address", "root", "slot", "number", "numa", "driver")} == {
        "address": "10000:81:00.0", "root": "10000:80:02.0", "slot": "10000:81:00", "number": (0x10000 << 16) + 0x8100,
        "numa": 1, "driver": "nvme",
    }  # fmt: skip
    assert facts["nodes"] == ("/dev/nvme0",)
