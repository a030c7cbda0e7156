"""Device classes as entries, to find the classes that match a host device."""

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
    """Return one entry for each shipped class that is valid without other keys. The most specific classes come first.

    Classes that match every PCI function or every USB device are left out, because they fit any device.
    """
    library = ClassLibrary([Folder(SHIPPED, "classes")], ConfigFiles(SHIPPED), [])
    entries = [
        spec
        for spec in compile_classes(library, library.list_names())
        if spec.match.lines or spec.exclude or spec.source.kind not in {"pci", "usb"}
    ]
    return tuple(sorted(entries, key=lambda spec: (-len(spec.match.lines), -len(spec.exclude))))


def compile_classes(library: ClassLibrary, names: Iterable[str]) -> tuple[ResourceSpec, ...]:
    """Return one entry for each of these classes that is valid without other keys, sorted by name."""
    entries: list[ResourceSpec] = []
    for name in sorted(names):
        document = parse("classes", f'[[resource]]\nname = "class.example/{name}"\nclass = "{name}"\n')
        position = FilePosition(document, ("resource", 0))
        findings: list[Finding] = []
        spec = compile_entry(
            library.merge_entry(position, document.data["resource"][0], "entry"), position, "socket", findings
        )
        if spec is not None and not any(finding.severity is Severity.ERROR for finding in findings):
            entries.append(spec)
    return tuple(entries)
