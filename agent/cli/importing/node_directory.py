"""Directories of device nodes. Other programs give all nodes of such a directory as one device."""

from __future__ import annotations

from collections.abc import Mapping

from agent.cli.importing.toml_entry import ImportedEntry, TomlValue

# Directories that contain device nodes directly.
DIRECTORY_NAMES = frozenset({"snd", "dri", "input", "infiniband", "vfio", "net"})


def build_directory_entry(
    entry: ImportedEntry, name: str, give: Mapping[str, TomlValue], to: str = ""
) -> dict[str, TomlValue]:
    """Return an entry without name for the nodes in a directory of /dev. The directory is no host device.

    give: other keys of each node.
    to: the directory in the container, if the path differs.
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
