"""Findings: errors and warnings of a configuration, with position and correction, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from agent.core.language.safe_text import count_columns, escape, format_count
from agent.core.struct import Struct

LINE_LIMIT = 110  # columns of a displayed source line; a longer line is cut around its mark
SETTINGS = "agent.toml"  # the agent does not start with an error in this file
UNREADABLE = "unreadable"  # the code of findings without an entry; no entry can accept it
_TAB = "    "  # the display of a tab


class Severity(StrEnum):
    """`error`: the agent refuses the file. `warning`: the agent accepts the file, but it is probably a mistake."""

    ERROR = "error"
    WARNING = "warning"


class Finding(Struct):
    """One error or warning. Lines and columns count from 1, in characters. The end is exclusive.

    `file` is the display path, relative to the configuration directory.
    `write` is the whole hint after the caret (`write "rw"`, `nearest: name`).
    `key_path_text` is the address (`resource[1].match`). Without `source_line` only the first line is displayed.
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
    """Return the findings by file, line and column. Findings at one position keep their order."""
    return sorted(findings, key=lambda finding: (finding.file, finding.line, finding.column))


def render(finding: Finding) -> str:
    """Return the finding as text: one line for editors and grep, then the source line with a mark."""
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
    """Return the finding for machines. All keys are present, and text is complete and unescaped."""
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
    """Return the last line of a check. `on_host` is the result on this host (`7 resources, 142 devices`)."""
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
    """Return the candidate that a user probably meant, or None. Of equally near candidates, return the first by name.

    A candidate is near with at most one edit, or one edit for each three characters. Edits insert, delete or change
    a character, or swap two neighbours. Case does not count.
    """
    limit = max(1, len(word) // 3)
    lowered = word.lower()
    best = min(((_measure_distance(lowered, other.lower(), limit), other) for other in candidates), default=None)
    return best[1] if best and best[0] <= limit else None


def _measure_distance(source: str, target: str, limit: int) -> int:
    """Return the number of edits from source to target. A number above the limit is not exact."""
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
    """Return the text before the mark, the marked text and the text after it, together within the limit."""
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
    # The marked text gets most columns, then the text before it, then the text after it.
    marked_text = _cut_end(marked_text, LINE_LIMIT * 2 // 3)
    text_before = _cut_start(
        text_before, max(LINE_LIMIT // 6, LINE_LIMIT - count_columns(marked_text) - count_columns(text_after))
    )
    text_after = _cut_end(text_after, LINE_LIMIT - count_columns(marked_text) - count_columns(text_before))
    return text_before, marked_text, text_after


def _escape_text(text: str) -> str:
    return escape(text.replace("\t", _TAB))


def _cut_end(text: str, room: int) -> str:
    """Return the text, or its first columns and `…`."""
    if count_columns(text) <= room:
        return text
    text = text[: max(0, room - 1)]
    while count_columns(text) > room - 1 > 0:
        text = text[:-1]
    return text + "…"


def _cut_start(text: str, room: int) -> str:
    """Return the text, or `…` and its last columns."""
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
