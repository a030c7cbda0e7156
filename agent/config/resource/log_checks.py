"""Kernel log checks (`health.NAME.log`): the pattern of the lines, and clauses about the captured values."""

from __future__ import annotations

import re

from agent.config.clauses.clause import compile_clause, refuse_empty
from agent.config.language.value_checks import EVENTS, parse_duration, parse_looks
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.resource.check_syntax import CheckSource, CheckSyntax
from agent.config.scope import ANYTHING, Scope, WordSignature
from agent.config.toml.file_position import FilePosition, TextPiece
from agent.core.entry.check import LookDuration
from agent.core.entry.kernel_log import ONE_EVENT, EventRate, Log
from agent.core.entry.kernel_log_check import KernelLogCheck
from agent.core.language.clause import Clause
from agent.core.language.log_pattern import KINDS, Brace, LogPattern, parse
from agent.core.language.template import has_control
from agent.core.language.value import ValueType
from agent.core.struct import replace

MOST_EVENTS = 1000  # events in a window; the agent stores each of them


def _compile_log(source: CheckSource) -> tuple[KernelLogCheck | None, Scope]:
    """Return the kernel log check, and the scope of its reason with the captured words."""
    name, branch, scope, _, recover = source
    _report_look_keys(branch, scope)
    leaf = branch.get_leaf("log")
    pattern = None if leaf is None else _compile_pattern(leaf.spot, str(leaf.value), scope)
    if pattern is None:
        return None, scope
    captured_words = {
        brace.word: WordSignature(brace.kind, varies=not scope.is_single) for brace in pattern.captured_words
    }
    clause_scope = replace(scope, captured_words=captured_words, has_only_captures=True)
    include_clause, ignore_clause, latch_clause = (
        _compile_clause(f"health.{name}.{key}", branch.get_branch(key), clause_scope) for key in _CLAUSES
    )
    latch_condition = branch.is_on("latch") if latch_clause is None else latch_clause
    recovery_s = recover.seconds if isinstance(recover, LookDuration) else None
    log = Log(
        pattern,
        include_clause,
        ignore_clause,
        latch_condition,
        compile_event_rate(branch.get_leaf("trip"), scope) or ONE_EVENT,
        recovery_s,
    )
    return KernelLogCheck(log), replace(scope, captured_words=captured_words)


_CLAUSES = ("only", "ignore", "latch")


def compile_event_rate(leaf: Leaf | None, scope: Scope) -> EventRate | None:
    """Return the number of events in a window, or None for another form. Without a value, one event is enough."""
    if leaf is None or not isinstance(leaf.value, str) or re.fullmatch(EVENTS, leaf.value) is None:
        return None
    number, _, window = leaf.value.partition(" in ")
    if int(number) > MOST_EVENTS:
        message = f"a window has at most {MOST_EVENTS} events, because the agent stores each of them"
        scope.report_error(leaf.spot, "type", message, f'write "{MOST_EVENTS} in {window}"')
    return EventRate(int(number), parse_duration(window) or 0.0)


def _compile_clause(name: str, branch: Branch | None, scope: Scope) -> Clause | None:
    if branch is None:
        return None
    refuse_empty(branch, scope, f"{name} is empty, so it matches every line", "remove it, or write a test")
    return compile_clause(name, branch, scope)


def _compile_pattern(spot: FilePosition, text: str, scope: Scope) -> LogPattern | None:
    if has_control(text):
        scope.report_error(
            spot, "text", "a line of the kernel log has no control characters", r"write \x0a, as the log does"
        )
        return None
    parsed_pieces = scope.parse_text(spot, "text", lambda: parse(text))
    if parsed_pieces is None:
        return None
    pieces: list[str | Brace | None] = []
    has_fault = False
    for piece in parsed_pieces:
        if not isinstance(piece, tuple):
            pieces.append(piece)
            continue
        brace = _compile_brace(
            spot, piece, [earlier_brace for earlier_brace in pieces if isinstance(earlier_brace, Brace)], scope
        )
        has_fault |= brace is None
        pieces.append(brace)
    if has_fault:
        return None
    first_piece = pieces[0]
    if all(piece is None for piece in pieces):
        scope.report_error(
            spot, "text", "this pattern matches every line of the kernel log", "write the first words of the line"
        )
        return None
    if first_piece is None or (
        isinstance(first_piece, Brace) and first_piece.is_capture and first_piece.kind is ValueType.TEXT
    ):
        message = "this pattern can match anywhere in a line, also in a name that hardware gives itself"
        scope.report_warning(spot, "log-anywhere", message, "write the first words of the line", mark="text")
    return LogPattern(text, tuple(pieces))


def _compile_brace(
    spot: FilePosition, written: tuple[str, str | None, int, int], earlier_braces: list[Brace], scope: Scope
) -> Brace | None:
    """Return a brace of the pattern, or None. Faults are reported."""
    word, kind, position, length = written
    mark = TextPiece(position + 1, len(word))
    kinds = {value_type.value: value_type for value_type in KINDS}
    if kind is not None:
        fault = _find_capture_fault(word, kind, earlier_braces, scope)
        if fault is not None:
            scope.report_error(spot, *fault, mark=TextPiece(position, length))
            return None
        return Brace(word, kinds[kind], is_capture=True, at=position)
    signature = scope.find_word(spot, word, mark)
    if signature is None:
        return None
    if signature.is_list:
        scope.report_error(
            spot,
            "type",
            f"{word} is a list, and the pattern compares one value",
            "use a word with one value",
            mark=mark,
        )
        return None
    compared_type = ValueType.TEXT if signature is ANYTHING else signature.kind
    if compared_type not in KINDS:
        message = f"{word} has the type {compared_type.value}; a line can have {', '.join(kinds)}"
        scope.report_error(spot, "type", message, "use a word of one of these types", mark=mark)
        return None
    return Brace(word, compared_type, is_capture=False, at=position)


def _find_capture_fault(word: str, kind: str, earlier_braces: list[Brace], scope: Scope) -> tuple[str, str, str] | None:
    """Return the fault of a capture: code, message and fix. Return None without a fault."""
    kinds = [value_type.value for value_type in KINDS]
    if kind not in kinds:
        return "type", f"{{{word}:{kind}}}: a captured value is {', '.join(kinds)}", f"write {{{word}:text}}"
    if "." in word:
        return "type", f"{word}: a word has letters, digits and _", f"write {{{word.replace('.', '_')}:{kind}}}"
    if any(brace.is_capture and brace.word == word for brace in earlier_braces):
        return "taken", f"this pattern captures {word} twice", "use another name"
    if scope.is_word(word):
        return "taken", f"{word} is a word already", f"write {{{word}}} to compare, or use another name"
    return None


def _report_look_keys(branch: Branch, scope: Scope) -> None:
    """Report keys that only make sense for looks. The kernel sends log lines by itself."""
    for key, hint in (("every", "remove every"), ("trip", 'write events in a window: "3 in 10m"')):
        leaf = branch.get_leaf(key)
        if leaf is not None and (key == "every" or (compile_event_rate(leaf, scope) is None and leaf.value != 1)):
            scope.report_error(
                leaf.spot, "type", "a kernel log check needs no looks, because the kernel sends its lines", hint
            )
    leaf = branch.get_leaf("recover")
    if leaf is not None and parse_looks(leaf.value) is not None:
        message = "a kernel log check recovers after a time without a line, not after looks"
        scope.report_error(leaf.spot, "type", message, 'write a time ("10m") or "never"')


LOG_SYNTAX = CheckSyntax(
    _compile_log,
    'the kernel log says no "{}"',
    {"only": ", only if {}", "ignore": ", unless {}", "latch": ", until cleared by a person if {}"},
    counts_events=True,
)
