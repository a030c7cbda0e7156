"""The disks of a device, their content and their users.

Layouts: Documentation/ABI/stable/sysfs-block (holders, hidden); systemd, rules.d/60-persistent-storage.rules and
udev-builtin-blkid.c (ID_FS_TYPE, ID_FS_USAGE, ID_PART_TABLE_TYPE, with the types of libblkid).

Native NVMe multipath is the default of the kernel. A drive that reports more than one controller then has its
namespaces below its subsystem: /sys/devices/virtual/nvme-subsystem/nvme-subsysN/nvmeXnY. Below its controller is only a
hidden disk for each path, nvmeXcYnZ, without holders, partitions or a node (drivers/nvme/host/multipath.c).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.core.language.value import Absent, Value
from agent.host import udev
from agent.scanners.word_table import LookCache

SUBSYSTEMS = "/sys/class/nvme-subsystem"

# Types with several names, or with a name in libblkid that differs from common use. Others: `_BY_USAGE`.
_BY_TYPE: Mapping[str, str] = {
    "LVM1_member": "lvm",
    "LVM2_member": "lvm",
    "ceph_bluestore": "ceph",
    "mpath_member": "multipath",
    "swap": "swap",
    "swsuspend": "swap",
    "zfs_member": "zfs",
}
_BY_USAGE: Mapping[str, str] = {"crypto": "encryption", "other": "other", "raid": "raid"}


def is_controller(name: str) -> bool:
    """Return whether this is the name of an NVMe controller (nvme0)."""
    return name.startswith("nvme") and name[4:].isdecimal()


def list_controllers(cache: LookCache, subsystem: str) -> tuple[str, ...]:
    """Return the canonical directories of the controllers in the directory of an NVMe subsystem."""
    directories = (
        cache.root.resolve_device(f"{subsystem}/{name}") for name in cache.list_names(subsystem) if is_controller(name)
    )
    return tuple(directory for directory in directories if isinstance(directory, str))


def find_subsystem(cache: LookCache, controller: str) -> str:
    """Return the directory of the NVMe subsystem of a controller. The result is empty if it has none."""
    return cache.get_or_read("nvme subsystems", "", lambda: dict(_map_controllers(cache))).get(controller, "")


def list_subsystem_namespaces(cache: LookCache, directory: str, subsystem: str) -> tuple[str, ...]:
    """Return the directories of the namespaces, block devices and generic ones, that are not below their controller."""
    above = find_subsystem(cache, directory) if subsystem == "nvme" else ""
    if not above:
        return ()
    cache.paths.add(above)
    return tuple(f"{above}/{name}" for name in cache.root.list_directories(above) if name.startswith(("nvme", "ng")))


def list_content_kinds(
    cache: LookCache, directory: str, subsystem: str, below: Iterator[tuple[str, str]]
) -> Value | Absent:
    """Return the kinds of content and use of the disks of a device, each kind once.

    No disk is read: the kinds come from the udev database. A disk without an entry there may contain anything, so its
    kind is `unprobed`. The kinds `held` (open by device mapper, md and the like) and `shared` (another NVMe controller
    has the same namespaces) come from the kernel.

    Args:
        cache: the host files that this look has read.
        directory: the canonical directory of the device.
        subsystem: its class or bus.
        below: directories and subsystems of the devices below it.
    """
    kinds: set[str] = set()
    for disk in _list_disks(cache, directory, subsystem, below, kinds):
        if cache.read_text(f"{disk}/hidden") == "1":
            continue
        cache.paths.add(disk)
        parts = [f"{disk}/{name}" for name in cache.list_names(disk) if _is_partition(cache, f"{disk}/{name}")]
        if parts:
            kinds.add("partitions")
        for device in (disk, *parts):
            if cache.list_names(f"{device}/holders"):
                kinds.add("held")
            properties = cache.read_properties(device)
            if properties.is_pending:
                return Absent(udev.PENDING_REASON, pending=True)
            kinds.update(_list_signatures(properties))
    return tuple(sorted(kinds))


def _list_signatures(properties: udev.UdevProperties) -> Iterator[str]:
    """Yield the kinds of content that udev found on one disk or partition."""
    if not properties.is_recorded:
        yield "unprobed"
    values = properties.values
    if values.get("ID_PART_TABLE_TYPE"):
        yield "partitions"
    if values.get("DM_MULTIPATH_DEVICE_PATH") == "1":  # the mark of multipathd for its paths (multipath-tools)
        yield "multipath"
    if any(name.startswith("ID_FS_") for name in values):  # also for a type without a name
        kind = values.get("ID_FS_TYPE", "")
        usage = values.get("ID_FS_USAGE", "")
        if not usage:
            usage = "raid" if kind.endswith("_member") else "crypto" if kind.startswith("crypto_") else ""
        yield _BY_TYPE.get(kind) or _BY_USAGE.get(usage, "filesystem")


def _list_disks(
    cache: LookCache, directory: str, subsystem: str, below: Iterator[tuple[str, str]], kinds: set[str]
) -> Iterator[str]:
    """Yield the directories of the disks of a device. Add the kind `shared` where it applies."""
    above, _, name = directory.rpartition("/")
    if subsystem == "block":
        yield directory
    elif subsystem == "nvme-generic":
        yield f"{above}/nvme{name.removeprefix('ng')}"
    else:
        cache.paths.add(SUBSYSTEMS)  # a new namespace can create one
        for device, device_subsystem in ((directory, subsystem), *below):
            if device_subsystem == "block" and not _is_partition(cache, device):
                yield device
            namespaces = [
                path for path in list_subsystem_namespaces(cache, device, device_subsystem) if _is_block(path)
            ]
            if namespaces and len(list_controllers(cache, namespaces[0].rpartition("/")[0])) > 1:
                kinds.add("shared")
            yield from namespaces


def _is_block(path: str) -> bool:
    return path.rpartition("/")[2].startswith("nvme")


def _is_partition(cache: LookCache, directory: str) -> bool:
    return not isinstance(cache.read_text(f"{directory}/partition"), Absent)


def _map_controllers(cache: LookCache) -> Iterator[tuple[str, str]]:
    for name in cache.list_names(SUBSYSTEMS):
        subsystem = cache.root.resolve_device(f"{SUBSYSTEMS}/{name}")
        if isinstance(subsystem, str):
            yield from ((controller, subsystem) for controller in list_controllers(cache, subsystem))
