"""Conflicts between entries, as warnings. The later entry can accept each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from agent.config.merge.class_library import MergedEntry
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.toml.file_position import FilePosition
from agent.config.toml.finding import Finding
from agent.core.entry.dependencies import add_dependencies, list_dependencies
from agent.core.entry.derived_words import Constant
from agent.core.entry.resource_spec import MountGive, NodeGive, ResourceSpec, Source
from agent.core.entry.shadowing import shadows
from agent.core.language.clause import ClauseLine
from agent.core.language.operators import Equals
from agent.core.language.template import Template
from agent.core.language.value import Scalar, ValueType, format_scalar, make_comparable
from agent.core.struct import MutableStruct, Struct, field

_Piece: TypeAlias = str | tuple[object, ...]
_Key: TypeAlias = tuple[_Piece, ...]
_RELATIONS = frozenset({"pci", "usb"})  # relations that other sources write with this prefix
_EVERYWHERE = frozenset({"path_id", "resource", "n"})  # words with the same value for all sources


class ConfigEntry(Struct):
    """One merged `[[resource]]`, with its spec if it has one."""

    merged_entry: MergedEntry
    spot: FilePosition
    spec: ResourceSpec | None


class _EarlierEntries(MutableStruct):
    """The earlier entries, by the properties that a later entry can share with them.

    specs_by_operand: for each source, specs by an operand that all their devices match, or None.
    specs_by_id: specs by ID text and source. specs_by_given: specs and values by kind and name.
    """

    specs_by_operand: dict[Source, dict[tuple[str, Scalar] | None, list[ResourceSpec]]] = field(default_factory=dict)
    specs_by_id: dict[_Key, dict[Source, list[ResourceSpec]]] = field(default_factory=dict)
    specs_by_given: dict[tuple[str, str], list[tuple[ResourceSpec, str]]] = field(default_factory=dict)


def find_conflicts(entries: Sequence[ConfigEntry]) -> Iterator[Finding]:
    """Yield the conflicts of each entry. Accepted warnings are left out."""
    earlier = _EarlierEntries()
    for entry in entries:
        spec = entry.spec
        if spec is None:
            continue
        accept = entry.merged_entry.tree.get_branch("accept")
        accepted = accept.members if accept else {}
        for finding in (*_find_shadowed(entry, spec, earlier), *_find_equal_ids(entry, spec, earlier)):
            if finding.code not in accepted:
                yield finding
        for finding in _find_collisions(entry, spec, earlier):
            if "collides" not in accepted:
                yield finding


def _find_shadowed(entry: ConfigEntry, spec: ResourceSpec, earlier: _EarlierEntries) -> Iterator[Finding]:
    earlier_specs = earlier.specs_by_operand.setdefault(spec.source, {})
    operands = {
        (line.word, make_comparable(line.kind, operand))
        for line in spec.match.walk_lines()
        for operand in _list_operands(line.test)
    }
    for key in (None, *sorted(operands, key=repr)):
        other = next((spec_before for spec_before in earlier_specs.get(key, ()) if shadows(spec_before, spec)), None)
        if other is not None:
            message = f"nothing can be left for it: all that it matches, {other.name} takes ({other.origin})"
            write = "put this entry before that one, or exclude there what is for this"
            yield _find_own_spot(entry.merged_entry.tree.get_branch("match"), entry).make_warning(
                "nothing-left", message, write, mark="key"
            )
            break
    rarest_operand = min(
        _list_required_operands(spec), key=lambda key: len(earlier_specs.get(key, ())), default=None
    )  # the rarest operand keeps the lists short
    earlier_specs.setdefault(rarest_operand, []).append(spec)


def _list_required_operands(spec: ResourceSpec) -> Iterator[tuple[str, Scalar]]:
    """Yield the operands that every matching device has."""
    for line in spec.match.lines:
        if (
            isinstance(line, ClauseLine)
            and line.kind in {ValueType.TEXT, ValueType.INT, ValueType.HEX}
            and isinstance(line.test, Equals)
        ):
            yield line.word, make_comparable(line.kind, line.test.operand)


def _list_operands(test: object) -> Iterator[Scalar]:
    if isinstance(test, Equals):
        yield test.operand
    for inner_test in getattr(test, "tests", ()):
        yield from _list_operands(inner_test)


def _find_equal_ids(entry: ConfigEntry, spec: ResourceSpec, earlier: _EarlierEntries) -> Iterator[Finding]:
    """Yield a warning if an earlier entry of another source can list the same device with the same ID.

    IDs are unique over all resources.
    """
    is_reported = False
    for text in (spec.slots.id,) if spec.slots else spec.id:
        key = _make_id_key(text, spec)
        specs_by_source = earlier.specs_by_id.setdefault(key, {})
        rivals = (
            earlier_spec
            for source, specs in specs_by_source.items()
            if spec.slots or source != spec.source
            for earlier_spec in specs
        )
        rival = next((other for other in rivals if _can_share_id(other, spec, text)), None)
        if rival is not None and not is_reported:
            is_reported = True
            message = f"{rival.name} ({rival.origin}) has the id {text.source} too: what both find is listed there only"
            suffix = "{resource|digest:8}" if spec.slots or "{" in spec.name else spec.name.rpartition("/")[2]
            slots = entry.merged_entry.tree.get_branch("slots")
            spot = _find_own_spot(slots.get_leaf("id") if slots else entry.merged_entry.tree.get_leaf("id"), entry)
            yield spot.make_warning("same-id", message, f'write for example id = "{text.source}-{suffix}"', mark="key")
        specs_by_source.setdefault(spec.source, []).append(spec)


def _make_id_key(text: Template, spec: ResourceSpec) -> _Key:
    pieces: list[_Piece] = []
    for piece in text.pieces:
        if isinstance(piece, str):
            pieces.append(piece)
        elif piece.word == "resource":
            pieces.append((spec.name, *piece.filters))
        elif piece.word in spec.derived_words:
            pieces.append(("own", piece.word, *piece.filters))  # the meaning of the word is compared later
        else:
            pieces.append((*_make_word_key(piece.word, spec.source), *piece.filters))
    return tuple(pieces)


def _make_word_key(word: str, source: Source) -> tuple[object, ...]:
    head = word.partition(".")[0]
    if word in _EVERYWHERE or head in _RELATIONS:
        return (word,)
    return (f"{source.kind}.{word}",) if source.kind in _RELATIONS else (source, word)


def _can_share_id(earlier_spec: ResourceSpec, spec: ResourceSpec, text: Template) -> bool:
    """Return whether both entries can have a device with this ID."""
    if (earlier_spec.slots is None) != (spec.slots is None) or (earlier_spec.slots and earlier_spec.name == spec.name):
        return False
    if earlier_spec.slots is None and earlier_spec.source == spec.source:
        return False  # each device of one source goes to one entry
    words = list(list_dependencies(text))
    return add_dependencies(words, earlier_spec.derived_words) == add_dependencies(
        words, spec.derived_words
    ) and not _are_disjoint(earlier_spec, spec)


def _are_disjoint(earlier_spec: ResourceSpec, spec: ResourceSpec) -> bool:
    """Return whether a word must have different values for the two entries."""
    earlier_operands = _collect_equal_operands(earlier_spec)
    return any(
        earlier_operands.get(word, operand) != operand for word, operand in _collect_equal_operands(spec).items()
    )


def _collect_equal_operands(spec: ResourceSpec) -> Mapping[tuple[object, ...], Scalar]:
    return {
        _make_word_key(line.word, spec.source): line.test.operand
        for line in spec.match.lines
        if isinstance(line, ClauseLine) and isinstance(line.test, Equals) and line.word not in spec.derived_words
    }


def _find_collisions(entry: ConfigEntry, spec: ResourceSpec, earlier: _EarlierEntries) -> Iterator[Finding]:
    """Yield a warning for each name that two entries give with different values.

    A container with both resources gets only one of the values from the kubelet.
    """
    reported_names: set[tuple[str, str]] = set()
    for kind, name, value, node in _list_given_names(entry, spec):
        earlier_gives = earlier.specs_by_given.setdefault((kind, name), [])
        rival = next(
            (
                (other, earlier_value)
                for other, earlier_value in earlier_gives
                if other.name != spec.name and (not earlier_value or earlier_value != value)
            ),
            None,
        )
        if rival is not None and (kind, name) not in reported_names:
            reported_names.add((kind, name))
            message = (
                f"{rival[0].name} ({rival[0].origin}) gives {kind} {name} too: a container with both gets one of them"
            )
            write = "give it another name here, or accept it if no container asks for both"
            yield _find_own_spot(node, entry).make_warning("collides", message, write, mark="key")
        earlier_gives.append((spec, value))


def _list_given_names(entry: ConfigEntry, spec: ResourceSpec) -> Iterator[tuple[str, str, str, Leaf | Branch | None]]:
    """Yield kind, name, value and node of each give whose name is equal for all devices, or numbered.

    The value is empty if it can vary.
    """
    give = entry.merged_entry.tree.get_branch("give")
    for kind, section, values in (
        ("the variable", "env", spec.env),
        ("the annotation", "annotations", spec.annotations),
    ):
        for env_value in values:
            name = _write_constant(env_value.name, spec)
            value = _write_constant(env_value.value, spec) if isinstance(env_value.value, Template) else None
            if name is not None:
                yield (
                    kind,
                    name,
                    value if value and "{" not in value else "",
                    _find_give_node(give, section, env_value.key, "value"),
                )
    gives: tuple[NodeGive | MountGive, ...] = (*spec.nodes, *spec.mounts)
    for give_spec in gives:
        section = "nodes" if isinstance(give_spec, NodeGive) else "mounts"
        path = _write_constant(give_spec.path, spec)
        for to in give_spec.container_paths:
            container_path = _write_constant(to, spec)
            if container_path is not None and not container_path.endswith("/") and container_path != path:
                yield "the path", container_path, path or "", _find_give_node(give, section, give_spec.name, "to")


def _write_constant(text: Template, spec: ResourceSpec) -> str | None:
    """Return the text of a template with options filled in. Return None if it has a word other than `{n}`."""
    text_out = ""
    for piece in text.pieces:
        if isinstance(piece, str):
            text_out += piece
            continue
        entry_word = spec.derived_words.get(piece.word)
        if piece.word == "n" and not piece.filters:
            text_out += "{n}"
        elif isinstance(entry_word, Constant) and not isinstance(entry_word.value, tuple) and not piece.filters:
            text_out += format_scalar(entry_word.value)
        else:
            return None
    return text_out


def _find_give_node(give: Branch | None, section: str, name: str, key: str) -> Leaf | Branch | None:
    """Return the tree node of a give."""
    for part in (give, *(branch for _, branch in give.list_branches("also"))) if give else ():
        if (within := part.get_branch(section)) and (member := within.get_branch(name)):
            return member.get_leaf("name") or member.get_leaf(key) or member
    return None


def _find_own_spot(node: Leaf | Branch | None, entry: ConfigEntry) -> FilePosition:
    """Return the position of a node in the entry, or of the entry itself if a class has the node."""
    if node is not None:
        within = node.spot.document is entry.spot.document and node.spot.path[: len(entry.spot.path)] == entry.spot.path
        return node.spot if within else entry.spot
    return entry.spot
