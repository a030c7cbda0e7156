"""Constant values for words."""

from __future__ import annotations

from agent.config.scope import Scope
from agent.config.toml.file_position import FilePosition
from agent.core.language.value import OperandError, Scalar, ValueType, parse_operand


def parse_constant(spot: FilePosition, value: object, kind: ValueType, scope: Scope) -> Scalar | None:
    """Return the value with this type, or None with a finding."""
    try:
        return parse_operand(kind, value)
    except OperandError as error:
        write = error.write
        if not write and kind is ValueType.TEXT and isinstance(value, (int, bool)):
            write = f'write "{spot.source_text}", or type = "{"bool" if isinstance(value, bool) else "int"}"'
        scope.report_error(spot, "type", error.message, write)
        return None
