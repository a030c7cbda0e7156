"""The words of one host device: what may stand at the left of `match` for it, with what each says."""

from __future__ import annotations

from collections.abc import Iterator

from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.core.language.value import Absent, Value
from agent.host import udev
from agent.scanners import source_kinds
from agent.scanners.common_words import EVERY
from agent.scanners.word_route import TABLES
from agent.scanners.word_table import Relation

_UNSTEADY = {"USEC_INITIALIZED"}  # a clock
_OF_RELATED = ("name", "node", "driver", "subsystem")  # of every device, what is worth saying of a related one


def read_facts(inventory: HostReport, item: HostReportItem) -> Iterator[tuple[str, Value | Absent]]:
    """Each word with its value: those of its source, of all devices, of what is related to it; then udev's."""
    table = source_kinds.KINDS[item.host.source].TABLE
    for word in dict.fromkeys((*table.words, *EVERY.words)):
        yield word, inventory.read_fact(item, word)
    for relation in dict.fromkeys((*table.relations.values(), *EVERY.relations.values())):
        yield from _related(inventory, item, relation)
    if item.host.directory:
        found = udev.read_properties(inventory.root, item.host.directory)
        for name in sorted(found.values.keys() - _UNSTEADY):
            yield f"udev.{name}", found.values[name]


def _related(inventory: HostReport, item: HostReportItem, relation: Relation) -> Iterator[tuple[str, Value | Absent]]:
    """What a relation leads to, by the words worth saying; nothing if that is nowhere, or the device itself."""
    name = inventory.read_fact(item, relation.name)
    if isinstance(name, Absent) or name == () or (relation.table == item.host.source and name == item.host.name):
        return
    own = TABLES[relation.table]
    of_every = tuple(word for word in _OF_RELATED if word in EVERY.words) if own.device else ()
    words = [*own.words, *of_every] if own is not EVERY else list(of_every)
    for word in dict.fromkeys(words):
        value = inventory.read_fact(item, f"{relation.name}.{word}")
        if not isinstance(value, Absent) and value != ():
            yield f"{relation.name}.{word}", value
