"""Words of a PCI function (Documentation/ABI/testing/sysfs-bus-pci)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent.core.language.value import Absent, Value, ValueType, parse_kernel_text
from agent.scanners.child_devices import find_drm, find_netdev, find_rdma
from agent.scanners.word_table import (
    EMPTY,
    PCI_ADDRESS,
    LookCache,
    Relation,
    Word,
    WordSubject,
    make_attribute,
    make_table,
)

_IDENTITY = 4  # bytes: the vendor and device registers
_HEADER = 64  # bytes: the configuration header


def _compute_number(_: LookCache, subject: WordSubject) -> Value | Absent:
    if not PCI_ADDRESS.fullmatch(subject.name):
        return Absent("it has no PCI address")
    domain, bus, devfn = subject.name.split(":")
    slot, function = devfn.split(".")
    return (int(domain, 16) << 16) + (int(bus, 16) << 8) + (int(slot, 16) << 3) + int(function)


def _find_root(_: LookCache, subject: WordSubject) -> Value | Absent:
    """Return the first function below the bridge of its domain.

    A separate domain (VMD) is below a function of another one.
    """
    above: list[str] = []
    for part in subject.directory.split("/")[:-1]:
        if part.startswith("pci"):
            above.clear()
        elif PCI_ADDRESS.fullmatch(part):
            above.append(part)
    return above[0] if above else Absent("it sits on the root bus")


def _is_present(cache: LookCache, subject: WordSubject) -> Value | Absent:
    """Return whether the function answers on the bus, or why its config space cannot be read.

    A physical function without power or link reads all ones, also in its vendor and device registers. Those registers
    of a virtual function always read all ones (PCI Express Base Specification 5.0, 9.3.4.1), so the registers of its
    *physical* function decide, as in the kernel (drivers/pci/pci.c: pci_device_is_present). The virtual function
    itself is dead if its whole header reads all ones: the status register of a live one is not all ones. The header
    is 64 bytes, and the kernel shows as much to every user (drivers/pci/pci-sysfs.c: pci_read_config).
    """
    physical = _find_physical_directory(cache, subject)
    if isinstance(physical, Absent):
        return _responds(cache, subject.directory, _IDENTITY)
    cache.paths.add(physical)
    is_responding = _responds(cache, subject.directory, _HEADER)
    if is_responding is not True:
        return is_responding
    # Read once for all functions of a card.
    return cache.get_or_read("answers", physical, lambda: _responds(cache, physical, _IDENTITY))


def _responds(cache: LookCache, directory: str, count: int) -> bool | Absent:
    """Return whether the first bytes of a function's config space are not all ones, or why they cannot be read."""
    if cache.read_text(f"{directory}/power_state") == "D3cold":
        return True  # the device sleeps: a read of its config space would wake it, or give all ones
    config = cache.root.read_head(f"{directory}/config", count)
    if isinstance(config, Absent):
        return config if cache.root.is_directory(directory) else False
    return config.strip(b"\xff") != b"" if config else EMPTY


def _is_vf(cache: LookCache, subject: WordSubject) -> Value | Absent:
    return not isinstance(cache.read_link_name(f"{subject.directory}/physfn"), Absent)


def _is_pf(cache: LookCache, subject: WordSubject) -> Value | Absent:
    total = cache.read_value(ValueType.INT, f"{subject.directory}/sriov_totalvfs")
    return isinstance(total, int) and total > 0  # the possible number, which is constant, not the current one


def _map_virtual_functions(cache: LookCache, physical: str) -> Mapping[str, int]:
    """Return the numbers of the virtual functions of a physical function, by their canonical directories."""
    numbers: dict[str, int] = {}
    for name in cache.list_names(physical):
        number = name.removeprefix("virtfn")
        if number != name and number.isdecimal():
            function = cache.root.resolve_device(f"{physical}/{name}")
            if isinstance(function, str):
                numbers[function] = int(number)
    return numbers


def _find_vf_index(cache: LookCache, subject: WordSubject) -> Value | Absent:
    physical = _find_physical_directory(cache, subject)
    if isinstance(physical, Absent):
        return physical
    cache.paths.add(physical)
    index = cache.get_or_read("virtfn", physical, lambda: _map_virtual_functions(cache, physical)).get(
        subject.directory
    )
    return Absent("no virtfn of its PF leads here") if index is None else index


def is_on_vfio(cache: LookCache, directory: str) -> bool:
    """Return whether the driver is vfio-pci, a variant of it, or any driver that created a vfio-dev."""
    driver = cache.read_link_name(f"{directory}/driver")
    if driver == "vfio-pci" or (isinstance(driver, str) and driver.endswith(("_vfio_pci", "-vfio-pci"))):
        return True
    return isinstance(driver, str) and bool(cache.list_names(f"{directory}/vfio-dev"))


def _find_uio(cache: LookCache, subject: WordSubject) -> Value | Absent:
    names = [name for name in cache.list_names(f"{subject.directory}/uio") if name.startswith("uio")]
    if not names:
        return Absent("no uio driver is bound")
    cache.paths.add(f"/dev/{names[0]}")
    node = cache.root.find_node(f"/dev/{names[0]}")
    return Absent(f"/dev/{names[0]}: {node.reason}") if isinstance(node, Absent) else node.path


def _read_speed(cache: LookCache, path: str) -> int | Absent:
    """Return the speed in MT/s of a file with `16.0 GT/s PCIe`."""
    text = cache.read_text(path)
    if isinstance(text, Absent):
        return text
    number, _, unit = text.partition(" ")
    giga = parse_kernel_text(ValueType.INT, number.partition(".")[0])
    if isinstance(giga, Absent) or not unit.startswith("GT/s"):
        return Absent(f"reads {text[:64]!r}, which is no speed", unreadable=True)
    return giga * 1000 + (500 if number.endswith(".5") else 0) if isinstance(giga, int) else Absent("no speed")


def _read_width(cache: LookCache, path: str) -> int | Absent:
    width = cache.read_value(ValueType.INT, path)
    return width if isinstance(width, (Absent, int)) else Absent("no number")


def _make_reduction_test(
    measure: Callable[[LookCache, str], int | Absent], suffix: str
) -> Callable[[LookCache, WordSubject], Value | Absent]:
    """Return a function that tests whether the link has less of a measure than both of its ends support.

    An end without a value counts as supporting it.
    """

    def is_reduced(cache: LookCache, subject: WordSubject) -> Value | Absent:
        current = measure(cache, f"{subject.directory}/current_link_{suffix}")
        maximum = measure(cache, f"{subject.directory}/max_link_{suffix}")
        if isinstance(current, Absent) or isinstance(maximum, Absent):
            return current if isinstance(current, Absent) else maximum
        port_maximum = measure(cache, f"{subject.directory.rpartition('/')[0]}/max_link_{suffix}")
        return current < (maximum if isinstance(port_maximum, Absent) else min(maximum, port_maximum))

    return is_reduced


def _find_physical_directory(cache: LookCache, subject: WordSubject) -> str | Absent:
    """Return the canonical directory of the physical function of a virtual one."""
    if isinstance(cache.read_link_name(f"{subject.directory}/physfn"), Absent):
        return Absent("it is no virtual function")
    return cache.root.resolve_device(f"{subject.directory}/physfn")


def _find_pf(cache: LookCache, subject: WordSubject) -> WordSubject | Absent:
    physical = _find_physical_directory(cache, subject)
    if isinstance(physical, Absent):
        return physical
    return WordSubject("pci", physical.rpartition("/")[2], physical, subsystem="pci")


def find_iommu_group(cache: LookCache, subject: WordSubject) -> WordSubject | Absent:
    number = cache.read_link_name(f"{subject.directory}/iommu_group")
    if isinstance(number, Absent):
        return Absent("it is in no IOMMU group")
    return WordSubject("iommu", number, f"/sys/kernel/iommu_groups/{number}")


def _find_vfio(cache: LookCache, subject: WordSubject) -> WordSubject | Absent:
    if is_on_vfio(cache, subject.directory):
        return WordSubject("vfio", subject.name, subject.directory)
    driver = cache.read_link_name(f"{subject.directory}/driver")
    return Absent("no driver is bound" if isinstance(driver, Absent) else f"{driver} is no driver of VFIO's")


PCI = make_table(
    "pci",
    Word(
        "address", ValueType.PCI, "its address, 0000:3b:02.1", "the directory's name", lambda _, subject: subject.name
    ),
    make_attribute("vendor", ValueType.HEX, "vendor id"),
    make_attribute("device", ValueType.HEX, "device id"),
    make_attribute("subsystem_vendor", ValueType.HEX, "vendor id of the board"),
    make_attribute("subsystem_device", ValueType.HEX, "device id of the board"),
    make_attribute("revision", ValueType.HEX, "revision"),
    make_attribute("class", ValueType.CLASS, "class, 2, 4 or 6 digits"),
    Word("slot", ValueType.TEXT, "address without function", "-", lambda _, subject: subject.name.partition(".")[0]),
    Word("root", ValueType.PCI, "root port", "the real path", _find_root),
    Word("number", ValueType.INT, "domain * 65536 + bus * 256 + device * 8 + function", "-", _compute_number),
    make_attribute("label", ValueType.TEXT, "name of the slot in the firmware"),
    make_attribute("acpi_index", ValueType.INT, "index of the slot in the firmware"),
    Word(
        "present",
        ValueType.BOOL,
        "true if listed and the config space is not all ones; for a virtual function, also that of its PF",
        "config, physfn/config",
        _is_present,
    ),
    make_attribute("link_width", ValueType.INT, "lanes of its PCIe link", "current_link_width"),
    make_attribute("link_speed", ValueType.TEXT, "speed of its PCIe link, 16.0 GT/s PCIe", "current_link_speed"),
    Word(
        "link_narrowed",
        ValueType.BOOL,
        "true if its link has fewer lanes than the device and its parent port support",
        "current_link_width, max_link_width",
        _make_reduction_test(_read_width, "width"),
    ),
    Word(
        "link_slowed",
        ValueType.BOOL,
        "true if its link is slower than the device and its parent port support",
        "current_link_speed, max_link_speed",
        _make_reduction_test(_read_speed, "speed"),
    ),
    Word("is_vf", ValueType.BOOL, "true for a virtual function", "physfn", _is_vf),
    Word("is_pf", ValueType.BOOL, "true if it can have virtual functions", "sriov_totalvfs", _is_pf),
    make_attribute("vfs", ValueType.INT, "current number of virtual functions", "sriov_numvfs"),
    Word("vf_index", ValueType.INT, "N of the virtfnN of its PF that links to it", "physfn/virtfn*", _find_vf_index),
    Word(
        "on_vfio",
        ValueType.BOOL,
        "true if a vfio driver is bound",
        "driver, vfio-dev/",
        lambda s, t: is_on_vfio(s, t.directory),
    ),
    Word("uio", ValueType.PATH, "its /dev/uioN", "uio/uio*", _find_uio),
    Relation("pf", "pci", "the physical function of a virtual one", "physfn", _find_pf),
    Relation("netdev", "net", "its network interface, never a representor", "net/*, virtio*/net/*", find_netdev),
    Relation("rdma", "infiniband", "its RDMA device", "infiniband/*", find_rdma),
    Relation("drm", "drm", "its DRM device", "drm/*", find_drm),
    Relation("iommu", "iommu", "its IOMMU group", "iommu_group", find_iommu_group),
    Relation("vfio", "vfio", "its VFIO nodes, if a vfio driver is bound", "driver, vfio-dev/", _find_vfio),
)
