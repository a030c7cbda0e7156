"""The words that clauses of an entry can begin with: those of its source and its derived words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from agent.config.load import list_class_folders
from agent.config.merge.class_library import ClassLibrary, MergedEntry
from agent.config.sources import get_source_kind
from agent.config.toml.file_position import FilePosition
from agent.config.toml.files import ConfigFiles
from agent.config.toml.finding import Finding
from agent.scanners import source_kinds

_CAPTURE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*):[a-z]+\}")
_COMMON_WORDS = ("host", "matched", "members", "options")


def list_entry_words(directory: str, file: str) -> list[frozenset[str] | None]:
    """Return the first parts of words for each entry of a resource file. An entry with an unknown source has None.

    directory: the directory of the configuration, which contains its classes.
    """
    files = ConfigFiles(directory)
    findings: list[Finding] = []
    shelf = ClassLibrary(list_class_folders(files, findings), files, findings)
    document = files.read_document(os.path.abspath(file))
    entries = document.data.get("resource", []) if document else []
    if document is None or not isinstance(entries, list):
        return []
    spot = FilePosition(document, ("resource",))
    return [
        _list_words(shelf.merge_entry(spot.get_child(index), entry, "entry")) if isinstance(entry, dict) else None
        for index, entry in enumerate(entries)
    ]


def _list_words(sentence: MergedEntry) -> frozenset[str] | None:
    leaf = sentence.tree.get_leaf("source")
    source = leaf.value if leaf else None
    kind = get_source_kind(source)
    if kind not in source_kinds.KINDS or not sentence.has_all_words:
        return None
    return frozenset(
        (*source_kinds.list_words(kind), *_COMMON_WORDS, *_list_derived_words(sentence), *_CAPTURE.findall(str(source)))
    )


def _list_derived_words(sentence: MergedEntry) -> Iterator[str]:
    """Yield the names in `let`, `join` and `group.parts`."""
    group = sentence.tree.get_branch("group")
    for branch in (
        sentence.tree.get_branch("let"),
        sentence.tree.get_branch("join"),
        group.get_branch("parts") if group else None,
    ):
        yield from branch.members if branch else ()
