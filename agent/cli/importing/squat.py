"""Import of generic-device-plugin: its configuration file, its `--device` arguments in a manifest, or MicroShift's
section.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.cli.importing.foreign_file import ForeignFileError, ForeignValue, parse_documents
from agent.cli.importing.squat_group import build_group_entry, check_keys, merge_groups
from agent.cli.importing.toml_entry import ImportedEntry

DOMAIN = "squat.ai"
MICROSHIFT_DOMAIN = "device.microshift.io"
_DEVICE_KEYS = ("name", "groups")


def import_entries(text: str) -> list[ImportedEntry]:
    """Return the content of the file as entries.

    Raises:
            ForeignFileError: the file contains no device of this program.
    """
    entries = [_import_entry(domain, device) for domain, device in _find_devices(parse_documents(text))]
    if not entries:
        raise ForeignFileError(
            "no device of generic-device-plugin in it (looked for `devices`, and --device in manifests)"
        )
    return entries


def _find_devices(documents: Sequence[ForeignValue]) -> Iterator[tuple[str, ForeignValue]]:
    """Yield each device with the domain of its resource name."""
    for document in documents:
        microshift = document.get("genericDevicePlugin")
        if microshift is not None:
            domain = microshift.get_text("domain", MICROSHIFT_DOMAIN)
            yield from ((domain, device) for device in microshift.get_items("devices"))
        elif document.get("groups") is not None:
            yield DOMAIN, document
        elif (listed := document.get_items("devices") or document.get_items("device")) and document.get("kind") is None:
            yield from ((document.get_text("domain", DOMAIN), device) for device in listed)
        else:
            yield from _find_argument_devices(document)


def _find_argument_devices(manifest: ForeignValue) -> Iterator[tuple[str, ForeignValue]]:
    """Yield the devices in the arguments of the containers of a manifest."""
    for item in manifest.walk():
        words = [*item.get_items("args"), *item.get_items("command")]
        pairs = [*_pair_flags(words)]
        domain = next((value.text for flag, value in pairs if flag == "--domain"), DOMAIN)
        for flag, value in pairs:
            if flag == "--device":
                block = value.line + (0 if value.text.lstrip().startswith("{") else 1)
                yield from ((domain, device) for device in parse_documents(value.text, block))


def _pair_flags(words: Sequence[ForeignValue]) -> Iterator[tuple[str, ForeignValue]]:
    """Yield flags with their values. A flag and its value are one word or two."""
    for index, word in enumerate(words):
        flag, mark, value = word.text.partition("=")
        if mark:
            yield flag, ForeignValue(word.line, value)
        elif index + 1 < len(words):
            yield word.text, words[index + 1]


def _import_entry(domain: str, device: ForeignValue) -> ImportedEntry:
    name = device.get_text("name")
    entry = ImportedEntry(name or "a device without name", device.line)
    groups = device.get_items("groups")
    if not name or not groups:
        entry.checks.append("a device has a name and groups")
        return entry
    check_keys(entry, device, _DEVICE_KEYS)
    resource = f"{domain}/{name}"
    for group in merge_groups(groups):
        table = build_group_entry(entry, group)
        if table is not None:
            is_first = not entry.tables
            entry.tables.append({("name" if is_first else "adds_to"): resource, **table})
    return entry
