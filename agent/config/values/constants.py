"""Values that a person writes for a word."""

from __future__ import annotations

from agent.config.scope import Scope
from agent.config.toml.file_position import FilePosition
from agent.core.language.value import OperandError, Scalar, ValueType, parse_operand


def parse_constant(spot: FilePosition, value: object, kind: ValueType, scope: Scope) -> Scalar | None:
    """A value of that kind; none, with a finding, if it is none."""
    try:
        return parse_operand(kind, value)
    except OperandError as error:
        write = error.write
        if not write and kind is ValueType.TEXT and isinstance(value, (int, bool)):
            write = f'write "{spot.source_text}", or type = "{"bool" if isinstance(value, bool) else "int"}"'
        scope.report(spot.make_error("type", error.message, write))
        return None
