"""Names of PCI hardware from the pci.ids file of the host. Without the file, the kind of function. Only for people."""

from __future__ import annotations

from agent.core.language.safe_text import make_printable
from agent.core.language.value import Absent
from agent.host.root import Root

PCI_IDS_PATHS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids", "/usr/share/pci.ids")

# PCI Code and ID Assignment Specification, base classes; the first two digits of `class`.
_FUNCTION_KINDS = {
    "01": "storage", "02": "network", "03": "display", "04": "multimedia", "05": "memory", "06": "bridge",
    "07": "communication", "08": "system", "09": "input", "0b": "processor", "0c": "serial bus", "0d": "wireless",
    "0f": "satellite", "10": "encryption", "11": "signal processing", "12": "accelerator",
}  # fmt: skip


class PciNames:
    """Names of PCI hardware. The first call reads the file."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._names: dict[tuple[str, str], str] | None = None

    def find_name(self, vendor: str, device: str, class_: str) -> str:
        """Return the printable name of a model, or the kind of function if the model is not in the file."""
        if self._names is None:
            self._names = self._read()
        name = self._names.get((vendor, device))
        return make_printable(name) if name else _FUNCTION_KINDS.get(class_[:2], "PCI function")

    def _read(self) -> dict[tuple[str, str], str]:
        for path in PCI_IDS_PATHS:
            data = self._root.read_head(path, 8 << 20)
            if not isinstance(data, Absent):
                return parse_pci_ids(data.decode("utf-8", "replace"))
        return {}


def parse_pci_ids(text: str) -> dict[tuple[str, str], str]:
    """Return the names in the text of a pci.ids file, by vendor and device."""
    names: dict[tuple[str, str], str] = {}
    vendor = ""
    for line in text.splitlines():
        if line.startswith("C "):
            break  # the rest of the file contains classes
        if line.startswith("\t") and not line.startswith("\t\t"):
            device, _, name = line[1:].partition("  ")
            names[vendor, device] = name
        elif line and not line.startswith(("#", "\t")):
            vendor = line.partition("  ")[0]
    return names
