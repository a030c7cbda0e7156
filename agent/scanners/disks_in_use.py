"""Devices that the machine itself uses: mounted, used as swap, or below such a device.

The mount list is that of the agent's own namespace. Mounts of other namespaces, as in a container, are found in
/sys/fs. The drivers of ext2 to ext4, XFS, F2FS and btrfs list every mounted file system there. The agent sees no other
process (ProtectProc= of its unit), so there is no other source for them.

Layouts: proc(5) on mountinfo and swaps; Documentation/ABI/testing/sysfs-block on partitions, slaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.core.inventory.device import DeviceNode
from agent.core.language.value import Absent
from agent.scanners.disks import list_controllers
from agent.scanners.word_table import LookCache

_LIMIT = 1 << 20  # bytes of a list. With thousands of pods it has half a megabyte


def find_disks_in_use(cache: LookCache) -> frozenset[str]:
    """Return the canonical directories of block devices in use, down to whole disks, and of all devices above them."""
    return cache.get_or_read("in use", "", lambda: _collect_disks_in_use(cache))


def list_names_in_use(cache: LookCache) -> frozenset[str]:
    """Return the names of the block devices in use."""
    return frozenset(directory.rpartition("/")[2] for directory in find_disks_in_use(cache))


def find_root_disks(cache: LookCache) -> tuple[str, ...]:
    """Return the names of the disks with the root file system, through partitions, device mapper and RAID."""
    devices = {
        device for path in _map_mount_points(cache).get("/", ()) for device in _list_underlying_devices(cache, path)
    }
    disks = (
        device
        for device in devices
        if not cache.list_names(f"{device}/slaves") and isinstance(_read_partition(cache, device), Absent)
    )
    return tuple(sorted(device.rpartition("/")[2] for device in disks))


def _collect_disks_in_use(cache: LookCache) -> frozenset[str]:
    directories: set[str] = set()
    roots = {path for paths in _map_mount_points(cache).values() for path in paths}
    for path in roots.union(_list_swaps(cache), _list_driver_devices(cache)):
        for used in _list_underlying_devices(cache, path):
            directory = used
            while directory.startswith("/sys/devices/") and directory not in directories:
                directories.add(directory)
                directory = directory.rpartition("/")[0]
    return frozenset(directories)


def _map_mount_points(cache: LookCache) -> Mapping[str, tuple[str, ...]]:
    """Return the directories of the block devices at each mount point that has some."""
    return cache.get_or_read("mounted", "", lambda: dict(_list_mounts(cache)))


def _list_mounts(cache: LookCache) -> Iterator[tuple[str, tuple[str, ...]]]:
    for line in _read_lines(cache, "/proc/self/mountinfo"):
        mount_part, _, source_part = line.partition(" - ")
        mount_fields, source_fields = mount_part.split(), source_part.split()
        if len(mount_fields) < 5 or len(source_fields) < 2:
            continue
        directory = cache.root.resolve_device(f"/sys/dev/block/{mount_fields[2]}")
        devices = [directory] if isinstance(directory, str) else _find_source_devices(cache, *source_fields[:2])
        if devices:
            yield mount_fields[4], tuple(devices)


def _find_source_devices(cache: LookCache, file_system: str, source: str) -> list[str]:
    """Return the devices of a file system whose number belongs to no device: btrfs has several, listed in sysfs."""
    if not source.startswith("/dev/"):
        return []
    source_device = _find_node_device(cache, source)
    if file_system == "btrfs" and source_device:
        for volume in cache.list_names("/sys/fs/btrfs"):
            members = cache.list_names(f"/sys/fs/btrfs/{volume}/devices")
            if source_device.rpartition("/")[2] in members:
                devices = [cache.root.resolve_device(f"/sys/fs/btrfs/{volume}/devices/{name}") for name in members]
                return [device for device in devices if isinstance(device, str)]
    return [source_device] if source_device else []


def _list_driver_devices(cache: LookCache) -> Iterator[str]:
    """Yield the devices of all mounted file systems of some drivers, in any mount namespace."""
    for driver in ("ext4", "f2fs", "xfs"):
        names = cache.list_names(f"/sys/fs/{driver}")
        # Other names in this directory: features, stats.
        devices = [cache.root.resolve_device(f"/sys/class/block/{name}") for name in names]
        yield from (device for device in devices if isinstance(device, str))
    for volume in cache.list_names("/sys/fs/btrfs"):
        members = cache.list_names(f"/sys/fs/btrfs/{volume}/devices")
        devices = [cache.root.resolve_device(f"/sys/fs/btrfs/{volume}/devices/{name}") for name in members]
        yield from (device for device in devices if isinstance(device, str))


def _list_swaps(cache: LookCache) -> Iterator[str]:
    for line in _read_lines(cache, "/proc/swaps"):
        if line.startswith("/dev/") and (directory := _find_node_device(cache, line.split()[0])):
            yield directory


def _find_node_device(cache: LookCache, path: str) -> str:
    node = cache.root.find_node(path)
    if not isinstance(node, DeviceNode):
        return ""
    directory = cache.root.resolve_device(f"/sys/dev/block/{node.major}:{node.minor}")
    return directory if isinstance(directory, str) else ""


def _list_underlying_devices(cache: LookCache, directory: str) -> frozenset[str]:
    """Return a block device with all devices below it."""
    directories: set[str] = set()
    remaining = [directory]
    while remaining:
        current = remaining.pop()
        if current in directories:
            continue
        directories.add(current)
        if not isinstance(_read_partition(cache, current), Absent):
            remaining.append(current.rpartition("/")[0])
        slaves = [
            cache.root.resolve_device(f"{current}/slaves/{name}") for name in cache.list_names(f"{current}/slaves")
        ]
        remaining += [slave for slave in slaves if isinstance(slave, str)]
        above = current.rpartition("/")[0]
        if "/nvme-subsystem/" in above:  # a namespace with several paths, one for each controller
            directories.update(list_controllers(cache, above))
    return frozenset(directories)


def _read_partition(cache: LookCache, directory: str) -> str | Absent:
    return cache.read_text(f"{directory}/partition")


def _read_lines(cache: LookCache, path: str) -> list[str]:
    data = cache.root.read_list(path, _LIMIT)
    return [] if isinstance(data, Absent) else data.decode("utf-8", "surrogateescape").splitlines()
