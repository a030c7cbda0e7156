"""The source kinds for one class or bus, for globs of directories, and for fixed names."""

import pytest

from agent.core.entry.resource_spec import Source
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.inventory.inventory import update_inventory
from agent.core.inventory.listing import SkippedPath
from agent.core.language.value import Absent
from agent.scanners import source_kinds
from agent.scanners.host_reader import HostReader, HostView
from agent.scanners.scanner import SourceListing


def sweep(tree, source, previous=None, touched=ALL_DIRTY):
    return source_kinds.KINDS[source.kind].scan(tree.root, source, previous or SourceListing(), touched)


def names(found):
    return [device.name for device in found.devices]


def places(found):
    return [device.location for device in found.devices]


# ---------------------------------------------------------------- usb


def usb_machine(tree):
    """A controller with two buses; on the slow one a hub with a stick, on the fast one a stick with the same port."""
    host = tree.pci("0000:00:14.0")
    slow = tree.usb(f"{host}/usb1", "1d6b", "0002", devnum=1)
    fast = tree.usb(f"{host}/usb2", "1d6b", "0003", devnum=1)
    tree.file(f"{slow}/version", " 2.00\n")
    tree.file(f"{fast}/version", " 3.10\n")
    for root_hub in (slow, fast):
        tree.device(f"{root_hub}/{root_hub[-1]}-0:1.0", "usb", bus=True)
    hub = tree.usb(f"{slow}/1-1", "05e3", "0608", devnum=2)
    tree.file(f"{hub}/bDeviceClass", "09\n")
    stick = tree.usb(f"{hub}/1-1.4", "0403", "6001", serial="A", devnum=3)
    tree.device(f"{stick}/1-1.4:1.0", "usb", bus=True)
    other = tree.usb(f"{slow}/1-2", "0403", "6001", devnum=4)
    quick = tree.usb(f"{fast}/2-2", "0951", "1666", devnum=5)
    return stick, other, quick


def test_usb_devices_are_no_hubs_and_no_interfaces(tree):
    stick, *_ = usb_machine(tree)
    found = sweep(tree, Source("usb"))
    assert names(found) == ["1-1.4", "1-2", "2-2"]
    assert found.devices[0].key == stick
    assert found.devices[0].node == "/dev/bus/usb/001/003"
    assert found.skipped_paths == ()


def test_the_place_of_a_usb_device_is_its_port_at_the_controller(tree):
    usb_machine(tree)
    assert places(sweep(tree, Source("usb"))) == [
        "usb:pci-0000:00:14.0-usb-0:1.4",
        "usb:pci-0000:00:14.0-usb-0:2",
        "usb:pci-0000:00:14.0-usb-0:2/usb3",  # another port, though it has the same number
    ]


def test_a_replug_is_another_thing_in_the_same_place(tree):
    stick, *_ = usb_machine(tree)
    before = sweep(tree, Source("usb"))
    tree.class_node(stick, "", "bus/usb/001/009", 189, 8)
    tree.file(f"{stick}/devnum", "9")
    now = sweep(tree, Source("usb"), before)
    assert now.devices[0].location == before.devices[0].location
    assert now.devices[0].instance_id != before.devices[0].instance_id
    assert now.devices[1] is before.devices[1]


def test_hubs_six_deep(tree):
    directory = tree.usb(f"{tree.pci('0000:00:14.0')}/usb1", "1d6b", "0002", devnum=1)
    name = "1-1"
    for depth in range(6):
        directory = tree.usb(f"{directory}/{name}", "05e3", "0608", devnum=2 + depth)
        if depth < 5:
            tree.file(f"{directory}/bDeviceClass", "09\n")
            name += ".1"
    (device,) = sweep(tree, Source("usb")).devices
    assert (device.name, device.location) == ("1-1.1.1.1.1.1", "usb:pci-0000:00:14.0-usb-0:1.1.1.1.1.1")


def test_what_a_usb_device_says(tree):
    stick, *_ = usb_machine(tree)
    tree.netdev(f"{stick}/1-1.4:1.0", "wwan0")
    tree.netdev(f"{stick}/1-1.4:1.0", "wwan1")
    root, source = tree.root, Source("usb")
    device = sweep(tree, source).devices[0]
    reader = HostReader(HostView(root))
    said = {
        word: reader.read_fact(device, word)
        for word in ("vendor", "serial", "port", "hub", "net.name", "usb.port", "pci.address", "authorized", "numa")
    }
    assert said.pop("numa") == Absent("no device above it says one")
    assert said == {
        "vendor": "0403", "serial": "A", "port": "1-1.4", "hub": "1-1", "net.name": ("wwan0", "wwan1"),
        "usb.port": "1-1.4", "pci.address": "0000:00:14.0", "authorized": True,
    }  # fmt: skip


# ---------------------------------------------------------------- net


def test_every_interface_and_its_place(tree):
    nic = tree.pci("0000:3b:00.0")
    tree.netdev(nic, "enp59s0f0np0", phys_port_name="p0\n", dev_port="0\n")
    tree.netdev(nic, "eth5", phys_port_name="pf0vf3\n")
    two = tree.pci("0000:3c:00.0")
    for port in (0, 1):
        tree.netdev(two, f"ens{port}", dev_port=f"{port}\n")
    tree.device("/sys/devices/virtual/net/br0", "net", type="1")
    tree.file("/sys/class/net/bonding_masters", "")
    found = sweep(tree, Source("net"))
    assert {device.name: device.location for device in found.devices} == {
        "enp59s0f0np0": "net:pci-0000:3b:00.0",
        "eth5": "net:pci-0000:3b:00.0/pf0vf3",
        "ens0": "net:pci-0000:3c:00.0",
        "ens1": "net:pci-0000:3c:00.0/1",
        "br0": "net:br0",
    }
    reader = HostReader(HostView(tree.root))
    virtual = {device.name: reader.read_fact(device, "virtual") for device in found.devices}
    assert [name for name, said in virtual.items() if said] == ["br0"]


def test_a_renamed_interface_keeps_its_place(tree):
    nic = tree.pci("0000:3b:00.0")
    directory = tree.netdev(nic, "eth0")
    before = sweep(tree, Source("net"))
    tree.at("/sys/class/net/eth0").unlink()
    tree.at(directory).rename(tree.at(f"{nic}/net/ens7"))
    tree.link("/sys/class/net/ens7", f"{nic}/net/ens7")
    moved = DirtySet(frozenset({f"{nic}/net/ens7", directory}), frozenset({"net"}))
    now = sweep(tree, Source("net"), before, moved)
    assert names(now) == ["ens7"]
    assert places(now) == places(before)


def test_subfunctions_of_one_function_are_told_apart(tree):
    nic = tree.pci("0000:3b:00.0")
    for index, number in enumerate((88, 99)):
        sub = tree.device(f"{nic}/mlx5_core.sf.{index + 2}", "auxiliary", bus=True, sfnum=f"{number}\n")
        tree.netdev(sub, f"enp59s0f0s{number}", phys_port_name="p0")
        tree.infiniband(sub, f"mlx5_{index + 2}", number=index, link="Ethernet")
    tree.device(f"{nic}/mlx5_core.eth.0", "auxiliary", bus=True)
    assert places(sweep(tree, Source("net"))) == ["net:pci-0000:3b:00.0/sf88", "net:pci-0000:3b:00.0/sf99"]
    assert places(sweep(tree, Source("infiniband")))[0] == "infiniband:pci-0000:3b:00.0/sf88"
    found = sweep(tree, Source("auxiliary"))
    assert {device.name: device.location for device in found.devices} == {
        "mlx5_core.eth.0": "auxiliary:pci-0000:3b:00.0/mlx_core.eth",
        "mlx5_core.sf.2": "auxiliary:pci-0000:3b:00.0/sf88",
        "mlx5_core.sf.3": "auxiliary:pci-0000:3b:00.0/sf99",
    }
    reader = HostReader(HostView(tree.root))
    device = next(device for device in found.devices if device.name == "mlx5_core.sf.3")
    words = ("sfnum", "netdev.name", "rdma.name", "rdma.pci.address")
    assert [reader.read_fact(device, word) for word in words] == [99, "enp59s0f0s99", "mlx5_3", "0000:3b:00.0"]


# ---------------------------------------------------------------- drm


def test_card_and_render_node_are_one_host_device(tree):
    for index, address in enumerate(("0000:3b:00.0", "0000:86:00.0")):
        gpu = tree.pci(address, driver="amdgpu")
        tree.drm(gpu, index, 128 + index)
        tree.file("/sys/class/drm/version", "drm 1.1.0\n")
    partition = tree.device("/sys/devices/platform/amdgpu_xcp_0", "platform", bus=True)
    tree.drm(partition, None, 130)
    only_card = tree.pci("0000:03:00.0")
    tree.drm(only_card, 7)
    tree.class_device("/sys/devices/virtual/drm/card9", "drm", "dri/card9", 226, 9)
    found = sweep(tree, Source("drm"))
    assert {device.name: device.location for device in found.devices} == {
        "card0": "drm:pci-0000:3b:00.0",
        "card1": "drm:pci-0000:86:00.0",
        "card7": "drm:pci-0000:03:00.0",
        "card9": "drm:card9",
        "renderD130": "drm:platform-amdgpu_xcp_0",
    }
    reader = HostReader(HostView(tree.root))

    def said(name, *words):
        device = next(device for device in found.devices if device.name == name)
        return [
            value.reason if isinstance(value := reader.read_fact(device, word), Absent) else value for word in words
        ]

    words = ("card", "render", "render_minor", "device_name", "driver", "nodes")
    both = ("/dev/dri/card1", "/dev/dri/renderD129")
    assert said("card1", *words) == [*both, 129, "0000:86:00.0", "amdgpu", both]
    assert said("renderD130", *words[:4]) == ["it has no cardN", "/dev/dri/renderD130", 130, "amdgpu_xcp_0"]
    assert said("card7", *words[:3]) == ["/dev/dri/card7", "it has no renderDN", "it has no renderDN"]
    assert said("card9", "card", "render", "device_name") == [
        "/dev/dri/card9", "it has no renderDN", "no device carries it",
    ]  # fmt: skip


def test_a_render_node_that_comes_late_is_seen(tree):
    gpu = tree.pci("0000:3b:00.0")
    tree.drm(gpu, 0)
    source = Source("drm")
    before = source_kinds.list_devices(tree.root, [source], None, ALL_DIRTY)
    (device,) = before.devices[source]
    reader = HostReader(HostView(tree.root))
    assert isinstance(reader.read_fact(device, "render"), Absent)
    tree.drm(gpu, None, 128)
    event = DirtySet(frozenset({f"{gpu}/drm/renderD128"}), frozenset({"drm"}))
    assert event.overlaps(reader.get_read_paths(device))
    now = source_kinds.list_devices(tree.root, [source], before, event)
    assert now.devices[source] == sweep(tree, source).devices
    assert HostReader(HostView(tree.root)).read_fact(now.devices[source][0], "render") == "/dev/dri/renderD128"


def test_the_relations_of_a_function(tree):
    gpu = tree.pci("0000:3b:00.0", sriov_numvfs="4\n")
    tree.drm(gpu, 0, 128)
    tree.infiniband(gpu, "mlx5_0")
    device = sweep(tree, Source("pci")).devices[0]
    reader = HostReader(HostView(tree.root))
    words = ("drm.render", "drm.render_minor", "rdma.name", "rdma.uverbs", "rdma.ports.state", "vfs")
    assert [reader.read_fact(device, word) for word in words] == [
        "/dev/dri/renderD128", 128, "mlx5_0", "/dev/infiniband/uverbs0", ("active",), 4,
    ]  # fmt: skip
    tree.pci("0000:3c:00.0")
    bare = sweep(tree, Source("pci")).devices[1]
    assert [reader.read_fact(bare, word).reason for word in ("drm.card", "rdma.name")] == [
        "drm: it has no DRM device", "rdma: it has no RDMA device",
    ]  # fmt: skip


# ---------------------------------------------------------------- mdev


def test_mediated_devices(tree):
    gpu = tree.pci("0000:3b:00.0", numa_node="1\n")
    one, two = "c0b1e4f8-0000-4000-8000-000000000001", "c0b1e4f8-0000-4000-8000-000000000002"
    made = tree.mdev(gpu, one, "nvidia-256", "GRID T4-1Q")
    tree.mdev(gpu, two, "i915-GVTg_V5_4")
    tree.iommu_group(12, made)
    found = sweep(tree, Source("mdev"))
    assert places(found) == [f"mdev:{one}", f"mdev:{two}"]
    reader = HostReader(HostView(tree.root))
    words = ("uuid", "type", "iommu.group", "pci.address", "numa")
    assert [reader.read_fact(found.devices[0], word) for word in words] == [one, "GRID_T4-1Q", 12, "0000:3b:00.0", 1]
    assert reader.read_fact(found.devices[1], "type") == "i915-GVTg_V5_4"


# ---------------------------------------------------------------- dir


def test_directories_of_patterns(tree):
    tree.file("/proc/driver/nvidia/gpus/0000:3b:00.0/information", "Model: x\n")
    tree.file("/proc/driver/nvidia/gpus/0000:86:00.0/information", "Model: y\n")
    tree.file("/proc/driver/nvidia/gpus/README", "")
    found = sweep(tree, Source("dir", ("/proc/driver/nvidia/gpus/*",)))
    assert names(found) == ["/proc/driver/nvidia/gpus/0000:3b:00.0", "/proc/driver/nvidia/gpus/0000:86:00.0"]
    assert places(found) == ["dir:0000:3b:00.0", "dir:0000:86:00.0"]
    assert found.skipped_paths == ()
    reader = HostReader(HostView(tree.root))
    assert reader.read_fact(found.devices[0], "name") == "0000:3b:00.0"
    assert reader.read_fact(found.devices[0], "./information") == "Model: x"
    assert sweep(tree, Source("dir", ("/proc/none/*",))).skipped_paths == (
        SkippedPath("/proc/none/*", "nothing fits it"),
    )
    assert sweep(tree, Source("dir", ("/proc/none",))).skipped_paths == (SkippedPath("/proc/none", "no such file"),)


def test_one_directory_is_one_device_however_many_paths_lead_to_it(tree):
    dsa = tree.pci("0000:6a:01.0")
    queue = tree.device(f"{dsa}/dsa0/wq0.1", "dsa", bus=True, state="enabled")
    tree.link("/sys/class/other/a", queue)
    found = sweep(tree, Source("dir", ("/sys/bus/dsa/devices/wq*", "/sys/class/other/*")))
    (device,) = found.devices
    assert (device.name, device.key) == ("/sys/bus/dsa/devices/wq0.1", queue)
    assert device.location == "dir:pci-0000:6a:01.0/wq.1"
    assert device.key == sweep(tree, Source("subsystem", ("dsa",))).devices[0].key
    functions = sweep(tree, Source("dir", ("/sys/bus/pci/devices/*",)))
    assert functions.devices[0].key == sweep(tree, Source("pci")).devices[0].key


@pytest.mark.parametrize(
    ("pattern", "event", "concerned"),
    [
        ("/sys/class/npu/npu*", DirtySet(frozenset({"/sys/devices/x/npu0"}), frozenset({"npu"})), True),
        ("/sys/class/npu/npu*", DirtySet(frozenset({"/sys/devices/x/net/eth0"}), frozenset({"net"})), False),
        ("/sys/class/npu/npu*", DirtySet(frozenset({"/sys/devices/x/other"}), frozenset({"npu"})), False),
        ("/sys/class/npu/npu*", DirtySet(subsystems=frozenset({"npu"})), True),
        ("/sys/class/fpga/r*/port.*", DirtySet(frozenset({"/sys/devices/x/r0/port.1"}), frozenset({"dfl"})), True),
        ("/sys/class/fpga/r*/port.*", DirtySet(frozenset({"/sys/devices/x/r0"}), frozenset({"fpga"})), True),
        ("/sys/bus/dsa/devices/wq*", DirtySet(frozenset({"/sys/devices/x/wq0.0"}), frozenset({"dsa"})), True),
        ("/sys/class/*/npu0", DirtySet(frozenset({"/sys/devices/x/npu0"}), frozenset({"net"})), True),
        ("/sys/block/sd*", DirtySet(frozenset({"/sys/devices/x/sda"}), frozenset({"block"})), True),
        ("/sys/bus/dsa/drivers/x", DirtySet(frozenset({"/sys/devices/x/x"}), frozenset({"dsa"})), False),
        (
            "/sys/module/amdgpu/drivers/pci:amdgpu/0*",
            DirtySet(frozenset({"/sys/devices/x/0000:3b:00.0"}), frozenset({"pci"})),
            True,
        ),
        ("/sys/module/amdgpu/drivers/pci:amdgpu/0*", DirtySet(frozenset({"/sys/module/amdgpu"})), True),
        ("/sys/devices/platform/xcp_*", DirtySet(frozenset({"/sys/devices/platform/xcp_1"})), True),
        ("/proc/driver/nvidia/gpus/*", DirtySet(frozenset({"/sys/devices/x"}), frozenset({"pci"})), False),
    ],
)
def test_what_concerns_a_pattern(pattern, event, concerned):
    source = Source("dir", (pattern,))
    assert source_kinds.KINDS["dir"].is_affected(source, SourceListing(), event) is concerned
    assert source_kinds.KINDS["dir"].is_affected(source, SourceListing(), ALL_DIRTY)


def test_a_directory_made_anew_is_another_thing(tree):
    tree.file("/proc/driver/x/0/state", "1")
    source = Source("dir", ("/proc/driver/x/*",))
    before = sweep(tree, source)
    tree.at("/proc/driver/x/0").rename(tree.at("/proc/old"))
    tree.file("/proc/driver/x/0/state", "2")
    assert not source_kinds.is_same_device(tree.root, before.devices[0])
    assert sweep(tree, source, before).devices[0].instance_id != before.devices[0].instance_id
    assert sweep(tree, source, before).devices[0].location == before.devices[0].location


# ---------------------------------------------------------------- fixed, every


def test_fixed_names_are_always_there(tree):
    source = Source("fixed", ("b", "a"))
    found = sweep(tree, source)
    assert names(found) == ["b", "a"]
    assert sweep(tree, source, found) is found
    assert source_kinds.is_same_device(tree.root, found.devices[0])
    reader = HostReader(HostView(tree.root))
    assert reader.read_fact(found.devices[0], "name") == "b"
    for word in ("node", "driver", "numa", "pci.address", "parent.name", "path_id", "./x", "udev.X", "subsystem"):
        assert isinstance(reader.read_fact(found.devices[0], word), Absent), word
    assert reader.read_fact(found.devices[0], "nodes") == ()


def test_a_source_whose_time_has_come_is_read_anew_and_no_other(tree):
    for name in ("x", "y"):
        tree.file(f"/proc/driver/{name}/0/state", "1")
    sources = [Source("dir", (f"/proc/driver/{name}/*",)) for name in ("x", "y")]
    listing = source_kinds.list_devices(tree.root, sources, None, ALL_DIRTY)
    before = update_inventory([], listing, HostReader(HostView(tree.root)))
    due = DirtySet(sources=frozenset(sources[:1]))
    now = update_inventory(
        [], source_kinds.list_devices(tree.root, sources, listing, due), HostReader(HostView(tree.root)), before, due
    )
    one, two = (listing.devices[source][0].key for source in sources)
    assert now.match_results[one] is not before.match_results[one]
    assert now.match_results[two] is before.match_results[two]
    tree.file("/proc/driver/x/1/state", "1")
    assert len(source_kinds.list_devices(tree.root, sources, listing, due).devices[sources[0]]) == 2


# ---------------------------------------------------------------- by name alone


@pytest.mark.parametrize("kind", ["pci", "usb", "net", "subsystem"])
def test_looking_at_touched_names_alone_sees_what_the_sweep_sees(tree, kind):
    host = tree.pci("0000:00:14.0")
    hub = tree.usb(f"{host}/usb1", "1d6b", "0002", devnum=1)
    source = Source(kind, ("npu",) if kind == "subsystem" else ())

    def make(number):
        if kind == "pci":
            return tree.pci(f"0000:3b:00.{number}")
        if kind == "usb":
            return tree.usb(f"{hub}/1-{number}", "0403", "6001", devnum=10 + number)
        if kind == "net":
            return tree.netdev(host, f"eth{number}", dev_port=f"{number}")
        return tree.class_device(f"{host}/npu/npu{number}", "npu", f"npu{number}", 240, number)

    subsystem = "npu" if kind == "subsystem" else kind
    listed = f"/sys/bus/{kind}/devices" if kind in {"pci", "usb"} else f"/sys/class/{subsystem}"
    for number in (1, 2, 4):
        make(number)
    before = sweep(tree, source)
    made = make(3)
    event = DirtySet(frozenset({made}), frozenset({subsystem}))
    more = sweep(tree, source, before, event)
    assert more == sweep(tree, source)
    assert len(more.devices) == len(before.devices) + 1
    tree.at(f"{listed}/{made.rpartition('/')[2]}").unlink()
    assert sweep(tree, source, more, event) == before == sweep(tree, source)
    tree.at(f"{listed}/{made.rpartition('/')[2]}").symlink_to("nowhere")
    odd = sweep(tree, source, before, event)
    assert odd == sweep(tree, source)
    assert odd.skipped_paths[0].reason == "dangling link"
    elsewhere = DirtySet(frozenset({"/sys/devices/x/other"}), frozenset({subsystem}))
    assert sweep(tree, source, odd, elsewhere) is odd
