"""Words of the machine itself, `host.NAME`."""

from __future__ import annotations

import os

from agent.core.language.value import Absent, Kind, Value
from agent.scanners.mounts import root_disks
from agent.scanners.words import Sight, Thing, Word, table

_NETNS_MODE = "/sys/module/ib_core/parameters/netns_mode"  # drivers/infiniband/core/device.c: Y is shared


def _modules(sight: Sight, _: Thing) -> Value | Absent:
    sight.places.add("/sys/module")
    return sight.names("/sys/module")


def _char_devices(sight: Sight, _: Thing) -> Value | Absent:
    sight.places.add("/sys/module")  # /proc sends no events, but a driver comes with its module
    data = sight.root.whole("/proc/devices", 65536)
    if isinstance(data, Absent):
        return data
    lines = data.decode("utf-8", "surrogateescape").partition("Block devices:")[0].splitlines()
    fields = [line.split(None, 1) for line in lines]
    return tuple(dict.fromkeys(pair[1] for pair in fields if len(pair) == 2 and pair[0].isdecimal()))


def _rdma_netns(sight: Sight, _: Thing) -> Value | Absent:
    sight.places.add("/sys/module")
    shared = sight.value(Kind.BOOL, _NETNS_MODE)
    if isinstance(shared, Absent):
        return Absent("ib_core is not loaded") if not shared.unread else shared
    return "shared" if shared else "exclusive"


def _root_disks(sight: Sight, _: Thing) -> Value | Absent:
    return root_disks(sight)


def _iommu(sight: Sight, _: Thing) -> Value | Absent:
    return bool(sight.names("/sys/kernel/iommu_groups"))


def _kernel(sight: Sight, _: Thing) -> Value | Absent:
    text = sight.text("/proc/sys/kernel/osrelease")
    return os.uname().release if isinstance(text, Absent) and not sight.root.prefix else text


def _hostname(sight: Sight, _: Thing) -> Value | Absent:
    text = sight.text("/proc/sys/kernel/hostname")
    return os.uname().nodename if isinstance(text, Absent) and not sight.root.prefix else text


def _arch(sight: Sight, _: Thing) -> Value | Absent:
    text = sight.text("/proc/sys/kernel/arch")  # since Linux 6.1
    return os.uname().machine if isinstance(text, Absent) and not sight.root.prefix else text


HOST = table(
    "host",
    Word("modules", Kind.TEXT, "loaded and built-in modules", "/sys/module", _modules, many=True),
    Word("char_devices", Kind.TEXT, "names in /proc/devices", "/proc/devices", _char_devices, many=True),
    Word("rdma_netns", Kind.TEXT, "shared or exclusive", _NETNS_MODE, _rdma_netns),
    Word("root_disks", Kind.TEXT, "disks that hold the root file system", "mountinfo", _root_disks, many=True),
    Word("iommu", Kind.BOOL, "the machine has IOMMU groups", "/sys/kernel/iommu_groups", _iommu),
    Word("kernel", Kind.TEXT, "release of the kernel", "uname", _kernel),
    Word("arch", Kind.TEXT, "architecture", "uname", _arch),
    Word("hostname", Kind.TEXT, "name of the machine", "uname", _hostname),
    device=False,
)
