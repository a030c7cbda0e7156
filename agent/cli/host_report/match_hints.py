"""What a person does so that an entry takes a device that one clause alone keeps from it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.core.inventory.matching import Mismatch
from agent.core.language.clause import ClauseLine
from agent.core.language.safe_text import make_printable
from agent.core.language.value import Absent
from agent.host import udev

_TEXT = re.compile(r'"[a-z0-9_-]+"')
_UDEV = re.compile(r"(?:.*\.)?udev\.([^.]+)")


def find_match_hints(inventory: HostReport, item: HostReportItem, refusal: Mismatch) -> Iterator[str]:
    """Each of them a way of its own."""
    missing = _missing(inventory, item, refusal)
    if missing is not None:
        yield from _for_missing(inventory, item, refusal, *missing)
    else:
        facts = make_printable(refusal.here)
        yield f"let {refusal.address} at {refusal.origin} allow {facts}, then device-agent reload"
    if refusal.address == "match.driver" and item.label == "pci" and _TEXT.fullmatch(refusal.written):
        driver = refusal.written.strip('"')
        yield f"driverctl set-override {item.host.name} {driver}   (seen at once)"


def _missing(inventory: HostReport, item: HostReportItem, refusal: Mismatch) -> tuple[str, Absent] | None:
    """The word that the clause asks for, and why it is absent; none if it is not."""
    for spec in (each for each in inventory.specs if each.name == refusal.resource):
        for clause in (*spec.exclude, spec.match):
            for line in clause.lines:
                if isinstance(line, ClauseLine) and (line.address, line.origin) == (refusal.address, refusal.origin):
                    value = inventory.get_facts(spec, item.host)(line.word)
                    return (line.word, value) if isinstance(value, Absent) else None
    return None


def _for_missing(
    inventory: HostReport, item: HostReportItem, refusal: Mismatch, word: str, why: Absent
) -> Iterator[str]:
    """Where nothing can be allowed, for nothing is said: have it said, or ask for something else."""
    if why.pending:
        yield f"wait until {make_printable(word)} is there ({make_printable(why.reason)})"
        return
    if why.unreadable:
        reason = make_printable(why.reason)
        yield f"mend what keeps {make_printable(word)} from being read ({reason}; seen by the next sweep)"
    elif found := _UDEV.fullmatch(word):
        if udev.has_database(inventory.root):
            yield f"a udev rule that sets {make_printable(found[1])}, then udevadm trigger   (seen at once)"
        else:
            yield f"have udevd run, and {udev.DATABASE} seen here: a container needs it mounted"
    scan = f"device-agent scan {make_printable(item.host.name, None)}"
    yield f"ask for what it does say ({scan}) at {refusal.origin}, then device-agent reload"
