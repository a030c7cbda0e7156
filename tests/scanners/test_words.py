"""Facts of host devices, as words and paths say them."""

import json
import time

import pytest

from agent.core.entry.resource_spec import Source
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet, PathIndex
from agent.core.inventory.inventory import update_inventory
from agent.core.language.glob import PatternError
from agent.core.language.value import Absent, ValueType
from agent.host.root import Root
from agent.scanners import source_kinds
from agent.scanners.host_reader import HostReader, HostView
from agent.scanners.source_kinds import UnknownWordError, WordType
from tests.core.builders import clause, line, spec


class Facts:
    """The devices of a source by name, and what is said of them."""

    def __init__(self, root, kind, *arguments):
        source = Source(kind, arguments)
        listing = source_kinds.list_devices(root, [source], None, ALL_DIRTY)
        self.devices = {device.name: device for device in listing.devices[source]}
        self.reader = HostReader(HostView(root))

    def __call__(self, name, word):
        return self.reader.read_fact(self.devices[name], word)


def reason(value):
    assert isinstance(value, Absent), value
    return value.reason


# ---------------------------------------------------------------- every device


def test_numa_is_the_nearest_known_node(tree):
    bridge = tree.pci("0000:3a:00.0", numa_node="1\n")
    tree.pci("0000:3b:00.0", below=bridge, numa_node="-1\n")
    tree.pci("0000:3c:00.0", below=bridge, numa_node="0\n")
    tree.pci("0000:3d:00.0", below=bridge, numa_node="7\n")  # no such node here
    tree.pci("0000:00:01.0", numa_node="-1\n")
    tree.pci("0000:00:02.0", numa_node="9\n")
    tree.pci("0000:00:03.0", numa_node=b"\xff\xfe\n")
    facts = Facts(tree.root, "pci")
    assert [facts(f"0000:{slot}.0", "numa") for slot in ("3a:00", "3b:00", "3c:00", "3d:00")] == [1, 1, 0, 1]
    for slot in ("00:01", "00:02", "00:03"):
        assert reason(facts(f"0000:{slot}.0", "numa")) == "no device above it says one"
    tree.class_device(f"{bridge}/npu/npu0", "npu", "npu0", 240, 0)
    assert Facts(tree.root, "subsystem", "npu")("npu0", "numa") == 1
    assert Facts(tree.root, "node", "/dev/npu0")("/dev/npu0", "numa") == 1


def test_the_driver_of_a_class_device_is_that_of_the_device_behind_it(tree):
    card = tree.pci("0000:3b:00.0", driver="acme_npu")
    tree.pci("0000:3c:00.0")
    tree.class_device(f"{card}/npu/npu0", "npu", "npu0", 240, 0)
    tree.link(f"{card}/npu/npu0/device", card)
    tree.class_device("/sys/devices/virtual/npu/npu1", "npu", "npu1", 240, 1)
    facts = Facts(tree.root, "subsystem", "npu")
    assert facts("npu0", "driver") == "acme_npu"
    assert reason(facts("npu1", "driver")) == "no driver is bound"
    functions = Facts(tree.root, "pci")
    assert functions("0000:3b:00.0", "driver") == "acme_npu"
    assert reason(functions("0000:3c:00.0", "driver")) == "no driver is bound"  # `device` is a file there
    assert facts("npu0", "pci.driver") == "acme_npu"
    assert facts("npu0", "pci.address") == "0000:3b:00.0"
    assert facts("npu0", "parent.name") == "0000:3b:00.0"
    assert facts("npu0", "subsystem") == "npu"


def usb_machine(tree):
    host = tree.pci("0000:00:14.0", driver="xhci_hcd", numa_node="1")
    hub = tree.usb(f"{host}/usb1", "1d6b", "0002", devnum=1)
    made = []
    for port, devnum in ((1, 9), (2, 10), (3, 127)):
        stick = tree.usb(f"{hub}/1-{port}", "0403", "6001", serial="SAME", devnum=devnum)
        interface = tree.device(f"{stick}/1-{port}:1.0", "usb", bus=True, bInterfaceClass="ff\n")
        serial = tree.device(f"{interface}/ttyUSB{port}", "usb-serial", bus=True)
        tree.class_device(f"{serial}/tty/ttyUSB{port}", "tty", f"ttyUSB{port}", 188, port)
        made.append(stick)
    return made


def test_three_equal_sticks_are_three_devices(tree):
    usb_machine(tree)
    facts = Facts(tree.root, "node", "/dev/ttyUSB*")
    said = [[facts(name, f"usb.{word}") for word in ("vendor", "product", "serial", "port", "devnum", "node")]
            for name in facts.devices]  # fmt: skip
    assert said == [
        ["0403", "6001", "SAME", "1-1", 9, "/dev/bus/usb/001/009"],
        ["0403", "6001", "SAME", "1-2", 10, "/dev/bus/usb/001/010"],
        ["0403", "6001", "SAME", "1-3", 127, "/dev/bus/usb/001/127"],
    ]
    assert len({facts(name, "path_id") for name in facts.devices}) == 3
    assert facts("/dev/ttyUSB1", "path_id") == "pci-0000:00:14.0-usb-0:1:1.0"
    assert facts("/dev/ttyUSB1", "usb.hub") == "usb1"
    assert facts("/dev/ttyUSB1", "usb.interface_classes") == ("ff",)
    assert facts("/dev/ttyUSB1", "usb.tty.node") == ("/dev/ttyUSB1",)
    assert facts("/dev/ttyUSB1", "usb.video.node") == ()
    assert facts("/dev/ttyUSB1", "usb.authorized") is True
    assert facts("/dev/ttyUSB1", "pci.driver") == "xhci_hcd"
    assert facts("/dev/ttyUSB1", "numa") == 1
    assert facts("/dev/ttyUSB1", "below_dev") == "ttyUSB1"


def test_nodes_do_not_cross_into_another_usb_device(tree):
    first, *_ = usb_machine(tree)
    behind = tree.usb(f"{first}/1-1.4", "1111", "2222", devnum=30)
    tree.class_device(f"{behind}/hidraw/hidraw0", "hidraw", "hidraw0", 240, 0)
    facts = Facts(tree.root, "subsystem", "usb")
    assert facts("1-1", "nodes") == ("/dev/bus/usb/001/009", "/dev/ttyUSB1")
    assert facts("1-1.4", "nodes") == ("/dev/bus/usb/001/030", "/dev/hidraw0")


def test_nodes_of_one_class_below_each_other_are_parts_of_one_device(tree):
    card = tree.class_device(f"{tree.pci('0000:00:1f.3')}/sound/card0", "sound")
    for minor, name in enumerate(("controlC0", "pcmC0D0p")):
        tree.class_device(f"{card}/{name}", "sound", f"snd/{name}", 116, minor)
    assert Facts(tree.root, "subsystem", "sound")("card0", "nodes") == ("/dev/snd/controlC0", "/dev/snd/pcmC0D0p")


def test_nodes_do_not_cross_into_another_function(tree):
    bridge = tree.pci("0000:3a:00.0")
    card = tree.pci("0000:3b:00.0", below=bridge)
    for name, minor in (("card1", 1), ("renderD129", 129)):
        tree.class_device(f"{card}/drm/{name}", "drm", f"dri/{name}", 226, minor)
    facts = Facts(tree.root, "pci")
    assert facts("0000:3b:00.0", "nodes") == ("/dev/dri/card1", "/dev/dri/renderD129")
    assert facts("0000:3a:00.0", "nodes") == ()


def test_path_id_is_what_udev_says_if_it_speaks(tree):
    usb_machine(tree)
    tree.file("/run/udev/data/c188:1", "E:ID_PATH=from-udev\nE:ID_SERIAL=x\n")
    facts = Facts(tree.root, "node", "/dev/ttyUSB*")
    assert facts("/dev/ttyUSB1", "path_id") == "from-udev"
    assert facts("/dev/ttyUSB1", "udev.ID_SERIAL") == "x"
    assert facts("/dev/ttyUSB2", "path_id") == "pci-0000:00:14.0-usb-0:2:1.0"
    assert facts("/dev/ttyUSB1", "usb.udev.DEVNAME") == "bus/usb/001/009"


def test_path_id_of_other_buses(tree):
    board = tree.device("/sys/devices/platform/40000000.pcie", "platform", bus=True)
    function = tree.pci("0000:01:00.0", below=f"{board}/pci0000:00")
    tree.file(f"{board}/pci0000:00/uevent")
    virtio = tree.device(f"{function}/virtio3", "virtio", bus=True)
    tree.class_device(f"{virtio}/block/vda", "block", "vda", 252, 0)
    disk = tree.device(f"{function}/host0", "scsi", bus=True)
    tree.class_device(f"{disk}/block/sda", "block", "sda", 8, 0)
    vmd = tree.pci("0000:00:0e.0")
    deep = tree.pci("10000:e1:00.0", below=tree.pci("10000:e0:06.0", below=f"{vmd}/pci10000:e0"))
    tree.class_device(f"{deep}/npu/npu0", "npu", "npu0", 240, 0)
    tree.class_device("/sys/devices/virtual/npu/npu1", "npu", "npu1", 240, 1)
    blocks, npus = Facts(tree.root, "subsystem", "block"), Facts(tree.root, "subsystem", "npu")
    assert blocks("vda", "path_id") == "platform-40000000.pcie-pci-0000:01:00.0"
    assert reason(blocks("sda", "path_id")) == "of scsi devices it is known to udev only"
    assert npus("npu0", "path_id") == "pci-0000:00:0e.0-pci-10000:e1:00.0"
    assert reason(npus("npu1", "path_id")) == "it sits on no bus"


# ---------------------------------------------------------------- pci


def test_scalar_words_of_a_function(tree):
    port = tree.pci("0000:3a:00.0", **{"class": "0x060400\n"})
    tree.pci("0000:3b:02.1", below=port, label="Slot 4", acpi_index="4")
    facts = Facts(tree.root, "pci")
    said = {word: facts("0000:3b:02.1", word) for word in source_kinds.list_words("pci") if word != "udev"}
    assert said | {} == said | {
        "address": "0000:3b:02.1", "vendor": "15b3", "device": "101b", "class": "020000", "revision": "00",
        "subsystem_vendor": "15b3", "subsystem_device": "0001", "slot": "0000:3b:02", "root": "0000:3a:00.0",
        "number": 0x3B11, "label": "Slot 4", "acpi_index": 4, "present": True, "is_vf": False, "is_pf": False,
        "on_vfio": False, "name": "0000:3b:02.1", "subsystem": "pci", "pci": "0000:3b:02.1", "parent": "0000:3a:00.0",
    }  # fmt: skip
    assert reason(said["vf_index"]) == "it is no virtual function"
    assert reason(said["netdev"]) == "netdev: it has no network interface"
    assert reason(said["iommu"]) == "iommu: it is in no IOMMU group"


def test_junk_is_absent_with_what_it_reads(tree):
    tree.pci("0000:00:01.0", vendor=b"\xff\x1b[2Jx", numa_node="", **{"class": "0x0200000000\n", "device": "0x10de"})
    facts = Facts(tree.root, "pci")
    assert "which is no hex" in reason(facts("0000:00:01.0", "vendor"))
    assert "which is no class" in reason(facts("0000:00:01.0", "class"))
    assert facts("0000:00:01.0", "device") == "10de"
    assert reason(facts("0000:00:01.0", "numa")) == "no device above it says one"


def test_virtual_functions_are_numbered_by_their_links(tree):
    pf = tree.pci("0000:3b:00.0", driver="ice")
    addresses = [f"0000:3b:01.{n}" for n in range(8)] + [f"0000:3b:02.{n}" for n in range(4)]
    tree.virtual_functions(pf, *reversed(addresses), driver="iavf")
    tree.netdev(pf, "ens1f0", phys_port_name="p0")
    facts = Facts(tree.root, "pci")
    assert [facts(address, "vf_index") for address in addresses] == list(range(11, -1, -1))
    assert facts("0000:3b:01.3", "is_vf") is True
    assert facts("0000:3b:01.3", "pf.address") == "0000:3b:00.0"
    assert facts("0000:3b:01.3", "pf.driver") == "ice"
    assert facts("0000:3b:01.3", "pf.netdev.name") == "ens1f0"
    assert facts("0000:3b:01.3", "pf/sriov_totalvfs") == "12"
    assert facts("0000:3b:00.0", "is_pf") is True
    assert pf in facts.reader.get_read_paths(facts.devices["0000:3b:01.3"])


def test_a_pf_without_functions_now_is_one_all_the_same(tree):
    tree.pci("0000:3b:00.0", sriov_totalvfs="8", sriov_numvfs="0")
    tree.pci("0000:3c:00.0", sriov_totalvfs="0")
    facts = Facts(tree.root, "pci")
    assert [facts(name, "is_pf") for name in facts.devices] == [True, False]


def test_the_network_interface_of_a_pf_is_never_a_representor(tree):
    pf = tree.pci("0000:3b:00.0")
    for name, port in (
        ("eth0", "pf0vf0"),
        ("eth1", "pf0vf1"),
        ("eth2", "p0"),
        ("eth3", "pf0sf88"),
        ("eth4", "c1pf0vf1"),
    ):
        tree.netdev(pf, name, phys_port_name=port)
    only = tree.pci("0000:3c:00.0")
    tree.netdev(only, "rep", phys_port_name="pf0vf0")
    unnamed = tree.pci("0000:3d:00.0")
    tree.netdev(unnamed, "enp61")
    virtio = tree.pci("0000:00:03.0")
    tree.netdev(tree.device(f"{virtio}/virtio2", "virtio", bus=True), "eth9")
    facts = Facts(tree.root, "pci")
    assert facts("0000:3b:00.0", "netdev.name") == "eth2"
    assert reason(facts("0000:3c:00.0", "netdev.name")) == "netdev: its network interfaces stand for others"
    assert facts("0000:3d:00.0", "netdev") == "enp61"
    assert facts("0000:00:03.0", "netdev.name") == "eth9"


@pytest.mark.parametrize(
    ("here", "itself"),
    [
        ({"eth0": {"dev_port": "1"}, "eth1": {"dev_port": "0"}}, "eth1"),  # two ports of one function
        ({"eth0": {"ifindex": "9"}, "eth1": {"ifindex": "4"}}, "eth1"),  # the driver's own comes first
        ({"eth0": {"dev_port": "1", "ifindex": "4"}, "eth1": {"dev_port": "0x0", "ifindex": "9"}}, "eth1"),
        ({"eth0": {"phys_port_name": "rack7"}, "eth1": {"phys_port_name": "p1"}}, "eth1"),
        ({"eth0": {"phys_port_name": "rack7"}, "eth1": {"phys_port_name": "pf0vf1"}}, "eth0"),
    ],
)
def test_of_several_network_interfaces_the_first_port_is_the_function_itself(tree, here, itself):
    function = tree.pci("0000:3b:00.0")
    for name, files in here.items():
        tree.netdev(function, name, **files)
    assert Facts(tree.root, "pci")("0000:3b:00.0", "netdev.name") == itself


@pytest.mark.parametrize(
    ("now", "able", "above", "less"),
    [
        (("16", "16.0 GT/s PCIe"), ("16", "16.0 GT/s PCIe"), ("16", "32.0 GT/s PCIe"), (False, False)),
        (("8", "2.5 GT/s PCIe"), ("16", "16.0 GT/s PCIe"), ("16", "32.0 GT/s PCIe"), (True, True)),
        (("8", "8.0 GT/s PCIe"), ("16", "16.0 GT/s PCIe"), ("8", "8.0 GT/s PCIe"), (False, False)),  # a slower slot
        (("8", "5.0 GT/s"), ("16", "5.0 GT/s"), None, (True, False)),  # an old kernel, no port above
        (("8", "2.5 GT/s PCIe"), ("8", "5.0 GT/s PCIe"), ("8", "2.5 GT/s PCIe"), (False, False)),
        (("0", "Unknown"), ("16", "16.0 GT/s PCIe"), None, (True, None)),
        (("x", "1 apple"), ("16", "16.0 GT/s PCIe"), None, (None, None)),
        (None, ("16", "16.0 GT/s PCIe"), None, (None, None)),
        (("16", "16.0 GT/s PCIe"), None, None, (None, None)),
    ],
)
def test_a_link_that_is_less_than_both_its_ends_can_be(tree, now, able, above, less):
    def files(which, said):
        return {} if said is None else {f"{which}_link_width": said[0], f"{which}_link_speed": said[1]}

    port = tree.pci("0000:3a:00.0", **files("max", above))
    tree.pci("0000:3b:00.0", below=port, **files("current", now), **files("max", able))
    facts = Facts(tree.root, "pci")
    for word, expected in zip(("link_narrowed", "link_slowed"), less, strict=True):
        said = facts("0000:3b:00.0", word)
        assert said is expected if expected is not None else reason(said)


DEAD = b"\xff" * 64


def test_a_function_that_reads_all_ones_is_not_present_and_none_that_sleeps_is_woken(tree):
    tree.pci("0000:00:01.0")
    tree.pci("0000:00:02.0", config=DEAD)
    tree.pci("0000:00:03.0", config=DEAD, power_state="D3cold\n")
    tree.pci("0000:00:04.0", config=b"\xff" * 4 + b"\4\0\x10\0" + bytes(56))  # as a virtual function that is none
    facts = Facts(tree.root, "pci")
    assert [facts(name, "present") for name in facts.devices] == [True, False, True, False]


@pytest.mark.parametrize(
    ("own", "physical", "present"),
    [
        ({}, {}, True),
        ({"config": DEAD}, {}, False),
        ({}, {"config": DEAD}, False),
        ({}, {"config": b"\xff" * 4 + bytes(60)}, False),
        ({"config": DEAD}, {"config": DEAD}, False),
        ({"config": DEAD, "power_state": "D3cold\n"}, {"config": DEAD, "power_state": "D3cold\n"}, True),
    ],
)
def test_a_virtual_function_is_present_while_it_and_its_physical_function_answer(tree, own, physical, present):
    """Its vendor and device registers read all ones, as those of every virtual function do."""
    pf = tree.pci("0000:3b:00.0", **physical)
    (vf,) = tree.virtual_functions(pf, "0000:3b:00.1", **own)
    assert tree.at(f"{vf}/config").read_bytes()[:4] == b"\xff" * 4
    facts = Facts(tree.root, "pci")
    assert facts("0000:3b:00.1", "present") is present
    if not own:
        assert pf in facts.reader.get_read_paths(facts.devices["0000:3b:00.1"])


@pytest.mark.parametrize("unreadable", ["0000:3b:00.0", "0000:3b:00.1"])
def test_config_space_that_cannot_be_read_is_not_present(tree, unreadable):
    """Neither of the function itself nor, of a virtual one, of its physical function."""
    tree.virtual_functions(tree.pci("0000:3b:00.0"), "0000:3b:00.1")
    directory = f"/sys/devices/pci0000:00/{unreadable}"
    tree.file("/.unread", json.dumps({f"{directory}/config": ["cannot be read: Input/output error", True]}))
    facts = Facts(tree.root, "pci")
    assert reason(facts("0000:3b:00.1", "present")) == "cannot be read: Input/output error"
    tree.file("/.unread", "{}")
    tree.at(f"{directory}/config").write_bytes(b"")
    assert reason(Facts(tree.root, "pci")("0000:3b:00.1", "present")) == "the file is empty"
    tree.at(f"{directory}/config").unlink()
    assert reason(Facts(tree.root, "pci")("0000:3b:00.1", "present")) == "no such file"


def test_vfio_and_uio(tree):
    tree.pci("0000:00:01.0", driver="vfio-pci")
    tree.pci("0000:00:02.0", driver="mlx5_vfio_pci")
    other = tree.pci("0000:00:03.0", driver="odd")
    tree.at(f"{other}/vfio-dev/vfio0").mkdir(parents=True)
    uio = tree.pci("0000:00:04.0", driver="uio_pci_generic")
    tree.class_device(f"{uio}/uio/uio3", "uio", "uio3", 240, 3)
    facts = Facts(tree.root, "pci")
    assert [facts(name, "on_vfio") for name in facts.devices] == [True, True, True, False]
    assert facts("0000:00:04.0", "uio") == "/dev/uio3"
    assert "/dev/uio3" in facts.reader.get_read_paths(facts.devices["0000:00:04.0"])


def test_iommu_groups(tree):
    gpu = tree.pci("0000:01:00.0", driver="vfio-pci")
    sound = tree.pci("0000:01:00.1", driver="snd_hda_intel")
    bridge = tree.pci("0000:00:01.0", driver="pcieport", **{"class": "0x060400"})
    tree.iommu_group(7, gpu, sound, bridge)
    tree.file("/sys/kernel/iommu_groups/7/type", "DMA-FQ\n")
    alone = tree.pci("0000:02:00.0")
    tree.iommu_group(8, alone)
    tree.file("/sys/kernel/iommu_groups/8/name", "vfio-noiommu\n")
    facts = Facts(tree.root, "pci")
    group = [facts("0000:01:00.0", f"iommu.{word}") for word in ("group", "type", "noiommu", "viable")]
    assert group == [7, "DMA-FQ", False, False]
    assert facts("0000:01:00.0", "iommu.foreign.driver") == ("snd_hda_intel",)
    assert set(facts("0000:01:00.0", "iommu.members")) == {"0000:00:01.0", "0000:01:00.0", "0000:01:00.1"}
    assert [facts("0000:02:00.0", f"iommu.{word}") for word in ("group", "noiommu", "viable")] == [8, True, True]
    assert sound in facts.reader.get_read_paths(facts.devices["0000:01:00.0"])
    assert facts("0000:01:00.0", "host.iommu") is True


def test_what_makes_a_group_not_viable(tree):
    gpu = tree.pci("0000:01:00.0", driver="vfio-pci")
    sound = tree.pci("0000:01:00.1", driver="snd_hda_intel")
    idle, stub = tree.pci("0000:01:00.2"), tree.pci("0000:01:00.3", driver="pci-stub")
    port = tree.device("/sys/devices/platform/port", "platform", bus=True, driver="serial8250")  # no PCI function
    tree.iommu_group(7, gpu, sound, idle, stub, port)
    vgpu = tree.mdev(gpu, "8f6b1c9e-0000-4000-8000-000000000001", "nvidia-63")
    tree.link(f"{vgpu}/driver", "/sys/bus/mdev/drivers/nvidia-vgpu-vfio")
    tree.iommu_group(9, vgpu)
    facts = Facts(tree.root, "pci")
    assert set(facts("0000:01:00.0", "iommu.blocked_by")) == {"0000:01:00.1 (snd_hda_intel)", "port (serial8250)"}
    assert facts("0000:01:00.0", "iommu.foreign") == ("0000:01:00.1",)
    tree.link(f"{sound}/driver", "/sys/bus/pci/drivers/vfio-pci")
    tree.at(f"{port}/driver").unlink()
    facts = Facts(tree.root, "pci")
    assert [facts("0000:01:00.0", f"iommu.{word}") for word in ("viable", "blocked_by")] == [True, ()]
    uuid = vgpu.rpartition("/")[2]
    assert Facts(tree.root, "mdev")(uuid, "iommu.viable") is True  # whatever drives it is VFIO's
    for name in tree.at("/sys/kernel/iommu_groups/9/devices").iterdir():
        name.unlink()
    assert "tells of none" in reason(Facts(tree.root, "mdev")(uuid, "iommu.viable"))


def test_what_vfio_hands_out_by(tree):
    gpu = tree.pci("0000:01:00.0", driver="vfio-pci")
    tree.vfio(7, gpu)
    said = {word: Facts(tree.root, "pci")("0000:01:00.0", f"vfio.{word}") for word in ("group", "noiommu", "cdev")}
    assert said["group"] == "/dev/vfio/7"
    assert reason(said["noiommu"]) == "its group 7 has an IOMMU"
    assert "has no vfio-dev" in reason(said["cdev"])
    assert Facts(tree.root, "pci")("0000:01:00.0", "vfio.address") == "0000:01:00.0"


def test_the_own_node_of_a_function_is_told_where_it_stands(tree):
    gpu = tree.pci("0000:01:00.0", driver="nvgrace_gpu_vfio_pci")
    tree.vfio(7, gpu)
    tree.file(f"{gpu}/vfio-dev/vfio3/dev", "511:3")

    def cdev():
        facts = Facts(tree.root, "pci")
        said = facts("0000:01:00.0", "vfio.cdev")
        places = facts.reader.get_read_paths(facts.devices["0000:01:00.0"])
        return said, "/dev/iommu" in places, "/dev/vfio/devices/vfio3" in places

    said, *watched = cdev()
    assert (reason(said), watched) == ("/dev/iommu: no such file", [True, False])
    tree.node("/dev/iommu", "c 10:120")
    assert "/dev/vfio/devices/vfio3: no such file" in reason(cdev()[0])
    assert cdev()[2]
    tree.node("/dev/vfio/devices/vfio3", "c 511:3")
    assert cdev()[0] == "/dev/vfio/devices/vfio3"


def test_a_group_without_an_iommu_has_a_node_of_another_name(tree):
    tree.vfio(8, tree.pci("0000:02:00.0", driver="vfio-pci"), noiommu=True)
    facts = Facts(tree.root, "pci")
    assert facts("0000:02:00.0", "vfio.noiommu") == "/dev/vfio/noiommu-8"
    assert "give.vfio.noiommu = true" in reason(facts("0000:02:00.0", "vfio.group"))


def test_what_is_bound_to_another_driver_vfio_does_not_hand_out(tree):
    tree.pci("0000:01:00.0", driver="nvidia")
    tree.pci("0000:02:00.0")
    tree.pci("0000:03:00.0", driver="vfio-pci")
    tree.mdev("/sys/devices/pci0000:00/0000:03:00.0", "8f6b1c9e-0000-4000-8000-000000000001", "nvidia-63")
    facts = Facts(tree.root, "pci")
    assert reason(facts("0000:01:00.0", "vfio.group")) == "vfio: nvidia is no driver of VFIO's"
    assert reason(facts("0000:02:00.0", "vfio.group")) == "vfio: no driver is bound"
    assert reason(facts("0000:03:00.0", "vfio.group")) == "it is in no IOMMU group"
    vgpus = Facts(tree.root, "mdev")
    assert reason(vgpus("8f6b1c9e-0000-4000-8000-000000000001", "vfio.group")) == "vfio: no driver is bound"


# ---------------------------------------------------------------- net


def test_words_of_a_network_interface(tree):
    nic = tree.pci("0000:3b:00.0")
    tree.netdev(nic, "eth0", operstate="up", address="02:00:00:00:00:01", speed="25000", type="1", carrier="0")
    tree.file("/proc/net/route", "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
              "eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n")  # fmt: skip
    facts = Facts(tree.root, "pci")
    words = ("carrier", "operstate", "mac", "speed", "link", "default_route")
    said = [facts("0000:3b:00.0", f"netdev.{word}") for word in words]
    assert said == [False, "up", "02:00:00:00:00:01", 25000, "ether", False]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("/proc/net/route", "eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0"),
        ("/proc/net/ipv6_route", f"{'0' * 32} 00 {'0' * 32} 00 fe80{'0' * 28} 400 1 0 00000003     eth0"),
    ],
)
def test_default_routes_of_both_kinds(tree, file, line):
    tree.netdev(tree.pci("0000:3b:00.0"), "eth0")
    tree.netdev(tree.pci("0000:3c:00.0"), "lo")
    unreachable = f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 1 0 00200200       lo"
    tree.file("/proc/net/ipv6_route", f"{unreachable}\nrubbish\n")
    tree.file(file, f"{unreachable}\n{line}\n")
    facts = Facts(tree.root, "pci")
    assert facts("0000:3b:00.0", "netdev.default_route") is True
    assert facts("0000:3c:00.0", "netdev.default_route") is False


def test_an_interface_that_is_down_has_no_link():
    """On the real kernel: carrier and speed answer EINVAL."""
    facts = Facts(Root(), "subsystem", "net")
    down = [name for name in facts.devices if facts(name, "./operstate") == "down"]
    if not down:
        pytest.skip("every interface here is up")
    from agent.scanners.net_words import NET
    from agent.scanners.word_table import LookCache, WordSubject

    thing = WordSubject("net", down[0], facts.devices[down[0]].directory)
    assert NET.words["carrier"].read(LookCache(Root()), thing) is False
    assert not NET.words["speed"].read(LookCache(Root()), thing).unreadable


# ---------------------------------------------------------------- host, paths


def test_words_of_the_machine(tree):
    tree.pci("0000:00:01.0")
    tree.at("/sys/module/kvm").mkdir(parents=True)
    tree.file("/proc/devices", "Character devices:\n  1 mem\n 10 misc\n136 pts\n\nBlock devices:\n  7 loop\n")
    tree.file("/proc/sys/kernel/hostname", "node-1\n")
    facts = Facts(tree.root, "pci")
    assert facts("0000:00:01.0", "host.modules") == ("kvm",)
    assert facts("0000:00:01.0", "host.char_devices") == ("mem", "misc", "pts")
    assert facts("0000:00:01.0", "host.hostname") == "node-1"
    assert facts("0000:00:01.0", "host.iommu") is False
    device = facts.devices["0000:00:01.0"]
    assert DirtySet(frozenset({"/sys/module/vfio"})).overlaps(facts.reader.get_read_paths(device))
    real = Facts(Root(), "node", "/dev/null")
    assert "mem" in real("/dev/null", "host.char_devices")


def test_paths(tree):
    card = tree.pci("0000:3b:00.0", driver="acme")
    npu = tree.class_device(f"{card}/npu/npu0", "npu", "npu0", 240, 0)
    tree.link(f"{npu}/device", card)
    tree.file(f"{card}/state", "ready\n")
    tree.file(f"{card}/hwmon/hwmon3/temp1_input", "41000\n")
    tree.file(f"{card}/hwmon/hwmon12/temp1_input", "42000\n")
    tree.file("/etc/shadow", "secret")
    tree.at(f"{npu}/out").symlink_to("/etc")
    tree.link("/sys/module/acme", card)
    facts = Facts(tree.root, "subsystem", "npu")
    assert facts("npu0", "./device/state") == "ready"
    assert facts("npu0", "pci/state") == "ready"
    assert facts("npu0", "./device/driver") == "acme"  # a link: the name it leads to
    assert facts("npu0", "./device/hwmon/hwmon*/temp1_input") == ("41000", "42000")
    assert facts("npu0", "./device/none*") == ()
    assert reason(facts("npu0", "./device/../uevent")) == "is empty"  # physical, as the shell's cd -P
    assert facts("npu0", "/sys/module/acme") == "0000:3b:00.0"
    assert facts("npu0", "/dev/npu0") == "npu0"
    assert reason(facts("npu0", "./none")) == "no such file"
    assert reason(facts("npu0", "./out/shadow")) == "leads out of /sys and /proc"
    assert facts("npu0", "./device") == "0000:3b:00.0"
    assert facts("npu0", "./..") == "npu"
    assert facts("npu0", "./device/../0000:3b:00.0/hwmon") == "hwmon"
    assert card in facts.reader.get_read_paths(facts.devices["npu0"])


def test_facts_are_read_once_and_fresh_ones_anew(tree):
    tree.pci("0000:00:01.0", label="a")
    facts = Facts(tree.root, "pci")
    assert facts("0000:00:01.0", "label") == "a"
    tree.file("/sys/bus/pci/devices/0000:00:01.0/label", "b")
    assert facts("0000:00:01.0", "label") == "a"
    assert HostReader(HostView(tree.root)).read_fact(facts.devices["0000:00:01.0"], "label") == "b"


def test_what_a_device_rests_on(tree):
    usb_machine(tree)
    facts = Facts(tree.root, "node", "/dev/ttyUSB*")
    for word in ("usb.serial", "node", "numa"):
        facts("/dev/ttyUSB2", word)
    places = facts.reader.get_read_paths(facts.devices["/dev/ttyUSB2"])
    for path in (
        "/dev/ttyUSB2",
        "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-2",
        facts.devices["/dev/ttyUSB2"].directory,
    ):
        assert DirtySet(frozenset({path})).overlaps(places)
    assert not DirtySet(frozenset({"/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1"})).overlaps(places)


@pytest.mark.parametrize(
    ("word", "made", "touched", "watched"),
    [
        ("/sys/devices/virtual/x/y/z", "/sys/devices/virtual/x/y", DirtySet(frozenset({"/sys/devices/virtual/x"})), ""),
        ("/sys/devices/virtual/x/*/z", "/sys/devices/virtual/x/y", DirtySet(frozenset({"/sys/devices/virtual/x"})), ""),
        ("/sys/class/y/z", "/sys/class/y", DirtySet(frozenset(), frozenset({"y"})), ""),
        ("/sys/class/tty/*/z", "/sys/class/tty/a", DirtySet(frozenset(), frozenset({"tty"})), ""),
        ("/dev/deep/*", "/dev/deep", DirtySet(frozenset({"/dev/deep/z"})), "/dev/deep"),
        ("/dev/z*", "/dev", DirtySet(frozenset({"/dev/z"})), "/dev"),
    ],
)
def test_what_an_absolute_path_rests_on_while_nothing_is_there(tree, word, made, touched, watched):
    usb_machine(tree)
    tree.at("/sys/devices/virtual").mkdir(exist_ok=True)
    facts = Facts(tree.root, "node", "/dev/ttyUSB1")
    assert facts("/dev/ttyUSB1", word) == () or isinstance(facts("/dev/ttyUSB1", word), Absent)
    rests_on = facts.reader.get_read_paths(facts.devices["/dev/ttyUSB1"])
    assert touched.overlaps(rests_on)
    places = PathIndex()
    places.add("it", rests_on)
    assert places.find_dirty_keys(touched) == {"it"}
    assert not watched or watched in places.watched_directories
    tree.node(f"{made}/z") if made.startswith("/dev") else tree.file(f"{made}/z", "1")
    again = Facts(tree.root, "node", "/dev/ttyUSB1")("/dev/ttyUSB1", word)
    assert again
    assert not isinstance(again, Absent)


# ---------------------------------------------------------------- types and mistakes


@pytest.mark.parametrize(
    ("kind", "word", "type_"),
    [
        ("pci", "vendor", WordType(ValueType.HEX, is_list=False)),
        ("pci", "pf.netdev.name", WordType(ValueType.TEXT, is_list=False)),
        ("pci", "iommu.members.address", WordType(ValueType.PCI, is_list=True)),
        ("pci", "pf", WordType(ValueType.TEXT, is_list=False)),
        ("node", "usb.tty.node", WordType(ValueType.PATH, is_list=True)),
        ("node", "nodes", WordType(ValueType.PATH, is_list=True)),
        ("node", "udev.ID_MODEL", WordType(ValueType.TEXT, is_list=False)),
        ("subsystem", "host.modules", WordType(ValueType.TEXT, is_list=True)),
        ("subsystem", "./device/state", WordType(ValueType.TEXT, is_list=False)),
        ("subsystem", "pci/hwmon/*/temp", WordType(ValueType.TEXT, is_list=True)),
    ],
)
def test_types(kind, word, type_):
    assert source_kinds.get_word_type(kind, word) == type_


@pytest.mark.parametrize(
    ("kind", "word", "table", "segment"),
    [
        ("pci", "vendro", "pci", "vendro"),
        ("pci", "pf.netdev.nmae", "pf.netdev", "nmae"),
        ("node", "vendor", "node", "vendor"),
        ("pci", "qat/cfg_services", "pci", "qat"),
        ("pci", "vendor/x", "the relations of pci", "vendor"),
        ("pci", "vendor.x", "vendor", "x"),
        ("pci", "/etc/passwd", "paths", "/etc"),
        ("pci", "/sys/../etc/passwd", "paths", ".."),
        ("pci", "udev", "udev", ""),
        ("pci", "", "pci", ""),
    ],
)
def test_unknown_words(kind, word, table, segment):
    with pytest.raises(UnknownWordError) as caught:
        source_kinds.get_word_type(kind, word)
    error = caught.value
    assert (error.word, error.table, error.segment) == (word, table, segment)
    if table in {"pci", "pf.netdev"} and segment:
        assert "driver" in error.choices


def test_a_glob_that_is_none():
    with pytest.raises(PatternError):
        source_kinds.get_word_type("pci", "./a/**/b")


def test_every_word_says_what_it_is():
    from agent.scanners.word_route import TABLES

    for table in TABLES.values():
        for entry in (*table.words.values(), *table.relations.values()):
            assert entry.about
            assert entry.kernel


def test_a_thousand_functions_are_read_quickly(tree):
    pf = tree.pci("0000:3b:00.0")
    tree.netdev(pf, "eth0", phys_port_name="p0")
    addresses = [f"0000:{bus:02x}:{slot:02x}.{n}" for bus in (0x3C,) for slot in range(32) for n in range(8)]
    tree.virtual_functions(pf, *addresses)
    facts = Facts(tree.root, "pci")
    start = time.process_time()
    for address in addresses:
        for word in ("vf_index", "pf.netdev.name", "vendor", "driver", "numa"):
            facts(address, word)
    assert time.process_time() - start < 2


def test_fifty_entries_read_each_file_once_and_each_function_of_a_pf_once(tree):
    pf = tree.pci("0000:3b:00.0")
    tree.netdev(pf, "eth0", phys_port_name="p0")
    vfs = [f"0000:3c:{slot:02x}.{n}" for slot in range(32) for n in range(8)]
    tree.virtual_functions(pf, *vfs)
    for slot in range(30):
        for function in range(8):
            tree.pci(f"0000:3d:{slot:02x}.{function}", vendor="0x10de\n")
    matches = (
        line("vendor", "15b3", ValueType.HEX),
        line("vf_index", -1, ValueType.INT),
        line("numa", 1, ValueType.INT),
    )
    named = (
        line("vendor", "15b3", ValueType.HEX),
        line("pf.netdev.name", "eth9"),
        line("pf.netdev.carrier", True, ValueType.BOOL),
    )
    specs = [
        spec(f"example.com/{n}", source=Source("pci"), match=clause(*(matches if n % 2 else named))) for n in range(50)
    ]
    root = Counting(str(tree.top))
    listing = source_kinds.list_devices(root, [each.source for each in specs], None, ALL_DIRTY)
    assert root.listed.count("/sys/bus/pci/devices") == 1
    now = update_inventory(specs, listing, HostReader(HostView(root)))
    assert len(now.match_results) == 1 + 256 + 240
    assert all(len(sighting.mismatches) == 50 for sighting in now.match_results.values())
    assert root.files
    assert max(root.files.values()) == 1
    assert root.listed.count(pf) == 1  # virtfn* of all 256
    assert sum(root.files.values()) < 6 * len(now.match_results)

    root.files.clear()
    root.listed.clear()
    (device,) = [device for device in listing.devices[Source("pci")] if device.name == "0000:3d:07.1"]
    event = DirtySet(frozenset({device.directory}), frozenset({"pci"}))
    after = source_kinds.list_devices(root, [Source("pci")], listing, event)
    assert update_inventory(specs, after, HostReader(HostView(root)), now, event).match_results == now.match_results
    assert set(root.files) == {f"{device.directory}/vendor"}
    assert root.listed == []


class Counting(Root):
    """Counts what is read."""

    def __init__(self, prefix):
        super().__init__(prefix)
        self.files = {}
        self.listed = []

    def read_head(self, path, count):
        self.files[path] = self.files.get(path, 0) + 1
        return super().read_head(path, count)

    def list_names(self, directory, *, ordered=True):
        self.listed.append(directory)
        return super().list_names(directory, ordered=ordered)
