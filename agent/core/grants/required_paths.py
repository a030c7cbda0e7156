"""What a grant needs to know of the host: the paths and names that an entry's lines name for a device."""

from __future__ import annotations

from collections.abc import Iterable

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.language.template import FactReader
from agent.core.language.value import Absent


def list_node_paths(spec: ResourceSpec, fact: FactReader) -> tuple[str, ...]:
    """The host paths that an entry's nodes name for a device; those whose words are absent are left out."""
    return _list_texts(give.path.write_paths(fact) for give in spec.nodes)


def list_mount_globs(spec: ResourceSpec, fact: FactReader) -> tuple[str, ...]:
    """The patterns that an entry's mounts name for a device; those whose words are absent are left out."""
    return _list_texts(give.path.write_paths(fact, glob=True) for give in spec.mounts)


def list_cdi_names(spec: ResourceSpec, fact: FactReader) -> tuple[str, ...]:
    """The CDI devices that have to be in a spec for a device; those whose words are absent are left out."""
    return _list_texts(give.name.write_all(fact) for give in spec.cdi if not give.unchecked)


def _list_texts(written: Iterable[tuple[str, ...] | Absent]) -> tuple[str, ...]:
    """All of these, each once."""
    return tuple(dict.fromkeys(text for texts in written if not isinstance(texts, Absent) for text in texts))
