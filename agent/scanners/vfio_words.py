"""Words of the VFIO nodes of a function: the node of its group, or its own node with iommufd.

Kernel ABI: Documentation/driver-api/vfio.rst. The value is a node that exists: a kernel without CONFIG_VFIO_DEVICE_CDEV
creates the directory `vfio-dev` and no node for it.
"""

from __future__ import annotations

from agent.core.language.value import Absent, Value, ValueType
from agent.scanners.iommu_words import is_noiommu
from agent.scanners.pci_words import find_iommu_group
from agent.scanners.word_table import PCI_ADDRESS, LookCache, Word, WordSubject, make_table

CONTROL, IOMMUFD = "/dev/vfio/vfio", "/dev/iommu"


def _find_group_node(cache: LookCache, subject: WordSubject) -> Value | Absent:
    group = find_iommu_group(cache, subject)
    if isinstance(group, WordSubject) and is_noiommu(cache, group):
        return Absent(f"its group {group.name} is without an IOMMU: give.vfio.noiommu = true gives it all the same")
    return group if isinstance(group, Absent) else _find_node(cache, f"/dev/vfio/{group.name}")


def _find_noiommu_node(cache: LookCache, subject: WordSubject) -> Value | Absent:
    group = find_iommu_group(cache, subject)
    if isinstance(group, WordSubject) and not is_noiommu(cache, group):
        return Absent(f"its group {group.name} has an IOMMU")
    return group if isinstance(group, Absent) else _find_node(cache, f"/dev/vfio/noiommu-{group.name}")


def _find_cdev(cache: LookCache, subject: WordSubject) -> Value | Absent:
    names = [name for name in cache.list_names(f"{subject.directory}/vfio-dev") if name.startswith("vfio")]
    if not names:
        return Absent("it has no vfio-dev: the kernel has no iommufd for VFIO")
    iommufd = _find_node(cache, IOMMUFD)
    return iommufd if isinstance(iommufd, Absent) else _find_node(cache, f"/dev/vfio/devices/{names[0]}")


def _find_node(cache: LookCache, path: str) -> Value | Absent:
    cache.paths.add(path)
    node = cache.root.find_node(path)
    return Absent(f"{path}: {node.reason}") if isinstance(node, Absent) else node.path


def _get_address(_: LookCache, subject: WordSubject) -> Value | Absent:
    return subject.name if PCI_ADDRESS.fullmatch(subject.name) else Absent("it is no PCI function")


VFIO = make_table(
    "vfio",
    Word("address", ValueType.PCI, "its address, for a PCI function", "the directory's name", _get_address),
    Word("group", ValueType.PATH, "node of its group, for a group with an IOMMU", "iommu_group", _find_group_node),
    Word(
        "noiommu", ValueType.PATH, "node of its group, for a group without an IOMMU", "iommu_group", _find_noiommu_node
    ),
    Word("cdev", ValueType.PATH, "its own node, if it and /dev/iommu exist", "vfio-dev/vfio*", _find_cdev),
    device=False,
)
