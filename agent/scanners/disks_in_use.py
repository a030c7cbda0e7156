"""Which devices the machine itself uses: what is mounted or swapped to, and what that rests on.

Mounts are those of the agent's own namespace. What is mounted in another one, in a container alone, is seen by what the
drivers of ext2 to ext4, XFS, F2FS and btrfs list below /sys/fs: every file system that is mounted anywhere. The agent
sees no other process (ProtectProc= of its unit), so that nothing else tells of the others.

Layouts: proc(5) on mountinfo and swaps; Documentation/ABI/testing/sysfs-block on partitions, slaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.core.inventory.device import DeviceNode
from agent.core.language.value import Absent
from agent.scanners.disks import list_controllers
from agent.scanners.word_table import LookCache

_LIMIT = 1 << 20  # bytes of a list; a node with thousands of pods has one of half a megabyte


def find_disks_in_use(sight: LookCache) -> frozenset[str]:
    """The canonical directories of block devices in use, down to whole disks, and of all that these stand below."""
    return sight.get_or_read("in use", "", lambda: _in_use(sight))


def list_names_in_use(sight: LookCache) -> frozenset[str]:
    """The names of the block devices in use."""
    return frozenset(directory.rpartition("/")[2] for directory in find_disks_in_use(sight))


def find_root_disks(sight: LookCache) -> tuple[str, ...]:
    """The names of the disks that hold the root file system, through partitions, device mapper and RAID."""
    found = {at for path in _mounted(sight).get("/", ()) for at in _rests_on(sight, path)}
    disks = (at for at in found if not sight.list_names(f"{at}/slaves") and isinstance(_partition(sight, at), Absent))
    return tuple(sorted(at.rpartition("/")[2] for at in disks))


def _in_use(sight: LookCache) -> frozenset[str]:
    found: set[str] = set()
    roots = {path for paths in _mounted(sight).values() for path in paths}
    for path in roots.union(_swaps(sight), _listed_by_drivers(sight)):
        for used in _rests_on(sight, path):
            here = used
            while here.startswith("/sys/devices/") and here not in found:
                found.add(here)
                here = here.rpartition("/")[0]
    return frozenset(found)


def _mounted(sight: LookCache) -> Mapping[str, tuple[str, ...]]:
    """The directories of the block devices at each mount point that has some."""
    return sight.get_or_read("mounted", "", lambda: dict(_mounts(sight)))


def _mounts(sight: LookCache) -> Iterator[tuple[str, tuple[str, ...]]]:
    for line in _lines(sight, "/proc/self/mountinfo"):
        fields, _, last = line.partition(" - ")
        left, right = fields.split(), last.split()
        if len(left) < 5 or len(right) < 2:
            continue
        directory = sight.root.resolve_device(f"/sys/dev/block/{left[2]}")
        devices = [directory] if isinstance(directory, str) else _of_source(sight, *right[:2])
        if devices:
            yield left[4], tuple(devices)


def _of_source(sight: LookCache, file_system: str, source: str) -> list[str]:
    """The devices of a file system whose number is of no device: btrfs has several, and says them in sysfs."""
    if not source.startswith("/dev/"):
        return []
    first = _of_node(sight, source)
    if file_system == "btrfs" and first:
        for volume in sight.list_names("/sys/fs/btrfs"):
            members = sight.list_names(f"/sys/fs/btrfs/{volume}/devices")
            if first.rpartition("/")[2] in members:
                found = [sight.root.resolve_device(f"/sys/fs/btrfs/{volume}/devices/{name}") for name in members]
                return [each for each in found if isinstance(each, str)]
    return [first] if first else []


def _listed_by_drivers(sight: LookCache) -> Iterator[str]:
    """Yield the devices of all mounted file systems of some drivers, whichever mount namespace they are in."""
    for driver in ("ext4", "f2fs", "xfs"):
        names = sight.list_names(f"/sys/fs/{driver}")
        found = [
            sight.root.resolve_device(f"/sys/class/block/{name}") for name in names
        ]  # beside them: features, stats
        yield from (each for each in found if isinstance(each, str))
    for volume in sight.list_names("/sys/fs/btrfs"):
        members = sight.list_names(f"/sys/fs/btrfs/{volume}/devices")
        found = [sight.root.resolve_device(f"/sys/fs/btrfs/{volume}/devices/{name}") for name in members]
        yield from (each for each in found if isinstance(each, str))


def _swaps(sight: LookCache) -> Iterator[str]:
    for line in _lines(sight, "/proc/swaps"):
        if line.startswith("/dev/") and (directory := _of_node(sight, line.split()[0])):
            yield directory


def _of_node(sight: LookCache, path: str) -> str:
    node = sight.root.find_node(path)
    if not isinstance(node, DeviceNode):
        return ""
    directory = sight.root.resolve_device(f"/sys/dev/block/{node.major}:{node.minor}")
    return directory if isinstance(directory, str) else ""


def _rests_on(sight: LookCache, directory: str) -> frozenset[str]:
    """A block device with all that it rests on."""
    found: set[str] = set()
    waiting = [directory]
    while waiting:
        here = waiting.pop()
        if here in found:
            continue
        found.add(here)
        if not isinstance(_partition(sight, here), Absent):
            waiting.append(here.rpartition("/")[0])
        slaves = [sight.root.resolve_device(f"{here}/slaves/{name}") for name in sight.list_names(f"{here}/slaves")]
        waiting += [slave for slave in slaves if isinstance(slave, str)]
        above = here.rpartition("/")[0]
        if "/nvme-subsystem/" in above:  # a namespace with several ways to it, one for each controller
            found.update(list_controllers(sight, above))
    return frozenset(found)


def _partition(sight: LookCache, directory: str) -> str | Absent:
    return sight.read_text(f"{directory}/partition")


def _lines(sight: LookCache, path: str) -> list[str]:
    data = sight.root.read_list(path, _LIMIT)
    return [] if isinstance(data, Absent) else data.decode("utf-8", "surrogateescape").splitlines()
