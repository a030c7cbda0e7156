"""A network interface that a pod holds, moved out of the node's sight as a CNI plugin does it."""

import signal

import pytest

from tests.node.machine import until

DEVINFO = "/run/k8s.cni.cncf.io/devinfo/dp"
ENTRY = """
[[resource]]
name   = "node.test/{name}"
source = "net"
id     = "{{name}}"
match  = {{ name = "{name}" }}
moves_into_pod = {moves}
[resource.give]
env     = {{ NAME = {{ value = "{{name}}", join = "," }} }}
devinfo = {{ type = "pci", version = "1.1.0", pci = {{ pci-address = "{{name}}" }} }}
"""


@pytest.fixture
def elsewhere(node):
    """The process id of somebody with a network namespace of its own."""
    process = node.machine.start("elsewhere", "unshare", "--net", "sleep", "1000")
    until(lambda: "sleep" in node.machine.must("cat", f"/proc/{process.pid}/comm"), 20, "a namespace of its own")
    yield str(process.pid)
    process.end(signal.SIGKILL)


@pytest.fixture
def interfaces(node):
    """Two of software, which go with the test."""
    names = ("moves", "stays")
    for name in names:
        node.machine.must("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}-end")
    yield names
    for name in names:
        node.machine.run("ip", "link", "del", f"{name}-end")


def test_what_a_pod_has_taken_along_is_no_fault_and_its_file_is_there(node, interfaces, elsewhere):
    node.serve(*(ENTRY.format(name=name, moves=str(name == "moves").lower()) for name in interfaces))
    node.start_agent()
    for name in interfaces:
        node.offers(name, name)
    node.apply("has-both", moves=1, stays=1)
    node.running("has-both")
    files = {name: node.machine.path(f"{DEVINFO}/node.test-{name}-{name}-device.json") for name in interfaces}
    assert files["moves"].read_text() == '{"type":"pci","version":"1.1.0","pci":{"pci-address":"moves"}}'
    for name in interfaces:
        node.machine.must("ip", "link", "set", name, "netns", elsewhere)
    node.agent.says("stays: Healthy → Unhealthy: absent")
    assert node.allocatable() == {"node.test/moves": {"moves"}}
    node.restart_agent()
    node.offers("moves", "moves")
    assert node.allocatable() == {"node.test/moves": {"moves"}}
    assert all(file.exists() for file in files.values())  # the pod has both still
    node.machine.must("nsenter", f"--net=/proc/{elsewhere}/ns/net", "ip", "link", "set", "stays", "netns", "1")
    node.offers("stays", "stays")
    until(lambda: node.health("has-both")["stays"] == "Healthy", 10, "the pod's status says Healthy")
