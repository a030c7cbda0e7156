"""The host paths and CDI names that a grant must read for a device."""

from __future__ import annotations

from collections.abc import Iterable

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.language.template import FactReader
from agent.core.language.value import Absent


def list_node_paths(spec: ResourceSpec, fact: FactReader) -> tuple[str, ...]:
    """Return the host paths of the nodes of an entry. Paths with absent words are left out."""
    return _list_texts(give.path.write_paths(fact) for give in spec.nodes)


def list_mount_globs(spec: ResourceSpec, fact: FactReader) -> tuple[str, ...]:
    """Return the globs of the mounts of an entry. Globs with absent words are left out."""
    return _list_texts(give.path.write_paths(fact, glob=True) for give in spec.mounts)


def list_cdi_names(spec: ResourceSpec, fact: FactReader) -> tuple[str, ...]:
    """Return the CDI names that a spec must contain. Names with absent words are left out."""
    return _list_texts(give.name.write_all(fact) for give in spec.cdi if not give.unchecked)


def _list_texts(written: Iterable[tuple[str, ...] | Absent]) -> tuple[str, ...]:
    """Return all texts without duplicates."""
    return tuple(dict.fromkeys(text for texts in written if not isinstance(texts, Absent) for text in texts))
