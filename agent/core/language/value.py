"""Typed values of facts: parsing of kernel text and of operands, and comparison.

A value is a `str`, `int`, `bool` or a tuple of these. The type of its word gives its meaning.
Canonical forms: `hex` is lower case without prefix, `class` has six digits.
`pci` is `DDDD:BB:DD.F`. A domain above ffff has more digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

from agent.core.struct import Struct, replace

Scalar: TypeAlias = str | int | bool
Value: TypeAlias = Scalar | tuple[Scalar, ...]


class ValueType(Enum):
    """The type of a word. docs/words.md lists the words of each type."""

    TEXT = "text"
    INT = "int"
    BOOL = "bool"
    HEX = "hex"
    CLASS = "class"
    PCI = "pci"
    PATH = "path"


class Absent(Struct):
    """A missing value, with its reason. `unreadable`: the read failed. `pending`: the value is not known yet."""

    reason: str
    unreadable: bool = False
    pending: bool = False

    def prefix_reason(self, name: str) -> Absent:
        """Return the same absence for a value that depends on this one. `name` is the name of this value there."""
        return replace(self, reason=f"{name}: {self.reason}")


class FormError(ValueError):
    """A text without the form that its place needs. `at` and `length` mark the part. `write` is the correction."""

    def __init__(self, message: str, at: int, length: int, write: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.length = length
        self.write = write


class OperandError(ValueError):
    """An operand that is no value of the word's type. `write` says what to write instead, or is empty."""

    def __init__(self, message: str, write: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.write = write


# Lengths are limited, because Python does not convert thousands of digits to a number or back.
_INT = re.compile(r"[+-]?[0-9]{1,20}|0[xX][0-9a-fA-F]{1,16}")
_HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,32})")
_PCI = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([01][0-9a-fA-F])(?:\.([0-7]))?")
_DIGITS = re.compile(r"0*([0-9]+)")
_BOOLS = dict.fromkeys(("1", "y", "yes", "on", "true"), True) | dict.fromkeys(("0", "n", "no", "off", "false"), False)


def parse_kernel_text(kind: ValueType, text: str) -> Scalar | Absent:
    """Return the value of a file's trimmed text, or Absent with the reason. No type converts to another.

    `hex` and `class` accept the `0x` prefix of the kernel. `bool` ignores case. A PCI address must be complete.
    """
    value = get_kernel_parser(kind)(text)
    return Absent(f"reads {text[:64]!r}, which is no {kind.value}") if value is None else value


def get_kernel_parser(kind: ValueType) -> Callable[[str], Scalar | None]:
    """Return the parser of `parse_kernel_text` for one type. The parser returns None for a faulty text.

    A caller with many texts gets the parser once.
    """
    return _KERNEL_PARSERS[kind]


def _parse_int(text: str) -> int | None:
    return int(text, 16 if text[:2].lower() == "0x" else 10) if _INT.fullmatch(text) else None


def _parse_bool(text: str) -> bool | None:
    return _BOOLS.get(text.lower())


def _parse_hex(text: str) -> str | None:
    match = _HEX.fullmatch(text)
    return match[1].lower() if match else None


def _parse_class(text: str) -> str | None:
    match = _HEX.fullmatch(text)
    return match[1].lower().zfill(6) if match and len(match[1]) <= 6 else None


def _parse_address(text: str) -> str | None:
    match = _PCI.fullmatch(text)
    return _format_address(match) if match and match[1] and match[4] else None


_KERNEL_PARSERS: Mapping[ValueType, Callable[[str], Scalar | None]] = {
    ValueType.TEXT: str,
    ValueType.INT: _parse_int,
    ValueType.BOOL: _parse_bool,
    ValueType.HEX: _parse_hex,
    ValueType.CLASS: _parse_class,
    ValueType.PCI: _parse_address,
    ValueType.PATH: str,
}


def parse_operand(kind: ValueType, operand: object) -> Scalar:
    """Return the value of a TOML operand, for comparison with words of this type.

    Raises:
        OperandError: the operand has another TOML type, or is no value of this type.
    """
    match kind:
        case ValueType.INT:
            if isinstance(operand, int) and not isinstance(operand, bool):
                return operand
            raise OperandError("this word is a number", _suggest_int(operand))
        case ValueType.BOOL:
            if isinstance(operand, bool):
                return operand
            raise OperandError("this word is true or false", "write true or false, without quotes")
        case ValueType.HEX | ValueType.CLASS | ValueType.PCI if isinstance(operand, int) and not isinstance(
            operand, bool
        ):
            raise OperandError("ids are hexadecimal text; TOML reads this as a decimal number", f'write "{operand}"')
    if not isinstance(operand, str):
        raise OperandError(f"this word is {kind.value}, so text in quotes is wanted")
    return _parse_text(kind, operand)


def _parse_text(kind: ValueType, text: str) -> Scalar:
    if kind is ValueType.HEX:
        if match := _HEX.fullmatch(text):
            return match[1].lower()
        raise OperandError(f"{text!r} is not hexadecimal", 'write for example "10de"')
    if kind is ValueType.CLASS:
        if (match := _HEX.fullmatch(text)) and len(match[1]) in {2, 4, 6}:
            return match[1].lower()
        raise OperandError("a PCI class has 2, 4 or 6 hexadecimal digits", 'write for example "0302"')
    if kind is ValueType.PCI:
        if match := _PCI.fullmatch(text):
            return _format_address(match)
        raise OperandError(f"{text!r} is no PCI address", 'write for example "0000:3b:00.0" or "3b:00.0"')
    return text


def is_equal(kind: ValueType, value: Scalar, operand: Scalar) -> bool:
    """Return whether a fact equals an operand of the same type, by the rule of the type."""
    match kind:
        case ValueType.HEX:
            return str(value).lstrip("0") == str(operand).lstrip("0")  # both are in lower case without prefix
        case ValueType.CLASS:
            return str(value).startswith(str(operand))
        case ValueType.PCI:
            slot = "." not in str(operand)
            return (str(value).partition(".")[0] if slot else value) == operand
    return type(value) is type(operand) and value == operand


def make_comparable(kind: ValueType, value: Scalar) -> Scalar:
    """Return a form of a fact that is equal for equal facts. A hexadecimal fact becomes a number."""
    return int(value, 16) if kind is ValueType.HEX and isinstance(value, str) else value


def merge_values(values: Sequence[Value | Absent]) -> Value | Absent:
    """Return the values of several things as one list, with lists opened.

    Return Absent if one value is unreadable or pending, or if the only value is absent.
    """
    scalars: list[Scalar] = []
    for value in values:
        if isinstance(value, tuple):
            scalars.extend(value)
        elif not isinstance(value, Absent):
            scalars.append(value)
        elif value.unreadable or value.pending or len(values) == 1:
            return value
    return tuple(scalars)


def format_scalar(value: Scalar) -> str:
    """Return a value as text for a template."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def make_sort_key(text: str) -> str:
    """Return a sort key that puts `tty9` before `tty10`. Only equal texts have equal keys."""
    # The length of a number comes first, as one character below all letters. The text itself decides between `1`
    # and `01`.
    return f"{_DIGITS.sub(_prefix_length, text)}\0{text}"


def _format_address(match: re.Match[str]) -> str:
    domain, bus, slot, function = match.groups()
    address = f"{int(domain or '0', 16):04x}:{bus.lower()}:{slot.lower()}"
    return f"{address}.{function}" if function else address


def _prefix_length(digits: re.Match[str]) -> str:
    return chr(len(digits[1])) + digits[1]


def _suggest_int(operand: object) -> str:
    if isinstance(operand, str) and _INT.fullmatch(operand):
        return f"write {operand}, without quotes"
    return ""
