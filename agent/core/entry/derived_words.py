"""Own words: what `options`, a source's pattern and `let` define, each a value that says what it is of a device."""

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
    """`options.NAME`: what the entry chose."""

    value: Value

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        del facts
        return self.value


class CapturedWord(Struct):
    """A `{word:type}` of the source's pattern."""

    word: str

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        return facts.get_captured(self.word)


class CopiedWord(Struct):
    """`read = "word"`: what another word says. `kind`: what its text is to be parsed as, if not simply taken over."""

    word: str
    kind: ValueType | None = None

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        value = facts(self.word)
        if self.kind is None or isinstance(value, Absent):
            return value
        if isinstance(value, tuple):
            return parse_values(self.kind, map(format_scalar, value))
        return parse_value(self.kind, format_scalar(value))


class FirstPresent(Struct):
    """`first_of = [..]`: the first that is there. What is there and cannot be read, or is still to come, ends it."""

    alternatives: tuple[DerivedWord, ...]

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        reasons: list[str] = []
        for alternative in self.alternatives:
            value = alternative.compute_value(facts)
            if not is_nonexistent(value):
                return value
            reasons.append(value.reason if isinstance(value, Absent) else "")
        return Absent("; ".join(dict.fromkeys(reasons)))


class DefaultedWord(Struct):
    """`else`: what stands where there is nothing; not where something is that could not be read."""

    word: DerivedWord
    default: Value

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        value = self.word.compute_value(facts)
        return self.default if is_nonexistent(value) else value


class ExtractedText(Struct):
    """`take = "PATTERN", of = …`: what stands at the brace of the pattern."""

    pattern: Glob
    source: DerivedWord

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        value = self.source.compute_value(facts)
        if isinstance(value, (Absent, tuple)):
            return value if isinstance(value, Absent) else Absent("is a list")
        text = format_scalar(value)
        captured_values = self.pattern.extract_words(text)
        return captured_values[0][1] if captured_values else Absent(f"{text[:64]!r} does not fit {self.pattern.text}")


class MappedWord(Struct):
    """`by = "word", map = { … }`: what the map says of the word: the exact key first, else the longest that fits.

    exact: by the key in its canonical form (`canonical`). fitting: patterns, longest first. other: `else`, what the map
    says of all the rest. absent: `if_absent`, what stands where the word is not there.
    """

    source: DerivedWord
    kind: ValueType
    exact: Mapping[str, Scalar]
    patterns: tuple[tuple[Glob, Scalar], ...]
    default: Scalar | None = None
    absent_value: Scalar | None = None

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        value = self.source.compute_value(facts)
        if is_nonexistent(value) and self.absent_value is not None:
            return self.absent_value
        if isinstance(value, (Absent, tuple)):
            return value if isinstance(value, Absent) else Absent("is a list")
        key = canonicalize(self.kind, value)
        result = self.exact.get(key)
        if result is None:
            result = next((says for pattern, says in self.patterns if pattern.matches(key)), self.default)
        return Absent(f"the map has no {key[:64]!r}") if result is None else result


class TemplateWord(Struct):
    """`text = "{a}-{b}"`: that text; of one with a list word, one for each of its elements."""

    text: Template
    kind: ValueType
    is_list: bool = False

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        written = self.text.write_all(facts)
        if isinstance(written, Absent):
            return written
        values = parse_values(self.kind, written)
        return values if self.is_list or isinstance(values, Absent) else values[0]


class ClauseWord(Struct):
    """`holds = { … }`: whether the clause holds; unknown while a word that decides it could not be read."""

    clause: Clause

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        failing = self.clause.find_failed_line(facts, CAREFUL)
        if failing is None or failing.undecided_fact is None:
            return failing is None
        return Absent(
            f"{failing.statement.address}: {failing.facts_text}",
            failing.undecided_fact.unreadable,
            failing.undecided_fact.pending,
        )


class KfdAddress(Struct):
    """`kfd_address = ["domain", "location_id"]`: the PCI address of a node of KFD's topology.

    Bus, device and function are the lower 16 bits of the location; above them newer kernels number the partitions.
    """

    domain: DerivedWord
    location: DerivedWord

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        domain, location = self.domain.compute_value(facts), self.location.compute_value(facts)
        if not isinstance(domain, int) or not isinstance(location, int):
            return next((value for value in (domain, location) if isinstance(value, Absent)), Absent("is no number"))
        if domain < 0 or location <= 0:
            return Absent("says that it is no PCI function")  # CPUs have nodes too, at location 0
        return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


class Bits(Struct):
    """`bits = ["28-31", "0-2"], of = …`: those bits of a number side by side, the first range in front.

    ranges: lowest and highest bit of each.
    """

    ranges: tuple[tuple[int, int], ...]
    source: DerivedWord

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        value = self.source.compute_value(facts)
        if not isinstance(value, int) or value < 0:
            return value if isinstance(value, Absent) else Absent("is a negative number", unreadable=True)
        result = 0
        for low, high in self.ranges:
            width = high - low + 1
            result = result << width | value >> low & (1 << width) - 1
        return result


class Base64Url(Struct):
    """`base64url = ["a", "b"]`: the bytes of these hexadecimal texts, one after the other, without padding."""

    parts: tuple[DerivedWord, ...]

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
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
    """`place_in = "list", of = …`: how many of the list come before that, in the order of their type, `kind`.

    What is in it several times counts once. Numbers go by their size, PCI addresses by domain, bus, device, function.
    """

    list_word: DerivedWord
    source: DerivedWord
    kind: ValueType

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        value, elements = self.source.compute_value(facts), self.list_word.compute_value(facts)
        if isinstance(value, (Absent, tuple)):
            return value if isinstance(value, Absent) else Absent("is a list")
        if not isinstance(elements, tuple):
            return elements if isinstance(elements, Absent) else Absent("is no list")
        rank, ranks = self._sort_key(value), {self._sort_key(other) for other in elements}
        if rank not in ranks:
            return Absent(f"{format_scalar(value)[:64]!r} is none of the {len(ranks)} in the list")
        return sum(other < rank for other in ranks)

    def _sort_key(self, value: Scalar) -> tuple[int, str]:
        if isinstance(value, int):
            return value, ""
        if self.kind is ValueType.HEX:
            return int(value, 16), ""
        return (len(value), value) if self.kind is ValueType.PCI else (0, make_sort_key(value))


class ProbeWord(Struct):
    """`probe = "NAME", field = "FIELD"`: what that probe reports of the place where the device is."""

    probe: ProbeSpec
    field: str
    kind: ValueType

    def compute_value(self, facts: WordReader) -> Value | Absent:
        """See `Own`."""
        value = facts.get_probe_field(self.probe, self.field)
        return value if isinstance(value, Absent) else parse_value(self.kind, format_scalar(value))


def is_nonexistent(value: Value | Absent) -> bool:
    """Whether something is simply not there: neither unreadable nor still to come."""
    return isinstance(value, Absent) and not value.unreadable and not value.pending


def canonicalize(kind: ValueType, value: Scalar) -> str:
    """A value as a key: equal for values of the kind that are equal."""
    return f"{int(str(value), 16):x}" if kind is ValueType.HEX else format_scalar(value)
