"""Hints for the administrator: how to make an entry match a device with only one mismatch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.core.inventory.matching import Mismatch
from agent.core.language.clause import ClauseLine
from agent.core.language.safe_text import make_printable
from agent.core.language.value import Absent
from agent.host import udev

_PLAIN_TEXT = re.compile(r'"[a-z0-9_-]+"')
_UDEV = re.compile(r"(?:.*\.)?udev\.([^.]+)")


def find_match_hints(report: HostReport, item: HostReportItem, mismatch: Mismatch) -> Iterator[str]:
    """Yield the hints. Each hint is a separate solution."""
    absent_word = _find_absent_word(report, item, mismatch)
    if absent_word is not None:
        yield from _find_absent_word_hints(report, item, mismatch, *absent_word)
    else:
        facts = make_printable(mismatch.facts_text)
        yield f"let {mismatch.address} at {mismatch.origin} allow {facts}, then device-agent reload"
    if mismatch.address == "match.driver" and item.label == "pci" and _PLAIN_TEXT.fullmatch(mismatch.source_text):
        driver = mismatch.source_text.strip('"')
        yield f"driverctl set-override {item.host.name} {driver}   (seen at once)"


def _find_absent_word(report: HostReport, item: HostReportItem, mismatch: Mismatch) -> tuple[str, Absent] | None:
    """Return the word of the clause and the reason why the word is absent. Return None if the word has a value."""
    for spec in (candidate for candidate in report.specs if candidate.name == mismatch.resource):
        for clause in (*spec.exclude, spec.match):
            for line in clause.lines:
                if isinstance(line, ClauseLine) and (line.address, line.origin) == (mismatch.address, mismatch.origin):
                    value = report.get_facts(spec, item.host)(line.word)
                    return (line.word, value) if isinstance(value, Absent) else None
    return None


def _find_absent_word_hints(
    report: HostReport, item: HostReportItem, mismatch: Mismatch, word: str, absent: Absent
) -> Iterator[str]:
    """Yield hints for a word without a value: give the word a value, or use another word."""
    if absent.pending:
        yield f"wait until {make_printable(word)} is there ({make_printable(absent.reason)})"
        return
    if absent.unreadable:
        reason = make_printable(absent.reason)
        yield f"mend what keeps {make_printable(word)} from being read ({reason}; seen by the next sweep)"
    elif udev_match := _UDEV.fullmatch(word):
        if udev.has_database(report.root):
            yield f"a udev rule that sets {make_printable(udev_match[1])}, then udevadm trigger   (seen at once)"
        else:
            yield f"have udevd run, and {udev.DATABASE} seen here: a container needs it mounted"
    scan_command = f"device-agent scan {make_printable(item.host.name, None)}"
    yield f"ask for what it does say ({scan_command}) at {mismatch.origin}, then device-agent reload"
