"""Programs of an entry: `prepare.NAME` for the machine, and `prestart.NAME` for a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.core.language.clause import Clause, Origin
from agent.core.language.template import FactReader, Slot, Template, has_control
from agent.core.language.value import Absent
from agent.core.struct import Struct, ignore_in_comparison

START_SECONDS = 25.0  # limit of all `prestart` programs together: the kubelet waits 30 s (contract #74)


class Command(Struct):
    """A program with its arguments. timeout: in seconds. optional: the program need not exist."""

    argv: tuple[str, ...]
    timeout: float
    optional: bool


@ignore_in_comparison("origin")
class Program(Struct):
    """One `prepare.NAME` or `prestart.NAME`. The first item of `run` is an absolute path without words.

    condition: the clause that must match. None: always run.
    """

    name: str
    run: tuple[Template, ...]
    timeout: float
    optional: bool
    origin: Origin
    condition: Clause | None = None

    def build_command(self, fact: FactReader) -> Command | Absent:
        """Return the command with the values of its words, or absent; see `build_argv`."""
        argv = build_argv(self.run, fact)
        return argv if isinstance(argv, Absent) else Command(argv, self.timeout, self.optional)

    def list_words(self) -> Iterator[str]:
        """Yield the words of the arguments and of the condition."""
        for text in self.run:
            yield from (slot.word for slot in text.slots)
        if self.condition is not None:
            yield from (line.word for line in self.condition.walk_lines())


def build_argv(texts: Sequence[Template], fact: FactReader) -> tuple[str, ...] | Absent:
    """Return a program and its arguments. A list word gives one argument per element.

    The value of a device word cannot become an option of the program, and cannot end an argument early.
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
    """Return whether an argument begins with a word of the device. An option of the entry is text of the user."""
    first_piece = text.pieces[0]
    return isinstance(first_piece, Slot) and not first_piece.word.startswith("options.")
