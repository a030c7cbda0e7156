"""Programs of an entry: `prepare.NAME`, which is of the machine, and `prestart.NAME`, which is of a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent.core.language.clause import Clause, Origin
from agent.core.language.template import FactReader, Slot, Template, has_control
from agent.core.language.value import Absent
from agent.core.struct import Struct, not_compared

START_SECONDS = 25.0  # all programs before a container starts together: the kubelet gives up after 30 (contract #74)


class Command(NamedTuple):
    """What is run: the program and its arguments, how long it may take, and whether it need not be there."""

    argv: tuple[str, ...]
    timeout: float
    optional: bool


@not_compared("origin")
class Program(Struct):
    """`prepare.NAME`, `prestart.NAME`. The first of `run` is an absolute path without words.

    when: where it is run; None if always.
    """

    name: str
    run: tuple[Template, ...]
    timeout: float
    optional: bool
    origin: Origin
    condition: Clause | None = None

    def build_command(self, fact: FactReader) -> Command | Absent:
        """What is run by these words; see `arguments`."""
        argv = build_argv(self.run, fact)
        return argv if isinstance(argv, Absent) else Command(argv, self.timeout, self.optional)

    def list_words(self) -> Iterator[str]:
        """The words that its arguments and its clause mention."""
        for text in self.run:
            yield from (slot.word for slot in text.slots)
        if self.condition is not None:
            yield from (line.word for line in self.condition.walk_lines())


def build_argv(texts: Sequence[Template], fact: FactReader) -> tuple[str, ...] | Absent:
    """A program and its arguments; a list word is so many of them.

    No word of a device can be taken for a switch of the program, or end an argument early.
    """
    argv: list[str] = []
    for text in texts:
        written = text.write_all(fact)
        if isinstance(written, Absent):
            return written
        for argument in written:
            if has_control(argument):
                return Absent(f"{text.source}: {argument[:64]!r} cannot be an argument", unreadable=True)
            if argument.startswith("-") and _has_word_first(text):
                return Absent(f"{text.source}: {argument[:64]!r} would be an option", unreadable=True)
        argv += written
    return tuple(argv)


def _has_word_first(text: Template) -> bool:
    """Whether what a device says comes first; an option is what a person wrote."""
    first_piece = text.pieces[0]
    return isinstance(first_piece, Slot) and not first_piece.word.startswith("options.")
