"""Device classes as entries that nobody made, to see which of them would take something here."""

from __future__ import annotations

from collections.abc import Iterable

from agent.config.compile import compile_entry
from agent.config.load import SHIPPED
from agent.config.merge.class_library import ClassLibrary, Folder
from agent.config.toml.document import parse
from agent.config.toml.file_position import FilePosition
from agent.config.toml.files import ConfigFiles
from agent.config.toml.finding import Finding, Severity
from agent.core.entry.resource_spec import ResourceSpec


def compile_shipped_classes() -> tuple[ResourceSpec, ...]:
    """One entry for each shipped class that can serve as it is, those first that ask most of a device.

    One that takes every function of PCI, or every device of USB, says nothing of any.
    """
    shelf = ClassLibrary([Folder(SHIPPED, "classes")], ConfigFiles(SHIPPED), [])
    found = [
        spec
        for spec in compile_classes(shelf, shelf.list_names())
        if spec.match.lines or spec.exclude or spec.source.kind not in {"pci", "usb"}
    ]
    return tuple(sorted(found, key=lambda spec: (-len(spec.match.lines), -len(spec.exclude))))


def compile_classes(shelf: ClassLibrary, names: Iterable[str]) -> tuple[ResourceSpec, ...]:
    """One entry for each of these classes that can serve as it is, by name."""
    found: list[ResourceSpec] = []
    for name in sorted(names):
        document = parse("classes", f'[[resource]]\nname = "class.example/{name}"\nclass = "{name}"\n')
        spot = FilePosition(document, ("resource", 0))
        findings: list[Finding] = []
        spec = compile_entry(shelf.merge_entry(spot, document.data["resource"][0], "entry"), spot, "socket", findings)
        if spec is not None and not any(finding.severity is Severity.ERROR for finding in findings):
            found.append(spec)
    return tuple(found)
