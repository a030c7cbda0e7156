"""Words of an IOMMU group (Documentation/ABI/testing/sysfs-kernel-iommu_groups)."""

from __future__ import annotations

from agent.core.language.value import Absent, Value, ValueType
from agent.scanners.pci_words import is_on_vfio
from agent.scanners.word_table import PCI_ADDRESS, LookCache, Relation, Word, WordSubject, make_attribute, make_table

_BRIDGE = "0604"  # PCI-to-PCI bridges may stay with the host: pcieport (drivers/vfio/vfio_main.c: vfio_dev_viable)


def _everything(sight: LookCache, thing: WordSubject) -> list[WordSubject]:
    found = []
    for name in sight.list_names(f"{thing.directory}/devices"):
        real = sight.root.resolve_device(f"{thing.directory}/devices/{name}")
        if isinstance(real, str):
            sight.paths.add(real)
            found.append(WordSubject("pci", name, real, subsystem="pci"))
    return found


def _members(sight: LookCache, thing: WordSubject) -> tuple[WordSubject, ...]:
    return tuple(member for member in _everything(sight, thing) if PCI_ADDRESS.fullmatch(member.name))


def _foreign(sight: LookCache, thing: WordSubject) -> tuple[WordSubject, ...]:
    return tuple(member for member in _members(sight, thing) if not _may_stay(sight, member.directory))


def _viable(sight: LookCache, thing: WordSubject) -> Value | Absent:
    everything = _everything(sight, thing)
    if not everything:
        return Absent(f"{thing.directory}/devices tells of none")
    return all(_may_stay(sight, member.directory) for member in everything)


def _blocked_by(sight: LookCache, thing: WordSubject) -> Value | Absent:
    foreign = (member for member in _everything(sight, thing) if not _may_stay(sight, member.directory))
    return tuple(f"{member.name} ({sight.read_link_name(f'{member.directory}/driver')})" for member in foreign)


def is_noiommu(sight: LookCache, thing: WordSubject) -> bool:
    """Whether a group has no IOMMU, as VFIO makes one where it was told to (vfio.enable_unsafe_noiommu_mode)."""
    return sight.read_text(f"{thing.directory}/name") == "vfio-noiommu"


def _may_stay(sight: LookCache, directory: str) -> bool:
    if sight.read_link_name(f"{directory}/driver") == "pci-stub" or is_on_vfio(sight, directory):
        return True
    if sight.read_link_name(f"{directory}/subsystem") == "mdev":  # whatever drives one is a driver of VFIO's
        return True
    kind = sight.read_value(ValueType.CLASS, f"{directory}/class")
    is_bridge = isinstance(kind, str) and kind.startswith(_BRIDGE)
    return is_bridge or isinstance(sight.read_link_name(f"{directory}/driver"), Absent)


def _group(_: LookCache, thing: WordSubject) -> Value | Absent:
    return int(thing.name) if thing.name.isdecimal() else Absent("has no number")


IOMMU = make_table(
    "iommu",
    Word("group", ValueType.INT, "its number, dealt anew at each boot", "the link's name", _group),
    make_attribute("type", ValueType.TEXT, "kind of its default domain"),
    Word("noiommu", ValueType.BOOL, "a group without an IOMMU", "name", is_noiommu),
    Word("viable", ValueType.BOOL, "all are on vfio, pci-stub, no driver, or a bridge", "devices/*/driver", _viable),
    Word(
        "blocked_by",
        ValueType.TEXT,
        "all that makes it not viable, with the drivers",
        "devices/*",
        _blocked_by,
        is_list=True,
    ),
    Relation("members", "pci", "all functions of the group", "devices/*", _members, is_list=True),
    Relation("foreign", "pci", "those that make it not viable", "devices/*/driver", _foreign, is_list=True),
    device=False,
)
