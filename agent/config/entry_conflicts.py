"""Between entries: what two of them say that cannot both come true. Warnings, each accepted by the later entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

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
from agent.core.struct import MutableStruct, field

_Piece: TypeAlias = str | tuple[object, ...]
_Key: TypeAlias = tuple[_Piece, ...]
_RELATIONS = frozenset({"pci", "usb"})  # what a source of that kind says without a word in front, others with it
_EVERYWHERE = frozenset({"path_id", "resource", "n"})  # words that say the same whichever source sees a thing


class ComparedEntry(Protocol):
    """One `[[resource]]`, merged, with its spec if it has one."""

    @property
    def merged_entry(self) -> MergedEntry:
        """What it says."""

    @property
    def spot(self) -> FilePosition:
        """Where it is."""

    @property
    def spec(self) -> ResourceSpec | None:
        """What it means."""


class _Earlier(MutableStruct):
    """The entries before one, by what a later one would have in common with them.

    taking: of each source, by an operand that all they take says, or None. ids: by the text, and the source.
    """

    taking: dict[Source, dict[tuple[str, Scalar] | None, list[ResourceSpec]]] = field(default_factory=dict)
    ids: dict[_Key, dict[Source, list[ResourceSpec]]] = field(default_factory=dict)
    given: dict[tuple[str, str], list[tuple[ResourceSpec, str]]] = field(default_factory=dict)


def find_conflicts(entries: Sequence[ComparedEntry]) -> Iterator[Finding]:
    """What to warn of, entry by entry; what an entry accepts is left out."""
    earlier = _Earlier()
    for entry in entries:
        spec = entry.spec
        if spec is None:
            continue
        accept = entry.merged_entry.tree.get_branch("accept")
        accepted = accept.members if accept else {}
        for finding in (*_nothing_left(entry, spec, earlier), *_same_id(entry, spec, earlier)):
            if finding.code not in accepted:
                yield finding
        for finding in _collisions(entry, spec, earlier):
            if "collides" not in accepted:
                yield finding


def _nothing_left(entry: ComparedEntry, spec: ResourceSpec, earlier: _Earlier) -> Iterator[Finding]:
    before = earlier.taking.setdefault(spec.source, {})
    operands = {
        (line.word, make_comparable(line.kind, operand))
        for line in spec.match.walk_lines()
        for operand in _operands(line.test)
    }
    for key in (None, *sorted(operands, key=repr)):
        other = next((one for one in before.get(key, ()) if shadows(one, spec)), None)
        if other is not None:
            message = f"nothing can be left for it: all that it matches, {other.name} takes ({other.origin})"
            write = "put this entry before that one, or exclude there what is for this"
            yield _own(entry.merged_entry.tree.get_branch("match"), entry).make_warning(
                "nothing-left", message, write, mark="key"
            )
            break
    told_by = min(_telling(spec), key=lambda key: len(before.get(key, ())), default=None)  # few say what few others do
    before.setdefault(told_by, []).append(spec)


def _telling(spec: ResourceSpec) -> Iterator[tuple[str, Scalar]]:
    """Operands, each of which a clause mentions that implies what this one matches."""
    for line in spec.match.lines:
        if (
            isinstance(line, ClauseLine)
            and line.kind in {ValueType.TEXT, ValueType.INT, ValueType.HEX}
            and isinstance(line.test, Equals)
        ):
            yield line.word, make_comparable(line.kind, line.test.operand)


def _operands(test: object) -> Iterator[Scalar]:
    if isinstance(test, Equals):
        yield test.operand
    for inner in getattr(test, "tests", ()):
        yield from _operands(inner)


def _same_id(entry: ComparedEntry, spec: ResourceSpec, earlier: _Earlier) -> Iterator[Finding]:
    """Two kinds of source see one thing, and it would have one id in both: ids are one's own over all resources."""
    said = False
    for text in (spec.slots.id,) if spec.slots else spec.id:
        key = _canonical(text, spec)
        others = earlier.ids.setdefault(key, {})
        rivals = (one for source, seen in others.items() if spec.slots or source != spec.source for one in seen)
        rival = next((other for other in rivals if _may_meet(other, spec, text)), None)
        if rival is not None and not said:
            said = True
            message = f"{rival.name} ({rival.origin}) has the id {text.source} too: what both find is listed there only"
            apart = "{resource|digest:8}" if spec.slots or "{" in spec.name else spec.name.rpartition("/")[2]
            slots = entry.merged_entry.tree.get_branch("slots")
            spot = _own(slots.get_leaf("id") if slots else entry.merged_entry.tree.get_leaf("id"), entry)
            yield spot.make_warning("same-id", message, f'write for example id = "{text.source}-{apart}"', mark="key")
        others.setdefault(spec.source, []).append(spec)


def _canonical(text: Template, spec: ResourceSpec) -> _Key:
    pieces: list[_Piece] = []
    for piece in text.pieces:
        if isinstance(piece, str):
            pieces.append(piece)
        elif piece.word == "resource":
            pieces.append((spec.name, *piece.filters))
        elif piece.word in spec.derived_words:
            pieces.append(("own", piece.word, *piece.filters))  # what it means is compared where one is found
        else:
            pieces.append((*_word(piece.word, spec.source), *piece.filters))
    return tuple(pieces)


def _word(word: str, source: Source) -> tuple[object, ...]:
    head = word.partition(".")[0]
    if word in _EVERYWHERE or head in _RELATIONS:
        return (word,)
    return (f"{source.kind}.{word}",) if source.kind in _RELATIONS else (source, word)


def _may_meet(one: ResourceSpec, other: ResourceSpec, text: Template) -> bool:
    """Whether both may have a device of that id."""
    if (one.slots is None) != (other.slots is None) or (one.slots and one.name == other.name):
        return False
    if one.slots is None and one.source == other.source:
        return False  # what one source shows goes to one of them
    words = list(list_dependencies(text))
    return add_dependencies(words, one.derived_words) == add_dependencies(words, other.derived_words) and not _apart(
        one, other
    )


def _apart(one: ResourceSpec, other: ResourceSpec) -> bool:
    """Whether a word says one thing of all that one matches, and another of all that the other does."""
    said = _equalities(one)
    return any(said.get(word, operand) != operand for word, operand in _equalities(other).items())


def _equalities(spec: ResourceSpec) -> Mapping[tuple[object, ...], Scalar]:
    return {
        _word(line.word, spec.source): line.test.operand
        for line in spec.match.lines
        if isinstance(line, ClauseLine) and isinstance(line.test, Equals) and line.word not in spec.derived_words
    }


def _collisions(entry: ComparedEntry, spec: ResourceSpec, earlier: _Earlier) -> Iterator[Finding]:
    """What a container that asks for both would be given twice, and differently: the kubelet takes one of them."""
    said: set[tuple[str, str]] = set()
    for what, name, means, node in _given(entry, spec):
        others = earlier.given.setdefault((what, name), [])
        rival = next(
            ((other, its) for other, its in others if other.name != spec.name and (not its or its != means)), None
        )
        if rival is not None and (what, name) not in said:
            said.add((what, name))
            message = (
                f"{rival[0].name} ({rival[0].origin}) gives {what} {name} too: a container with both gets one of them"
            )
            write = "give it another name here, or accept it if no container asks for both"
            yield _own(node, entry).make_warning("collides", message, write, mark="key")
        others.append((spec, means))


def _given(entry: ComparedEntry, spec: ResourceSpec) -> Iterator[tuple[str, str, str, Leaf | Branch | None]]:
    """What it gives under a name that is the same for all its devices or numbered: what, the name, what that means if
    it is always the same, and where it was written.
    """
    give = entry.merged_entry.tree.get_branch("give")
    for what, section, sayings in (
        ("the variable", "env", spec.env),
        ("the annotation", "annotations", spec.annotations),
    ):
        for saying in sayings:
            name = _plain(saying.name, spec)
            value = _plain(saying.value, spec) if isinstance(saying.value, Template) else None
            if name is not None:
                yield what, name, value if value and "{" not in value else "", _node(give, section, saying.key, "value")
    gives: tuple[NodeGive | MountGive, ...] = (*spec.nodes, *spec.mounts)
    for one in gives:
        section = "nodes" if isinstance(one, NodeGive) else "mounts"
        path = _plain(one.path, spec)
        for to in one.container_paths:
            place = _plain(to, spec)
            if place is not None and not place.endswith("/") and place != path:
                yield "the path", place, path or "", _node(give, section, one.name, "to")


def _plain(text: Template, spec: ResourceSpec) -> str | None:
    """A text whose only word is `{n}`, the options filled in; none if it has another."""
    written = ""
    for piece in text.pieces:
        if isinstance(piece, str):
            written += piece
            continue
        own = spec.derived_words.get(piece.word)
        if piece.word == "n" and not piece.filters:
            written += "{n}"
        elif isinstance(own, Constant) and not isinstance(own.value, tuple) and not piece.filters:
            written += format_scalar(own.value)
        else:
            return None
    return written


def _node(give: Branch | None, section: str, name: str, key: str) -> Leaf | Branch | None:
    """Where something that is given is written."""
    also = give.get_branch("also") if give else None
    for part in (give, *(branch for _, branch in also.list_branches())) if also and give else (give,):
        within = part.get_branch(section) if part else None
        member = within.get_branch(name) if within else None
        if member is not None:
            return member.get_leaf("name") or member.get_leaf(key) or member
    return None


def _own(node: Leaf | Branch | None, entry: ComparedEntry) -> FilePosition:
    """Where something stands in the entry's own words; the entry, if a class says it."""
    if node is not None:
        within = node.spot.document is entry.spot.document and node.spot.path[: len(entry.spot.path)] == entry.spot.path
        return node.spot if within else entry.spot
    return entry.spot
