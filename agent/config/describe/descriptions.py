"""What of a configuration can be read back: its entries and classes, each as a sentence with a title."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.config.describe.description_clause import DescriptionClause, place, value
from agent.config.describe.entry_text import clauses_of
from agent.config.load import ConfigEntry, LoadedConfig
from agent.config.merge.class_library import MergedEntry
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.resource.name_template import name_leaf
from agent.config.toml.finding import find_nearest
from agent.core.struct import Struct


class Description(Struct):
    """A class or an entry, read back.

    kind: "class" or "entry". name: the class's, or where the entry stands. resource: what an entry serves.
    about: a line on it; of an entry that only names a class all there is to say.
    """

    kind: str
    name: str
    resource: str
    about: str
    clauses: tuple[DescriptionClause, ...]

    @property
    def title(self) -> str:
        """Its first line."""
        return f"{self.kind} {self.name}{f': {self.about}' if self.about else ''}"


class NoReadingError(LookupError):
    """No class and no entry has this name; `nearest` is one that has a near one, or empty."""

    def __init__(self, name: str, near: str) -> None:
        super().__init__(name)
        self.name = name
        self.nearest = near


def pick(study: LoadedConfig, names: Sequence[str]) -> list[Description]:
    """What has one of these names: entries by their resource or place, else classes; without names all.

    Raises:
        NoReadingError: nothing has a name.
    """
    if not names:
        return list(readings(study))
    found: list[Description] = []
    entries = [of_entry(entry, study.entries[:index], study) for index, entry in enumerate(study.entries)]
    for name in names:
        named = [entry for entry in entries if name in {entry.resource, entry.name, entry.name.rpartition("/")[2]}]
        if not named and name not in study.library.list_names():
            known = {*study.library.list_names(), *(entry.resource for entry in entries)}
            raise NoReadingError(name, find_nearest(name, known) or "")
        found += named or [of_class(name, study.library.get_class(name))]
    return found


def as_json(reading: Description) -> dict[str, object]:
    """A reading for machines: texts whole and unescaped."""
    return {
        "kind": reading.kind,
        "name": reading.name,
        "resource": reading.resource or None,
        "about": reading.about or None,
        "clauses": [
            {
                "text": said.text,
                "note": said.note or None,
                "level": said.level,
                "file": said.spot.origin.file if said.spot else None,
                "line": said.spot.origin.line if said.spot else None,
            }
            for said in reading.clauses
        ],
    }


def of_class(name: str, sentence: MergedEntry) -> Description:
    """A class, read back."""
    return Description("class", name, "", _about(sentence), tuple(clauses_of(sentence.tree)))


def readings(study: LoadedConfig) -> Iterator[Description]:
    """The configuration's own classes as their files are in order, then its entries in theirs."""
    for name in sorted(study.local_class_names, key=lambda name: f"{name}.toml"):
        yield of_class(name, study.library.get_class(name))
    for index, entry in enumerate(study.entries):
        yield of_entry(entry, study.entries[:index], study)


def of_entry(entry: ConfigEntry, before: Sequence[ConfigEntry], study: LoadedConfig) -> Description:
    """An entry, read back; one that only names a class is one line."""
    tree = entry.merged_entry.tree
    origin = entry.spot.origin
    name, device_class = name_leaf(tree), tree.get_leaf("class")
    earlier = _earlier(tree, before)
    resource = value(name.value) if name else ""
    known = _known(device_class, study)
    own = entry.spot.data
    if known and isinstance(own, dict) and own.keys() <= {"class", "name"}:
        called = f", called {resource}" if "name" in own else ""
        left = f", of what {earlier} {_leaves(earlier)}" if earlier else ""
        return Description("entry", str(origin), resource, f"as class {known} says{called}{left}", ())
    about = _about(entry.merged_entry) or (_about(study.library.get_class(known)) if known else "")
    taken = f"{earlier} {_takes(earlier)}" if earlier else ""
    return Description("entry", str(origin), resource, about, tuple(clauses_of(tree, taken)))


def _known(device_class: Leaf | None, study: LoadedConfig) -> str:
    """The name of the class that an entry names, if there is one."""
    named = value(device_class.value) if device_class else ""
    return named if named in study.library.list_names() else ""


def _about(sentence: MergedEntry) -> str:
    leaf = sentence.tree.get_leaf("about")
    return value(leaf.value) if leaf else ""


def _earlier(tree: Branch, before: Sequence[ConfigEntry]) -> str:
    """The entries before it that may take the same devices, as people know them. Slots take nothing."""
    said: list[str] = []
    for entry in before:
        other = entry.merged_entry.tree
        name = name_leaf(other)
        if "slots" not in other.members and _meet(tree, other):
            said.append(f"{value(name.value) if name else 'an entry'} ({place(entry.spot)})")
    return " and ".join(filter(None, (", ".join(said[:-1]), *said[-1:])))


def _leaves(earlier: str) -> str:
    return "leave" if " and " in earlier else "leaves"


def _takes(earlier: str) -> str:
    return "take theirs" if " and " in earlier else "takes its own"


def _meet(one: Branch, other: Branch) -> bool:
    """Whether two entries may take one device, as far as their texts tell."""
    mine, theirs = one.get_leaf("source"), other.get_leaf("source")
    if mine is None or theirs is None or not _share(mine.value, theirs.value):
        return False
    match = one.get_branch("match") or Branch({}, one.spot)
    against = other.get_branch("match") or Branch({}, other.spot)
    pairs = ((match.get_leaf(address), against.get_leaf(address)) for address in match.members)
    return all(_agree(test.value, opposed.value) for test, opposed in pairs if test and opposed)


def _share(one: object, other: object) -> bool:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    return any(_items(one.get(form)) & _items(other.get(form)) for form in ("kind", "subsystem", "node", "dir"))


def _agree(one: object, other: object) -> bool:
    """Whether one value can meet both tests; of two that are written shorter or longer nothing is known."""
    if any(isinstance(item, dict) for test in (one, other) for item in (test if isinstance(test, list) else [test])):
        return True
    return any(
        mine.startswith(theirs) or mine.endswith(theirs) or theirs.startswith(mine) or theirs.endswith(mine)
        for mine in _items(one)
        for theirs in _items(other)
    )


def _items(of: object) -> set[str]:
    return {str(item).lower() for item in (of if isinstance(of, list) else [of]) if item is not None}
