"""Source `pci`: every PCI function."""

from __future__ import annotations

from agent.core.device import HostDevice
from agent.core.look import Oddity
from agent.core.resource import Source
from agent.core.touched import Touched
from agent.core.value import Absent
from agent.host.root import Root
from agent.scanners.pci_words import PCI
from agent.scanners.scanner import Found
from agent.scanners.words import PCI_ADDRESS

KIND = "pci"
DEFAULT_IDS: tuple[str, ...] = ("{address}",)
TABLE = PCI

DEVICES = "/sys/bus/pci/devices"


def scan(root: Root, source: Source, previous: Found, touched: Touched) -> Found:
    """See `Scanner.scan`; the directory is listed whole, whatever was touched."""
    del source, touched
    names = root.names(DEVICES)
    if isinstance(names, Absent):
        if names.unread:
            return Found(previous.devices, (Oddity(DEVICES, names.reason),))
        return Found((), (Oddity(DEVICES, "is not there"),))
    devices: list[HostDevice] = []
    oddities: list[Oddity] = []
    for name in names:
        path = f"{DEVICES}/{name}"
        if not PCI_ADDRESS.fullmatch(name):
            oddities.append(Oddity(path, "is no PCI address"))
            continue
        directory = root.device(path)
        stamp = "" if isinstance(directory, Absent) else root.stamp(directory)
        if isinstance(directory, Absent):
            oddities.append(Oddity(path, directory.reason))
        elif not stamp:
            oddities.append(Oddity(path, "went while it was looked at"))
        else:
            devices.append(HostDevice(KIND, key(name), name, name, directory, "", stamp))
    return Found(tuple(devices), tuple(oddities))


def concerns(source: Source, previous: Found, touched: Touched) -> bool:
    """See `Scanner.concerns`."""
    del source, previous
    return touched.everything or KIND in touched.subsystems or any(path.startswith(DEVICES) for path in touched.paths)


def same(root: Root, device: HostDevice) -> bool:
    """See `Scanner.same`: its directory in sysfs was not made anew."""
    return root.stamp(device.directory) == device.stamp


def directories(root: Root, source: Source, found: Found) -> frozenset[str]:
    """Of a tree on disk the one that is listed; the kernel tells by its own events."""
    del source, found
    return frozenset({DEVICES} if root.prefix else ())


def key(address: str) -> str:
    """What a PCI function is known by, whichever source sees it."""
    return f"pci:{address}"
