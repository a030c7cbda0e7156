"""Dependencies of derived words: the words that their definitions use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from agent.core.entry.derived_words import CapturedWord, CopiedWord
from agent.core.entry.joins import DerivedWord, Join
from agent.core.language.clause import ClauseLine
from agent.core.language.template import Slot
from agent.core.struct import Struct


def list_dependencies(value: object) -> Iterator[str]:
    """Yield the words that a derived word, a clause or a template uses. A join yields the words of the device, not
    of the partner.
    """
    match value:
        case Join():
            yield from value.key_words
            return
        case CapturedWord():
            return  # its word is its own name
        case CopiedWord() | Slot() | ClauseLine():
            yield value.word
    if isinstance(value, Mapping):
        parts: Iterable[object] = value.values()
    elif isinstance(value, tuple):
        parts = value
    elif isinstance(value, Struct):
        parts = (getattr(value, name) for name in value.__struct_fields__)
    else:
        return
    for part in parts:
        yield from list_dependencies(part)


def add_dependencies(words: Iterable[str], derived_words: Mapping[str, DerivedWord]) -> dict[str, DerivedWord]:
    """Return the derived words among these words and among all their dependencies, in the order of the search."""
    result: dict[str, DerivedWord] = {}
    pending_words = list(words)
    while pending_words:
        word = pending_words.pop(0)
        if word in derived_words and word not in result:
            result[word] = derived_words[word]
            pending_words += list_dependencies(derived_words[word])
    return result
