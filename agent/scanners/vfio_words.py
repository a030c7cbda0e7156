"""Words of what VFIO hands a function out by: its group's node, or its own with iommufd.

Kernel ABI: Documentation/driver-api/vfio.rst. A node is told only where it really stands: a kernel without
CONFIG_VFIO_DEVICE_CDEV makes the directory `vfio-dev` and no node for it.
"""

from __future__ import annotations

from agent.core.language.value import Absent, Value, ValueType
from agent.scanners.iommu_words import is_noiommu
from agent.scanners.pci_words import find_iommu_group
from agent.scanners.word_table import PCI_ADDRESS, LookCache, Word, WordSubject, make_table

CONTROL, IOMMUFD = "/dev/vfio/vfio", "/dev/iommu"


def _group(sight: LookCache, thing: WordSubject) -> Value | Absent:
    group = find_iommu_group(sight, thing)
    if isinstance(group, WordSubject) and is_noiommu(sight, group):
        return Absent(f"its group {group.name} is without an IOMMU: give.vfio.noiommu = true gives it all the same")
    return group if isinstance(group, Absent) else _there(sight, f"/dev/vfio/{group.name}")


def _noiommu(sight: LookCache, thing: WordSubject) -> Value | Absent:
    group = find_iommu_group(sight, thing)
    if isinstance(group, WordSubject) and not is_noiommu(sight, group):
        return Absent(f"its group {group.name} has an IOMMU")
    return group if isinstance(group, Absent) else _there(sight, f"/dev/vfio/noiommu-{group.name}")


def _cdev(sight: LookCache, thing: WordSubject) -> Value | Absent:
    names = [name for name in sight.list_names(f"{thing.directory}/vfio-dev") if name.startswith("vfio")]
    if not names:
        return Absent("it has no vfio-dev: the kernel has no iommufd for VFIO")
    iommufd = _there(sight, IOMMUFD)
    return iommufd if isinstance(iommufd, Absent) else _there(sight, f"/dev/vfio/devices/{names[0]}")


def _there(sight: LookCache, path: str) -> Value | Absent:
    sight.paths.add(path)
    node = sight.root.find_node(path)
    return Absent(f"{path}: {node.reason}") if isinstance(node, Absent) else node.path


def _address(_: LookCache, thing: WordSubject) -> Value | Absent:
    return thing.name if PCI_ADDRESS.fullmatch(thing.name) else Absent("it is no PCI function")


VFIO = make_table(
    "vfio",
    Word("address", ValueType.PCI, "its address, of a PCI function", "the directory's name", _address),
    Word("group", ValueType.PATH, "its group's node, of a group with an IOMMU", "iommu_group", _group),
    Word("noiommu", ValueType.PATH, "its group's node, of one without", "iommu_group", _noiommu),
    Word("cdev", ValueType.PATH, "its own node, if that and /dev/iommu are there", "vfio-dev/vfio*", _cdev),
    device=False,
)
