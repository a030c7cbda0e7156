"""Devices of a PCI function or a subfunction: its network interface, its RDMA device, its DRM device."""

from __future__ import annotations

import re

from agent.core.language.value import Absent, ValueType
from agent.scanners.drm_words import select_numbered
from agent.scanners.word_table import LookCache, WordSubject

# phys_port_name of a port is empty, p0 or p0s1, of a representor pf0vf3, pf0sf1 or c1pf0 (switchdev.rst).
_PORT = re.compile(r"(?:p[0-9]+(?:s[0-9]+)?)?")
_REPRESENTOR = re.compile(r"(?:c[0-9]+)?pf[0-9]+.*")


def list_own_netdevs(cache: LookCache, directory: str) -> list[str]:
    """Return the directories of the network interfaces of a function, without representors.

    Interfaces of virtio are one device lower.
    """
    directories = [
        directory,
        *(f"{directory}/{name}" for name in cache.list_names(directory) if name.startswith("virtio")),
    ]
    netdevs = [f"{parent}/net/{name}" for parent in directories for name in cache.list_names(f"{parent}/net")]
    return [netdev for netdev in netdevs if not _REPRESENTOR.fullmatch(_read_port_name(cache, netdev))]


def _find_real_netdev(cache: LookCache, directory: str) -> str | Absent:
    """Return the directory of the network interface that is the function itself."""
    netdevs = list_own_netdevs(cache, directory)
    if netdevs:
        ports = [netdev for netdev in netdevs if _PORT.fullmatch(_read_port_name(cache, netdev))]
        return min(ports or netdevs, key=lambda netdev: _make_port_key(cache, netdev))
    representors = cache.list_names(f"{directory}/net")
    return Absent("its network interfaces stand for others" if representors else "it has no network interface")


def _read_port_name(cache: LookCache, netdev: str) -> str:
    name = cache.read_text(f"{netdev}/phys_port_name")
    return "" if isinstance(name, Absent) else name


def _make_port_key(cache: LookCache, netdev: str) -> tuple[int, int]:
    """Return the sort key of an interface.

    Several interfaces are several ports: the first port, then the oldest interface.
    """
    port = cache.read_value(ValueType.INT, f"{netdev}/dev_port")
    index = cache.read_value(ValueType.INT, f"{netdev}/ifindex")
    return port if isinstance(port, int) else 0, index if isinstance(index, int) else 0


def find_netdev(cache: LookCache, subject: WordSubject) -> WordSubject | Absent:
    """Return the network interface that is the function itself."""
    netdev = cache.get_or_read("netdev", subject.directory, lambda: _find_real_netdev(cache, subject.directory))
    return (
        netdev if isinstance(netdev, Absent) else WordSubject("net", netdev.rpartition("/")[2], netdev, subsystem="net")
    )


def find_rdma(cache: LookCache, subject: WordSubject) -> WordSubject | Absent:
    """Return the RDMA device of a function. Of several it is the first. The others are representors."""
    names = cache.list_names(f"{subject.directory}/infiniband")
    if not names:
        return Absent("it has no RDMA device")
    return WordSubject("infiniband", names[0], f"{subject.directory}/infiniband/{names[0]}", subsystem="infiniband")


def find_drm(cache: LookCache, subject: WordSubject) -> WordSubject | Absent:
    """Return the DRM device of a function: its card, or its render node if it has no card."""
    names = cache.list_names(f"{subject.directory}/drm")
    for prefix in ("card", "renderD"):
        for name in select_numbered(names, prefix)[:1]:
            return WordSubject("drm", name, f"{subject.directory}/drm/{name}", subsystem="drm")
    return Absent("it has no DRM device")
