"""From one TOML table to a tree: short forms written out, opened relations flattened, keys judged by the language."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.config.finding import Finding
from agent.config.language import EITHER, OPERATORS, REMOVABLE, key_finding, not_yet
from agent.config.spot import Spot
from agent.config.tree import Branch, Gone, Leaf, Node

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")

# Keys of the language that bring words with them: without them, "no such word" would only follow from "not yet".
_BRING_WORDS = frozenset({"let", "join", "group", "options", "also", "vfio", "rdma"})

# The key that a short form stands for.
_SHORT = {"give.nodes": "path", "give.env": "value"}


@dataclass(slots=True)
class Expansion:
    """What one file says of one class or entry.

    keys_known: no key of its own was left out, so what is missing is really missing.
    words_known: nothing that brings words was left out, so an unknown word is really unknown.
    """

    findings: list[Finding] = field(default_factory=list)
    keys_known: bool = True
    words_known: bool = True

    def table(self, spot: Spot, table: Mapping[str, object], place: str) -> Branch:
        """The tree of an entry, a class, or a table in one with a fixed set of keys."""
        members: dict[str, Node] = {}
        for key, value in table.items():
            here = spot.below(key)
            finding = key_finding(here, place)
            if finding is not None:
                self.findings.append(finding)
                self.keys_known &= place not in {"entry", "class", "give"}
                self.words_known &= key not in _BRING_WORDS
                continue
            node = self._member(here, place, key, value)
            if node is not None:
                members[key] = node
        return Branch(members, spot)

    def _member(self, spot: Spot, place: str, key: str, value: object) -> Node | None:
        top = place in {"entry", "class"}
        if top and key in REMOVABLE and value is False:
            return Gone(spot)
        match key:
            case "match" if top:
                return self._clause(spot, value)
            case "exclude" if top:
                return self._named(spot, value, "exclude")
            case "give" if top:
                return self.table(spot, value, "give") if isinstance(value, dict) else self._no_table(spot)
            case "nodes" | "env" if place == "give":
                return self._named(spot, value, f"give.{key}")
            case "replicas" if top:
                if isinstance(value, dict):
                    return self.table(spot, value, "replicas")
                return Branch({"count": Leaf(value, spot)}, spot)
            case "accept" if top:
                if isinstance(value, dict):
                    return Branch({code: Leaf(why, spot.below(code)) for code, why in value.items()}, spot)
                return self._no_table(spot, 'write accept = { unstable-id = "why" }')
            case "source" if top and isinstance(value, str):
                return Leaf({"kind": value}, spot)
        return Leaf(value, spot)

    def _named(self, spot: Spot, value: object, place: str) -> Branch | None:
        """A table of things that people name."""
        if not isinstance(value, dict):
            return self._no_table(spot, f"each has a name: {place}.NAME = …")
        members: dict[str, Node] = {}
        for name, inner in value.items():
            here = spot.below(name)
            if not _NAME.fullmatch(name):
                self.findings.append(here.error("type", "a name is letters, digits, _ and -", mark="key"))
            elif inner is False:
                members[name] = Gone(here)
            elif place == "exclude":
                clause = self._clause(here, inner, "an exclusion has a name: exclude.NAME = { … }")
                if clause is not None:
                    members[name] = clause
            elif isinstance(inner, dict):
                members[name] = self.table(here, inner, place)
            else:
                members[name] = Branch({_SHORT[place]: Leaf(inner, here)}, here)
        return Branch(members, spot)

    def _clause(self, spot: Spot, value: object, write: str = "") -> Branch | None:
        if not isinstance(value, dict):
            return self._no_table(spot, write)
        members: dict[str, Node] = {}
        self._flatten(spot, value, "", members)
        return Branch(members, spot)

    def _flatten(self, spot: Spot, table: Mapping[str, object], prefix: str, members: dict[str, Node]) -> None:
        """The lines of a clause by address: `pf = { driver = "ice" }` is `pf.driver`; `pf` itself is another fact."""
        for key, value in table.items():
            here = spot.below(key)
            if key == EITHER or (key in OPERATORS and not prefix):
                self.findings.append(_misplaced(here, key))
                continue
            address = self._address(here, key, prefix)
            if address is None:
                continue
            test = self._operators(here, value) if isinstance(value, dict) else value
            if isinstance(value, dict) and not test:
                if value and not _is_path(key):
                    self._flatten(here, value, address, members)
                else:
                    self.findings.append(here.error("type", "a test is missing here", 'write for example = "x"'))
            elif address in members:
                self.findings.append(here.error("type", f"{address} is tested twice here", mark="key"))
            else:
                members[address] = Leaf(test, here)

    def _operators(self, spot: Spot, table: Mapping[str, object]) -> Mapping[str, object]:
        """The test that a table is; empty if it is an opened relation. The words in a mixture are a finding."""
        operators = {key: value for key, value in table.items() if key in OPERATORS}
        words = [key for key in table if key not in OPERATORS]
        if operators and words:
            message = f"a table holds operators ({next(iter(operators))}) or words ({words[0]}), never both"
            write = f"write {spot.path[-1]}.{words[0]} = … on a line of its own"
            self.findings.append(spot.below(words[0]).error("type", message, write, mark="key"))
        return operators

    def _address(self, spot: Spot, key: str, prefix: str) -> str | None:
        """The word or path that a key means below a relation."""
        if not _is_path(key):
            if "." in key or not key:
                write = f"write {key}, without quotes" if key else ""
                message = "in quotes this is one name, and no word has a dot in its name"
                self.findings.append(spot.error("type", message, write, mark="key"))
                return None
            return f"{prefix}.{key}" if prefix else key
        if "{" in key:
            self.findings.append(not_yet(spot, "a {word} in a path", mark="key"))
            return None
        return self._path(spot, key, prefix)

    def _path(self, spot: Spot, key: str, prefix: str) -> str | None:
        """A path in its one form, `.` steps taken out; `..` stays, for it goes through links."""
        steps = [step for step in key.split("/") if step not in {"", "."}]
        if key.startswith("/"):
            if prefix:
                message = f"this path begins at the root, so it is none of {prefix}"
                self.findings.append(spot.error("path", message, "write it outside", mark="key"))
                return None
            if ".." in steps:
                write = f'write "{posixpath.normpath(key)}"'
                self.findings.append(spot.error("path", 'a path from the root has no ".." in it', write, mark="key"))
                return None
            return f"/{'/'.join(steps)}"
        if prefix:
            return f"{prefix}/{'/'.join(steps)}"
        return f"./{'/'.join(steps)}" if key.startswith("./") else "/".join(steps)

    def _no_table(self, spot: Spot, write: str = "") -> Branch | None:
        """Report that a table is wanted here; no branch comes of it."""
        self.findings.append(spot.error("type", f"{spot.path[-1]} is a table", write))
        return None


def _is_path(key: str) -> bool:
    return "/" in key


def _misplaced(spot: Spot, key: str) -> Finding:
    if key == EITHER:
        return not_yet(spot, spot.address_within, mark="key")
    write = f"write WORD = {{ {key} = … }}"
    return spot.error("type", f"{key} is an operator: it stands behind a word", write, mark="key")
