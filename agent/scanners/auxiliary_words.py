"""Words of a device of the auxiliary bus (Documentation/ABI/testing/sysfs-bus-auxiliary, -devices-pci-sfs)."""

from __future__ import annotations

from agent.core.language.value import ValueType
from agent.scanners.child_devices import netdev_of, rdma_of
from agent.scanners.word_table import Relation, attribute, table

AUXILIARY = table(
    "auxiliary",
    attribute("sfnum", ValueType.INT, "number of the subfunction"),
    Relation("netdev", "net", "its network interface, never a representor", "net/*", netdev_of),
    Relation("rdma", "infiniband", "its RDMA device", "infiniband/*", rdma_of),
)
