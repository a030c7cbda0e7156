"""Tests of a clause line. The type of the word decides the type of the test."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from agent.config.clauses.expressions import compile_expression
from agent.config.language.key_table import OPERATORS, make_hint
from agent.config.scope import ANYTHING, Scope, WordSignature, require_all
from agent.config.toml.file_position import FilePosition, TextPiece
from agent.core.language import glob, operators
from agent.core.language.clause import Clause
from agent.core.language.operators import AllTests, AnyTest, Equals, Has, Quantifier, Test
from agent.core.language.value import FormError, OperandError, Scalar, ValueType, parse_operand
from agent.core.struct import Struct, replace

_NUMBER = r"(?:0[xX])?[0-9a-fA-F]+"
_RANGE = re.compile(rf"\s*(?P<low>{_NUMBER})\s*(?:(?P<dash>-)\s*(?P<high>{_NUMBER})?\s*)?")
_DECIMAL = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]+")


class RangeError(FormError):
    """A faulty range of numbers."""


def parse_ranges(text: str, *, hexadecimal: bool) -> tuple[tuple[int, int | None], ...]:
    """Return the ranges. Both ends belong to a range. None: the range has no upper end.

    hexadecimal: digits are hexadecimal also without prefix.

    Raises:
        RangeError: a part between commas is no number, no range, or empty.
    """
    ranges: list[tuple[int, int | None]] = []
    at = 0
    for piece in text.split(","):
        match = _RANGE.fullmatch(piece)
        ends = [end for end in match.group("low", "high") if end] if match else []
        if not ends or not (hexadecimal or all(_DECIMAL.fullmatch(end) for end in ends)) or len(piece) > 40:
            raise RangeError(f'"{piece}" is no range of numbers', at, len(piece), _get_example(hexadecimal=hexadecimal))
        low, *later_ends = (int(end, 16 if hexadecimal or end[:2] in {"0x", "0X"} else 10) for end in ends)
        high = later_ends[0] if later_ends else None if match and match["dash"] else low
        if high is not None and high < low:
            raise RangeError(f'the range "{piece}" is empty', at, len(piece), f'write "{ends[1]}-{ends[0]}"')
        ranges.append((low, high))
        at += len(piece) + 1
    return tuple(ranges)


def _get_example(*, hexadecimal: bool) -> str:
    return 'write for example "1572-158b"' if hexadecimal else 'write for example "0-3,5,8-"'


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


_WORD_IN_OPERAND = re.compile(
    r"(?<!\\[pPx])\{[A-Za-z_][A-Za-z0-9_.]*(?:\|[^{}]*)?\}"
)  # \p{Greek} belongs to an expression


def compile_glob(spot: FilePosition, value: object, scope: Scope) -> glob.Glob | None:
    """Return the glob of a value, or None with a finding."""
    if not isinstance(value, str):
        scope.report_error(spot, "type", "a pattern is text", f'write "{spot.source_text}"')
        return None
    if refuse_word(spot, value, scope):
        return None
    return scope.parse_text(spot, "glob", lambda: glob.parse(value))


def refuse_word(spot: FilePosition, value: str, scope: Scope) -> bool:
    """Report an operand with a `{word}`. Return whether there is one. No test compares two words."""
    match = _WORD_IN_OPERAND.search(value)
    if match is None:
        return False
    message = f"a test compares with what is written, and {match[0]} is a word"
    mark = TextPiece(match.start(), len(match[0]))
    scope.report_error(spot, "text", message, "compare two words by a join's on", mark=mark)
    return True


_TEXT_KINDS = frozenset({ValueType.TEXT, ValueType.PATH})
_ID_KINDS = frozenset({ValueType.HEX, ValueType.CLASS, ValueType.PCI})

# The ends of the range of each operator.
_ENDS: Mapping[str, Callable[[int], tuple[int | None, int | None]]] = {
    "at_least": lambda number: (number, None),
    "above": lambda number: (number + 1, None),
    "at_most": lambda number: (None, number),
    "below": lambda number: (None, number - 1),
}


class TestCompiler(Struct):
    """The tests of one word. `compile_inner` compiles a clause on the items of a list relation."""

    word: str
    signature: WordSignature
    scope: Scope
    compile_inner: Callable[[FilePosition, Mapping[str, object], Scope], Clause]

    def compile_test(self, spot: FilePosition, value: object) -> Test | None:
        """Return the test of a value, or None with findings."""
        if isinstance(value, dict):
            return self._compile_operators(spot, value)
        if self.signature.is_list and not (
            isinstance(value, list) and value and all(isinstance(element, dict) for element in value)
        ):
            self._report_missing_operator(spot, value)
            return None
        if isinstance(value, list):
            if not value:
                self.scope.report_error(spot, "type", "an empty list holds of nothing", "write one value at least")
                return None
            alternatives = require_all(
                [self.compile_test(spot.get_child(index), item) for index, item in enumerate(value)]
            )
            return AnyTest(alternatives) if alternatives else None
        operand = self._compile_operand(spot, value)
        return None if operand is None else Equals(operand)

    def _report_missing_operator(self, spot: FilePosition, value: object) -> None:
        source_text = spot.source_text
        if self.signature.table:
            message = "several things: say of how many: { any = { … } }, every, none, count"
            write = f"write {{ any = {{ {self._get_example_word()} = {source_text} }} }}"
        else:
            operator = "has_any" if isinstance(value, list) else "has"
            other_operators = ", ".join(name for name in LIST_OPERATORS if name not in {operator, "any"})
            message = f"a list: say {{ {operator} = {source_text} }}, or {other_operators}"
            write = f"write {{ {operator} = {source_text} }}"
        self.scope.report_error(spot, "type", message, write)

    def _get_example_word(self) -> str:
        """Return a word that the items of a list relation have, or `WORD` if they have no name."""
        return "name" if self.scope.enter_table(self.signature.table).has_word("name") else "WORD"

    def _compile_operators(self, spot: FilePosition, table: Mapping[str, object]) -> Test | None:
        """Return the test of a table with operators. All of them must pass."""
        tests = require_all(
            [self._compile_operator(spot.get_child(name), name, value) for name, value in table.items()]
        )
        if not tests:
            if not table:
                self.scope.report_error(spot, "type", "a test is missing here", 'write for example = "x"')
            return None
        return tests[0] if len(tests) == 1 else AllTests(tests)

    def _compile_operator(self, spot: FilePosition, name: str, value: object) -> Test | None:
        if name not in OPERATORS:
            message = f"no operator has the name {name}"
            self.scope.report_error(spot, "unknown-key", message, make_hint(name, OPERATORS), mark="key")
            return None
        if not self._is_applicable(spot, name, value):
            return None
        match name:
            case "not":
                inner_test = self.compile_test(spot, value)
                return None if inner_test is None else operators.Not(inner_test)
            case "exists":
                if isinstance(value, bool):
                    return operators.Exists(value)
                self.scope.report_error(spot, "type", "exists is true or false, without quotes", "write true")
                return None
            case "has" | "has_all" | "has_any":
                return self._compile_has(spot, name, value)
            case "any" | "every" | "none":
                return self._compile_quantified(spot, Quantifier(name), value)
            case "count":
                count_test = replace(self, signature=WordSignature(ValueType.INT)).compile_test(spot, value)
                return None if count_test is None else operators.ItemCount(count_test)
            case "like":
                return self._compile_like(spot, value)
            case "matching" | "contains":
                return self._compile_text_test(spot, name, value)
            case "in":
                return self._compile_in(spot, value)
        if isinstance(value, int) and not isinstance(value, bool):
            return operators.Within((_ENDS[name](value),))
        write = f"write {value}, without quotes" if isinstance(value, str) and value.isdecimal() else ""
        self.scope.report_error(spot, "type", f"{name} is followed by a number", write)
        return None

    def _is_applicable(self, spot: FilePosition, name: str, value: object) -> bool:
        """Return whether an operator fits the word. If not, report the correction."""
        misfit = find_misfit(name, self.signature, value, spot.source_text, self._get_example_word)
        if misfit is not None:
            self.scope.report_error(spot, "type", *misfit, mark="key")
        return misfit is None

    def _compile_has(self, spot: FilePosition, name: str, value: object) -> Test | None:
        if name == "has":
            if isinstance(value, (list, dict)):
                write = f"write {{ has_any = {spot.source_text} }}, or has_all" if isinstance(value, list) else ""
                self.scope.report_error(spot, "type", "has is for one value", write or "write { any = … }")
                return None
            operand = self._compile_operand(spot, value)
            return None if operand is None else Has(operand)
        if not isinstance(value, list) or not value:
            write = f"write [{spot.source_text}]" if not isinstance(value, (list, dict)) else "write one value at least"
            self.scope.report_error(spot, "type", f"{name} is followed by a list of values", write)
            return None
        operands: tuple[Scalar, ...] | None
        operands = require_all([self._compile_operand(child, item) for child, item in spot.list_elements(value)])
        tests = tuple(map(Has, operands or ()))
        return (AllTests(tests) if name == "has_all" else AnyTest(tests)) if tests else None

    def _compile_quantified(self, spot: FilePosition, quantifier: Quantifier, value: object) -> Test | None:
        if not self.signature.table:
            test = replace(self, signature=replace(self.signature, is_list=False)).compile_test(spot, value)
            return None if test is None else operators.Items(quantifier, test)
        inner_scope = self.scope.enter_table(self.signature.table)
        if isinstance(value, dict) and value:
            clause = self.compile_inner(spot, value, inner_scope)
            return operators.RelationItems(quantifier, self.word, clause) if clause.lines else None
        write = f"write {{ {quantifier.value} = {{ {self._get_example_word()} = {spot.source_text} }} }}"
        self.scope.report_error(spot, "type", f"{quantifier.value} is followed by a clause on the words of each", write)
        return None

    def _compile_like(self, spot: FilePosition, value: object) -> Test | None:
        elements = spot.list_elements(value)
        if not elements:
            self.scope.report_error(spot, "type", "an empty list holds of nothing", "write one pattern at least")
        globs = require_all([compile_glob(item_spot, item, self.scope) for item_spot, item in elements])
        return operators.Like(globs) if globs else None

    def _compile_text_test(self, spot: FilePosition, name: str, value: object) -> Test | None:
        if not isinstance(value, str):
            self.scope.report_error(spot, "type", f"{name} is followed by text", f'write "{spot.source_text}"')
            return None
        if refuse_word(spot, value, self.scope):
            return None
        if name == "contains":
            if value:
                return operators.Contains(value)
            self.scope.report_error(spot, "type", "every text contains nothing", "write { exists = true }")
            return None
        return self.scope.parse_text(spot, "matching", lambda: compile_expression(value))

    def _compile_in(self, spot: FilePosition, value: object) -> Test | None:
        if not isinstance(value, str):
            write = f'write "{value}"' if isinstance(value, int) and not isinstance(value, bool) else ""
            self.scope.report_error(spot, "type", "ranges are text", write or 'write for example "0-3,5"')
            return None
        if refuse_word(spot, value, self.scope):
            return None
        hexadecimal = self.signature.kind is ValueType.HEX
        ranges = self.scope.parse_text(spot, "type", lambda: parse_ranges(value, hexadecimal=hexadecimal))
        return None if ranges is None else operators.Within(ranges)

    def _compile_operand(self, spot: FilePosition, value: object) -> Scalar | None:
        if isinstance(value, str) and refuse_word(spot, value, self.scope):
            return None
        if self.signature is ANYTHING:
            return value if isinstance(value, (str, int, bool)) else None
        kind = self.signature.kind
        try:
            return parse_operand(kind, value)
        except OperandError as error:
            write = error.write
            if not write and kind in _TEXT_KINDS and isinstance(value, (int, float)):
                write = f'write "{spot.source_text}"'
            self.scope.report_error(spot, "hex-id" if kind in _ID_KINDS else "type", error.message, write)
            return None
