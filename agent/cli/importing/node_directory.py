"""Directories of nodes, which other programs give as if they were one: all that is in them goes to the container."""

from __future__ import annotations

from collections.abc import Mapping

from agent.cli.importing.toml_entry import ImportedEntry, TomlValue

# Those of which the nodes stand in the directory itself.
DIRECTORY_NAMES = frozenset({"snd", "dri", "input", "infiniband", "vfio", "net"})


def build_directory_entry(
    entry: ImportedEntry, name: str, give: Mapping[str, TomlValue], to: str = ""
) -> dict[str, TomlValue]:
    """An entry, without its name, for the nodes in a directory of /dev; it is no host device of its own.

    give: what else is said of each node. to: the directory in the container, if it is another.
    """
    entry.changes.append(f"all nodes below /dev/{name} at the moment of the grant")
    node: dict[str, TomlValue] = {"path": f"/dev/{name}/{{inside}}"}
    if to:
        node["to"] = f"{to}/{{inside}}"
    return {
        "source": {"fixed": [name]},
        "id": "{name}",
        "let": {"inside": {"names_of": f"/dev/{name}/*"}},
        "give": {"nodes": {"node": {**node, **give, "optional": True}}},
    }
