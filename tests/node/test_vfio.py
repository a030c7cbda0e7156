"""What VFIO hands out, in real containers: functions and groups are a tree, the nodes are real, of no driver."""

import shutil

import pytest

from tests.node.node import CONTAINERD_2
from tests.tree import Tree

TREE = "/run/tree"
MAJOR = 240  # for local use
IOMMUFD, CONTROL = "c 240:200", "c 240:201"


@pytest.fixture
def functions(node):
    """Three functions: two in one group, one of which has a node of its own; and one in a group without an IOMMU."""
    at = node.machine.path(TREE)
    tree = Tree(at)
    first, second, third = (tree.pci(f"0000:0{n}:00.0", driver="vfio-pci", device=f"0x000{n}\n") for n in (1, 2, 3))
    tree.vfio(11, first, second)
    tree.vfio(13, third, noiommu=True)
    tree.class_device(f"{third}/vfio-dev/vfio7", "vfio-dev", "vfio/devices/vfio7", MAJOR, 7)
    for path, minor in (("vfio/vfio", 201), ("vfio/11", 11), ("vfio/noiommu-13", 13), ("iommu", 200)):
        node.plug(path, "c", MAJOR, minor)
        tree.node(f"/dev/{path}", f"c {MAJOR}:{minor}")
    node.plug("vfio/devices/vfio7", "c", MAJOR, 7)
    yield node
    shutil.rmtree(at)


def entry(name: str, device: int, vfio: str) -> str:
    return (
        f'[[resource]]\nname = "node.test/{name}"\nclass = "vfio-pci"\ngroup = false\n'
        f'match = {{ device = "{device:04}" }}\ngive = {{ vfio = {vfio} }}\n'
    )


@pytest.mark.runtimes(None, CONTAINERD_2)
def test_a_container_has_the_nodes_of_its_function_and_nobody_else_the_group(functions):
    node = functions
    node.serve(
        entry("vf", 1, '"auto"'),
        entry("vf-other", 2, '"legacy"'),
        entry("vf-new", 3, '"iommufd"'),
        entry("vf-none", 4, "true"),
    )
    node.start_agent(root=TREE)
    node.offers("vf", "0000:01:00.0")
    node.offers("vf-other", "0000:02:00.0")
    node.offers("vf-new", "0000:03:00.0")
    node.apply("has-vf", vf=1)
    node.apply("has-new", **{"vf-new": 1})
    node.running("has-vf", "has-new")
    assert node.nodes("has-vf") == {"/dev/vfio/vfio": CONTROL, "/dev/vfio/11": "c 240:11"}
    assert node.nodes("has-new") == {"/dev/iommu": IOMMUFD, "/dev/vfio/devices/vfio7": "c 240:7"}
    assert node.inside("has-vf", "env | grep PCI_RESOURCE_NODE_TEST_VF=") == "PCI_RESOURCE_NODE_TEST_VF=0000:01:00.0"
    node.offers("vf-other")  # its group is in use
    node.apply("has-no-other", **{"vf-other": 1})
    assert node.refused("has-no-other")[0]
    assert "a pod holds its IOMMU group, as node.test/vf 0000:01:00.0" in node.agent.said


def test_without_an_iommu_where_the_entry_says_so(functions):
    node = functions
    node.serve(entry("unsafe", 3, '{ backend = "legacy", noiommu = true }'))
    node.start_agent(root=TREE)
    node.offers("unsafe", "0000:03:00.0")
    node.apply("has-unsafe", unsafe=1)
    node.running("has-unsafe")
    assert node.nodes("has-unsafe") == {"/dev/vfio/vfio": CONTROL, "/dev/vfio/13": "c 240:13"}
