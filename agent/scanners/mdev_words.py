"""Words of a mediated device (Documentation/driver-api/vfio-mediated-device.rst)."""

from __future__ import annotations

from agent.core.language.value import Absent, Value, ValueType
from agent.scanners.pci_words import find_iommu_group
from agent.scanners.word_table import LookCache, Relation, Word, WordSubject, make_table


def _type(sight: LookCache, thing: WordSubject) -> Value | Absent:
    """The type by the name that its driver gives it, blanks as `_`; where it gives none, by its directory's name."""
    real = sight.root.resolve_device(f"{thing.directory}/mdev_type")
    if isinstance(real, Absent):
        return real
    sight.paths.add(real)
    name = sight.read_text(f"{real}/name")
    said = name if isinstance(name, str) and name else real.rpartition("/")[2]
    return "_".join(said.split())


def _vfio(sight: LookCache, thing: WordSubject) -> WordSubject | Absent:
    """Whatever drives a mediated device is a driver of VFIO's."""
    driver = sight.read_link_name(f"{thing.directory}/driver")
    return (
        Absent("no driver is bound") if isinstance(driver, Absent) else WordSubject("vfio", thing.name, thing.directory)
    )


MDEV = make_table(
    "mdev",
    Word("uuid", ValueType.TEXT, "its UUID", "the directory's name", lambda _, thing: thing.name),
    Word("type", ValueType.TEXT, "its type by name, blanks as _", "mdev_type", _type),
    Relation("iommu", "iommu", "its IOMMU group", "iommu_group", find_iommu_group),
    Relation("vfio", "vfio", "what VFIO hands it out by", "driver, vfio-dev/", _vfio),
)
