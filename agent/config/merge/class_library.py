"""The shelf of device classes: found by name, merged with what they use, each once."""

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
from agent.core.struct import Struct, not_compared

NOT_INHERITED = frozenset({"about", "class", "uses", "part"})

_CLASS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")


@not_compared("library")
class MergedEntry(Struct):
    """A class or an entry, merged with all it uses.

    files: the files it was written in. keys_known, words_known: as of `Expansion`, of all of it.
    shelf: where it is, and all that it may name.
    """

    tree: Branch
    files: frozenset[str]
    has_all_keys: bool = True
    has_all_words: bool = True
    library: ClassLibrary | None = None

    def select_inherited_keys(self) -> Branch:
        """What of it goes into what uses it."""
        members = {name: node for name, node in self.tree.members.items() if name not in NOT_INHERITED}
        return Branch(members, self.tree.spot, self.tree.place)


class Folder(Struct):
    """A directory of classes. `shown`: the directory as people know it, if that is another."""

    path: str
    display_name: str = ""


class ClassLibrary:
    """Classes by name; the first folder that has a name has it for good."""

    def __init__(self, folders: Sequence[Folder], files: ConfigFiles, findings: list[Finding]) -> None:
        self._paths: dict[str, tuple[str, str]] = {}
        self._files = files
        self._findings = findings
        self._sentences: dict[str, MergedEntry] = {}
        self._entries: dict[str, MergedEntry] = {}
        self._open: list[str] = []
        for folder in folders:
            for entry in files.list_files(folder.path):
                path = os.path.join(folder.path, entry)
                shown = f"{folder.display_name}/{entry}" if folder.display_name else files.make_name(path)
                self._paths.setdefault(entry.removesuffix(".toml"), (path, shown))

    def list_names(self) -> Iterable[str]:
        """The names of all classes."""
        return self._paths.keys()

    def list_resources(self) -> Iterable[str]:
        """The names of all entries that were said so far."""
        return self._entries.keys()

    def get_entry(self, name: str) -> MergedEntry | None:
        """An entry that was said, by its name as it is written."""
        return self._entries.get(name)

    def find_class(self, name: str) -> MergedEntry | None:
        """A class on the shelf, if there is one of that name."""
        return self.get_class(name) if name in self._paths else None

    def get_folder(self, name: str) -> str:
        """The directory in which a class was found."""
        return os.path.dirname(self._paths[name][0])

    def get_path(self, name: str) -> str:
        """The file in which a class was found."""
        return self._paths[name][0]

    def get_class(self, name: str) -> MergedEntry:
        """A class on the shelf, merged. One that cannot be read says nothing, and its file has the finding."""
        if name not in self._sentences:
            path, shown = self._paths[name]
            document = self._files.read_document(path, shown)
            if document is None:
                self._sentences[name] = _nothing(shown)
            else:
                self._open.append(name)
                sentence = self.merge_entry(FilePosition(document, ()), document.data, "class")
                self._open.pop()
                self._sentences[name] = sentence
        return self._sentences[name]

    def merge_entry(self, spot: FilePosition, table: Mapping[str, object], place: str) -> MergedEntry:
        """An entry or a class from its table: `class` first, `uses` beside it, its own keys over both."""
        expansion = Expansion(self._findings)
        own = expansion.expand_table(spot, table, place)
        used, found = self._used(own)
        base = reduce(combine, (sentence.select_inherited_keys() for sentence in used)) if used else Branch({}, spot)
        base_known = found and all(sentence.has_all_keys for sentence in used)
        for gone, new in (("name", "adds_to"), ("adds_to", "name")):
            base, own = replace_key(base, gone, own, new)
        # What an unknown base may have had is not missing.
        tree, left = resolve_conflicts(override(base, own, self._findings if base_known else []))
        for address, first, second in left:
            self._findings.append(_conflict(own, address, first, second))
        if (name := tree.get_leaf("name")) and (adds_to := tree.get_leaf("adds_to")):
            message = f"a resource has a name, or adds to another's: {name.spot.origin} says name"
            self._findings.append(adds_to.spot.make_error("merge-conflict", message, "leave one out", mark="key"))
        sentence = MergedEntry(
            tree,
            frozenset({spot.document.name}).union(*(sentence.files for sentence in used)),
            base_known and expansion.has_all_keys,
            found and expansion.has_all_words and all(sentence.has_all_words for sentence in used),
            self,
        )
        if place == "entry" and (name := tree.get_leaf("name")) and isinstance(name.value, str):
            self._entries.setdefault(name.value, sentence)
        return sentence

    def _used(self, own: Branch) -> tuple[list[MergedEntry], bool]:
        """What `class` and `uses` name, in order; and whether all of it was found."""
        wanted: list[tuple[FilePosition, object]] = []
        if (leaf := own.get_leaf("class")) is not None:
            wanted.append((leaf.spot, leaf.value))
        found = True
        if (leaf := own.get_leaf("uses")) is not None:
            if isinstance(leaf.value, list):
                wanted += [(leaf.spot.get_child(index), name) for index, name in enumerate(leaf.value)]
            else:
                write = f'write ["{leaf.value}"]' if isinstance(leaf.value, str) else ""
                self._findings.append(leaf.spot.make_error("type", "uses is a list of classes", write))
                found = False
        used: dict[str, MergedEntry] = {}
        for spot, name in wanted:
            finding = self._fault(spot, name)
            if finding is not None:
                self._findings.append(finding)
                found = False
            else:
                used[str(name)] = self.get_class(str(name))
        return list(used.values()), found

    def _fault(self, spot: FilePosition, name: object) -> Finding | None:
        """Why a class cannot be used under that name."""
        if not isinstance(name, str):
            return spot.make_error("type", "a class is named by text", 'write for example "tty"')
        if name in self._open:
            way = " → ".join((*self._open[self._open.index(name) :], name))
            write = "take one of them out, or put what both need into a part"
            return spot.make_error("cycle", f"{way}: each needs the other", write, mark="text")
        if name in self._paths and _CLASS_NAME.fullmatch(name):
            return None
        near = find_nearest(name, self._paths)
        write = f'nearest: "{near}"' if near else ""
        message = f"no device class has this name ({len(self._paths)} have: device-agent class list)"
        return spot.make_error("unknown-class", message, write, mark="text")


def _nothing(name: str) -> MergedEntry:
    """A class of which nothing is known but its file."""
    return MergedEntry(
        Branch({}, FilePosition(parse(name, ""), ())), frozenset({name}), has_all_keys=False, has_all_words=False
    )


def _conflict(own: Branch, address: str, first: FilePosition, second: FilePosition) -> Finding:
    """That two used classes differ on an address, where the file says what it uses."""
    leaf = own.get_leaf("uses") or own.get_leaf("class")
    spot = leaf.spot if isinstance(leaf, Leaf) else own.spot
    message = f"{first.origin} and {second.origin} differ on {address}; say it here"
    return spot.make_error("merge-conflict", message, f"write {address} = …")
