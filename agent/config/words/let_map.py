"""Map words (`by`): the value of a word through a map. Keys of the map can be globs."""

from __future__ import annotations

from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import ANYTHING, CompiledWord, Scope
from agent.config.toml.file_position import FilePosition
from agent.core.entry.derived_words import MappedWord, canonicalize
from agent.core.language import glob
from agent.core.language.value import OperandError, Scalar, ValueType, parse_kernel_text, parse_operand
from agent.core.struct import replace


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


def compile_map(name: str, source: CompiledWord, branch: Branch, kind: ValueType, scope: Scope) -> CompiledWord | None:
    """Return the derived word of a map, or None. Faults are reported.

    `else` is the value for all other keys. `if_absent` is the value if the other word does not exist.
    """
    keys = branch.get_branch("map")
    if keys is None:
        message = f"let.{name} has no map"
        scope.report_error(branch.spot, "missing", message, 'write map = { "key" = "value" }', mark="key")
        return None
    key_type = source.signature.kind
    exact: dict[str, Scalar] = {}
    patterns: dict[str, tuple[glob.Glob, Scalar]] = {}
    is_complete = True
    for key, node in keys.members.items():
        if not isinstance(node, Leaf):
            scope.report_error(
                keys.spot.get_child(key),
                "type",
                "a map has a value for each key",
                f'write "{key}" = "value"',
                mark="key",
            )
            is_complete = False
            continue
        value = parse_constant(node.spot, node.value, kind, scope)
        compiled_key = _compile_key(node.spot, key, key_type, scope)
        if value is None or compiled_key is None:
            is_complete = False
        elif isinstance(compiled_key, str):
            exact[compiled_key] = value
        else:
            patterns[key] = compiled_key, value
    default_leaf, absent_leaf = branch.get_leaf("else"), branch.get_leaf("if_absent")
    default = parse_constant(default_leaf.spot, default_leaf.value, kind, scope) if default_leaf else None
    absent_value = parse_constant(absent_leaf.spot, absent_leaf.value, kind, scope) if absent_leaf else None
    if not is_complete or (default_leaf and default is None) or (absent_leaf and absent_value is None):
        return None
    sorted_patterns = tuple(patterns[key] for key in sorted(patterns, key=lambda key: (-len(key), key)))
    signature = ANYTHING if source.signature is ANYTHING else replace(source.signature, kind=kind, is_list=False)
    return CompiledWord(
        signature, MappedWord(source.derived_word, key_type, exact, sorted_patterns, default, absent_value)
    )


def _compile_key(spot: FilePosition, key: str, kind: ValueType, scope: Scope) -> str | glob.Glob | None:
    """Return a key in canonical form, or as a glob. Return None with a finding for an invalid key."""
    if any(character in key for character in "*?["):
        try:
            return glob.parse(key)
        except glob.PatternError as error:
            scope.report_error(spot, "glob", error.message, error.write, mark="key")
            return None
    operand = compile_exact_key(spot, key, kind, scope)
    if operand is None:
        return None
    if kind is ValueType.CLASS and len(operand) < len("010203"):
        return glob.parse(f"{operand}*")
    if kind is ValueType.PCI and "." not in operand:
        return glob.parse(f"{operand}.*")
    return operand


def compile_exact_key(spot: FilePosition, key: str, kind: ValueType, scope: Scope) -> str | None:
    """Return a key of a map in canonical form, or None. Faults are reported."""
    if kind in {ValueType.INT, ValueType.BOOL}:
        value = parse_kernel_text(kind, key)
        if isinstance(value, (int, bool)):
            return canonicalize(kind, value)
        scope.report_error(
            spot, "type", f"the word is {kind.value}, and this key is none", 'write for example "1"', mark="key"
        )
        return None
    try:
        return canonicalize(kind, parse_operand(kind, key))
    except OperandError as error:
        scope.report_error(spot, "type", error.message, error.write, mark="key")
        return None
