"""What a container gets in place of other programs' plugins, compared whole with files: names and formats are theirs.
Each file says from where it is known: the project, the file, and at which commit or in which release it was read.

Permissions are ours, `rw`; other plugins say the same, or `mrw`. As Google's says it, class gcp-gpu does, `rwm`.
"""

import json

import pytest

from tests.agent.rig import Rig
from tests.cli.conftest import TOP, device_agent

GOLDEN = TOP / "tests/agent/drop-in"
KUBEVIRT = TOP / "tests/cli/imports/kubevirt.yaml"
SQUAT = TOP / "tests/cli/imports/squat.yaml"
OPTIONAL = TOP / "tests/cli/imports/squat-optional.yaml"
SRIOV = TOP / "tests/cli/imports/sriov.json"
UUIDS = [f"8f6b1c9e-0000-4000-8000-00000000000{number}" for number in (1, 2)]


def kubevirt(rig: Rig, *, cdev: bool = False) -> str:
    """The configuration that KubeVirt had, taken over."""
    tree = rig.tree
    t4 = {"vendor": "0x10de\n", "device": "0x1eb6\n", "class": "0x030200\n"}
    first, second = (tree.pci(name, driver="vfio-pci", **t4) for name in ("0000:3b:00.0", "0000:86:00.0"))
    sound = tree.pci("0000:3b:00.1", driver="vfio-pci", **(t4 | {"device": "0x10f8\n", "class": "0x040300\n"}))
    tree.vfio(11, first, sound, cdev=0 if cdev else None)
    tree.vfio(12, second, cdev=2 if cdev else None)
    card = tree.pci("0000:af:00.0", driver="nvidia", **t4)
    for group, uuid in zip((31, 32), UUIDS, strict=True):
        made = tree.mdev(card, uuid, "nvidia-222", "GRID T4-1Q")
        tree.link(f"{made}/driver", "/sys/bus/mdev/drivers/nvidia-vgpu-vfio")
        tree.vfio(group, made)
    for port, number in (("1-1", 4), ("1-2", 12)):
        tree.usb(f"/sys/devices/pci0000:00/0000:00:14.0/usb1/{port}", "46f4", "0001", devnum=number)
    return device_agent("import", "kubevirt", str(KUBEVIRT)).stdout


def kubevirt_iommufd(rig: Rig) -> str:
    """The same on a kernel with iommufd."""
    rig.tree.class_device("/sys/devices/virtual/misc/iommu", "misc", "iommu", 10, 120)
    return kubevirt(rig, cdev=True)


def qat(rig: Rig, more: str = "", *, noiommu: bool = False) -> str:
    """Two functions of one card."""
    tree, files = rig.tree, {"vendor": "0x8086\n", "class": "0x0b4000\n"}
    card = tree.pci("0000:6b:00.0", driver="4xxx", **files, device="0x4940\n")
    tree.file(f"{card}/qat/state", "up\n")
    tree.file(f"{card}/qat/cfg_services", "sym;asym\n")
    names = ("0000:6b:00.1", "0000:6b:00.2")
    made = tree.virtual_functions(card, *names, driver="vfio-pci", **files, device="0x4941\n")
    for group, function in zip((41, 42), made, strict=True):
        tree.vfio(group, function, noiommu=noiommu)
    return f'[[resource]]\nclass = "qat-vf"\n{more}'


def without_iommu(rig: Rig) -> str:
    """The same on a machine without an IOMMU."""
    text = 'give.vfio = { noiommu = true, to = "/dev/vfio/noiommu-{iommu.group}" }\n'
    return qat(rig, text, noiommu=True)


def qat_c62x(rig: Rig) -> str:
    """Two functions of a card of the second generation, of which the driver tells no services."""
    tree, files = rig.tree, {"vendor": "0x8086\n", "class": "0x0b4000\n"}
    card = tree.pci("0000:3d:00.0", driver="c6xx", **files, device="0x37c8\n")
    names = ("0000:3d:01.0", "0000:3d:01.1")
    made = tree.virtual_functions(card, *names, driver="vfio-pci", **files, device="0x37c9\n")
    for group, function in zip((43, 44), made, strict=True):
        tree.vfio(group, function)
    return '[[resource]]\nclass = "qat-vf"\n'


def sriov(rig: Rig) -> str:
    """The configuration that the SR-IOV network device plugin had, taken over."""
    tree, files = rig.tree, {"vendor": "0x8086\n", "class": "0x020000\n"}
    card = tree.pci("0000:86:00.0", driver="ice", **files, device="0x159b\n")
    made = tree.virtual_functions(card, "0000:86:01.0", "0000:86:01.1", driver="vfio-pci", **files, device="0x1889\n")
    for group, function in zip((71, 72), made, strict=True):
        tree.vfio(group, function)
    tree.node("/dev/vhost-net", "c 10:238")
    tree.node("/dev/net/tun", "c 10:200")
    return device_agent("import", "sriov", str(SRIOV)).stdout.partition("# acc,")[0]


def sriov_rdma(rig: Rig) -> str:
    """The same for functions with RDMA devices. Where that plugin says one umad and one issm, here are lists of them:
    an adapter of two ports has two.
    """
    tree, files = rig.tree, {"vendor": "0x15b3\n", "class": "0x020000\n"}
    card = tree.pci("0000:86:00.0", driver="mlx5_core", **files, device="0x101d\n")
    made = tree.virtual_functions(card, "0000:86:00.2", "0000:86:00.3", driver="mlx5_core", **files, device="0x101e\n")
    for number, function in enumerate(made, 2):
        tree.netdev(function, f"ens2f0v{number}")
        tree.infiniband(function, f"mlx5_{number}", number=number, link="Ethernet")
    tree.node("/dev/infiniband/rdma_cm", "c 10:58")
    return "[[resource]]" + device_agent("import", "sriov", str(SRIOV)).stdout.split("[[resource]]")[3]


def rdma_shared(rig: Rig) -> str:
    """Two adapters in one pool; each share of it gives the nodes of both."""
    tree = rig.tree
    tree.file("/sys/module/ib_core/parameters/netns_mode", "Y\n")
    for number, address in enumerate(("0000:3b:00.0", "0000:86:00.0")):
        function = tree.pci(address, driver="mlx5_core", vendor="0x15b3\n", device="0x1017\n")
        tree.infiniband(function, f"mlx5_{number}", number=number)
    tree.node("/dev/infiniband/rdma_cm", "c 10:58")
    give = 'give.rdma = { permissions = "rwm", required = ["uverbs", "umad", "rdma_cm"], optional = ["issm"] }'
    return f'[[resource]]\nname = "rdma/hca_shared"\nclass = "rdma-shared"\nreplicas = false\nslots = 3\n{give}\n'


def onload(rig: Rig) -> str:
    """One port on a host that has Onload where its operator puts it."""
    tree = rig.tree
    port = tree.pci("0000:3b:00.0", driver="sfc", vendor="0x1924\n", device="0x0b03\n", **{"class": "0x020000\n"})
    tree.netdev(port, "ens1f0np0", carrier="1\n")
    for module in ("sfc", "sfc_resource", "sfc_char", "onload"):
        tree.file(f"/sys/module/{module}/initstate", "live\n")
    for major, node in enumerate(("onload", "onload_epoll", "sfc_char"), 241):
        tree.node(f"/dev/{node}", f"c {major}:0")
    tree.file("/proc/devices", "Character devices:\n241 onload\n242 onload_epoll\n243 sfc_char\n")
    for library in ("libonload.so", "libonload.so.1", "libonload_ext.so", "libonload_ext.so.2"):
        tree.file(f"/opt/onload/usr/lib64/{library}")
    return '[[resource]]\nclass = "onload"\nslots.count = 2\n'


def amd(rig: Rig) -> str:
    """Two cards with their compute nodes, known by their render nodes."""
    tree = rig.tree
    tree.file("/sys/module/amdgpu/initstate", "live\n")
    tree.class_device("/sys/devices/virtual/kfd/kfd", "kfd", "kfd", 238, 0)
    for number, bus in enumerate((0x0C, 0x8C)):
        card = tree.pci(f"0000:{bus:02x}:00.0", driver="amdgpu", vendor="0x1002\n", device="0x74a1\n")
        tree.drm(card, number, 128 + number)
        said = f"drm_render_minor {128 + number}\nlocation_id {bus << 8}\ndomain 0\n"
        tree.file(f"/sys/devices/virtual/kfd/kfd/topology/nodes/{number + 1}/properties", said)
    return '[[resource]]\nclass = "amd-gpu"\n'


def intel(rig: Rig, driver: str = "i915", text: str = 'class = "intel-gpu"') -> str:
    """Two GPUs; their names by place, which Intel's plugin mounts, are nodes here."""
    for number, bus in enumerate((0x03, 0x83)):
        card = rig.tree.pci(f"0000:{bus:02x}:00.0", driver=driver, vendor="0x8086\n", device="0x56c0\n")
        rig.tree.drm(card, number, 128 + number)
        engine = f"{card}/{driver}.mei-gscfi.{number}/mei/mei{number + 1}"
        rig.tree.class_device(engine, "mei", f"mei{number + 1}", 241, number + 1)
    return f"[[resource]]\n{text}\n"


def xe(rig: Rig) -> str:
    """The same with the newer driver."""
    return intel(rig, "xe")


def serve_monitoring(rig: Rig) -> str:
    """Return the same for monitoring."""
    return intel(rig, text='class = "intel-gpu-monitoring"\nslots.count = 2')


def squat(rig: Rig) -> str:
    """The configuration that generic-device-plugin had, taken over."""
    for number in (1, 2):
        stick = rig.tree.usb(f"/sys/devices/pci0000:00/0000:00:14.0/usb1/1-{number}", "0403", "6001", devnum=number + 3)
        port = f"{stick}/1-{number}:1.0/ttyUSB{number}/tty/ttyUSB{number}"
        rig.tree.class_device(port, "tty", f"ttyUSB{number}", 188, number)
    return device_agent("import", "squat", str(SQUAT)).stdout


def squat_optional(rig: Rig) -> str:
    """Of three ports that need not be there two are."""
    rig.tree.node("/dev/ttyS0", "c 4:64")
    rig.tree.node("/dev/ttyUSB1", "c 188:1")
    return device_agent("import", "squat", str(OPTIONAL)).stdout


def nvidia(rig: Rig, text: str = 'class = "nvidia-gpu"\noptions.strategy = ["nodes", "env"]') -> str:
    """Two GPUs whose minor numbers have a gap."""
    tree = rig.tree
    for name, minor in (("0000:3b:00.0", 0), ("0000:af:00.0", 3)):
        tree.pci(name, vendor="0x10de\n", device="0x2330\n", config=b"\xde\x10\x30\x23")
        said = f"GPU UUID: \t GPU-{UUIDS[minor // 3]}\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n"
        tree.file(f"/proc/driver/nvidia/gpus/{name}/information", said)
        tree.node(f"/dev/nvidia{minor}", f"c 195:{minor}")
    for name, number in (("nvidiactl", "195:255"), ("nvidia-modeset", "195:254"), ("nvidia-uvm", "510:0")):
        tree.node(f"/dev/{name}", f"c {number}")
    tree.file("/dev/kmsg", "")
    return f"[[resource]]\n{text}\n"


def gcp(rig: Rig) -> str:
    """The same with the libraries of Container-Optimized OS."""
    rig.tree.file("/home/kubernetes/bin/nvidia/vulkan/icd.d/nvidia_icd.json", "{}")
    return nvidia(rig, 'class = "gcp-gpu"')


@pytest.mark.parametrize(
    ("golden", "machine", "resource"),
    [
        ("kubevirt-pci", kubevirt, "nvidia.com/TU104GL_Tesla_T4"),
        ("kubevirt-iommufd", kubevirt_iommufd, "nvidia.com/TU104GL_Tesla_T4"),
        ("kubevirt-mdev", kubevirt, "nvidia.com/GRID_T4-1Q"),
        ("kubevirt-usb", kubevirt, "kubevirt.io/storage"),
        ("sriov-dpdk", sriov, "example.com/dpdk"),
        ("sriov-rdma", sriov_rdma, "intel.com/rdma"),
        ("rdma-shared", rdma_shared, "rdma/hca_shared"),
        ("qat", qat, "qat.intel.com/cy"),
        ("qat-noiommu", without_iommu, "qat.intel.com/cy"),
        ("qat-c62x", qat_c62x, "qat.intel.com/generic"),
        ("onload", onload, "amd.com/onload"),
        ("squat", squat, "edge.example/serial"),
        ("squat-optional", squat_optional, "edge.example/probe"),
        ("amd-gpu", amd, "amd.com/gpu"),
        ("intel-gpu", intel, "gpu.intel.com/i915"),
        ("intel-gpu-xe", xe, "gpu.intel.com/xe"),
        ("intel-gpu-monitoring", serve_monitoring, "gpu.intel.com/i915_monitoring"),
        ("nvidia-gpu", nvidia, "nvidia.com/gpu"),
        ("gcp-gpu", gcp, "nvidia.com/gpu"),
    ],
)
async def test_what_a_container_gets(rig, golden, machine, resource):
    (rig.etc / "resources.d/10.toml").write_text(machine(rig))
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(resource)
        await rig.until(lambda: rig.kubelet.allocatable(resource) >= 2)
        options = await rig.kubelet.allocate("pod", "c", {resource: 2})
    got = {"envs": options.envs, "devices": {path: list(device) for path, device in options.devices.items()}}
    got["mounts"] = {path: list(mount) for path, mount in options.mounts.items()}
    expected = {"mounts": {}} | json.loads((GOLDEN / f"{golden}.json").read_text())
    assert len(expected.pop("from").split(", ")) >= 2
    assert got == expected
    assert (options.annotations, options.cdi_devices, options.conflicts) == ({}, [], [])


def test_every_file_is_of_a_test():
    marks = next(mark for mark in test_what_a_container_gets.pytestmark if mark.name == "parametrize")
    assert {row[0] for row in marks.args[1]} == {path.stem for path in GOLDEN.iterdir()}
