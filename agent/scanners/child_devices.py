"""What a PCI function or a subfunction carries: its network interface, its RDMA device, its DRM device."""

from __future__ import annotations

import re

from agent.core.language.value import Absent, ValueType
from agent.scanners.drm_words import select_numbered
from agent.scanners.word_table import LookCache, WordSubject

# phys_port_name of a port itself is empty, or p0, p0s1; of representors pf0vf3, pf0sf1, c1pf0 (switchdev.rst).
_PORT = re.compile(r"(?:p[0-9]+(?:s[0-9]+)?)?")
_REPRESENTOR = re.compile(r"(?:c[0-9]+)?pf[0-9]+.*")


def list_own_netdevs(sight: LookCache, directory: str) -> list[str]:
    """The directories of a function's network interfaces that stand for no other; virtio's stand one device lower."""
    places = [directory, *(f"{directory}/{name}" for name in sight.list_names(directory) if name.startswith("virtio"))]
    found = [f"{place}/net/{name}" for place in places for name in sight.list_names(f"{place}/net")]
    return [netdev for netdev in found if not _REPRESENTOR.fullmatch(_port_name(sight, netdev))]


def _real_netdev(sight: LookCache, directory: str) -> str | Absent:
    """Of the function's network interfaces the one that is itself."""
    own = list_own_netdevs(sight, directory)
    if own:
        ports = [netdev for netdev in own if _PORT.fullmatch(_port_name(sight, netdev))]
        return min(ports or own, key=lambda netdev: _port(sight, netdev))
    others = sight.list_names(f"{directory}/net")
    return Absent("its network interfaces stand for others" if others else "it has no network interface")


def _port_name(sight: LookCache, netdev: str) -> str:
    name = sight.read_text(f"{netdev}/phys_port_name")
    return "" if isinstance(name, Absent) else name


def _port(sight: LookCache, netdev: str) -> tuple[int, int]:
    """Several real ones are several ports of one function: the first port, then the oldest interface."""
    port = sight.read_value(ValueType.INT, f"{netdev}/dev_port")
    index = sight.read_value(ValueType.INT, f"{netdev}/ifindex")
    return port if isinstance(port, int) else 0, index if isinstance(index, int) else 0


def find_netdev(sight: LookCache, thing: WordSubject) -> WordSubject | Absent:
    """The network interface that is the function itself."""
    found = sight.get_or_read("netdev", thing.directory, lambda: _real_netdev(sight, thing.directory))
    return found if isinstance(found, Absent) else WordSubject("net", found.rpartition("/")[2], found, subsystem="net")


def find_rdma(sight: LookCache, thing: WordSubject) -> WordSubject | Absent:
    """The RDMA device of a function; of several the first, the others stand for representors."""
    names = sight.list_names(f"{thing.directory}/infiniband")
    if not names:
        return Absent("it has no RDMA device")
    return WordSubject("infiniband", names[0], f"{thing.directory}/infiniband/{names[0]}", subsystem="infiniband")


def find_drm(sight: LookCache, thing: WordSubject) -> WordSubject | Absent:
    """The DRM device of a function, by its card, or by its render node where it has no card."""
    names = sight.list_names(f"{thing.directory}/drm")
    for begins in ("card", "renderD"):
        for name in select_numbered(names, begins)[:1]:
            return WordSubject("drm", name, f"{thing.directory}/drm/{name}", subsystem="drm")
    return Absent("it has no DRM device")
