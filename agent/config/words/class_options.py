"""Options: parameters of a class that the entry sets. Their values are equal for all devices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agent.config.language.key_table import make_hint
from agent.config.language.path_rule import find_path_fault
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import Scope, WordSignature, require_all
from agent.config.toml.file_position import FilePosition
from agent.core.entry.derived_words import Constant
from agent.core.language.value import OperandError, Scalar, Value, ValueType, parse_operand
from agent.core.struct import Struct, replace

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DOMAINS = ("one_of", "some_of", "type")


class _Domain(Struct):
    """The values that an option accepts: a value of `kind`, or one of `choices`. is_list: several of the choices."""

    kind: ValueType
    choices: tuple[str, ...] = ()
    is_list: bool = False


class CompiledOptions(Struct):
    """The options of an entry or a class: the signatures of all, and the constants of those that have a value.

    is_complete: no option was left out because of a fault.
    """

    signatures: Mapping[str, WordSignature]
    constants: Mapping[str, Constant]
    is_complete: bool

    def extend_scope(self, scope: Scope) -> Scope:
        """Return the scope with the options."""
        values = {word: constant.value for word, constant in self.constants.items()}
        has_all_words = scope.has_all_words and self.is_complete
        return replace(scope, options=self.signatures, option_values=values, has_all_words=has_all_words)


def compile_options(tree: Branch, scope: Scope, user_spot: FilePosition | None) -> CompiledOptions:
    """Return the options. user_spot: the entry, where an option without a value is reported. None for a class."""
    declared_names = [name for name, option in tree.list_branches("options") if _is_declared(option)]
    constants: dict[str, Constant] = {}
    signatures: dict[str, WordSignature] = {}
    is_complete = True
    for name, option in tree.list_branches("options"):
        word = f"options.{name}"
        domain = _find_domain(name, option, declared_names, scope)
        if domain is None:
            is_complete = False
            continue
        signatures[word] = WordSignature(domain.kind, is_list=domain.is_list, varies=False)
        default = _compile_value(option.get_leaf("default"), domain, scope)
        value = _compile_value(option.get_leaf("value"), domain, scope)
        if option.members.keys().isdisjoint(("default", "value")) and user_spot is not None:
            choice = f'"{domain.choices[0]}"' if domain.choices else "…"
            about = option.get_leaf("about")
            about_text = f" ({about.value})" if about else ""
            write = f"write {word} = {f'[{choice}]' if domain.is_list else choice}"
            scope.report_error(user_spot, "missing", f"{word} has no default, so the entry says it{about_text}", write)
        chosen = default if option.get_leaf("value") is None else value
        if chosen is not None:
            constants[word] = Constant(chosen)
    return CompiledOptions(signatures, constants, is_complete)


def _is_declared(option: Branch) -> bool:
    return not option.members.keys().isdisjoint(("about", *_DOMAINS))


def _find_domain(name: str, option: Branch, declared_names: Sequence[str], scope: Scope) -> _Domain | None:
    """Return the values that an option accepts, or None. Faults of its declaration are reported."""
    if not _is_declared(option):
        if scope.has_all_keys:
            message = f"no class that is used here has an option {name}"
            advice = (
                f"there is {', '.join(declared_names)}"
                if declared_names
                else "take it out, or name the class that asks it"
            )
            scope.report_error(
                _get_position(option), "unknown-key", message, make_hint(name, declared_names) or advice, mark="key"
            )
        return None
    if not _NAME.fullmatch(name):
        message = "an option is a word: letters, digits and _, no digit first"
        scope.report_error(option.spot, "type", message, "write for example vhost_net", mark="key")
        return None
    if option.get_leaf("about") is None:
        message = f"option {name} does not say what it is about"
        scope.report_error(option.spot, "missing", message, 'write about = "…"', mark="key")
    leaves = [leaf for key in _DOMAINS if (leaf := option.get_leaf(key)) is not None]
    if len(leaves) != 1:
        message = f"an option has one of {', '.join(_DOMAINS)}"
        if leaves:
            scope.report_error(leaves[1].spot, "type", message, "leave one out", mark="key")
        else:
            scope.report_error(option.spot, "missing", message, 'write for example one_of = ["…", "…"]', mark="key")
        return None
    return _compile_domain(leaves[0], scope)


def _compile_domain(leaf: Leaf, scope: Scope) -> _Domain:
    if isinstance(leaf.value, str):
        return _Domain(ValueType(leaf.value))
    choices = [str(item) for item in leaf.value] if isinstance(leaf.value, list) else []
    for index, choice in enumerate(choices):
        if choice in choices[:index]:
            scope.report_error(leaf.spot.get_child(index), "type", f"{choice} is there twice", "leave one out")
    return _Domain(ValueType.TEXT, tuple(choices), is_list=leaf.spot.path[-1] == "some_of")


def _compile_value(leaf: Leaf | None, domain: _Domain, scope: Scope) -> Value | None:
    """Return the value of an option, or None. A value outside the domain is reported."""
    if leaf is None:
        return None
    if not domain.is_list:
        return _compile_scalar(leaf.spot, leaf.value, domain, scope)
    if not isinstance(leaf.value, list):
        write = f"write [{leaf.spot.source_text}]" if isinstance(leaf.value, str) else ""
        scope.report_error(leaf.spot, "type", "this option is a list: some of its choices", write)
        return None
    scalars: tuple[Scalar, ...] | None
    scalars = require_all(
        _compile_scalar(spot, item, domain, scope) for spot, item in leaf.spot.list_elements(leaf.value)
    )
    return None if scalars is None else tuple(dict.fromkeys(scalars))


def _compile_scalar(spot: FilePosition, value: object, domain: _Domain, scope: Scope) -> Scalar | None:
    if domain.choices:
        if isinstance(value, str) and value in domain.choices:
            return value
        hint = make_hint(value, domain.choices) if isinstance(value, str) else ""
        scope.report_error(spot, "type", f"this option is one of {', '.join(domain.choices)}", hint)
        return None
    try:
        scalar = parse_operand(domain.kind, value)
    except OperandError as error:
        scope.report_error(spot, "type", error.message.replace("this word", "this option"), error.write)
        return None
    if domain.kind is ValueType.PATH and (fault := find_path_fault(str(scalar))) is not None:
        scope.report_error(spot, "path", fault.message, fault.write, mark="text")
        return None
    return scalar


def _get_position(option: Branch) -> FilePosition:
    """Return the best file position of an option."""
    return (option.get_leaf("value") or option.get_leaf("default") or Leaf(None, option.spot)).spot
