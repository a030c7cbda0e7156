"""The disks behind a device, what they hold and who uses them.

Layouts: Documentation/ABI/stable/sysfs-block (holders, hidden); systemd, rules.d/60-persistent-storage.rules and
udev-builtin-blkid.c (ID_FS_TYPE, ID_FS_USAGE, ID_PART_TABLE_TYPE, with the types of libblkid).

With native NVMe multipath, the default of the kernel, a drive that reports more than one controller has its namespaces
below its subsystem: /sys/devices/virtual/nvme-subsystem/nvme-subsysN/nvmeXnY. Below its controller is only a hidden
disk for each path, nvmeXcYnZ, without holders, partitions or a node (drivers/nvme/host/multipath.c).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.core.language.value import Absent, Value
from agent.host import udev
from agent.scanners.word_table import LookCache

SUBSYSTEMS = "/sys/class/nvme-subsystem"

# Of what libblkid calls by more than one name, or differently from people; all else is as `_BY_USAGE` says.
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


def list_controllers(sight: LookCache, subsystem: str) -> tuple[str, ...]:
    """Return the canonical directories of the controllers of an NVMe subsystem, by the directory of that."""
    found = (
        sight.root.resolve_device(f"{subsystem}/{name}") for name in sight.list_names(subsystem) if is_controller(name)
    )
    return tuple(each for each in found if isinstance(each, str))


def find_subsystem(sight: LookCache, controller: str) -> str:
    """Return the directory of the NVMe subsystem of a controller; empty if it has none."""
    return sight.get_or_read("nvme subsystems", "", lambda: dict(_subsystems(sight))).get(controller, "")


def list_shared_namespaces(sight: LookCache, directory: str, subsystem: str) -> tuple[str, ...]:
    """Return the directories of the namespaces, block devices and generic ones, that are not below their controller."""
    above = find_subsystem(sight, directory) if subsystem == "nvme" else ""
    if not above:
        return ()
    sight.paths.add(above)
    return tuple(f"{above}/{name}" for name in sight.root.list_directories(above) if name.startswith(("nvme", "ng")))


def list_content_kinds(
    sight: LookCache, directory: str, subsystem: str, below: Iterator[tuple[str, str]]
) -> Value | Absent:
    """Return what the disks of a device hold and who uses them, each kind once.

    Nothing of it is read from a disk: udev has done that. A disk of which its database has no entry may hold
    anything, and so it has `unprobed`. The kinds `held` (device mapper, md and the like have it open) and `shared`
    (another NVMe controller leads to the same namespaces) are of the kernel.

    Args:
        sight: what is read of the host.
        directory: the canonical directory of the device.
        subsystem: its class or bus.
        below: directories and subsystems of the devices below it.
    """
    kinds: set[str] = set()
    for disk in _disks(sight, directory, subsystem, below, kinds):
        if sight.read_text(f"{disk}/hidden") == "1":
            continue
        sight.paths.add(disk)
        parts = [f"{disk}/{name}" for name in sight.list_names(disk) if _is_partition(sight, f"{disk}/{name}")]
        if parts:
            kinds.add("partitions")
        for each in (disk, *parts):
            if sight.list_names(f"{each}/holders"):
                kinds.add("held")
            properties = sight.read_properties(each)
            if properties.is_pending:
                return Absent(udev.PENDING_REASON, pending=True)
            kinds.update(_signs(properties))
    return tuple(sorted(kinds))


def _signs(properties: udev.UdevProperties) -> Iterator[str]:
    """Yield what udev has found on one disk or partition."""
    if not properties.is_recorded:
        yield "unprobed"
    values = properties.values
    if values.get("ID_PART_TABLE_TYPE"):
        yield "partitions"
    if values.get("DM_MULTIPATH_DEVICE_PATH") == "1":  # as multipathd has its paths marked (multipath-tools)
        yield "multipath"
    if any(name.startswith("ID_FS_") for name in values):  # also of a type that has no name
        kind = values.get("ID_FS_TYPE", "")
        usage = values.get("ID_FS_USAGE", "")
        if not usage:
            usage = "raid" if kind.endswith("_member") else "crypto" if kind.startswith("crypto_") else ""
        yield _BY_TYPE.get(kind) or _BY_USAGE.get(usage, "filesystem")


def _disks(
    sight: LookCache, directory: str, subsystem: str, below: Iterator[tuple[str, str]], kinds: set[str]
) -> Iterator[str]:
    """Yield the directories of the disks of a device; say that they are `shared` where they are."""
    above, _, name = directory.rpartition("/")
    if subsystem == "block":
        yield directory
    elif subsystem == "nvme-generic":
        yield f"{above}/nvme{name.removeprefix('ng')}"
    else:
        sight.paths.add(SUBSYSTEMS)  # a new namespace can make one
        for each, its_subsystem in ((directory, subsystem), *below):
            if its_subsystem == "block" and not _is_partition(sight, each):
                yield each
            its_own = [path for path in list_shared_namespaces(sight, each, its_subsystem) if _is_block(path)]
            if its_own and len(list_controllers(sight, its_own[0].rpartition("/")[0])) > 1:
                kinds.add("shared")
            yield from its_own


def _is_block(path: str) -> bool:
    return path.rpartition("/")[2].startswith("nvme")


def _is_partition(sight: LookCache, directory: str) -> bool:
    return not isinstance(sight.read_text(f"{directory}/partition"), Absent)


def _subsystems(sight: LookCache) -> Iterator[tuple[str, str]]:
    for name in sight.list_names(SUBSYSTEMS):
        subsystem = sight.root.resolve_device(f"{SUBSYSTEMS}/{name}")
        if isinstance(subsystem, str):
            yield from ((controller, subsystem) for controller in list_controllers(sight, subsystem))
