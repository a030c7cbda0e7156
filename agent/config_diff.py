"""The difference between two configurations. Every resource without a difference keeps its stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agent.core.entry.joins import DerivedWord
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.language.clause import Statement
from agent.core.language.safe_text import escape, format_count
from agent.core.struct import Struct, field, replace

_CLAUSE_FIELDS = frozenset(
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
_KEYS = {  # fields with another name in the file
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
    """Resource names, grouped by the effect of a reload, each in file order.

    reregistered_names: the registration method differs, so the endpoint is replaced. All others keep their endpoint.
    descriptions: the changes of each resource as texts: `match.numa = 0 → 1 (nic.toml:14)`, `give.env.X`.
    """

    unchanged_names: tuple[str, ...]
    changed_names: tuple[str, ...]
    reregistered_names: tuple[str, ...]
    added_names: tuple[str, ...]
    removed_names: tuple[str, ...]
    descriptions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return one line. Empty groups are omitted."""
        parts = (
            ("unchanged", self.unchanged_names, False),
            ("changed", self.changed_names + self.reregistered_names, True),
            ("added", self.added_names, True),
            ("removed", self.removed_names, True),
        )
        texts = [
            f"{len(names)} {word}" + (f" ({', '.join(names)})" if is_named else "")
            for word, names, is_named in parts
            if names
        ]
        return ", ".join(texts) or "no resources"


def diff_config(old: Sequence[ResourceSpec], new: Sequence[ResourceSpec]) -> ConfigDiff:
    """Compare two sets of entries. A different file position is no difference."""
    previous, current = _group_by_name(old), _group_by_name(new)
    common_names = [name for name in current if name in previous]
    reregistered = tuple(
        name for name in common_names if current[name][0].registration != previous[name][0].registration
    )
    unchanged = tuple(
        name
        for name in common_names
        if [entry.drop_origin() for entry in current[name]] == [entry.drop_origin() for entry in previous[name]]
    )
    return ConfigDiff(
        unchanged_names=unchanged,
        changed_names=tuple(name for name in common_names if name not in unchanged and name not in reregistered),
        reregistered_names=reregistered,
        added_names=tuple(name for name in current if name not in previous),
        removed_names=tuple(name for name in previous if name not in current),
        descriptions={
            name: tuple(_describe_changes(previous[name], current[name]))
            for name in common_names
            if name not in unchanged
        },
    )


def _describe_changes(old: Sequence[ResourceSpec], new: Sequence[ResourceSpec]) -> Iterator[str]:
    """Yield each changed key of a resource once."""
    if len(old) != len(new):
        yield f"{format_count(len(new), 'entry', 'entries')}, {len(old)} before"
    changes = (
        change
        for old_entry, new_entry in zip(old, new, strict=False)
        for change in (*_describe_clause_changes(old_entry, new_entry), *_describe_field_changes(old_entry, new_entry))
    )
    yield from dict.fromkeys(changes)


def _describe_clause_changes(old: ResourceSpec, new: ResourceSpec) -> Iterator[str]:
    """Yield the changed clause lines, with the old and the new text."""
    previous_lines, current_lines = _index_clause_lines(old), _index_clause_lines(new)
    for address, line in current_lines.items():
        previous_line = previous_lines.get(address)
        if previous_line is None:
            yield f"{address} = {escape(line.source_text)}, new ({line.origin})"
        elif previous_line.source_text != line.source_text:
            yield f"{address} = {escape(previous_line.source_text)} → {escape(line.source_text)} ({line.origin})"
    yield from (
        f"{address} = {escape(line.source_text)}, removed"
        for address, line in previous_lines.items()
        if address not in current_lines
    )


def _index_clause_lines(spec: ResourceSpec) -> dict[str, Statement]:
    waits = (*spec.wait, *(hinge.clause for hinge in spec.partner_conditions))
    return {line.address: line for clause in (*spec.exclude, spec.match, *waits, *spec.gate) for line in clause.lines}


def _describe_field_changes(old: ResourceSpec, new: ResourceSpec) -> Iterator[str]:
    """Yield the changed keys, without clauses."""
    for field_name in ResourceSpec.__struct_fields__:
        old_value, new_value = getattr(old, field_name), getattr(new, field_name)
        if field_name in _CLAUSE_FIELDS or old_value == new_value:
            continue
        key = _KEYS.get(field_name, field_name)
        new_items, old_items = _index_items(new_value, new), _index_items(old_value, old)
        if new_items or old_items:
            changed_names = [
                name for name in dict.fromkeys((*old_items, *new_items)) if new_items.get(name) != old_items.get(name)
            ]
            yield from (name if name.startswith("options.") else f"{key}.{name}" for name in changed_names)
        else:
            yield key


def _index_items(value: object, spec: ResourceSpec) -> dict[str, object]:
    """Return the items of an entry by name, if they have names.

    Items that follow from other keys are omitted: the words of a join, and the options that a join knows.
    """
    if isinstance(value, Mapping):
        joins = {join.name for join in spec.joins}
        return {name: item_value for name, item_value in value.items() if name.partition(".")[0] not in joins}
    items = value if isinstance(value, tuple) else ()
    if value is spec.joins:
        return {
            join.name: replace(join, pool=replace(join.pool, derived_words=_drop_option_words(join.pool.derived_words)))
            for join in spec.joins
        }
    return {name: item for item in items if (name := getattr(item, "key", getattr(item, "name", None))) is not None}


def _group_by_name(specs: Sequence[ResourceSpec]) -> dict[str, list[ResourceSpec]]:
    """Return the entries of each resource. The entry with the name comes first, then the entries that add to the
    resource.
    """
    entries: dict[str, list[ResourceSpec]] = {}
    for spec in specs:
        entries.setdefault(spec.name, []).append(spec)
    return entries


def _drop_option_words(words: Mapping[str, DerivedWord]) -> dict[str, DerivedWord]:
    return {name: word for name, word in words.items() if not name.startswith("options.")}
