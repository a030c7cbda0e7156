"""What is wrong in a file, where, and what to write instead: as a value, as text, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from agent.core.language.safe_text import count_columns, escape, format_count
from agent.core.struct import Struct

LINE_LIMIT = 110  # columns of a shown source line; a longer one is cut around its mark
SETTINGS = "agent.toml"  # with a mistake in it nothing can be started
UNREADABLE = "unreadable"  # the code of what is of no entry, which none can accept
_TAB = "    "  # what a tab is shown as


class Severity(StrEnum):
    """`error`: the file is refused. `warning`: it is served, and likely not what was meant."""

    ERROR = "error"
    WARNING = "warning"


class Finding(Struct):
    """One thing a person should change. Lines and columns count from 1, in characters; the end is exclusive.

    `file` is the path as people know it, relative to the configuration directory. `write` is the whole hint
    after the caret (`write "rw"`, `nearest: name`). `key_path_text` is the address (`resource[1].match`).
    Without `source_line` nothing but the first line is shown.
    """

    file: str
    line: int
    column: int
    end_column: int
    severity: Severity
    code: str
    message: str
    write: str = ""
    key_path_text: str = ""
    source_line: str = ""


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """By file, line and column; what stands at one place keeps its order."""
    return sorted(findings, key=lambda finding: (finding.file, finding.line, finding.column))


def render(finding: Finding) -> str:
    """The finding as people read it: one line for editors and grep, then the source line, marked."""
    place = f"{escape(finding.file)}:{finding.line}:{finding.column}"
    first_line = f"{place}: {finding.severity}[{finding.code}]: {escape(finding.message)}"
    if not finding.source_line:
        return first_line
    text_before, marked_text, text_after = _split_source_line(finding)
    number = f"{finding.line:4}"
    caret = " " * count_columns(text_before) + "^" * max(1, count_columns(marked_text))
    hint = f" {escape(finding.write)}" if finding.write else ""
    return f"{first_line}\n{number} | {text_before}{marked_text}{text_after}\n{' ' * len(number)} | {caret}{hint}"


def build_json(finding: Finding) -> dict[str, str | int | None]:
    """The finding for machines; all keys are always there, text is whole and unescaped."""
    return {
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "severity": finding.severity.value,
        "code": finding.code,
        "message": finding.message,
        "write": finding.write or None,
    }


def format_check_summary(findings: Sequence[Finding], files_read: int, on_host: str = "") -> str:
    """The last line of a check. `on_host`: what the configuration gives here (`7 resources, 142 devices`)."""
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    warnings = [finding for finding in findings if finding.severity is Severity.WARNING]
    files = format_count(files_read, "file")
    if errors:
        refused_files = {finding.file for finding in errors}
        served_count = 0 if SETTINGS in refused_files else files_read - len(refused_files)
        further_text = f", {format_count(len(warnings), 'warning')}" if warnings else ""
        return (
            f"{format_count(len(errors), 'error')} in {len(refused_files)} of {files}{further_text}. "
            f"A running agent keeps what it has; a fresh start would serve {_format_served_files(served_count)}."
        )
    further_text = f"; {on_host}" if on_host else ""
    if warnings:
        code = next((finding.code for finding in warnings if finding.code != UNREADABLE), None)
        accept = f' To accept one: accept = {{ {code} = "why" }} in the entry.' if code else ""
        return f"{format_count(len(warnings), 'warning')} in {files}{further_text}.{accept}"
    return f"No errors in {files}{further_text}."


def find_nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate a person most likely meant, if one is near; of equally near ones the first by name.

    Near: at most a third of the word, or one, is put in, left out, changed or swapped with its neighbour;
    case does not count.
    """
    limit = max(1, len(word) // 3)
    lowered = word.lower()
    best = min(((_measure_distance(lowered, other.lower(), limit), other) for other in candidates), default=None)
    return best[1] if best and best[0] <= limit else None


def _measure_distance(source: str, target: str, limit: int) -> int:
    """Edits and swaps of neighbours that make `two` of `one`; what is above the limit is only known as such."""
    if abs(len(source) - len(target)) > limit:
        return limit + 1
    older: list[int] = []
    old = list(range(len(target) + 1))
    for i, char in enumerate(source, start=1):
        new = [i]
        for j, target_char in enumerate(target, start=1):
            cost = min(old[j] + 1, new[j - 1] + 1, old[j - 1] + (char != target_char))
            if i > 1 and j > 1 and char == target[j - 2] and source[i - 2] == target_char:
                cost = min(cost, older[j - 2] + 1)
            new.append(cost)
        older, old = old, new
    return old[-1]


def _split_source_line(finding: Finding) -> tuple[str, str, str]:
    """The source line as shown: before the mark, the mark, after it; together within the limit."""
    line = finding.source_line
    start = min(finding.column - 1, len(line))
    end = max(start, min(finding.end_column - 1, len(line)))
    text_before, marked_text, text_after = (
        _escape_text(line[:start]),
        _escape_text(line[start:end]),
        _escape_text(line[end:]),
    )
    if count_columns(text_before + marked_text + text_after) <= LINE_LIMIT:
        return text_before, marked_text, text_after
    # The mark is what matters: it gets most of the room, then what leads to it, then what follows.
    marked_text = _cut_end(marked_text, LINE_LIMIT * 2 // 3)
    text_before = _cut_start(
        text_before, max(LINE_LIMIT // 6, LINE_LIMIT - count_columns(marked_text) - count_columns(text_after))
    )
    text_after = _cut_end(text_after, LINE_LIMIT - count_columns(marked_text) - count_columns(text_before))
    return text_before, marked_text, text_after


def _escape_text(text: str) -> str:
    return escape(text.replace("\t", _TAB))


def _cut_end(text: str, room: int) -> str:
    """The text, or its first columns and `…`."""
    if count_columns(text) <= room:
        return text
    text = text[: max(0, room - 1)]
    while count_columns(text) > room - 1 > 0:
        text = text[:-1]
    return text + "…"


def _cut_start(text: str, room: int) -> str:
    """The text, or `…` and its last columns."""
    if count_columns(text) <= room:
        return text
    text = text[-max(1, room - 1) :]
    while count_columns(text) > room - 1:
        text = text[1:]
    return "…" + text


def _format_served_files(number: int) -> str:
    if number <= 0:
        return "nothing"
    return "the other one" if number == 1 else f"the other {number:,}"
