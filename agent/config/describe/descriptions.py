"""Descriptions of a configuration: each entry and each class as a sentence with a title."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.config.describe.description_clause import DescriptionClause, format_location, format_value
from agent.config.describe.entry_text import list_clauses
from agent.config.entry_conflicts import ConfigEntry
from agent.config.load import LoadedConfig
from agent.config.merge.class_library import MergedEntry
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.resource.name_template import get_name_leaf
from agent.config.toml.finding import find_nearest
from agent.core.struct import Struct


class Description(Struct):
    """The description of a class or an entry.

    kind: "class" or "entry".
    name: the name of the class, or the file position of the entry.
    resource: the resource name of the entry.
    about: one line about it. For an entry that only names a class, this line is the whole description.
    """

    kind: str
    name: str
    resource: str
    about: str
    clauses: tuple[DescriptionClause, ...]

    @property
    def title(self) -> str:
        """The first line."""
        return f"{self.kind} {self.name}{f': {self.about}' if self.about else ''}"


class NoDescriptionError(LookupError):
    """No class and no entry has this name. nearest: a similar name, or an empty string."""

    def __init__(self, name: str, nearest: str) -> None:
        super().__init__(name)
        self.name = name
        self.nearest = nearest


def find_descriptions(study: LoadedConfig, names: Sequence[str]) -> list[Description]:
    """Return the descriptions of the entries with one of these names or file positions, else of the classes. Without
    names, return all.

    Raises:
        NoDescriptionError: no entry and no class has one of the names.
    """
    if not names:
        return list(describe_config(study))
    descriptions: list[Description] = []
    entries = [describe_entry(entry, study.entries[:index], study) for index, entry in enumerate(study.entries)]
    for name in names:
        matching_entries = [
            entry for entry in entries if name in {entry.resource, entry.name, entry.name.rpartition("/")[2]}
        ]
        if not matching_entries and name not in study.library.list_names():
            known_names = {*study.library.list_names(), *(entry.resource for entry in entries)}
            raise NoDescriptionError(name, find_nearest(name, known_names) or "")
        descriptions += matching_entries or [describe_class(name, study.library.get_class(name))]
    return descriptions


def convert_to_json(description: Description) -> dict[str, object]:
    """Return a description as JSON data, with complete and unescaped texts."""
    return {
        "kind": description.kind,
        "name": description.name,
        "resource": description.resource or None,
        "about": description.about or None,
        "clauses": [
            {
                "text": clause.text,
                "note": clause.note or None,
                "level": clause.level,
                "file": clause.spot.origin.file if clause.spot else None,
                "line": clause.spot.origin.line if clause.spot else None,
            }
            for clause in description.clauses
        ],
    }


def describe_class(name: str, sentence: MergedEntry) -> Description:
    """Return the description of a class."""
    return Description("class", name, "", _get_about(sentence), tuple(list_clauses(sentence.tree)))


def describe_config(study: LoadedConfig) -> Iterator[Description]:
    """Yield the local classes in the order of their files, then the entries in the order of theirs."""
    for name in sorted(study.local_class_names, key=lambda name: f"{name}.toml"):
        yield describe_class(name, study.library.get_class(name))
    for index, entry in enumerate(study.entries):
        yield describe_entry(entry, study.entries[:index], study)


def describe_entry(entry: ConfigEntry, earlier_entries: Sequence[ConfigEntry], study: LoadedConfig) -> Description:
    """Return the description of an entry. An entry that only names a class is one line."""
    tree = entry.merged_entry.tree
    origin = entry.spot.origin
    name, device_class = get_name_leaf(tree), tree.get_leaf("class")
    earlier = _describe_earlier(tree, earlier_entries)
    resource = format_value(name.value) if name else ""
    class_name = _find_class_name(device_class, study)
    entry_data = entry.spot.data
    if class_name and isinstance(entry_data, dict) and entry_data.keys() <= {"class", "name"}:
        name_text = f", called {resource}" if "name" in entry_data else ""
        leave_text = f", of what {earlier} {_choose_leave_verb(earlier)}" if earlier else ""
        return Description("entry", str(origin), resource, f"as class {class_name} says{name_text}{leave_text}", ())
    about = _get_about(entry.merged_entry) or (_get_about(study.library.get_class(class_name)) if class_name else "")
    take_text = f"{earlier} {_choose_take_verb(earlier)}" if earlier else ""
    return Description("entry", str(origin), resource, about, tuple(list_clauses(tree, take_text)))


def _find_class_name(device_class: Leaf | None, study: LoadedConfig) -> str:
    """Return the name of the class of an entry, or an empty string if no such class exists."""
    name = format_value(device_class.value) if device_class else ""
    return name if name in study.library.list_names() else ""


def _get_about(sentence: MergedEntry) -> str:
    leaf = sentence.tree.get_leaf("about")
    return format_value(leaf.value) if leaf else ""


def _describe_earlier(tree: Branch, earlier_entries: Sequence[ConfigEntry]) -> str:
    """Return the names of the earlier entries that can take the same devices. Entries with slots take no devices."""
    texts: list[str] = []
    for entry in earlier_entries:
        earlier_tree = entry.merged_entry.tree
        name = get_name_leaf(earlier_tree)
        if "slots" not in earlier_tree.members and _can_overlap(tree, earlier_tree):
            texts.append(f"{format_value(name.value) if name else 'an entry'} ({format_location(entry.spot)})")
    return " and ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def _choose_leave_verb(earlier: str) -> str:
    return "leave" if " and " in earlier else "leaves"


def _choose_take_verb(earlier: str) -> str:
    return "take theirs" if " and " in earlier else "takes its own"


def _can_overlap(first_entry: Branch, second_entry: Branch) -> bool:
    """Return whether two entries can take one device, as far as their texts show."""
    first_source, second_source = first_entry.get_leaf("source"), second_entry.get_leaf("source")
    if first_source is None or second_source is None or not _has_common_source(first_source.value, second_source.value):
        return False
    first_match = first_entry.get_branch("match") or Branch({}, first_entry.spot)
    second_match = second_entry.get_branch("match") or Branch({}, second_entry.spot)
    pairs = ((first_match.get_leaf(address), second_match.get_leaf(address)) for address in first_match.members)
    return all(
        _can_both_match(first_leaf.value, second_leaf.value)
        for first_leaf, second_leaf in pairs
        if first_leaf and second_leaf
    )


def _has_common_source(first_source: object, second_source: object) -> bool:
    if not isinstance(first_source, dict) or not isinstance(second_source, dict):
        return False
    return any(
        _make_items(first_source.get(form)) & _make_items(second_source.get(form))
        for form in ("kind", "subsystem", "node", "dir")
    )


def _can_both_match(first_test: object, second_test: object) -> bool:
    """Return whether one value can match both tests. Two spellings of different length count as possible."""
    if any(
        isinstance(item, dict)
        for test in (first_test, second_test)
        for item in (test if isinstance(test, list) else [test])
    ):
        return True
    return any(
        first_item.startswith(second_item)
        or first_item.endswith(second_item)
        or second_item.startswith(first_item)
        or second_item.endswith(first_item)
        for first_item in _make_items(first_test)
        for second_item in _make_items(second_test)
    )


def _make_items(test: object) -> set[str]:
    return {str(item).lower() for item in (test if isinstance(test, list) else [test]) if item is not None}
