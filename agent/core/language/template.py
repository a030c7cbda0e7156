"""Templates: texts with `{words}`. The load parses them. The agent fills them when the facts are known."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import TypeAlias

from agent.core.language.glob import escape_glob
from agent.core.language.value import Absent, FormError, Value, format_scalar
from agent.core.struct import Struct

FactReader: TypeAlias = Callable[[str], Value | Absent]  # returns the value of a word

ID_LIMIT = 63  # characters of a device ID, from the documentation of the device plugin API

_FILTER = re.compile(r"lower|upper|env(?::-)?|(?:first|last|digest):[1-9][0-9]?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*")
_NOT_ID = re.compile(r"[^A-Za-z0-9_.:@-]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # or half of a surrogate pair


class TemplateError(FormError):
    """A text that is no template."""


class Slot(Struct):
    """One `{word|filter|…}` of a template. `at` is its offset in the source."""

    word: str
    filters: tuple[str, ...]
    at: int


class Template(Struct):
    """A parsed template: literal pieces and slots."""

    source: str
    pieces: tuple[str | Slot, ...]

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Its slots, in order."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Slot))

    def write(self, fact: FactReader) -> str | Absent:
        """Return the text with every slot filled, or Absent with the reason if a word is absent.

        The load refuses a list word here. Such a word also gives Absent.
        """
        texts = self.write_all(fact)
        if isinstance(texts, Absent):
            return texts
        if len(texts) != 1:
            return Absent(f"{self.source} has {len(texts)} values")
        return texts[0]

    def write_all(self, fact: FactReader, form: Callable[[str], str] = str) -> tuple[str, ...] | Absent:
        """Return one text for each element of the only list word, or Absent if a word is absent.

        `form` converts each value of a word.
        """
        texts = [""]
        for piece in self.pieces:
            if isinstance(piece, str):
                texts = [text + piece for text in texts]
                continue
            value = fact(piece.word)
            if isinstance(value, Absent):
                return value.prefix_reason(piece.word)
            values = value if isinstance(value, tuple) else (value,)
            if not values:
                return Absent(f"{piece.word} is empty")
            filtered_texts = [form(apply_filters(format_scalar(item), piece.filters)) for item in values]
            texts = [text + item for text in texts for item in filtered_texts]
        return tuple(texts)

    def write_paths(self, fact: FactReader, *, glob: bool = False) -> tuple[str, ...] | Absent:
        """Fill a template for a path, as `write_all` does. Return Absent if a value is unsafe in a path.

        A word is one part of a file name, so hardware can select a name inside a directory and nothing else.
        Only the first word may be a whole path: a node below /dev, or a `given.` path.
        `options.` words may contain slashes, because a user wrote them.
        `resource` has one slash, and the kubelet checks both sides.
        glob: the template is a glob. Values are escaped, so that they match only themselves.
        """
        leading = self.pieces[0].word if isinstance(self.pieces[0], Slot) else ""

        def read_safe(word: str) -> Value | Absent:
            value = fact(word)
            for item in value if isinstance(value, tuple) else (value,):
                if not isinstance(item, str) or word == "resource":
                    continue
                if word.startswith("options.") and not has_control(item):
                    continue
                if not (word == leading and _may_begin_path(word, item)) and not is_name(item):
                    return Absent(f"{item[:64]!r} cannot be in a path")
            return value

        paths = self.write_all(read_safe, escape_glob if glob else str)
        if not isinstance(paths, Absent) and (bad_path := next((path for path in paths if not _is_path(path)), "")):
            return Absent(f"{bad_path[:64]!r} is not the shortest form of a path")
        return paths


def parse(source: str) -> Template:
    """Parse a template. `{{` and `}}` are braces.

    Raises:
        TemplateError: a brace without its partner, an empty brace, or a faulty word or filter.
    """
    pieces: list[str | Slot] = []
    literal = ""
    at = 0
    while at < len(source):
        if source.startswith(("{{", "}}"), at):
            literal += source[at]
            at += 2
        elif source[at] == "{":
            end = source.find("}", at)
            if end < 0:
                raise TemplateError("this brace is never closed", at, len(source) - at, 'a literal brace is "{{"')
            if literal:
                pieces.append(literal)
                literal = ""
            pieces.append(_parse_slot(source[at + 1 : end], at))
            at = end + 1
        elif source[at] == "}":
            raise TemplateError("this brace was never opened", at, 1, 'a literal brace is "}}"')
        else:
            literal += source[at]
            at += 1
    if literal or not pieces:
        pieces.append(literal)
    return Template(source, tuple(pieces))


def clean_id(text: str, suffix_length: int = 0) -> str:
    """Return a text that is valid as a device ID. Other characters become `_`. A long text ends in its digest.

    `::` separates shares, so it becomes `:_`. `suffix_length` characters stay free for a suffix.
    """
    clean_text = _NOT_ID.sub("_", text).replace("::", ":_")
    limit = ID_LIMIT - suffix_length
    if len(clean_text) <= limit:
        return clean_text
    return f"{clean_text[: limit - 9]}-{compute_digest(text, 8)}"


def make_env_name(text: str, keep: str = "") -> str:
    """Return the text as a part of a variable name: upper case, and `_` for all but A-Z, 0-9 and `keep`."""
    return "".join(c if c in keep or (c.isascii() and c.isalnum()) else "_" for c in text.upper())


def compute_digest(text: str, length: int) -> str:
    """Return the first `length` hexadecimal digits of the SHA-256 of the text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:length]


def has_control(text: str) -> bool:
    """Return whether the text has a control character or invalid Unicode."""
    return _CONTROL.search(text) is not None


def is_name(text: str) -> bool:
    """Return whether the text can be a file name or a part of one. A slash or `..` is no such text."""
    return bool(text) and "/" not in text and ".." not in text and not has_control(text)


def _may_begin_path(word: str, text: str) -> bool:
    below = text.startswith("/dev/") or (word.startswith("given.") and text.startswith("/"))
    return below and not has_control(text)


def _is_path(text: str) -> bool:
    """Return whether a path is absolute, without an empty step, `.` or `..`. It may end with a slash."""
    root, *names = text.removesuffix("/").split("/")
    return not root and all(name not in {"", ".", ".."} for name in names)


def _parse_slot(inside: str, at: int) -> Slot:
    word, *filters = inside.split("|")
    if not _WORD.fullmatch(word):
        raise TemplateError(
            f"{{{inside}}}: a word is letters, digits, _ and dots; a path becomes a word by [let]",
            at,
            len(inside) + 2,
            f'let.x = "{word}", and write {{x}} here' if "/" in word else "write for example {name}",
        )
    for name in filters:
        if not _FILTER.fullmatch(name):
            raise TemplateError(
                f"no filter {name!r}; filters are lower, upper, first:N, last:N, digest:N, env, env:-",
                at,
                len(inside) + 2,
                f"write for example {{{word}|lower}}",
            )
    return Slot(word, tuple(filters), at)


def apply_filters(text: str, filters: tuple[str, ...]) -> str:
    """Return the text after these filters, in order."""
    for name in filters:
        kind, _, argument = name.partition(":")
        match kind:
            case "lower":
                text = text.lower()
            case "upper":
                text = text.upper()
            case "env":
                text = make_env_name(text, keep=argument)
            case "first":
                text = text[: int(argument)]
            case "last":
                text = text[-int(argument) :]
            case "digest":
                text = compute_digest(text, int(argument))
    return text
