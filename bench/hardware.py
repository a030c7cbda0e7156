"""A big machine as a tree on disk: PCI functions with NICs, virtual functions, RDMA, GPUs, and USB behind hubs."""

from __future__ import annotations

import os
from pathlib import Path

VFS = 32  # of each NIC's physical function
PORTS = 7  # of each USB hub


class Hardware:
    """Writes files below `top`. `functions` counts the functions that are made in bulk."""

    def __init__(self, top: str) -> None:
        self.top = Path(top)
        self.functions = 0
        self._numbers = 0

    def build(self, *, functions: int, nics: int, gpus: int, hubs: int) -> None:
        """So many functions in all, of these so many NICs (with their virtual functions) and GPUs."""
        for node in (0, 1):
            (self.top / f"sys/devices/system/node/node{node}").mkdir(parents=True)
        for number in range(nics):
            self._nic(number)
        for number in range(gpus):
            self._gpu(number)
        self._usb(hubs)
        while self.functions < functions:
            self._function("8086", "0998", "0x088000")

    def _nic(self, number: int) -> None:
        pf = self._function("15b3", "101d", "0x020000", driver="mlx5_core")
        self._write(f"{pf}/sriov_totalvfs", f"{VFS}")
        self._netdev(pf, f"enp{number}s0f0np0", "p0")
        self._rdma(pf, f"mlx5_{number}")
        for index in range(VFS):
            vf = self._function("15b3", "101e", "0x020000", driver="mlx5_core")
            self._link(f"{vf}/physfn", pf)
            self._link(f"{pf}/virtfn{index}", vf)
            self._netdev(vf, f"enp{number}s0f0v{index}")
            self._netdev(pf, f"eth{number}v{index}", f"pf0vf{index}")

    def _gpu(self, number: int) -> None:
        gpu = self._function("10de", "2330", "0x030200", driver="nvidia")
        for name in (f"card{number}", f"renderD{128 + number}"):
            self._device(f"{gpu}/drm/{name}", "class/drm", f"MAJOR=226\nMINOR={number}\nDEVNAME=dri/{name}\n")
            self._link(f"{gpu}/drm/{name}/device", gpu)

    def _usb(self, hubs: int) -> None:
        host = self._function("8086", "a36d", "0x0c0330", driver="xhci_hcd")
        at = self._usb_device(f"{host}/usb1", "1d6b", "0002", "09")
        for hub in range(1, hubs + 1):
            above = self._usb_device(f"{at}/1-{hub}", "05e3", "0608", "09")
            for port in range(1, PORTS + 1):
                stick = self._usb_device(f"{above}/1-{hub}.{port}", "0403", "6001", "00")
                self._device(f"{stick}/1-{hub}.{port}:1.0", "bus/usb", "DEVTYPE=usb_interface\n")

    def _usb_device(self, directory: str, vendor: str, product: str, kind: str) -> str:
        self._numbers += 1
        number = self._numbers
        event = f"MAJOR=189\nMINOR={number}\nDEVNAME=bus/usb/001/{number:03}\nDEVTYPE=usb_device\n"
        self._device(directory, "bus/usb", event)
        files = {"idVendor": vendor, "idProduct": product, "bDeviceClass": kind, "serial": f"S{number}"}
        for file, text in files.items():
            self._write(f"{directory}/{file}", text)
        return directory

    def _function(self, vendor: str, device: str, kind: str, driver: str = "") -> str:
        number = self.functions
        self.functions += 1
        root = f"/sys/devices/pci0000:{number // 64:02x}/0000:{number // 64:02x}:01.0"
        if not (self.top / root[1:]).is_dir():
            self._pci(root, "8086", "352a", "0x060400", "pcieport")
        address = f"0000:{0x40 + number // 64:02x}:{number // 8 % 8:02x}.{number % 8}"
        return self._pci(f"{root}/{address}", vendor, device, kind, driver)

    def _pci(self, directory: str, vendor: str, device: str, kind: str, driver: str) -> str:
        self._device(directory, "bus/pci", f"PCI_ID={vendor}:{device}\n")
        files = {"vendor": f"0x{vendor}", "device": f"0x{device}", "class": kind, "numa_node": str(self.functions % 2)}
        for file, text in files.items():
            self._write(f"{directory}/{file}", text)
        if driver:
            self._link(f"{directory}/driver", f"/sys/bus/pci/drivers/{driver}")
        return directory

    def _netdev(self, device: str, name: str, port: str = "") -> None:
        self._device(f"{device}/net/{name}", "class/net", f"INTERFACE={name}\n")
        self._link(f"{device}/net/{name}/device", device)
        files = {"carrier": "1", "operstate": "up", "type": "1", "phys_port_name": port, "address": "02:00:00:00:00:01"}
        for file, text in files.items():
            self._write(f"{device}/net/{name}/{file}", text)

    def _rdma(self, device: str, name: str) -> None:
        directory = f"{device}/infiniband/{name}"
        self._device(directory, "class/infiniband", f"NAME={name}\n")
        self._link(f"{directory}/device", device)
        for file, text in {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "link_layer": "Ethernet"}.items():
            self._write(f"{directory}/ports/1/{file}", text)
        for index in range(256):
            self._write(f"{directory}/ports/1/gid_attrs/ndevs/{index}", "")

    def _device(self, directory: str, listed: str, event: str) -> None:
        """Make the directory of a device, and list it in its class or on its bus."""
        self._write(f"{directory}/uevent", event)
        place = f"/sys/{listed}/devices" if listed.startswith("bus/") else f"/sys/{listed}"
        self._link(f"{place}/{directory.rpartition('/')[2]}", directory)
        self._link(f"{directory}/subsystem", f"/sys/{listed}")

    def _write(self, path: str, text: str) -> None:
        at = self.top / path[1:]
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(f"{text}\n" if text else "")

    def _link(self, path: str, target: str) -> None:
        at = self.top / path[1:]
        at.parent.mkdir(parents=True, exist_ok=True)
        at.symlink_to(os.path.relpath(target, os.path.dirname(path)))
