"""From a TOML table to a tree: short forms in full, flattened relations, and checked keys."""

from __future__ import annotations

from collections.abc import Mapping

from agent.config.language import value_checks
from agent.config.language.key_table import KEEPS_OUT, PLACES, VERBS, Key, Shape, find_unknown_key, find_verbs
from agent.config.merge import clause_lines
from agent.config.merge.config_tree import Branch, Leaf, Node, RemovedValue
from agent.config.toml.file_position import FilePosition
from agent.config.toml.finding import Finding
from agent.core.struct import MutableStruct, field

# Corrections for places where users often write no table.
_HINTS = {
    "accept": 'write accept = { unstable-id = "why" }',
    "exclude": "an exclusion has a name: exclude.NAME = { … }",
}


# Keys on which nothing else of an entry depends: without one of them, all other faults are known.
_INDEPENDENT_KEYS = frozenset(("accept", "optional", "part", "registration"))


class Expansion(MutableStruct):
    """The expansion of one class or entry of one file.

    has_all_keys: no own key was left out, so a missing key is really missing.
    has_all_words: no key that adds words was left out, so an unknown word is really unknown.
    """

    findings: list[Finding] = field(default_factory=list)
    has_all_keys: bool = True
    has_all_words: bool = True

    def expand_table(self, spot: FilePosition, table: Mapping[str, object], place: str) -> Branch:
        """Return the tree of an entry, a class, or an inner table with fixed keys."""
        members: dict[str, Node] = {}
        for key, value in table.items():
            key_spot = spot.get_child(key)
            finding = find_unknown_key(key_spot, place)
            node = None if finding else self._expand_member(key_spot, PLACES[place].keys[key], value)
            if finding is not None:
                self.findings.append(finding)
                self.has_all_keys &= place not in {"entry", "class", "give"}
            elif node is None:
                self._note_missing_key(place, key)
            else:
                members[key] = node
        verbs = [key for key in members if key in find_verbs(place, members)]
        if len(verbs) > 1:
            message = f"{PLACES[place].title} has one of {', '.join(VERBS[place])}, and this has {' and '.join(verbs)}"
            self.findings.append(spot.get_child(verbs[1]).make_error("type", message, "leave one out", mark="key"))
            members = {key: node for key, node in members.items() if key not in verbs[1:]}
        return Branch(members, spot, place)

    def _note_missing_key(self, place: str, key: str) -> None:
        """Record that a faulty key, which has a finding, is left out."""
        is_independent = key in _INDEPENDENT_KEYS
        self.has_all_keys &= is_independent
        self.has_all_words &= place not in {"entry", "class"} or is_independent

    def _expand_member(self, spot: FilePosition, key: Key, value: object) -> Node | None:
        if value is False and key.allows_false:
            return RemovedValue(spot)
        match key.shape:
            case Shape.VALUE | Shape.LATE:
                return self._check_value(spot, key, value)
            case _ if key.type and not isinstance(value, dict):
                return self._check_value(spot, key, value)
            case Shape.CLAUSES:
                write = _HINTS.get(key.name, f"each has a name: {key.name}.NAME = {{ … }}")
                return clause_lines.flatten_clauses(spot, value, write, self.findings, keeps_out=key.name in KEEPS_OUT)
            case Shape.TABLE if not isinstance(value, dict) and (key.short or key.allows_true):
                return self._expand_short_form(spot, value, key)
        if not isinstance(value, dict):
            write = _HINTS.get(key.name, "")
            if key.shape is Shape.NAMED:
                title = key.inner_place if key.inner_place.startswith("give.") else key.name
                write = f"each has a name: {title}.NAME = …"
            self.findings.append(clause_lines.make_no_table_error(spot, write))
            return None
        match key.shape:
            case Shape.CLAUSE:
                return clause_lines.flatten_clause(spot, value, self.findings, keeps_out=key.name in KEEPS_OUT)
            case Shape.NAMED:
                return self._expand_named(spot, value, key)
            case Shape.OPEN:
                return _expand_open_table(spot, value)
            case Shape.PAIRS:
                return Leaf(clause_lines.flatten_pairs(spot, value, self.findings), spot)
        return self.expand_table(spot, value, key.inner_place)

    def _check_value(self, spot: FilePosition, key: Key, value: object) -> Leaf | None:
        if key.type == "source":
            return Leaf({"kind": value} if isinstance(value, str) else value, spot)
        if key.shape is Shape.LATE:
            return Leaf(value, spot)
        fault = value_checks.find_value_fault(key.type, key.name, value, spot.source_text)
        if fault is None:
            return Leaf(value, spot)
        self.findings.append(spot.make_error("type", *fault))
        return None

    def _expand_short_form(self, spot: FilePosition, value: object, key: Key) -> Branch | None:
        """Return the table of a short form, or None with a finding."""
        if key.allows_true and value is True:
            return Branch({}, spot, key.inner_place)
        short = key.short_list if key.short_list and isinstance(value, list) else key.short
        if not short or (key.allows_true and not isinstance(value, str)):
            name = spot.path[-1]
            write = f"write {name} = true" if key.allows_true else ""
            self.findings.append(spot.make_error("type", f"{name} is a table, or true", write))
            return None
        leaf = self._check_value(spot, PLACES[key.inner_place].keys[short], value)
        return None if leaf is None else Branch({short: leaf}, spot, key.inner_place)

    def _expand_named(self, spot: FilePosition, table: Mapping[str, object], key: Key) -> Branch:
        """Return a table of named tables. `false` removes one, except in a place where `false` is a value."""
        members: dict[str, Node] = {}
        for name, member in clause_lines.list_named_members(spot, table, self.findings):
            member_spot = spot.get_child(name)
            node: Node | None
            if member is False and key.inner_place != "options":
                node = RemovedValue(member_spot)
            elif isinstance(member, dict):
                node = self.expand_table(member_spot, member, key.inner_place)
            elif key.short:
                node = self._expand_short_form(member_spot, member, key)
            else:
                self.findings.append(clause_lines.make_no_table_error(member_spot))
                node = None
            if node is not None:
                members[name] = node
            elif key.inner_place == "let":
                self.has_all_words = False
        return Branch(members, spot)


def _expand_open_table(spot: FilePosition, table: Mapping[str, object]) -> Branch:
    """Return a table with keys that users choose."""
    members: dict[str, Node] = {}
    for key, value in table.items():
        key_spot = spot.get_child(key)
        members[key] = _expand_open_table(key_spot, value) if isinstance(value, dict) else Leaf(value, key_spot)
    return Branch(members, spot)
