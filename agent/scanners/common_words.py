"""Words of every host device."""

from __future__ import annotations

from agent.core.language.value import Absent, Value, ValueType
from agent.host.read_errors import NO_SUCH_FILE, TYPE_REASONS
from agent.scanners.disks import list_content_kinds, list_shared_namespaces
from agent.scanners.disks_in_use import find_disks_in_use, list_names_in_use
from agent.scanners.path_id import build_path_id
from agent.scanners.word_table import PCI_ADDRESS, LookCache, Relation, Word, WordSubject, make_table

_DEEP = 8  # directories below a device in which its nodes are looked for (usb: 1-1:1.0/ttyUSB0/tty/ttyUSB0 is four)
_OTHER_NODES = frozenset({"scsi_generic", "scsi_device", "scsi_disk", "bsg"})  # of a disk, by way of SCSI
_STORAGE = "0x01"  # so begins the class of a PCI function with disks; of no other disks are looked for
_CONSOLE = "/sys/class/tty/console/active"
_MANY = 4096  # directories looked through for one device: bounds what broken hardware can cost


def find_parent_directory(sight: LookCache, directory: str) -> str | Absent:
    """The canonical directory of the next device above: the next one that has a `subsystem`."""
    above = directory.rpartition("/")[0]
    while above.startswith("/sys/devices/"):
        if not isinstance(sight.read_link_name(f"{above}/subsystem"), Absent):
            return above
        above = above.rpartition("/")[0]
    return Absent("nothing is above it")


def find_nearest(sight: LookCache, directory: str, subsystem: str) -> str | Absent:
    """The device itself or the nearest one above it that is of that subsystem."""
    here: str | Absent = directory
    while isinstance(here, str) and here:
        if sight.read_link_name(f"{here}/subsystem") == subsystem and _is_device(subsystem, here):
            return here
        here = find_parent_directory(sight, here)
    return Absent(f"it is no {subsystem} device, and none is above it")


def find_own_node(sight: LookCache, thing: WordSubject) -> str | Absent:
    """The canonical path of the thing's node, if that really is one."""
    path = thing.node
    if not path:
        if not thing.directory:
            return Absent("it has no node")
        name = sight.read_properties(thing.directory).values.get("DEVNAME", "")
        if not name:
            return Absent("it has no node")
        path = name if name.startswith("/dev/") else f"/dev/{name}"
    sight.paths.add(path)
    node = sight.root.find_node(path)
    if isinstance(node, Absent):
        return Absent(f"{path} {node.reason}" if node in TYPE_REASONS else f"{path}: {node.reason}")
    sight.paths.add(node.path)
    return node.path


def list_devices_below(sight: LookCache, directory: str, same: str) -> tuple[WordSubject, ...]:
    """The devices below a directory, depth first; not into another of the bus `same`, nor another USB device.

    What is of one class with what it stands below is a part of that: a sound card's streams, an input device's event
    node, a disk's partitions.
    """
    apart = {"usb"} if not same or _is_class(sight, same) else {"usb", same}
    found: list[WordSubject] = []
    waiting = [(directory, 0)]
    looked = 0
    while waiting and looked < _MANY:
        here, depth = waiting.pop()
        looked += 1
        if here != directory:
            subsystem = sight.read_link_name(f"{here}/subsystem")
            if isinstance(subsystem, str):
                if subsystem in apart and _is_device(subsystem, here):
                    continue
                found.append(WordSubject("every", here.rpartition("/")[2], here, subsystem=subsystem))
        if depth < _DEEP:
            paths = [f"{here}/{name}" for name in sight.root.list_directories(here)]
            waiting.extend((path, depth + 1) for path in reversed(paths))
    return tuple(found)


def _is_class(sight: LookCache, subsystem: str) -> bool:
    path = f"/sys/class/{subsystem}"
    return sight.get_or_read("class", path, lambda: sight.root.is_directory(path))


def _is_device(subsystem: str, directory: str) -> bool:
    """Whether it is a device of the bus and not a part of one (a USB interface), nor a bus's own entry."""
    name = directory.rpartition("/")[2]
    if subsystem == "usb":
        return ":" not in name and (name.startswith("usb") or name[:1].isdecimal())
    return subsystem != "pci" or PCI_ADDRESS.fullmatch(name) is not None


def _nodes(sight: LookCache, thing: WordSubject) -> Value | Absent:
    found: list[str] = []
    own = find_own_node(sight, thing)
    if isinstance(own, str):
        found.append(own)
    if thing.directory:
        subsystem = _subsystem_of(sight, thing)
        others = list(list_devices_below(sight, thing.directory, subsystem))
        for directory in list_shared_namespaces(sight, thing.directory, subsystem):
            others += (
                WordSubject("every", directory.rpartition("/")[2], directory),
                *list_devices_below(sight, directory, ""),
            )
        for other in others:
            if not isinstance(sight.read_text(f"{other.directory}/dev"), Absent):
                node = find_own_node(sight, other)
                if isinstance(node, str):
                    found.append(node)
    return tuple(dict.fromkeys(found))


def _subsystem_of(sight: LookCache, thing: WordSubject) -> str:
    subsystem = thing.subsystem or sight.read_link_name(f"{thing.directory}/subsystem")
    return subsystem if isinstance(subsystem, str) else ""


def _driver(sight: LookCache, thing: WordSubject) -> Value | Absent:
    if not thing.directory:
        return Absent("it has no driver")
    own = sight.read_link_name(f"{thing.directory}/driver")
    if isinstance(own, str):
        return own
    behind = sight.root.resolve_device(f"{thing.directory}/device")
    if isinstance(behind, str) and isinstance(
        sight.read_link_name(f"{thing.directory}/device"), str
    ):  # of PCI it is a file
        sight.paths.add(behind)
        own = sight.read_link_name(f"{behind}/driver")
    return Absent("no driver is bound") if isinstance(own, Absent) and not own.unreadable else own


def _subsystem(sight: LookCache, thing: WordSubject) -> Value | Absent:
    return sight.read_link_name(f"{thing.directory}/subsystem") if thing.directory else Absent("it is in none")


def _path_id(sight: LookCache, thing: WordSubject) -> Value | Absent:
    if not thing.directory:
        return Absent("it sits on no bus")
    properties = sight.read_properties(thing.directory)
    said = properties.values.get("ID_PATH") or build_path_id(sight, thing.directory)
    return properties.get("ID_PATH") if isinstance(said, Absent) and properties.is_pending else said


def _numa(sight: LookCache, thing: WordSubject) -> Value | Absent:
    return sight.find_numa_node(thing.directory)


def _mounted(sight: LookCache, thing: WordSubject) -> Value | Absent:
    """Also of another node of a disk in use: its generic one, its controller's. A partition stands for itself."""
    if not thing.directory:
        return False
    if thing.directory in find_disks_in_use(sight):
        return True
    subsystem = sight.read_link_name(f"{thing.directory}/subsystem")
    if subsystem == "nvme-generic":
        return f"nvme{thing.directory.rpartition('/')[2].removeprefix('ng')}" in list_names_in_use(sight)
    return subsystem in _OTHER_NODES and find_parent_directory(sight, thing.directory) in find_disks_in_use(sight)


def _data(sight: LookCache, thing: WordSubject) -> Value | Absent:
    if not thing.directory:
        return ()
    directory, subsystem = thing.directory, _subsystem_of(sight, thing)
    if subsystem in _OTHER_NODES:
        above = find_parent_directory(sight, directory)
        directory, subsystem = (above, "scsi") if isinstance(above, str) else (directory, subsystem)
    if subsystem == "pci":
        kind = sight.read_text(f"{directory}/class")
        if isinstance(kind, str) and not kind.startswith(_STORAGE):
            return ()
    found = ((each.directory, each.subsystem) for each in list_devices_below(sight, directory, subsystem))
    return list_content_kinds(sight, directory, subsystem, found)


def _console(sight: LookCache, thing: WordSubject) -> Value | Absent:
    if not thing.directory or sight.read_link_name(f"{thing.directory}/subsystem") != "tty":
        return False
    active = sight.read_text(_CONSOLE)
    if isinstance(active, Absent):
        return False if active == NO_SUCH_FILE else active
    names, name = active.split(), thing.directory.rpartition("/")[2]
    # tty0 stands for whichever virtual terminal is in front.
    return name in names or ("tty0" in names and name.removeprefix("tty").isdecimal())


def _pci(sight: LookCache, thing: WordSubject) -> WordSubject | Absent:
    return sight.get_or_read("pci", thing.directory, lambda: _nearest(sight, thing.directory, "pci"))


def _usb(sight: LookCache, thing: WordSubject) -> WordSubject | Absent:
    return sight.get_or_read("usb", thing.directory, lambda: _nearest(sight, thing.directory, "usb"))


def _nearest(sight: LookCache, directory: str, bus: str) -> WordSubject | Absent:
    found = find_nearest(sight, directory, bus)
    return found if isinstance(found, Absent) else WordSubject(bus, found.rpartition("/")[2], found, subsystem=bus)


def _parent(sight: LookCache, thing: WordSubject) -> WordSubject | Absent:
    found = find_parent_directory(sight, thing.directory)
    return found if isinstance(found, Absent) else WordSubject("every", found.rpartition("/")[2], found)


EVERY = make_table(
    "every",
    Word(
        "name",
        ValueType.TEXT,
        "last part of its directory or node",
        "-",
        lambda _, thing: thing.name,
        is_in_memory=True,
    ),
    Word("node", ValueType.PATH, "its own node, if that exists", "DEVNAME of uevent", find_own_node, is_in_memory=True),
    Word("nodes", ValueType.PATH, "its own node and those below it", "dev files below", _nodes, is_list=True),
    Word("driver", ValueType.TEXT, "bound driver, of a class device that of the device behind it", "driver", _driver),
    Word("subsystem", ValueType.TEXT, "class or bus", "subsystem", _subsystem),
    Word("numa", ValueType.INT, "its NUMA node, or that of the nearest device above", "numa_node", _numa),
    Word("path_id", ValueType.TEXT, "place in the topology, as udev's ID_PATH", "the real path", _path_id),
    Word(
        "mounted",
        ValueType.BOOL,
        "the machine itself uses it: mounted or swapped to, or it carries such",
        "-",
        _mounted,
    ),
    Word(
        "data",
        ValueType.TEXT,
        "what its disks hold: filesystem, partitions, lvm, zfs and the like; held, shared or unprobed",
        "udev, partition, holders/",
        _data,
        is_list=True,
    ),
    Word(
        "console", ValueType.BOOL, "a terminal that is the machine's console", "/sys/class/tty/console/active", _console
    ),
    Relation("pci", "pci", "itself or the nearest PCI function above", "the real path", _pci),
    Relation("usb", "usb", "itself or the nearest USB device above", "the real path", _usb),
    Relation("parent", "every", "the next device above", "the real path", _parent),
)
