"""Words of a device of the auxiliary bus (Documentation/ABI/testing/sysfs-bus-auxiliary, -devices-pci-sfs)."""

from __future__ import annotations

from agent.core.language.value import ValueType
from agent.scanners.child_devices import find_netdev, find_rdma
from agent.scanners.word_table import Relation, make_attribute, make_table

AUXILIARY = make_table(
    "auxiliary",
    make_attribute("sfnum", ValueType.INT, "number of the subfunction"),
    Relation("netdev", "net", "its network interface, never a representor", "net/*", find_netdev),
    Relation("rdma", "infiniband", "its RDMA device", "infiniband/*", find_rdma),
)
