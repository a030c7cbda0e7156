"""Reloading by difference: what a new configuration changes, so that everything else keeps its stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agent.core.entry.joins import DerivedWord
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.language.clause import Statement
from agent.core.language.safe_text import escape, format_count
from agent.core.struct import Struct, field, replace

_TOLD = frozenset(
    {
        "origin",
        "class_name",
        "match",
        "exclude",
        "wait",
        "partner_conditions",
        "gate",
        "partner_joins",
        "registration",
        "is_addition",
    }
)
_KEYS = {  # what is called otherwise in a file
    "name_template": "name",
    "shares": "replicas",
    "share_map": "replicas",
    "share_suffix": "replicas",
    "derived_words": "let",
    "joins": "join",
    "checks": "health",
    "interval": "source.every",
    "moved_words": "moves_into_pod",
    **{name: f"give.{name}" for name in ("nodes", "mounts", "env", "annotations", "cdi", "vfio", "devinfo", "via")},
}


class ConfigDiff(Struct):
    """Resource names by what a reload does with them, each in file order.

    moved: the way of registration is another, so the endpoint is made anew; all others keep theirs.
    said: what is another in those that changed, in words: `match.numa = 0 → 1 (nic.toml:14)`, `give.env.X`.
    """

    unchanged_names: tuple[str, ...]
    changed_names: tuple[str, ...]
    reregistered_names: tuple[str, ...]
    added_names: tuple[str, ...]
    removed_names: tuple[str, ...]
    descriptions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        """In one line; what is nothing is left out."""
        parts = (
            ("unchanged", self.unchanged_names, False),
            ("changed", self.changed_names + self.reregistered_names, True),
            ("added", self.added_names, True),
            ("removed", self.removed_names, True),
        )
        said = [
            f"{len(names)} {word}" + (f" ({', '.join(names)})" if named else "")
            for word, names, named in parts
            if names
        ]
        return ", ".join(said) or "no resources"


def diff_config(old: Sequence[ResourceSpec], new: Sequence[ResourceSpec]) -> ConfigDiff:
    """What changes from one set of entries to another. Where an entry stands in its file is no difference."""
    before, after = _by_name(old), _by_name(new)
    known = [name for name in after if name in before]
    moved = tuple(name for name in known if after[name][0].registration != before[name][0].registration)
    same = tuple(
        name
        for name in known
        if [each.drop_origin() for each in after[name]] == [each.drop_origin() for each in before[name]]
    )
    return ConfigDiff(
        unchanged_names=same,
        changed_names=tuple(name for name in known if name not in same and name not in moved),
        reregistered_names=moved,
        added_names=tuple(name for name in after if name not in before),
        removed_names=tuple(name for name in before if name not in after),
        descriptions={name: tuple(_changes(before[name], after[name])) for name in known if name not in same},
    )


def _changes(old: Sequence[ResourceSpec], new: Sequence[ResourceSpec]) -> Iterator[str]:
    """What is another in a resource, each once."""
    if len(old) != len(new):
        yield f"{format_count(len(new), 'entry', 'entries')}, {len(old)} before"
    said = (one for was, now in zip(old, new, strict=False) for one in (*_clauses(was, now), *_fields(was, now)))
    yield from dict.fromkeys(said)


def _clauses(old: ResourceSpec, new: ResourceSpec) -> Iterator[str]:
    """Lines of clauses, as they were written and as they are."""
    before, after = _lines(old), _lines(new)
    for address, line in after.items():
        was = before.get(address)
        if was is None:
            yield f"{address} = {escape(line.source_text)}, new ({line.origin})"
        elif was.source_text != line.source_text:
            yield f"{address} = {escape(was.source_text)} → {escape(line.source_text)} ({line.origin})"
    yield from (
        f"{address} = {escape(line.source_text)}, no more" for address, line in before.items() if address not in after
    )


def _lines(spec: ResourceSpec) -> dict[str, Statement]:
    waits = (*spec.wait, *(hinge.clause for hinge in spec.partner_conditions))
    return {line.address: line for clause in (*spec.exclude, spec.match, *waits, *spec.gate) for line in clause.lines}


def _fields(old: ResourceSpec, new: ResourceSpec) -> Iterator[str]:
    """The keys of which something else is said than before, but clauses."""
    for field_name in ResourceSpec.__struct_fields__:
        was, now = getattr(old, field_name), getattr(new, field_name)
        if field_name in _TOLD or was == now:
            continue
        key = _KEYS.get(field_name, field_name)
        named, known = _named(now, new), _named(was, old)
        if named or known:
            other = [name for name in dict.fromkeys((*known, *named)) if named.get(name) != known.get(name)]
            yield from (name if name.startswith("options.") else f"{key}.{name}" for name in other)
        else:
            yield key


def _named(value: object, spec: ResourceSpec) -> dict[str, object]:
    """Things of an entry by their names, as far as they have some. What follows from another is not among them: the
    words of a join, and what a join knows of options.
    """
    if isinstance(value, Mapping):
        joins = {join.name for join in spec.joins}
        return {name: each for name, each in value.items() if name.partition(".")[0] not in joins}
    items = value if isinstance(value, tuple) else ()
    if value is spec.joins:
        return {
            join.name: replace(join, pool=replace(join.pool, derived_words=_own(join.pool.derived_words)))
            for join in spec.joins
        }
    return {name: item for item in items if (name := getattr(item, "key", getattr(item, "name", None))) is not None}


def _by_name(specs: Sequence[ResourceSpec]) -> dict[str, list[ResourceSpec]]:
    """The entries of each resource, what adds to it included; the one whose name it is comes first."""
    named: dict[str, list[ResourceSpec]] = {}
    for spec in specs:
        named.setdefault(spec.name, []).append(spec)
    return named


def _own(words: Mapping[str, DerivedWord]) -> dict[str, DerivedWord]:
    return {name: each for name, each in words.items() if not name.startswith("options.")}
