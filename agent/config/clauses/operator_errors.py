"""Errors for operators that do not fit the type of a word, with the correction."""

from __future__ import annotations

from collections.abc import Callable

from agent.config.scope import ANYTHING, WordSignature
from agent.core.language.value import OperandError, ValueType, parse_operand

# The types of value for each operator of one value.
_PURPOSES = {
    "like": ("text", frozenset({ValueType.TEXT, ValueType.PATH})),
    "matching": ("text", frozenset({ValueType.TEXT})),
    "contains": ("text", frozenset({ValueType.TEXT})),
    "in": ("numbers", frozenset({ValueType.INT, ValueType.HEX})),
    **dict.fromkeys(("at_least", "at_most", "above", "below"), ("numbers", frozenset({ValueType.INT}))),
}
# The correction of a list operator at a word with one value. {} is the operand.
LIST_OPERATORS = {
    "has": "= {}",
    "has_all": "= …",
    "has_any": "= {}",
    "any": "= {}",
    "every": "= {}",
    "none": "= {{ not = {} }}",
    "count": "= {{ exists = true }}",
}


def find_misfit(
    name: str, signature: WordSignature, value: object, source_text: str, some_word: Callable[[], str]
) -> tuple[str, str] | None:
    """Return the reason why an operator does not fit a word, and its correction. Return None if it fits.

    value, source_text: the operand. some_word: returns a word of the items of a list relation.
    """
    if signature is ANYTHING:
        return None
    if name in LIST_OPERATORS:
        if not signature.is_list:
            return f"{name} is for lists, and this is one value", f"write {LIST_OPERATORS[name].format(source_text)}"
        if signature.table and name.startswith("has"):
            message = f"{name} is for a list of values, and these are things with words of their own"
            return message, f"write {{ any = {{ {some_word()} = {source_text} }} }}"
    elif name in _PURPOSES:
        purpose, kinds = _PURPOSES[name]
        if signature.table:
            message = f"{name} is for {purpose}, and these are several things"
            return message, f"write {{ any = {{ {some_word()} = {{ {name} = {source_text} }} }} }}"
        if signature.is_list:
            return f"{name} is for {purpose}, and this is a list", f"write {{ any = {{ {name} = {source_text} }} }}"
        if signature.kind not in kinds:
            return f"{name} is for {purpose}, and this is {signature.kind.value}", _suggest_test(
                name, signature.kind, value
            )
    return None


def _suggest_test(name: str, kind: ValueType, value: object) -> str:
    """Return a test that fits this type of value."""
    match kind:
        case ValueType.BOOL:
            return "write = true, or = false"
        case ValueType.HEX if name in {"at_least", "above"}:
            return f'write {{ in = "{value}-" }}'
        case ValueType.HEX if name in {"at_most", "below"}:
            return f'write {{ in = "0-{value}" }}'
        case ValueType.INT:
            return 'write for example { in = "0-3,5" }'
        case ValueType.PATH if name == "contains":
            return f'write {{ like = "*{value}*" }}'
        case ValueType.PATH | ValueType.TEXT:
            return 'write for example { like = "a*" }'
    text = value.strip("*") if isinstance(value, str) else ""
    try:
        parse_operand(kind, text)
    except OperandError as error:
        return error.write
    return f'write = "{text}"'
