"""Words of the machine itself, `host.NAME`."""

from __future__ import annotations

import os

from agent.core.language.value import Absent, Value, ValueType
from agent.scanners.disks_in_use import find_root_disks
from agent.scanners.word_table import LookCache, Word, WordSubject, make_table

_NETNS_MODE = "/sys/module/ib_core/parameters/netns_mode"  # drivers/infiniband/core/device.c: Y is shared


def _list_modules(cache: LookCache, _: WordSubject) -> Value | Absent:
    cache.paths.add("/sys/module")
    return cache.list_names("/sys/module")


def _list_char_devices(cache: LookCache, _: WordSubject) -> Value | Absent:
    cache.paths.add("/sys/module")  # /proc sends no events, but a module adds its driver
    data = cache.root.read_list("/proc/devices", 65536)
    if isinstance(data, Absent):
        return data
    lines = data.decode("utf-8", "surrogateescape").partition("Block devices:")[0].splitlines()
    fields = [line.split(None, 1) for line in lines]
    return tuple(dict.fromkeys(pair[1] for pair in fields if len(pair) == 2 and pair[0].isdecimal()))


def _read_rdma_netns(cache: LookCache, _: WordSubject) -> Value | Absent:
    cache.paths.add("/sys/module")
    shared = cache.read_value(ValueType.BOOL, _NETNS_MODE)
    if isinstance(shared, Absent):
        return Absent("ib_core is not loaded") if not shared.unreadable else shared
    return "shared" if shared else "exclusive"


def _list_root_disks(cache: LookCache, _: WordSubject) -> Value | Absent:
    return find_root_disks(cache)


def _has_iommu(cache: LookCache, _: WordSubject) -> Value | Absent:
    return bool(cache.list_names("/sys/kernel/iommu_groups"))


def _read_kernel(cache: LookCache, _: WordSubject) -> Value | Absent:
    text = cache.read_text("/proc/sys/kernel/osrelease")
    return os.uname().release if isinstance(text, Absent) and not cache.root.prefix else text


def _read_hostname(cache: LookCache, _: WordSubject) -> Value | Absent:
    text = cache.read_text("/proc/sys/kernel/hostname")
    return os.uname().nodename if isinstance(text, Absent) and not cache.root.prefix else text


def _read_arch(cache: LookCache, _: WordSubject) -> Value | Absent:
    text = cache.read_text("/proc/sys/kernel/arch")  # since Linux 6.1
    return os.uname().machine if isinstance(text, Absent) and not cache.root.prefix else text


HOST = make_table(
    "host",
    Word("modules", ValueType.TEXT, "loaded and built-in modules", "/sys/module", _list_modules, is_list=True),
    Word("char_devices", ValueType.TEXT, "names in /proc/devices", "/proc/devices", _list_char_devices, is_list=True),
    Word("rdma_netns", ValueType.TEXT, "shared or exclusive", _NETNS_MODE, _read_rdma_netns),
    Word(
        "root_disks",
        ValueType.TEXT,
        "disks of the root file system",
        "mountinfo",
        _list_root_disks,
        is_list=True,
    ),
    Word("iommu", ValueType.BOOL, "true if the host has IOMMU groups", "/sys/kernel/iommu_groups", _has_iommu),
    Word("kernel", ValueType.TEXT, "release of the kernel", "uname", _read_kernel),
    Word("arch", ValueType.TEXT, "architecture", "uname", _read_arch),
    Word("hostname", ValueType.TEXT, "name of the host", "uname", _read_hostname),
    device=False,
)
