"""Words of an IOMMU group (Documentation/ABI/testing/sysfs-kernel-iommu_groups)."""

from __future__ import annotations

from agent.core.language.value import Absent, Value, ValueType
from agent.scanners.pci_words import is_on_vfio
from agent.scanners.word_table import PCI_ADDRESS, LookCache, Relation, Word, WordSubject, make_attribute, make_table

_BRIDGE = "0604"  # PCI-to-PCI bridges may stay with the host: pcieport (drivers/vfio/vfio_main.c: vfio_dev_viable)


def _list_devices(cache: LookCache, subject: WordSubject) -> list[WordSubject]:
    devices = []
    for name in cache.list_names(f"{subject.directory}/devices"):
        directory = cache.root.resolve_device(f"{subject.directory}/devices/{name}")
        if isinstance(directory, str):
            cache.paths.add(directory)
            devices.append(WordSubject("pci", name, directory, subsystem="pci"))
    return devices


def _list_members(cache: LookCache, subject: WordSubject) -> tuple[WordSubject, ...]:
    return tuple(member for member in _list_devices(cache, subject) if PCI_ADDRESS.fullmatch(member.name))


def _list_foreign(cache: LookCache, subject: WordSubject) -> tuple[WordSubject, ...]:
    return tuple(member for member in _list_members(cache, subject) if not _is_compatible(cache, member.directory))


def _is_viable(cache: LookCache, subject: WordSubject) -> Value | Absent:
    devices = _list_devices(cache, subject)
    if not devices:
        return Absent(f"{subject.directory}/devices tells of none")
    return all(_is_compatible(cache, member.directory) for member in devices)


def _list_blockers(cache: LookCache, subject: WordSubject) -> Value | Absent:
    foreign = (member for member in _list_devices(cache, subject) if not _is_compatible(cache, member.directory))
    return tuple(f"{member.name} ({cache.read_link_name(f'{member.directory}/driver')})" for member in foreign)


def is_noiommu(cache: LookCache, subject: WordSubject) -> bool:
    """Return whether a group has no IOMMU. VFIO creates such groups with vfio.enable_unsafe_noiommu_mode."""
    return cache.read_text(f"{subject.directory}/name") == "vfio-noiommu"


def _is_compatible(cache: LookCache, directory: str) -> bool:
    if cache.read_link_name(f"{directory}/driver") == "pci-stub" or is_on_vfio(cache, directory):
        return True
    if cache.read_link_name(f"{directory}/subsystem") == "mdev":  # each driver of a mediated device is a VFIO driver
        return True
    kind = cache.read_value(ValueType.CLASS, f"{directory}/class")
    is_bridge = isinstance(kind, str) and kind.startswith(_BRIDGE)
    return is_bridge or isinstance(cache.read_link_name(f"{directory}/driver"), Absent)


def _get_group_number(_: LookCache, subject: WordSubject) -> Value | Absent:
    return int(subject.name) if subject.name.isdecimal() else Absent("has no number")


IOMMU = make_table(
    "iommu",
    Word("group", ValueType.INT, "its number; can change at each boot", "the link's name", _get_group_number),
    make_attribute("type", ValueType.TEXT, "kind of its default domain"),
    Word("noiommu", ValueType.BOOL, "true for a group without an IOMMU", "name", is_noiommu),
    Word(
        "viable",
        ValueType.BOOL,
        "true if each function is a bridge, has no driver, or uses vfio or pci-stub",
        "devices/*/driver",
        _is_viable,
    ),
    Word(
        "blocked_by",
        ValueType.TEXT,
        "the functions that make it not viable, with their drivers",
        "devices/*",
        _list_blockers,
        is_list=True,
    ),
    Relation("members", "pci", "all functions of the group", "devices/*", _list_members, is_list=True),
    Relation(
        "foreign", "pci", "the functions that make it not viable", "devices/*/driver", _list_foreign, is_list=True
    ),
    device=False,
)
