"""Derived words: the words that `options`, the pattern of a source and `let` define. Each computes its value for a
device.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from agent.core.entry.file_words import parse_value, parse_values
from agent.core.entry.joins import DerivedWord, WordReader
from agent.core.entry.query import ProbeSpec
from agent.core.language.clause import Clause
from agent.core.language.glob import Glob
from agent.core.language.logic import CAREFUL
from agent.core.language.template import Template
from agent.core.language.value import Absent, Scalar, Value, ValueType, format_scalar, make_sort_key
from agent.core.struct import Struct


class Constant(Struct):
    """An option (`options.NAME`) with the value of the entry."""

    value: Value

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the value of the option."""
        del facts
        return self.value


class CapturedWord(Struct):
    """A `{word:type}` of the pattern of the source."""

    word: str

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the captured value."""
        return facts.get_captured(self.word)


class CopiedWord(Struct):
    """The value of another word (`read = "word"`). kind: the type that its text is parsed as. None: the value stays
    as it is.
    """

    word: str
    kind: ValueType | None = None

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the value of the other word, parsed as the type."""
        value = facts(self.word)
        if self.kind is None or isinstance(value, Absent):
            return value
        if isinstance(value, tuple):
            return parse_values(self.kind, map(format_scalar, value))
        return parse_value(self.kind, format_scalar(value))


class FirstPresent(Struct):
    """The first present value of several words (`first_of = [..]`). An unreadable or pending value ends the search."""

    alternatives: tuple[DerivedWord, ...]

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the first value that is present, unreadable or pending, or the reasons of all words."""
        reasons: list[str] = []
        for alternative in self.alternatives:
            value = alternative.compute_value(facts)
            if not is_nonexistent(value):
                return value
            reasons.append(value.reason if isinstance(value, Absent) else "")
        return Absent("; ".join(dict.fromkeys(reasons)))


class DefaultedWord(Struct):
    """A word with a default (`else`). The default replaces a nonexistent value, not an unreadable one."""

    word: DerivedWord
    default: Value

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the value of the word, or the default."""
        value = self.word.compute_value(facts)
        return self.default if is_nonexistent(value) else value


class ExtractedText(Struct):
    """A part of a text (`take = "PATTERN", of = …`): the part at the brace of the pattern."""

    pattern: Glob
    source: DerivedWord

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the extracted value, or absent if the text does not match the pattern."""
        value = self.source.compute_value(facts)
        if isinstance(value, (Absent, tuple)):
            return value if isinstance(value, Absent) else Absent("is a list")
        text = format_scalar(value)
        captured_values = self.pattern.extract_words(text)
        return captured_values[0][1] if captured_values else Absent(f"{text[:64]!r} does not fit {self.pattern.text}")


class MappedWord(Struct):
    """A value from a map (`by = "word", map = { … }`). The exact key has priority, then the longest pattern that
    matches.

    exact: values by key in canonical form (`canonicalize`).
    patterns: glob keys, longest first.
    default: the value for all other keys (`else`).
    absent_value: the value if the word does not exist (`if_absent`).
    """

    source: DerivedWord
    kind: ValueType
    exact: Mapping[str, Scalar]
    patterns: tuple[tuple[Glob, Scalar], ...]
    default: Scalar | None = None
    absent_value: Scalar | None = None

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the value in the map, or absent if the map has no such key."""
        value = self.source.compute_value(facts)
        if is_nonexistent(value) and self.absent_value is not None:
            return self.absent_value
        if isinstance(value, (Absent, tuple)):
            return value if isinstance(value, Absent) else Absent("is a list")
        key = canonicalize(self.kind, value)
        result = self.exact.get(key)
        if result is None:
            result = next(
                (pattern_value for pattern, pattern_value in self.patterns if pattern.matches(key)), self.default
            )
        return Absent(f"the map has no {key[:64]!r}") if result is None else result


class TemplateWord(Struct):
    """A template (`text = "{a}-{b}"`). With a list word, the value is a list with one text per element."""

    text: Template
    kind: ValueType
    is_list: bool = False

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the text of the template, parsed as the type."""
        written = self.text.write_all(facts)
        if isinstance(written, Absent):
            return written
        values = parse_values(self.kind, written)
        return values if self.is_list or isinstance(values, Absent) else values[0]


class ClauseWord(Struct):
    """A clause as a boolean (`holds = { … }`)."""

    clause: Clause

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return whether the clause matches. The value is absent while a deciding word is unreadable or pending."""
        failing = self.clause.find_failed_line(facts, CAREFUL)
        if failing is None or failing.undecided_fact is None:
            return failing is None
        return Absent(
            f"{failing.statement.address}: {failing.facts_text}",
            failing.undecided_fact.unreadable,
            failing.undecided_fact.pending,
        )


class KfdAddress(Struct):
    """The PCI address of a node of the KFD topology (`kfd_address = ["domain", "location_id"]`).

    Bus, device and function are the lower 16 bits of the location. Newer kernels number the partitions in the bits
    above.
    """

    domain: DerivedWord
    location: DerivedWord

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the PCI address, or absent if the node is not a PCI function."""
        domain, location = self.domain.compute_value(facts), self.location.compute_value(facts)
        if not isinstance(domain, int) or not isinstance(location, int):
            return next((value for value in (domain, location) if isinstance(value, Absent)), Absent("is no number"))
        if domain < 0 or location <= 0:
            return Absent("says that it is no PCI function")  # CPUs also have nodes, at location 0
        return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


class Bits(Struct):
    """Some bits of a number (`bits = ["28-31", "0-2"], of = …`), concatenated. The first range is the most
    significant.

    ranges: the lowest and highest bit of each range.
    """

    ranges: tuple[tuple[int, int], ...]
    source: DerivedWord

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the number that consists of the bits."""
        value = self.source.compute_value(facts)
        if not isinstance(value, int) or value < 0:
            return value if isinstance(value, Absent) else Absent("is a negative number", unreadable=True)
        result = 0
        for low, high in self.ranges:
            width = high - low + 1
            result = result << width | value >> low & (1 << width) - 1
        return result


class Base64Url(Struct):
    """Hexadecimal texts as base64url (`base64url = ["a", "b"]`): their bytes, concatenated, without padding."""

    parts: tuple[DerivedWord, ...]

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the base64url text, or absent if a text is not a sequence of bytes."""
        data = b""
        for part in self.parts:
            value = part.compute_value(facts)
            if isinstance(value, Absent):
                return value
            text = str(value)
            digits = text.removeprefix("0x").removeprefix("0X")
            if not digits.isascii() or not digits.isalnum() or len(digits) % 2:
                return Absent(f"{text[:64]!r} is no row of bytes", unreadable=True)
            try:
                data += bytes.fromhex(digits)
            except ValueError:
                return Absent(f"{text[:64]!r} is no row of bytes", unreadable=True)
        return base64.urlsafe_b64encode(data).decode().rstrip("=")


class RankWord(Struct):
    """The position of a value in a list (`place_in = "list", of = …`): the number of smaller elements.

    Equal elements count once. Numbers are sorted by size. PCI addresses are sorted by domain, bus, device and
    function.
    """

    list_word: DerivedWord
    source: DerivedWord
    kind: ValueType

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the rank from 0, or absent if the list does not contain the value."""
        value, elements = self.source.compute_value(facts), self.list_word.compute_value(facts)
        if isinstance(value, (Absent, tuple)):
            return value if isinstance(value, Absent) else Absent("is a list")
        if not isinstance(elements, tuple):
            return elements if isinstance(elements, Absent) else Absent("is no list")
        rank, ranks = self._sort_key(value), {self._sort_key(element_rank) for element_rank in elements}
        if rank not in ranks:
            return Absent(f"{format_scalar(value)[:64]!r} is none of the {len(ranks)} in the list")
        return sum(element_rank < rank for element_rank in ranks)

    def _sort_key(self, value: Scalar) -> tuple[int, str]:
        if isinstance(value, int):
            return value, ""
        if self.kind is ValueType.HEX:
            return int(value, 16), ""
        return (len(value), value) if self.kind is ValueType.PCI else (0, make_sort_key(value))


class ProbeWord(Struct):
    """A field of a probe (`probe = "NAME", field = "FIELD"`), reported for the location of the device."""

    probe: ProbeSpec
    field: str
    kind: ValueType

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """Return the reported value, parsed as the type."""
        value = facts.get_probe_field(self.probe, self.field)
        return value if isinstance(value, Absent) else parse_value(self.kind, format_scalar(value))


def is_nonexistent(value: Value | Absent) -> bool:
    """Return whether a value does not exist. An unreadable or pending value may exist."""
    return isinstance(value, Absent) and not value.unreadable and not value.pending


def canonicalize(kind: ValueType, value: Scalar) -> str:
    """Return a value as a key. Equal values of the type have equal keys."""
    return f"{int(str(value), 16):x}" if kind is ValueType.HEX else format_scalar(value)
