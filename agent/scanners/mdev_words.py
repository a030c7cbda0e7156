"""Words of a mediated device (Documentation/driver-api/vfio-mediated-device.rst)."""

from __future__ import annotations

from agent.core.language.value import Absent, Value, ValueType
from agent.scanners.pci_words import iommu_of
from agent.scanners.word_table import LookCache, Relation, Thing, Word, table


def _type(sight: LookCache, thing: Thing) -> Value | Absent:
    """The type by the name that its driver gives it, blanks as `_`; where it gives none, by its directory's name."""
    real = sight.root.device(f"{thing.directory}/mdev_type")
    if isinstance(real, Absent):
        return real
    sight.places.add(real)
    name = sight.text(f"{real}/name")
    said = name if isinstance(name, str) and name else real.rpartition("/")[2]
    return "_".join(said.split())


def _vfio(sight: LookCache, thing: Thing) -> Thing | Absent:
    """Whatever drives a mediated device is a driver of VFIO's."""
    driver = sight.link(f"{thing.directory}/driver")
    return Absent("no driver is bound") if isinstance(driver, Absent) else Thing("vfio", thing.name, thing.directory)


MDEV = table(
    "mdev",
    Word("uuid", ValueType.TEXT, "its UUID", "the directory's name", lambda _, thing: thing.name),
    Word("type", ValueType.TEXT, "its type by name, blanks as _", "mdev_type", _type),
    Relation("iommu", "iommu", "its IOMMU group", "iommu_group", iommu_of),
    Relation("vfio", "vfio", "what VFIO hands it out by", "driver, vfio-dev/", _vfio),
)
