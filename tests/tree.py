"""A machine on disk: sysfs, /dev, /proc and the udev database below a directory, made without root."""

import os
import threading
from contextlib import contextmanager
from pathlib import Path

from agent.host.recorded_tree import DECLARED
from agent.host.root import Root


@contextmanager
def silent(monkeypatch, ending: str):
    """While the context lasts, who opens a file whose path ends so waits for its end."""
    over = threading.Event()
    opened = os.open

    def opening(path, *arguments, **named):
        if str(path).endswith(ending):
            over.wait()
        return opened(path, *arguments, **named)

    monkeypatch.setattr(os, "open", opening)
    try:
        yield
    finally:
        over.set()


class Tree:
    """Builds below `top`; paths are the machine's."""

    def __init__(self, top: Path) -> None:
        self.top = top
        for directory in ("/sys/devices/system/node/node0", "/sys/devices/system/node/node1", "/dev", "/proc", "/run"):
            self.at(directory).mkdir(parents=True)

    @property
    def root(self) -> Root:
        return Root(str(self.top))

    def at(self, path: str) -> Path:
        return self.top / path.lstrip("/")

    def file(self, path: str, text: str | bytes = "") -> None:
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        self.at(path).write_bytes(text.encode() if isinstance(text, str) else text)

    def link(self, path: str, target: str) -> None:
        """A link; an absolute target becomes a relative one, as in sysfs."""
        at = self.at(path)
        at.parent.mkdir(parents=True, exist_ok=True)
        at.unlink(missing_ok=True)
        at.symlink_to(os.path.relpath(self.at(target), at.parent) if target.startswith("/") else target)

    def device(
        self, directory: str, subsystem: str, *, bus: bool = False, driver: str = "", **files: str | bytes
    ) -> str:
        """A device directory with its `subsystem` and `uevent`, listed in its class or bus."""
        name = directory.rpartition("/")[2]
        self.at(directory).mkdir(parents=True, exist_ok=True)
        listed = f"/sys/bus/{subsystem}/devices" if bus else f"/sys/class/{subsystem}"
        self.at(listed).mkdir(parents=True, exist_ok=True)
        self.link(f"{listed}/{name}", directory)
        self.link(f"{directory}/subsystem", f"/sys/bus/{subsystem}" if bus else listed)
        if driver:
            self.at(f"/sys/bus/{subsystem}/drivers/{driver}").mkdir(parents=True, exist_ok=True)
            self.link(f"{directory}/driver", f"/sys/bus/{subsystem}/drivers/{driver}")
        self.file(f"{directory}/uevent")
        for file, text in files.items():
            self.file(f"{directory}/{file}", text)
        return directory

    def pci(
        self, address: str, *, below: str = "/sys/devices/pci0000:00", driver: str = "", **files: str | bytes
    ) -> str:
        standard: dict[str, str | bytes] = {
            "vendor": "0x15b3\n", "device": "0x101b\n", "class": "0x020000\n", "numa_node": "-1\n",
            "subsystem_vendor": "0x15b3\n", "subsystem_device": "0x0001\n", "revision": "0x00\n",
            "config": b"\xb3\x15\x1b\x10" + bytes(60),
        }  # fmt: skip
        self.at("/sys/devices/pci0000:00").mkdir(exist_ok=True)
        self.file("/sys/devices/pci0000:00/uevent")
        return self.device(f"{below}/{address}", "pci", bus=True, driver=driver, **(standard | files))

    def usb(self, directory: str, vendor: str, product: str, *, serial: str = "", devnum: int = 2) -> str:
        files = {"idVendor": vendor, "idProduct": product, "busnum": "1", "devnum": str(devnum), "authorized": "1"}
        if serial:
            files["serial"] = serial
        self.device(directory, "usb", bus=True, **files)
        self.class_node(directory, "", f"bus/usb/001/{devnum:03}", 189, devnum - 1)
        return directory

    def class_device(self, directory: str, subsystem: str, node: str = "", major: int = 0, minor: int = 0) -> str:
        """A device of a class, with a node if one is named (below /dev)."""
        self.device(directory, subsystem)
        if node:
            self.class_node(directory, subsystem, node, major, minor)
        return directory

    def class_node(self, directory: str, subsystem: str, node: str, major: int, minor: int) -> None:
        kind = "b" if subsystem == "block" else "c"
        self.file(f"{directory}/uevent", f"MAJOR={major}\nMINOR={minor}\nDEVNAME={node}\n")
        self.file(f"{directory}/dev", f"{major}:{minor}\n")
        self.link(f"/sys/dev/{'char' if kind == 'c' else 'block'}/{major}:{minor}", directory)
        self.node(f"/dev/{node}", f"{kind} {major}:{minor}")

    def node(self, path: str, number: str = "c 4:1") -> None:
        """A device node: a plain file and a line that declares it one."""
        kind, _, numbers = number.partition(" ")
        with self.at(DECLARED).open("a") as declared:
            declared.write(f"{kind} {numbers} {path}\n")
        self.file(path)

    def netdev(self, device: str, name: str, **files: str | bytes) -> str:
        directory = self.device(f"{device}/net/{name}", "net", **({"type": "1", "carrier": "1"} | files))
        self.link(f"{directory}/device", device)
        return directory

    def infiniband(
        self, device: str, name: str, *, number: int = 0, ports: int = 1, link: str = "InfiniBand", **files: str | bytes
    ) -> str:
        """An RDMA device with its nodes; `device` is the directory it belongs to, empty for one of software."""
        above = device or "/sys/devices/virtual"
        standard: dict[str, str | bytes] = {"node_type": "1: CA", "node_guid": "b83f:d203:0011:0022", "fw_ver": "28.1"}
        directory = self.device(f"{above}/infiniband/{name}", "infiniband", **(standard | files))
        if device:
            self.link(f"{directory}/device", device)
        for port in range(1, ports + 1):
            files = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "link_layer": link, "rate": "100 Gb/sec (4X EDR)"}
            for file, text in files.items():
                self.file(f"{directory}/ports/{port}/{file}", f"{text!s}\n")
            self.file(f"{directory}/ports/{port}/pkeys/0", "0xffff\n")
            for index, kind in enumerate(("umad", "issm")):
                minor = number * 8 + port
                made = f"{above}/infiniband_mad/{kind}{minor}"
                self.class_device(made, "infiniband_mad", f"infiniband/{kind}{minor}", 231, index * 64 + minor)
                self.file(f"{made}/ibdev", f"{name}\n")
                self.file(f"{made}/port", f"{port}\n")
        made = f"{above}/infiniband_verbs/uverbs{number}"
        self.class_device(made, "infiniband_verbs", f"infiniband/uverbs{number}", 231, 192 + number)
        self.file(f"{made}/ibdev", f"{name}\n")
        return directory

    def drm(self, device: str, card: int | None, render: int | None = None) -> str:
        """The DRM device of a GPU, with a connector; gives its directory."""
        names = [f"card{card}"] * (card is not None) + [f"renderD{render}"] * (render is not None)
        for name in names:
            minor = int("".join(character for character in name if character.isdecimal()))
            self.class_device(f"{device}/drm/{name}", "drm", f"dri/{name}", 226, minor)
            self.link(f"{device}/drm/{name}/device", device)
        if card is not None:
            self.device(f"{device}/drm/card{card}/card{card}-DP-1", "drm", status="disconnected\n")
        return f"{device}/drm/{names[0]}"

    def mdev(self, parent: str, uuid: str, kind: str, name: str = "") -> str:
        directory = self.device(f"{parent}/{uuid}", "mdev", bus=True)
        self.file(f"{parent}/mdev_supported_types/{kind}/available_instances", "1\n")
        if name:
            self.file(f"{parent}/mdev_supported_types/{kind}/name", f"{name}\n")
        self.link(f"{directory}/mdev_type", f"{parent}/mdev_supported_types/{kind}")
        return directory

    def virtual_function(self, pf: str, address: str, *, driver: str = "", **files: str | bytes) -> str:
        """Make a virtual function. Its vendor and device registers read all ones, so only its files identify it."""
        config = b"\xff\xff\xff\xff\x04\x00\x10\x00" + bytes(56)  # bus master, and a list of capabilities
        vf = self.pci(address, below=pf.rpartition("/")[0], driver=driver, **({"config": config} | files))
        self.link(f"{vf}/physfn", pf)
        return vf

    def virtual_functions(self, pf: str, *addresses: str, driver: str = "", **files: str | bytes) -> list[str]:
        made = []
        for index, address in enumerate(addresses):
            vf = self.virtual_function(pf, address, driver=driver, **files)
            self.link(f"{pf}/virtfn{index}", vf)
            made.append(vf)
        self.file(f"{pf}/sriov_totalvfs", f"{len(addresses)}\n")
        return made

    def vfio(self, group: int, *devices: str, cdev: int | None = None, noiommu: bool = False) -> None:
        """An IOMMU group with its node, as VFIO makes it; with `cdev` also the nodes of its functions from that on."""
        self.iommu_group(group, *devices)
        name = f"noiommu-{group}" if noiommu else str(group)
        if noiommu:
            self.file(f"/sys/kernel/iommu_groups/{group}/name", "vfio-noiommu\n")
        self.class_device("/sys/devices/virtual/misc/vfio", "misc", "vfio/vfio", 10, 196)
        self.class_device(f"/sys/devices/virtual/vfio/{name}", "vfio", f"vfio/{name}", 242, group)
        for number, device in enumerate(devices if cdev is not None else (), cdev or 0):
            made = f"{device}/vfio-dev/vfio{number}"
            self.class_device(made, "vfio-dev", f"vfio/devices/vfio{number}", 243, number)

    def iommu_group(self, number: int, *devices: str) -> None:
        for device in devices:
            name = device.rpartition("/")[2]
            self.link(f"/sys/kernel/iommu_groups/{number}/devices/{name}", device)
            self.link(f"{device}/iommu_group", f"/sys/kernel/iommu_groups/{number}")
