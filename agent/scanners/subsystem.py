"""Source `subsystem`: every device of a class or bus of the kernel; and how its like sees one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import HostDevice
from agent.core.inventory.listing import SkippedPath
from agent.core.language.value import Absent
from agent.host.udev import uevent
from agent.scanners.path_id import position, stem
from agent.scanners.subsystem_listing import GONE, ScannerFunctions, See, key_of, ways
from agent.scanners.word_table import LookCache, table

KIND = "subsystem"
DEFAULT_IDS: tuple[str, ...] = ()  # no word of every class lasts: the entry has to say
TABLE = table("subsystem")

Place = Callable[[LookCache, str, str], str]  # of a directory and a name: where the device sits
Wanted = Callable[[LookCache, str, str], bool]


def seeing(kind: str, subsystem: str, place: Place | None = None, wanted: Wanted = lambda *_: True) -> See:
    """How one device of a subsystem is seen by a source of that kind.

    place: where a device sits, as the source says it; else by its position and its name without numbers.
    wanted: whether a device of the subsystem is one of the source, asked once of each.
    """

    def see(sight: LookCache, path: str, before: Mapping[str, HostDevice]) -> HostDevice | SkippedPath | None:
        root = sight.root
        name = path.rpartition("/")[2]
        old = before.get(name)
        if old and not root.prefix and root.directory(old.directory) == old.stamp.partition(" ")[0]:
            return old  # the kernel gives no inode of sysfs twice, and lists no two by one name
        directory = root.device(path)
        if isinstance(directory, Absent):
            return SkippedPath(path, directory.reason)
        inode = root.directory(directory)
        if not inode:
            return None if root.exists(directory) else SkippedPath(path, GONE)  # a class has attributes too
        if not wanted(sight, directory, name):
            return None
        said = uevent(root, directory)
        number = f" {said['MAJOR']}:{said['MINOR']}" if "MAJOR" in said and "MINOR" in said else ""
        stamp = f"{inode}{number}"
        if old and (old.stamp, old.directory) == (stamp, directory):
            return old
        node = said.get("DEVNAME", "")
        node = node if not node or node.startswith("/dev/") else f"/dev/{node}"
        sits = place(sight, directory, name) if place else _place(sight, directory, name)
        return HostDevice(kind, key_of(sight, directory), name, f"{subsystem}:{sits}", directory, node, stamp)

    return see


def of(kind: str, subsystem: str, place: Place | None = None, wanted: Wanted = lambda *_: True) -> ScannerFunctions:
    """How a source is looked at that is named after what it sees of one subsystem."""
    see = seeing(kind, subsystem, place, wanted)
    return ways(lambda _: subsystem, lambda _: see)


def _place(sight: LookCache, directory: str, name: str) -> str:
    sits = position(sight, directory)
    return f"{sits}/{stem(name)}" if sits else name


def _subsystem(source: Source) -> str:
    return source.arguments[0]


scan, concerns, same, directories = ways(_subsystem, lambda source: seeing(KIND, _subsystem(source)))
