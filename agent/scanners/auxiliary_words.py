"""Words of a device of the auxiliary bus (Documentation/ABI/testing/sysfs-bus-auxiliary, -devices-pci-sfs)."""

from __future__ import annotations

from agent.core.language.value import Kind
from agent.scanners.carried import netdev_of, rdma_of
from agent.scanners.words import Relation, attribute, table

AUXILIARY = table(
    "auxiliary",
    attribute("sfnum", Kind.INT, "number of the subfunction"),
    Relation("netdev", "net", "its network interface, never a representor", "net/*", netdev_of),
    Relation("rdma", "infiniband", "its RDMA device", "infiniband/*", rdma_of),
)
