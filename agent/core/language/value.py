"""The typed values that facts have: how the kernel's text becomes one, how a person's does, when two are equal.

A value is plain: `str`, `int`, `bool` or a tuple of these; what it means is said by the *kind* of its word.
Canonical forms: `hex` lower case without prefix, `class` six digits, `pci` `DDDD:BB:DD.F` (a domain above ffff has as
many digits as it needs).
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
    """What a word's value means; docs/words.md has the words of each."""

    TEXT = "text"
    INT = "int"
    BOOL = "bool"
    HEX = "hex"
    CLASS = "class"
    PCI = "pci"
    PATH = "path"


class Absent(Struct):
    """A fact that is not there. `unread`: it may be there, but could not be read. `pending`: it is still to come."""

    reason: str
    unreadable: bool = False
    pending: bool = False

    def prefix_reason(self, name: str) -> Absent:
        """The same of what rests on this, which has that name there."""
        return replace(self, reason=f"{name}: {self.reason}")


class OperandError(ValueError):
    """What a person wrote cannot be a value of this kind. `write` says what to write instead, or is empty."""

    def __init__(self, message: str, write: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.write = write


# Lengths are bounded: Python refuses to turn thousands of digits into a number, or back.
_INT = re.compile(r"[+-]?[0-9]{1,20}|0[xX][0-9a-fA-F]{1,16}")
_HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,32})")
_PCI = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([01][0-9a-fA-F])(?:\.([0-7]))?")
_DIGITS = re.compile(r"0*([0-9]+)")
_BOOLS = dict.fromkeys(("1", "y", "yes", "on", "true"), True) | dict.fromkeys(("0", "n", "no", "off", "false"), False)


def parse_kernel_text(kind: ValueType, text: str) -> Scalar | Absent:
    """The value that a file's trimmed text says, or `Absent` with the reason; no kind turns into another.

    Hex and class accept the kernel's `0x` prefix, bools are case-blind, a PCI address must be full.
    """
    value = get_kernel_parser(kind)(text)
    return Absent(f"reads {text[:64]!r}, which is no {kind.value}") if value is None else value


def get_kernel_parser(kind: ValueType) -> Callable[[str], Scalar | None]:
    """What `from_kernel` does for one kind: the value, None for text that is none. Who reads many asks once."""
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
    """The value that a TOML operand says, for comparison with words of this kind.

    Raises:
        OperandError: another TOML type, or text that is no value of this kind.
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
    """Whether a fact equals an operand of the same kind, by the kind's rule."""
    match kind:
        case ValueType.HEX:
            return str(value).lstrip("0") == str(operand).lstrip("0")  # both are lower case, without prefix
        case ValueType.CLASS:
            return str(value).startswith(str(operand))
        case ValueType.PCI:
            slot = "." not in str(operand)
            return (str(value).partition(".")[0] if slot else value) == operand
    return type(value) is type(operand) and value == operand


def make_comparable(kind: ValueType, value: Scalar) -> Scalar:
    """The form of a fact in which equal ones are equal, and a hexadecimal one is a number."""
    return int(value, 16) if kind is ValueType.HEX and isinstance(value, str) else value


def merge_values(values: Sequence[Value | Absent]) -> Value | Absent:
    """What several things say, lists opened; absent if that of one cannot be known, or is that of the only one."""
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
    """How a value is written into a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def make_sort_key(text: str) -> str:
    """A sort key in which `tty10` follows `tty9`, equal for equal texts only: no order depends on the input's."""
    # A number goes by its length first, as one character that is lower than letters are. The text itself decides
    # between `1` and `01`.
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
