"""Words of a mediated device (Documentation/driver-api/vfio-mediated-device.rst)."""

from __future__ import annotations

from agent.core.language.value import Absent, Value, ValueType
from agent.scanners.pci_words import find_iommu_group
from agent.scanners.word_table import LookCache, Relation, Word, WordSubject, make_table


def _read_type(cache: LookCache, subject: WordSubject) -> Value | Absent:
    """Return the type name of the driver with `_` for blanks, or the name of the type directory if the driver gives
    none.
    """
    directory = cache.root.resolve_device(f"{subject.directory}/mdev_type")
    if isinstance(directory, Absent):
        return directory
    cache.paths.add(directory)
    name = cache.read_text(f"{directory}/name")
    type_name = name if isinstance(name, str) and name else directory.rpartition("/")[2]
    return "_".join(type_name.split())


def _find_vfio(cache: LookCache, subject: WordSubject) -> WordSubject | Absent:
    """Return the VFIO words of a mediated device with a driver: each such driver is a VFIO driver."""
    driver = cache.read_link_name(f"{subject.directory}/driver")
    return (
        Absent("no driver is bound")
        if isinstance(driver, Absent)
        else WordSubject("vfio", subject.name, subject.directory)
    )


MDEV = make_table(
    "mdev",
    Word("uuid", ValueType.TEXT, "its UUID", "the directory's name", lambda _, subject: subject.name),
    Word("type", ValueType.TEXT, "its type as a name, with _ for blanks", "mdev_type", _read_type),
    Relation("iommu", "iommu", "its IOMMU group", "iommu_group", find_iommu_group),
    Relation("vfio", "vfio", "its VFIO nodes", "driver, vfio-dev/", _find_vfio),
)
