"""Words of every host device."""

from __future__ import annotations

from agent.core.language.value import Absent, Value, ValueType
from agent.host.read_errors import NO_SUCH_FILE, TYPE_REASONS
from agent.scanners.disks import list_content_kinds, list_subsystem_namespaces
from agent.scanners.disks_in_use import find_disks_in_use, list_names_in_use
from agent.scanners.path_id import build_path_id
from agent.scanners.word_table import PCI_ADDRESS, LookCache, Relation, Word, WordSubject, make_table

_DEPTH_LIMIT = (
    8  # levels of directories below a device that are searched for nodes (1-1:1.0/ttyUSB0/tty/ttyUSB0 has four)
)
_OTHER_NODES = frozenset({"scsi_generic", "scsi_device", "scsi_disk", "bsg"})  # other nodes of a SCSI disk
_STORAGE = "0x01"  # the class of PCI functions with disks. For other classes no disks are searched
_CONSOLE = "/sys/class/tty/console/active"
_DIRECTORY_LIMIT = 4096  # directories searched for one device, limits the cost of broken hardware


def find_parent_directory(cache: LookCache, directory: str) -> str | Absent:
    """Return the canonical directory of the next device above: the next directory with a `subsystem`."""
    above = directory.rpartition("/")[0]
    while above.startswith("/sys/devices/"):
        if not isinstance(cache.read_link_name(f"{above}/subsystem"), Absent):
            return above
        above = above.rpartition("/")[0]
    return Absent("nothing is above it")


def find_nearest(cache: LookCache, directory: str, subsystem: str) -> str | Absent:
    """Return the device itself or the nearest device above it in the subsystem."""
    current: str | Absent = directory
    while isinstance(current, str) and current:
        if cache.read_link_name(f"{current}/subsystem") == subsystem and _is_device(subsystem, current):
            return current
        current = find_parent_directory(cache, current)
    return Absent(f"it is no {subsystem} device, and none is above it")


def find_own_node(cache: LookCache, subject: WordSubject) -> str | Absent:
    """Return the canonical path of the device's own node. It is absent if the path is no device node."""
    path = subject.node
    if not path:
        if not subject.directory:
            return Absent("it has no node")
        name = cache.read_properties(subject.directory).values.get("DEVNAME", "")
        if not name:
            return Absent("it has no node")
        path = name if name.startswith("/dev/") else f"/dev/{name}"
    cache.paths.add(path)
    node = cache.root.find_node(path)
    if isinstance(node, Absent):
        return Absent(f"{path} {node.reason}" if node in TYPE_REASONS else f"{path}: {node.reason}")
    cache.paths.add(node.path)
    return node.path


def list_devices_below(cache: LookCache, directory: str, own_subsystem: str) -> tuple[WordSubject, ...]:
    """Return the devices below a directory, depth first. Other USB devices and devices of the bus `own_subsystem` are
    not entered.

    If `own_subsystem` is a class, devices of that class below it are parts of the device: streams of a sound card, the
    event node of an input device, partitions of a disk.
    """
    foreign_subsystems = {"usb"} if not own_subsystem or _is_class(cache, own_subsystem) else {"usb", own_subsystem}
    subjects: list[WordSubject] = []
    remaining = [(directory, 0)]
    visited_count = 0
    while remaining and visited_count < _DIRECTORY_LIMIT:
        current, depth = remaining.pop()
        visited_count += 1
        if current != directory:
            subsystem = cache.read_link_name(f"{current}/subsystem")
            if isinstance(subsystem, str):
                if subsystem in foreign_subsystems and _is_device(subsystem, current):
                    continue
                subjects.append(WordSubject("every", current.rpartition("/")[2], current, subsystem=subsystem))
        if depth < _DEPTH_LIMIT:
            paths = [f"{current}/{name}" for name in cache.root.list_directories(current)]
            remaining.extend((path, depth + 1) for path in reversed(paths))
    return tuple(subjects)


def _is_class(cache: LookCache, subsystem: str) -> bool:
    path = f"/sys/class/{subsystem}"
    return cache.get_or_read("class", path, lambda: cache.root.is_directory(path))


def _is_device(subsystem: str, directory: str) -> bool:
    """Return whether the directory is a device of the bus. A USB interface and the entry of the bus itself are not."""
    name = directory.rpartition("/")[2]
    if subsystem == "usb":
        return ":" not in name and (name.startswith("usb") or name[:1].isdecimal())
    return subsystem != "pci" or PCI_ADDRESS.fullmatch(name) is not None


def _list_nodes(cache: LookCache, subject: WordSubject) -> Value | Absent:
    nodes: list[str] = []
    own_node = find_own_node(cache, subject)
    if isinstance(own_node, str):
        nodes.append(own_node)
    if subject.directory:
        subsystem = _get_subsystem(cache, subject)
        subjects = list(list_devices_below(cache, subject.directory, subsystem))
        for directory in list_subsystem_namespaces(cache, subject.directory, subsystem):
            subjects += (
                WordSubject("every", directory.rpartition("/")[2], directory),
                *list_devices_below(cache, directory, ""),
            )
        for node_subject in subjects:
            if not isinstance(cache.read_text(f"{node_subject.directory}/dev"), Absent):
                node = find_own_node(cache, node_subject)
                if isinstance(node, str):
                    nodes.append(node)
    return tuple(dict.fromkeys(nodes))


def _get_subsystem(cache: LookCache, subject: WordSubject) -> str:
    subsystem = subject.subsystem or cache.read_link_name(f"{subject.directory}/subsystem")
    return subsystem if isinstance(subsystem, str) else ""


def _read_driver(cache: LookCache, subject: WordSubject) -> Value | Absent:
    if not subject.directory:
        return Absent("it has no driver")
    driver = cache.read_link_name(f"{subject.directory}/driver")
    if isinstance(driver, str):
        return driver
    device = cache.root.resolve_device(f"{subject.directory}/device")
    if isinstance(device, str) and isinstance(
        cache.read_link_name(f"{subject.directory}/device"), str
    ):  # for PCI it is a file
        cache.paths.add(device)
        driver = cache.read_link_name(f"{device}/driver")
    return Absent("no driver is bound") if isinstance(driver, Absent) and not driver.unreadable else driver


def _read_subsystem(cache: LookCache, subject: WordSubject) -> Value | Absent:
    return cache.read_link_name(f"{subject.directory}/subsystem") if subject.directory else Absent("it is in none")


def _read_path_id(cache: LookCache, subject: WordSubject) -> Value | Absent:
    if not subject.directory:
        return Absent("it sits on no bus")
    properties = cache.read_properties(subject.directory)
    path_id = properties.values.get("ID_PATH") or build_path_id(cache, subject.directory)
    return properties.get("ID_PATH") if isinstance(path_id, Absent) and properties.is_pending else path_id


def _find_numa_node(cache: LookCache, subject: WordSubject) -> Value | Absent:
    return cache.find_numa_node(subject.directory)


def _is_mounted(cache: LookCache, subject: WordSubject) -> Value | Absent:
    """Return whether the machine itself uses the device. A partition counts for itself.

    Another node of a disk in use also counts: its generic node, its controller.
    """
    if not subject.directory:
        return False
    if subject.directory in find_disks_in_use(cache):
        return True
    subsystem = cache.read_link_name(f"{subject.directory}/subsystem")
    if subsystem == "nvme-generic":
        return f"nvme{subject.directory.rpartition('/')[2].removeprefix('ng')}" in list_names_in_use(cache)
    return subsystem in _OTHER_NODES and find_parent_directory(cache, subject.directory) in find_disks_in_use(cache)


def _read_data(cache: LookCache, subject: WordSubject) -> Value | Absent:
    if not subject.directory:
        return ()
    directory, subsystem = subject.directory, _get_subsystem(cache, subject)
    if subsystem in _OTHER_NODES:
        above = find_parent_directory(cache, directory)
        directory, subsystem = (above, "scsi") if isinstance(above, str) else (directory, subsystem)
    if subsystem == "pci":
        kind = cache.read_text(f"{directory}/class")
        if isinstance(kind, str) and not kind.startswith(_STORAGE):
            return ()
    devices = ((device.directory, device.subsystem) for device in list_devices_below(cache, directory, subsystem))
    return list_content_kinds(cache, directory, subsystem, devices)


def _is_console(cache: LookCache, subject: WordSubject) -> Value | Absent:
    if not subject.directory or cache.read_link_name(f"{subject.directory}/subsystem") != "tty":
        return False
    active = cache.read_text(_CONSOLE)
    if isinstance(active, Absent):
        return False if active == NO_SUCH_FILE else active
    names, name = active.split(), subject.directory.rpartition("/")[2]
    # tty0 is the current virtual terminal.
    return name in names or ("tty0" in names and name.removeprefix("tty").isdecimal())


def _find_pci(cache: LookCache, subject: WordSubject) -> WordSubject | Absent:
    return cache.get_or_read("pci", subject.directory, lambda: _find_nearest(cache, subject.directory, "pci"))


def _find_usb(cache: LookCache, subject: WordSubject) -> WordSubject | Absent:
    return cache.get_or_read("usb", subject.directory, lambda: _find_nearest(cache, subject.directory, "usb"))


def _find_nearest(cache: LookCache, directory: str, bus: str) -> WordSubject | Absent:
    nearest = find_nearest(cache, directory, bus)
    return (
        nearest if isinstance(nearest, Absent) else WordSubject(bus, nearest.rpartition("/")[2], nearest, subsystem=bus)
    )


def _find_parent(cache: LookCache, subject: WordSubject) -> WordSubject | Absent:
    parent = find_parent_directory(cache, subject.directory)
    return parent if isinstance(parent, Absent) else WordSubject("every", parent.rpartition("/")[2], parent)


EVERY = make_table(
    "every",
    Word(
        "name",
        ValueType.TEXT,
        "last part of the path of its directory or node",
        "-",
        lambda _, subject: subject.name,
        is_in_memory=True,
    ),
    Word(
        "node", ValueType.PATH, "its device node, if it exists", "DEVNAME of uevent", find_own_node, is_in_memory=True
    ),
    Word(
        "nodes", ValueType.PATH, "its device node and the nodes below it", "dev files below", _list_nodes, is_list=True
    ),
    Word(
        "driver",
        ValueType.TEXT,
        "bound driver; for a class device, the driver of its parent device",
        "driver",
        _read_driver,
    ),
    Word("subsystem", ValueType.TEXT, "class or bus", "subsystem", _read_subsystem),
    Word("numa", ValueType.INT, "its NUMA node, or that of the nearest parent", "numa_node", _find_numa_node),
    Word("path_id", ValueType.TEXT, "path in the topology, as ID_PATH of udev", "the real path", _read_path_id),
    Word(
        "mounted",
        ValueType.BOOL,
        "true if the host uses it: mounted, swap, or the parent of such a device",
        "-",
        _is_mounted,
    ),
    Word(
        "data",
        ValueType.TEXT,
        "kinds of data on its disks: filesystem, partitions, lvm, zfs and others; held, shared or unprobed",
        "udev, partition, holders/",
        _read_data,
        is_list=True,
    ),
    Word(
        "console",
        ValueType.BOOL,
        "true for a terminal that is the console of the host",
        "/sys/class/tty/console/active",
        _is_console,
    ),
    Relation("pci", "pci", "itself or the nearest parent that is a PCI function", "the real path", _find_pci),
    Relation("usb", "usb", "itself or the nearest parent that is a USB device", "the real path", _find_usb),
    Relation("parent", "every", "its parent device", "the real path", _find_parent),
)
