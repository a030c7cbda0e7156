"""The words of one host device, with their values. `match` can use these words."""

from __future__ import annotations

from collections.abc import Iterator

from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.core.language.value import Absent, Value
from agent.host import udev
from agent.scanners import source_kinds
from agent.scanners.common_words import EVERY
from agent.scanners.word_route import TABLES
from agent.scanners.word_table import Relation

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
