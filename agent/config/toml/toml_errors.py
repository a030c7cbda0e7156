"""Explanation of an invalid TOML text for its author: position, mistake and correction.

tomllib gives only the offset where it stops, with a message for developers. This module recognizes the usual
mistakes from that offset. Other mistakes keep the message of tomllib.
"""

from __future__ import annotations

import re
import tomllib

from agent.config.toml.positions import BASIC, LITERAL, MULTI_BASIC, MULTI_LITERAL, SEGMENT, DuplicateKeyError, scan
from agent.core.language.safe_text import make_printable
from agent.core.struct import Struct

_AT = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)
_ASSIGNMENT = re.compile(rf"[ \t]*(?:{SEGMENT})(?:[ \t]*\.[ \t]*(?:{SEGMENT}))*[ \t]*=[ \t]*")
_TO_COMMENT = re.compile(r"(?:[^\n#]|(?<![ \t])#)*+")
_TO_COMMA = re.compile(r"(?:[^\[\]{},#\n]|\[[^\[\]\n]*\]|\{[^{}\n]*\})*+")
_TOKEN = re.compile(
    rf"""{MULTI_BASIC}|{MULTI_LITERAL}|\"{{3}}|'{{3}}|{BASIC}|{LITERAL}|\#[^\n]*|["'\[\]{{}}]""", re.DOTALL
)
_TEMPLATE = re.compile(r"\{[\w.:|-]+\}")  # the {word} of a template; without quotes, TOML reads a table
_WORD = re.compile(r"[^ \t\n,\]}]+")
_LONG_NUMBER = re.compile(r"[0-9_]{4000}")
_SWITCHES = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}


class Mistake(Struct):
    """One mistake: the offsets to mark (end exclusive), the message, and the hint (`write …`, may be empty)."""

    start: int
    end: int
    message: str
    write: str = ""


def explain(text: str, error: Exception) -> Mistake:
    """Return the mistake behind an exception of tomllib for this text. The text has no carriage returns."""
    if isinstance(error, RecursionError):
        return _explain_depth(text)
    match = _AT.fullmatch(str(error))
    if not match:  # the only error without a position: int() limits the number of digits
        number = _LONG_NUMBER.search(text)
        return Mistake(*number.span(), "a number is too long") if number else Mistake(0, 0, str(error))
    complaint, line, column = match.groups()
    at = _find_offset(text, int(line), int(column)) if line else len(text)
    mistake = (
        _explain_control_character(text, at)
        or _explain_duplicate(text, at, complaint)
        or _explain_unquoted_text(text, at, complaint)
    )
    return mistake or _explain_unclosed(text, at, complaint) or _explain_complaint(text, at, complaint)


def _explain_depth(text: str) -> Mistake:
    """Return the innermost bracket of a text that is nested too deeply. Of several, return the first."""
    deepest = depth = at = 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in "[{") - (token[0] in "]}")
        if depth > deepest:
            deepest, at = depth, token.start()
    message = f"lists and tables stand in each other too deeply: {deepest} are open here"
    return Mistake(at, at + 1, message, "take out brackets, or close them")


def _explain_control_character(text: str, at: int) -> Mistake | None:
    """Return the mistake of a control character. Editors do not display such characters."""
    char = text[at : at + 1]
    if not char or char in "\n\t" or char.isprintable():
        return None
    return Mistake(at, at + 1, f"the character {make_printable(char)} cannot stand here", "take it out")


def _explain_duplicate(text: str, at: int, complaint: str) -> Mistake | None:
    """Return the mistake of a key or table that exists already. tomllib reports it after its second value."""
    if not complaint.startswith(("Cannot", "Duplicate")):
        return None
    try:
        scan(text[:at])
    except DuplicateKeyError as error:
        line = text.count("\n", 0, error.first_extent[0]) + 1
        message = f"{make_printable(error.name)} is defined at line {line} already, and TOML allows it once"
        return Mistake(*error.second_extent, message, "take out one of the two")
    start = at - len(text[_find_line_start(text, at) : at].lstrip())
    return Mistake(start, at, "this adds to what is complete where it is first defined", "write it there")


def _explain_unquoted_text(text: str, at: int, complaint: str) -> Mistake | None:
    """Return the mistake of a text without quotes in the place of a value."""
    start = _find_line_start(text, at)
    assignment = _ASSIGNMENT.match(text, start, at)
    value = assignment.end() if assignment else start
    if complaint.startswith("Expected '='"):
        if not (assignment and _TEMPLATE.match(text, value)):
            return None
        end = _find_end(_TO_COMMENT, text, value)
    elif not complaint.startswith(("Invalid value", "Invalid date", "Expected newline", "Unclosed")):
        return None
    elif assignment and text[value : value + 1] not in ("", *"\"'[{\n#=,]}"):
        end = _find_end(_TO_COMMENT, text, value)
    else:  # in a list or an inline table
        value = 1 + max(start - 1, *(text.rfind(char, start, at) for char in "[{,="))
        value += len(text[value:at]) - len(text[value:at].lstrip(" \t"))
        end = _find_end(_TO_COMMA, text, value)
        if any(char in text[value:end] for char in "\"'="):
            return None
    bare = text[value:end]
    if not bare or not value <= at <= end or all(_is_value(part.strip(",;")) for part in bare.split()):
        return None
    if bare.lower() in _SWITCHES:
        return Mistake(value, end, "a switch is true or false", f"write {_SWITCHES[bare.lower()]}")
    return Mistake(value, end, "text needs quotes", f"write {_quote(bare)}")


def _explain_unclosed(text: str, at: int, complaint: str) -> Mistake | None:
    """Return the mistake of a text, list or table that has no end or has a fault inside."""
    open_at = _find_open(text[:at])
    if open_at is None:
        return None
    sign = text[open_at]
    if sign in "\"'":
        if text[at : at + 1] in ("", "\n"):
            quotes = sign * 3 if text.startswith(sign * 3, open_at) else sign
            line_end = text.find("\n", open_at)
            end = line_end if line_end >= 0 else len(text)
            return Mistake(open_at, end, "this text has no closing quote", f"close it with {quotes}")
        start = text.rfind("\\", open_at, at + 1)
        if start < 0:
            return None
        message = "in double quotes a backslash begins an escape, and there is no such escape"
        return Mistake(start, max(at, start + 2), message, "write \\\\, or put the text in single quotes")
    close = "]" if sign == "[" else "}"
    noun = "list" if sign == "[" else "inline table"
    if at >= len(text):
        return Mistake(open_at, open_at + 1, f"this {noun} has no end", f"close it with {close}")
    if complaint.startswith("Unclosed"):
        line = text.count("\n", 0, open_at) + 1
        message = f'the {noun} of line {line} goes on with "," or ends with "{close}"'
        return Mistake(at, _find_word_end(text, at), message)
    if sign == "{" and text[at] == "\n":
        return Mistake(open_at, at, "an inline table stands on one line", "write it on one, or with a [header]")
    if sign == "{" and text[at] == "}":
        return Mistake(at, at + 1, 'an inline table ends without a ","', "take the comma out")
    return None


def _explain_complaint(text: str, at: int, complaint: str) -> Mistake:
    """Return any other mistake: a sentence for common ones, else the message of tomllib."""
    end = _find_word_end(text, at)
    if complaint.startswith("Expected '='"):
        write = 'write "=" instead' if text[at : at + 1] == ":" else "write key = value"
        return Mistake(at, at + 1, 'a key is followed by "=" and its value', write)
    if complaint.startswith("Expected ']"):
        close = "]]" if complaint.startswith("Expected ']]") else "]"
        return Mistake(at, end, f'this header ends with "{close}"', f"close it with {close}")
    if complaint.startswith("Expected newline"):
        return Mistake(at, end, "one key and its value fill a line: this is left over")
    if complaint.startswith("Invalid statement"):
        return Mistake(at, end, "a line begins with a key, a [header] or #", "write key = value")
    if complaint.startswith("Invalid value"):
        empty = text[at : at + 1] in ("", "\n", "#", ",", "]", "}")
        return Mistake(at, end, "a value is missing here" if empty else "this is no value of TOML")
    return Mistake(at, end, complaint[:1].lower() + complaint[1:])


def _find_open(text: str) -> int | None:
    """Return the offset of the innermost quote or bracket that is open at the end of the text."""
    open_brackets: list[int] = []
    for token in _TOKEN.finditer(text):
        if token[0] in ('"', "'", '"""', "'''"):
            return token.start()
        if token[0] in "[{":
            open_brackets.append(token.start())
        elif token[0] in "]}" and open_brackets:
            open_brackets.pop()
    return open_brackets[-1] if open_brackets else None


def _is_value(part: str) -> bool:
    try:
        tomllib.loads(f"value = {part}")
    except (ValueError, RecursionError):
        return False
    return True


def _quote(bare: str) -> str:
    """Return the text as a TOML string, with the quotes that need the fewest escapes."""
    bare = bare.strip("\u201c\u201d\u201e\u2018\u2019")  # the curly quotes of word processors
    if "'" not in bare and ("\\" in bare or '"' in bare):
        return f"'{bare}'"
    escaped_text = bare.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped_text}"'


def _find_offset(text: str, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = text.index("\n", start) + 1
    return start + column - 1


def _find_line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _find_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return where the pattern at the offset ends, without trailing blanks."""
    match = pattern.match(text, at)
    return at + len(match[0].rstrip(" \t")) if match else at


def _find_word_end(text: str, at: int) -> int:
    word = _WORD.match(text, at)
    return word.end() if word else at + 1
