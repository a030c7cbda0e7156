"""The library of device classes: each class by name, merged once with the classes that it uses."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from agent.config.merge.config_tree import Branch, Leaf, combine, override, replace_key, resolve_conflicts
from agent.config.merge.expand_short_forms import Expansion
from agent.config.toml.document import parse
from agent.config.toml.file_position import FilePosition
from agent.config.toml.files import ConfigFiles
from agent.config.toml.finding import Finding, find_nearest
from agent.core.struct import Struct, ignore_in_comparison

NOT_INHERITED = frozenset({"about", "class", "uses", "part"})

_CLASS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")


@ignore_in_comparison("library")
class MergedEntry(Struct):
    """A class or an entry, merged with all classes that it uses.

    files: the files with its text. has_all_keys, has_all_words: as in `Expansion`, for the whole result.
    library: the classes and entries that it can name.
    """

    tree: Branch
    files: frozenset[str]
    has_all_keys: bool = True
    has_all_words: bool = True
    library: ClassLibrary | None = None

    def select_inherited_keys(self) -> Branch:
        """Return the keys that go into a class or entry that uses this one."""
        members = {name: node for name, node in self.tree.members.items() if name not in NOT_INHERITED}
        return Branch(members, self.tree.spot, self.tree.place)


class Folder(Struct):
    """A directory of classes. `display_name` is its name in findings, if that is not the path."""

    path: str
    display_name: str = ""


class ClassLibrary:
    """Classes by name. The first folder with a name wins."""

    def __init__(self, folders: Sequence[Folder], files: ConfigFiles, findings: list[Finding]) -> None:
        self._paths: dict[str, tuple[str, str]] = {}
        self._files = files
        self._findings = findings
        self._classes: dict[str, MergedEntry] = {}
        self._entries: dict[str, MergedEntry] = {}
        self._open_classes: list[str] = []
        for folder in folders:
            for entry in files.list_files(folder.path):
                path = os.path.join(folder.path, entry)
                display_name = f"{folder.display_name}/{entry}" if folder.display_name else files.make_name(path)
                self._paths.setdefault(entry.removesuffix(".toml"), (path, display_name))

    def list_names(self) -> Iterable[str]:
        """Return the names of all classes."""
        return self._paths.keys()

    def list_resources(self) -> Iterable[str]:
        """Return the names of all entries that are merged so far."""
        return self._entries.keys()

    def get_entry(self, name: str) -> MergedEntry | None:
        """Return a merged entry by its name as written, or None."""
        return self._entries.get(name)

    def find_class(self, name: str) -> MergedEntry | None:
        """Return the class with this name, or None."""
        return self.get_class(name) if name in self._paths else None

    def get_folder(self, name: str) -> str:
        """Return the directory of a class."""
        return os.path.dirname(self._paths[name][0])

    def get_path(self, name: str) -> str:
        """Return the file of a class."""
        return self._paths[name][0]

    def get_class(self, name: str) -> MergedEntry:
        """Return a merged class. The result is empty if the file is unreadable. The file then has the finding."""
        if name not in self._classes:
            path, display_name = self._paths[name]
            document = self._files.read_document(path, display_name)
            if document is None:
                self._classes[name] = _make_unreadable_class(display_name)
            else:
                self._open_classes.append(name)
                merged = self.merge_entry(FilePosition(document, ()), document.data, "class")
                self._open_classes.pop()
                self._classes[name] = merged
        return self._classes[name]

    def merge_entry(self, spot: FilePosition, table: Mapping[str, object], place: str) -> MergedEntry:
        """Merge an entry or a class from its table: first `class`, then `uses`, then its own keys."""
        expansion = Expansion(self._findings)
        own_keys = expansion.expand_table(spot, table, place)
        used_classes, has_all_classes = self._find_used_classes(own_keys)
        base = (
            reduce(combine, (merged.select_inherited_keys() for merged in used_classes))
            if used_classes
            else Branch({}, spot)
        )
        has_whole_base = has_all_classes and all(merged.has_all_keys for merged in used_classes)
        for replaced_key, key in (("name", "adds_to"), ("adds_to", "name")):
            base, own_keys = replace_key(base, replaced_key, own_keys, key)
        # An incomplete base may have the missing keys, so nothing is reported.
        tree, conflicts = resolve_conflicts(override(base, own_keys, self._findings if has_whole_base else []))
        for address, first_spot, second_spot in conflicts:
            self._findings.append(_make_conflict_finding(own_keys, address, first_spot, second_spot))
        if (name := tree.get_leaf("name")) and (adds_to := tree.get_leaf("adds_to")):
            message = f"a resource has a name, or adds to another's: {name.spot.origin} says name"
            self._findings.append(adds_to.spot.make_error("merge-conflict", message, "leave one out", mark="key"))
        merged = MergedEntry(
            tree,
            frozenset({spot.document.name}).union(*(merged.files for merged in used_classes)),
            has_whole_base and expansion.has_all_keys,
            has_all_classes and expansion.has_all_words and all(merged.has_all_words for merged in used_classes),
            self,
        )
        if place == "entry" and (name := tree.get_leaf("name")) and isinstance(name.value, str):
            self._entries.setdefault(name.value, merged)
        return merged

    def _find_used_classes(self, own_keys: Branch) -> tuple[list[MergedEntry], bool]:
        """Return the classes that `class` and `uses` name, in order, and whether all of them exist."""
        references: list[tuple[FilePosition, object]] = []
        if (leaf := own_keys.get_leaf("class")) is not None:
            references.append((leaf.spot, leaf.value))
        has_all_classes = True
        if (leaf := own_keys.get_leaf("uses")) is not None:
            if isinstance(leaf.value, list):
                references += [(leaf.spot.get_child(index), name) for index, name in enumerate(leaf.value)]
            else:
                write = f'write ["{leaf.value}"]' if isinstance(leaf.value, str) else ""
                self._findings.append(leaf.spot.make_error("type", "uses is a list of classes", write))
                has_all_classes = False
        classes: dict[str, MergedEntry] = {}
        for spot, name in references:
            finding = self._find_reference_fault(spot, name)
            if finding is not None:
                self._findings.append(finding)
                has_all_classes = False
            else:
                classes[str(name)] = self.get_class(str(name))
        return list(classes.values()), has_all_classes

    def _find_reference_fault(self, spot: FilePosition, name: object) -> Finding | None:
        """Return the reason why a class with this name is not usable, or None."""
        if not isinstance(name, str):
            return spot.make_error("type", "a class is named by text", 'write for example "tty"')
        if name in self._open_classes:
            cycle_path = " → ".join((*self._open_classes[self._open_classes.index(name) :], name))
            write = "take one of them out, or put what both need into a part"
            return spot.make_error("cycle", f"{cycle_path}: each needs the other", write, mark="text")
        if name in self._paths and _CLASS_NAME.fullmatch(name):
            return None
        class_hint = find_nearest(name, self._paths)
        write = f'nearest: "{class_hint}"' if class_hint else ""
        message = f"no device class has this name ({len(self._paths)} have: device-agent class list)"
        return spot.make_error("unknown-class", message, write, mark="text")


def _make_unreadable_class(name: str) -> MergedEntry:
    """Return an empty class for a file that is unreadable."""
    return MergedEntry(
        Branch({}, FilePosition(parse(name, ""), ())), frozenset({name}), has_all_keys=False, has_all_words=False
    )


def _make_conflict_finding(
    own_keys: Branch, address: str, first_spot: FilePosition, second_spot: FilePosition
) -> Finding:
    """Return the finding that two used classes differ at an address.

    Its position is the `uses` or `class` of the file.
    """
    leaf = own_keys.get_leaf("uses") or own_keys.get_leaf("class")
    spot = leaf.spot if isinstance(leaf, Leaf) else own_keys.spot
    message = f"{first_spot.origin} and {second_spot.origin} differ on {address}; say it here"
    return spot.make_error("merge-conflict", message, f"write {address} = …")
