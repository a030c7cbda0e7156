"""Shipped classes serve what this machine really has, and leave alone what it uses itself."""

import os
from pathlib import Path

import pytest

from tests.agent.rig import FOO, REAL
from tests.live.received_lists import HEALTHY, last

pytestmark = pytest.mark.usefixtures("whole_machine")

# Classes of one node in shares.
NODES = {
    "fuse": "/dev/fuse", "kvm": "/dev/kvm", "sgx-enclave": "/dev/sgx_enclave", "tpm": "/dev/tpmrm0",
    "tun": "/dev/net/tun", "vhost-vsock": "/dev/vhost-vsock",
}  # fmt: skip


def serve(rig, name, more=""):
    rig.serve(f'[[resource]]\nname = "{FOO}"\nclass = "{name}"\n{more}')


def read(path):
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def nodes(pattern):
    """Device nodes below /dev that fit."""
    return {str(path) for path in Path("/dev").glob(pattern) if path.is_char_device() or path.is_block_device()}


def of_class(subsystem, file):
    """What a file says of each device of a class or bus that has it."""
    return {path.parent.name: read(path) for path in Path("/sys").glob(f"{subsystem}/*/{file}")}


@pytest.mark.parametrize(("name", "node"), NODES.items())
async def test_a_node_in_shares(rig, name, node):
    if not nodes(node.removeprefix("/dev/")):
        pytest.skip(f"no {node} here")
    serve(rig, name, "replicas = 2\n")
    base = node.removeprefix("/dev/").replace("/", "_")
    async with rig.kubelet, rig.agent(root=REAL):
        await rig.streaming(FOO)
        await rig.until(lambda: last(rig.kubelet, FOO) == {f"{base}::0": HEALTHY, f"{base}::1": HEALTHY})
        assert (await rig.kubelet.allocate("p", "c", {FOO: 2})).devices == {node: (node, "rw")}


async def test_loop_devices(rig):
    found = {os.path.basename(node) for node in nodes("loop[0-9]*")}
    if not found or not nodes("loop-control"):
        pytest.skip("no loop devices here")
    serve(rig, "loop")
    async with rig.kubelet, rig.agent(root=REAL):
        await rig.streaming(FOO)
        await rig.until(lambda: found <= set(last(rig.kubelet, FOO)))
        given = (await rig.kubelet.allocate("p", "c", {FOO: 1})).devices
        assert "/dev/loop-control" in given
        assert len(given) == 2


async def test_functions_that_are_no_bridges(rig):
    found = {name for name, said in of_class("bus/pci/devices", "class").items() if not said.startswith("0x06")}
    if not found:
        pytest.skip("no PCI functions here")
    serve(rig, "pci-function")
    async with rig.kubelet, rig.agent(root=REAL):
        await rig.streaming(FOO)
        await rig.until(lambda: last(rig.kubelet, FOO) == dict.fromkeys(found, HEALTHY))
        given = await rig.kubelet.allocate("p", "c", {FOO: len(found)})
        assert given.envs == {"PCIDEVICE_EXAMPLE_COM_FOO": ",".join(sorted(found))}


async def test_serial_ports_that_are_no_console(rig):
    consoles = read("/sys/class/tty/console/active").split()
    ports = {f"/dev/{name}" for name, said in of_class("class/tty", "type").items() if said != "0"} & nodes("ttyS*")
    if not ports:
        pytest.skip("no serial ports here")
    serve(rig, "serial-port")
    free = ports - {f"/dev/{name}" for name in consoles}
    async with rig.kubelet, rig.agent(root=REAL) as agent:
        await rig.streaming(FOO)
        found = {node.path for device in agent.registry.get_list(FOO).devices for node in device.nodes}
        assert found == free


async def test_no_disk_that_the_machine_uses(rig):
    used = {line.split()[0] for line in read("/proc/self/mounts").splitlines() if line.startswith("/dev/")}
    if not used:
        pytest.skip("no disks here")
    serve(rig, "disk")
    async with rig.kubelet, rig.agent(root=REAL) as agent:
        await rig.streaming(FOO)
        found = {node.path for device in agent.registry.get_list(FOO).devices for node in device.nodes}
        assert not any(path.startswith(node) for path in used for node in found)
        assert not any(node.startswith(("/dev/loop", "/dev/zram", "/dev/dm-", "/dev/md")) for node in found)
