"""Templates of a tree: parsed, with checked words. Paths and names are checked for their use."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.config.language.path_rule import find_path_fault
from agent.config.scope import ANYTHING, Scope, WordSignature
from agent.config.toml.file_position import FilePosition, FindingMark, TextPiece
from agent.core.entry.resource_spec import NODE_NUMBER
from agent.core.language.template import Slot, Template, has_control, make_env_name, parse
from agent.core.language.value import ValueType
from agent.core.struct import Struct

_SLOT_MARK = 0xE000  # private Unicode characters that replace slots during the check of a path; there are 6400
_NAME_PIECE = re.compile(r"[A-Za-z0-9_]*")
_PLAIN_KINDS = frozenset({ValueType.INT, ValueType.BOOL, ValueType.HEX, ValueType.CLASS})


class CompiledTemplate(Struct):
    """A template with the signature of the word in each slot, and its position."""

    template: Template
    signatures: tuple[WordSignature, ...]
    spot: FilePosition

    @property
    def is_certain(self) -> bool:
        """Return whether every word has a signature."""
        return all(word is not ANYTHING for word in self.signatures)

    @property
    def varies(self) -> bool:
        """Return whether the text can differ between two devices of one container."""
        return any(word.varies for word in self.signatures)

    @property
    def varies_by_member(self) -> bool:
        """Return whether the text can differ between the members of one device."""
        return any(word.varies_by_member for word in self.signatures)

    @property
    def is_list(self) -> bool:
        """Return whether the template has a list word, so that it gives several texts."""
        return any(word.is_list for word in self.signatures)


def compile_template(
    spot: FilePosition,
    value: object,
    scope: Scope,
    subject: str,
    *,
    in_grant: bool = False,
    may_be_empty: bool = False,
    of_node: bool = False,
    lists: bool = False,
) -> CompiledTemplate | None:
    """Return the template of a value. Return None with findings if it is invalid or has an unknown word.

    in_grant: words that only a grant has are allowed. of_node: the number of the node is also a word.
    lists: every word may be a list.
    """
    if not isinstance(value, str):
        is_number = isinstance(value, int) and not isinstance(value, bool)
        scope.report_error(spot, "type", f"{subject} is text", f'write "{value}"' if is_number else "")
        return None
    if has_control(value) or not (value or may_be_empty):
        message = f"{subject} has a control character" if value else f"{subject} is empty"
        scope.report_error(spot, "text", message, "take it out" if value else "write it, or take the key out")
        return None
    template = scope.parse_text(spot, "text", lambda: parse(value))
    if template is None:
        return None
    words = [
        WordSignature(ValueType.TEXT, varies=not scope.is_single, varies_by_member=True)
        if of_node and slot.word == NODE_NUMBER
        else scope.find_word(spot, slot.word, TextPiece(slot.at + 1, len(slot.word)), in_grant=in_grant)
        for slot in template.slots
    ]
    signatures = tuple(word for word in words if word is not None)
    if len(signatures) < len(words):
        return None
    if not lists and sum(word.is_list for word in signatures) > 1:
        scope.report_error(
            spot, "type", f"{subject} has two lists in it, and a text has one at most", "make two of it", mark="text"
        )
        return None
    return CompiledTemplate(template, signatures, spot)


def compile_path(
    spot: FilePosition,
    value: object,
    scope: Scope,
    subject: str,
    *,
    container: bool,
    of_node: bool = False,
    example: str = "/dev/x",
) -> CompiledTemplate | None:
    """Return a template of a path, or None with findings.

    A host path cannot use words of a grant. A container path may end with a slash.
    """
    compiled = compile_template(spot, value, scope, subject, in_grant=container, of_node=of_node)
    if compiled is None:
        return None
    pieces = compiled.template.pieces
    first_slot = pieces[0] if isinstance(pieces[0], Slot) else None
    for slot, word in zip(compiled.template.slots, compiled.signatures, strict=True):
        if word is ANYTHING:
            continue
        mark = TextPiece(slot.at, len(slot.word) + 2)
        if slot is first_slot and (word.kind is not ValueType.PATH or slot.filters):
            message = f"a path begins with / or with a word that is a path, and {slot.word} is none"
            scope.report_error(spot, "path", message, f'write "/dev/{compiled.template.source}"', mark=mark)
            return None
        if slot is not first_slot and word.kind is ValueType.PATH:
            message = f"{slot.word} is a whole path, so it stands at the beginning"
            scope.report_error(spot, "path", message, f'write "{{{slot.word}}}"', mark=mark)
            return None
    if not _check_path(compiled, scope, example, directory_mark=container):
        return None
    return compiled


def compile_env_name(
    spot: FilePosition, value: object, scope: Scope, resource: str | None, *, mark: FindingMark
) -> CompiledTemplate | None:
    """Return a template of a variable name for every shell: A-Z, a-z, 0-9 and _, without a digit at its beginning."""
    compiled = compile_template(spot, value, scope, "the name of a variable", in_grant=True)
    if compiled is None:
        return None
    words = iter(compiled.signatures)
    for index, piece in enumerate(compiled.template.pieces):
        if isinstance(piece, str):
            fault = _find_literal_fault(piece, compiled.template.source, is_first=index == 0)
        else:
            fault = _find_slot_fault(piece, next(words), resource, is_first=index == 0)
        if fault is not None:
            scope.report_error(spot, "env-name", *fault, mark=mark)
            return None
    return compiled


def _check_path(compiled: CompiledTemplate, scope: Scope, example: str, *, directory_mark: bool) -> bool:
    """Return whether the text is a path in its shortest form. If not, report it.

    Each slot counts as a part of a name.
    """
    slots: Sequence[Slot] = compiled.template.slots
    marks = {slot: chr(_SLOT_MARK + index % 6400) for index, slot in enumerate(slots)}
    skeleton = "".join(piece if isinstance(piece, str) else marks[piece] for piece in compiled.template.pieces)
    if isinstance(compiled.template.pieces[0], Slot):
        skeleton = f"/{skeleton}"
    fault = find_path_fault(skeleton, directory_mark=directory_mark, example=example)
    if fault is None:
        return True
    write = fault.write
    for slot, mark in marks.items():
        write = write.replace(mark, "{" + "|".join((slot.word, *slot.filters)) + "}")
    scope.report_error(compiled.spot, "path", fault.message, write, mark="text")
    return False


def _find_literal_fault(piece: str, source: str, *, is_first: bool) -> tuple[str, str] | None:
    """Return the fault of a literal part of a variable name and its correction, or None."""
    digit = is_first and piece[:1].isdigit()
    if _NAME_PIECE.fullmatch(piece) and not digit:
        return None
    message = "a variable's name is letters, digits and _, and does not begin with a digit"
    return message, f'write "{source.replace(piece, ("_" if digit else "") + make_env_name(piece), 1)}"'


def _find_slot_fault(
    slot: Slot, word: WordSignature, resource: str | None, *, is_first: bool
) -> tuple[str, str] | None:
    """Return the fault of a slot of a variable name and its correction, or None."""
    inside = "|".join((slot.word, *slot.filters))
    is_clean = any(name.startswith("env") for name in slot.filters)
    if not is_clean and word.kind not in _PLAIN_KINDS and word is not ANYTHING:
        return f"{slot.word} can hold what a variable's name may not", f"write {{{inside}|env}}"
    if is_first and (slot.word != "resource" or (resource or "")[:1].isdigit()):
        message = f"{slot.word} can begin with a digit, and a variable's name may not"
        return message, f"write for example DEVICE_{{{inside}}}"
    return None
