"""Dependencies of derived words: the words that their definitions use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from agent.core.entry.derived_words import CapturedWord, CopiedWord
from agent.core.entry.joins import DerivedWord, Join
from agent.core.language.clause import ClauseLine
from agent.core.language.template import Slot
from agent.core.struct import Struct


def list_dependencies(thing: object) -> Iterator[str]:
    """Yield the words that a derived word, a clause or a template uses. A join yields the words of the device, not
    of the partner.
    """
    match thing:
        case Join():
            yield from thing.key_words
            return
        case CapturedWord():
            return  # its word is its own name
        case CopiedWord() | Slot() | ClauseLine():
            yield thing.word
    if isinstance(thing, Mapping):
        parts: Iterable[object] = thing.values()
    elif isinstance(thing, tuple):
        parts = thing
    elif isinstance(thing, Struct):
        parts = (getattr(thing, name) for name in thing.__struct_fields__)
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
