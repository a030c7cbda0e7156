"""Regular expressions with linear time for every expression and text (docs/adr/0011-regular-expressions.md)."""

from __future__ import annotations

import re
from typing import Any

from agent.core.language.operators import Matching
from agent.core.language.value import FormError

_LIMIT = 1024  # characters of an expression

# Error texts of RE2 for forms that it does not have, with their corrections.
_WRITE = (
    (re.compile(r"escape sequence: \\[1-9k]"), "no piece can be compared with an earlier one; write the piece out"),
    (re.compile(r"escape sequence: \\Z"), "it fits whole by itself: leave it out"),
    (
        re.compile(r"perl operator: \(\?[=!<]"),
        "nothing looks ahead or behind; put { not = … } beside it",
    ),
    (re.compile(r"repetition operator"), "one repetition for each piece"),
    (re.compile(r"repetition size"), "at most 1000, those within each other multiplied"),
    (re.compile(r"no argument for repetition operator: [*?]"), "any text is .*, or { like = … } for a pattern"),
    (re.compile(r"missing \)"), 'close it with ")"; a literal one is "[(]"'),
    (re.compile(r"missing \]"), 'close it with "]"; a literal one is "[[]"'),
)


class ExpressionError(FormError):
    """An invalid regular expression."""


def compile_expression(expression: str) -> Matching:
    """Return the test that a whole text matches the expression.

    Raises:
        ExpressionError: the expression is invalid, has no linear-time form, or the library is not installed.
    """
    if len(expression) > _LIMIT:
        raise ExpressionError(f"longer than {_LIMIT} characters", 0, len(expression))
    try:
        import re2
    except ImportError:
        message = "regular expressions need the Python package google-re2, which is not installed"
        write = "pip install google-re2, or say { like = … }"
        raise ExpressionError(message, 0, len(expression), write) from None
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(expression, options)
    except re2.error as error:
        raise _make_error(error, expression) from None

    def fits(text: str) -> bool:
        return compiled.fullmatch(text.encode("utf-8", "replace")) is not None

    return Matching(expression, fits)


def _make_error(error: Any, expression: str) -> ExpressionError:  # noqa: ANN401  the library has no types
    reason = error.args[0]
    text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    message, _, piece = text.partition(": ")
    write = next((write for form, write in _WRITE if form.search(text)), "")
    at = expression.find(piece) if piece else -1
    start, length = (at, len(piece)) if at >= 0 else (0, len(expression))
    return ExpressionError(f"no regular expression: {message}", start, length, write)
