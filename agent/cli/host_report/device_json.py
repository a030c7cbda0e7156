"""Host devices as JSON objects. Each object has all keys, and two runs give equal objects."""

from __future__ import annotations

from collections.abc import Iterator

from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.core.language.value import Absent, Value
from agent.host import udev
from agent.scanners import source_kinds
from agent.scanners.common_words import EVERY
from agent.scanners.word_route import TABLES
from agent.scanners.word_table import Relation


def build_device_json(report: HostReport, item: HostReportItem) -> dict[str, object]:
    """Return the object of one device. `health` and `reason` are those that its resource would list now."""
    nodes = report.read_fact(item, "nodes")
    device = item.device
    return {
        "source": item.source.kind if item.source.kind != "subsystem" else str(item.source),
        "name": item.host.name,
        "place": item.host.location,
        "key": item.host.key,
        "node": item.host.node or None,
        "attributes": {word: None if isinstance(value, Absent) else value for word, value in read_facts(report, item)},
        "nodes": [] if isinstance(nodes, Absent) else list(nodes) if isinstance(nodes, tuple) else [nodes],
        "taken_by": item.resource if item.entry else None,
        "device_id": device.id if device else None,
        "shares": device.shares if device else None,
        "health": device.health.value if device else None,
        "reason": str(device.reason if device else item.unlisted_reason) or None,
        "together": list(item.other_members),
        "checks": [
            {"name": result.check.name, "says": result.result.verdict.value, "reason": result.result.reason or None}
            for result in item.check_results
        ],
        "fits": list(item.matching_classes),
        "refused": [
            {
                "resource": entry_mismatch.mismatch.resource,
                "clause": entry_mismatch.mismatch.address,
                "written": entry_mismatch.mismatch.source_text,
                "here": entry_mismatch.mismatch.facts_text,
                "file": entry_mismatch.mismatch.origin.file,
                "line": entry_mismatch.mismatch.origin.line,
                "only": entry_mismatch.is_only_mismatch,
            }
            for entry_mismatch in item.mismatches
        ],
    }


_CHANGING_PROPERTIES = {"USEC_INITIALIZED"}  # changes with the time
_RELATED_WORDS = ("name", "node", "driver", "subsystem")  # the common words that are useful for a related device


def read_facts(report: HostReport, item: HostReportItem) -> Iterator[tuple[str, Value | Absent]]:
    """Yield each word with its value: words of the source, common words, words of related devices, udev properties."""
    table = source_kinds.KINDS[item.host.source].TABLE
    for word in dict.fromkeys((*table.words, *EVERY.words)):
        yield word, report.read_fact(item, word)
    for relation in dict.fromkeys((*table.relations.values(), *EVERY.relations.values())):
        yield from _read_related_facts(report, item, relation)
    if item.host.directory:
        properties = udev.read_properties(report.root, item.host.directory)
        for name in sorted(properties.values.keys() - _CHANGING_PROPERTIES):
            yield f"udev.{name}", properties.values[name]


def _read_related_facts(
    report: HostReport, item: HostReportItem, relation: Relation
) -> Iterator[tuple[str, Value | Absent]]:
    """Yield the useful words of a related device. Yield nothing if there is none, or if the relation leads to the
    device itself.
    """
    name = report.read_fact(item, relation.name)
    if isinstance(name, Absent) or name == () or (relation.table == item.host.source and name == item.host.name):
        return
    related_table = TABLES[relation.table]
    common_words = tuple(word for word in _RELATED_WORDS if word in EVERY.words) if related_table.device else ()
    words = [*related_table.words, *common_words] if related_table is not EVERY else list(common_words)
    for word in dict.fromkeys(words):
        value = report.read_fact(item, f"{relation.name}.{word}")
        if not isinstance(value, Absent) and value != ():
            yield f"{relation.name}.{word}", value
