"""The NUMA nodes of this machine."""

from __future__ import annotations

import re

from agent.core.language.value import Absent
from agent.host.root import Root

NODES = "/sys/devices/system/node"  # Documentation/ABI/stable/sysfs-devices-node

_NODE = re.compile(r"node([0-9]+)")


def list_numa_nodes(root: Root) -> frozenset[int]:
    """Return the numbers of all NUMA nodes. The result is empty if the kernel has no NUMA support."""
    names = root.list_names(NODES)
    if isinstance(names, Absent):
        return frozenset()
    return frozenset(int(match[1]) for name in names if (match := _NODE.fullmatch(name)))
