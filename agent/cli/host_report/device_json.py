"""Host devices as JSON objects. Each object has all keys, and two runs give equal objects."""

from __future__ import annotations

from agent.cli.host_report.device_words import read_facts
from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.core.language.value import Absent


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
