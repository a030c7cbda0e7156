"""What VFIO hands out, through the kubelet: nodes, what is verified for a grant, and whole IOMMU groups."""

import asyncio

import pytest

from agent.core.grants.grant import GrantRefusedError
from agent.core.inventory.dirty_set import DirtySet
from device_agent_lab.simulated.errors import PodRefused
from tests.agent.rig import stop_watching

NIC, DISK = "example.com/nic", "example.com/disk"
ENTRIES = f"""\
[[resource]]
name  = "{NIC}"
class = "vfio-pci"
group = false
match = {{ class = "0200" }}

[[resource]]
name  = "{DISK}"
class = "vfio-pci"
group = false
match = {{ class = "0108" }}
"""
FIRST, SECOND, SSD, ALONE = "0000:05:00.0", "0000:05:00.1", "0000:06:00.0", "0000:07:00.0"


def install(rig):
    """Two network functions and a disk in one group, and a network function in its own."""
    tree = rig.tree
    classes = {FIRST: "0x020000\n", SECOND: "0x020000\n", SSD: "0x010802\n", ALONE: "0x020000\n"}
    rig.at = {name: tree.pci(name, driver="vfio-pci", **{"class": kind}) for name, kind in classes.items()}
    tree.vfio(20, *(rig.at[name] for name in (FIRST, SECOND, SSD)))
    tree.vfio(21, rig.at[ALONE])
    rig.serve(ENTRIES)


@pytest.fixture
async def node(rig):
    install(rig)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(NIC, DISK)
        await rig.allocatable(NIC, 3)
        rig.running = agent
        yield rig


def rebind(node, name, driver=""):
    """Have another driver, or none, and the kernel's event of it."""
    node.tree.link(f"{node.at[name]}/driver", f"/sys/bus/pci/drivers/{driver}")
    if not driver:
        node.tree.at(f"{node.at[name]}/driver").unlink()


def tell(node, name):
    node.running.tracker.request_look(DirtySet(frozenset({node.at[name]})))


def list_reasons(node, resource):
    return {
        device.id: str(device.reason) for device in node.running.registry.get_list(resource).devices if device.reason
    }


async def test_what_a_container_gets(node):
    options = await node.kubelet.allocate("pod", "vm", {NIC: 3})
    assert options.devices == {path: (path, "rw") for path in ("/dev/vfio/vfio", "/dev/vfio/20", "/dev/vfio/21")}
    assert options.envs["PCI_RESOURCE_EXAMPLE_COM_NIC"] == f"{FIRST},{SECOND},{ALONE}"
    assert options.conflicts == []


async def test_what_one_pod_has_of_a_group_no_other_gets_until_it_ends(node):
    await node.kubelet.allocate("vm1", "c", {DISK: 1})
    await node.until(lambda: node.kubelet.unhealthy(NIC) == {FIRST, SECOND})
    assert list_reasons(node, NIC) == dict.fromkeys((FIRST, SECOND), f"a pod holds its IOMMU group, as {DISK} {SSD}")
    assert not node.kubelet.unhealthy(DISK)
    await node.kubelet.allocate("vm2", "c", {NIC: 1})
    with pytest.raises(PodRefused):
        await node.kubelet.allocate("vm3", "c", {NIC: 1})
    held = node.running.devices_in_use
    held._history, held._new_grants = (
        type(held._history)(),
        {},
    )  # as two answers of PodResources have it, a minute apart, when vm1 has ended
    held._on_change()
    await node.until(lambda: not node.kubelet.unhealthy(NIC))


async def test_of_two_requests_at_the_same_moment_one_gets_the_group(node):
    allocation = node.running.allocation
    asked = allocation.allocate(DISK, [SSD]), allocation.allocate(NIC, [FIRST]), allocation.allocate(NIC, [ALONE])
    disk, nic, alone = await asyncio.gather(*asked, return_exceptions=True)
    assert [one.host for one in disk.nodes] == ["/dev/vfio/vfio", "/dev/vfio/20"]
    assert isinstance(nic, GrantRefusedError)
    assert f"{NIC} {FIRST}: a pod holds its IOMMU group, as {DISK} {SSD}" in nic.text
    assert [one.host for one in alone.nodes] == ["/dev/vfio/vfio", "/dev/vfio/21"]


async def test_of_several_the_one_that_cannot_be_had_is_named(node):
    other = "0000:04:00.0"  # before the others in the list
    node.at[other] = node.tree.pci(other, driver="vfio-pci", **{"class": "0x020000\n"})
    node.tree.vfio(22, node.at[other])
    node.running.tracker.request_look()
    await node.allocatable(NIC, 4)
    allocation = node.running.allocation
    asked = allocation.allocate(DISK, [SSD]), allocation.allocate(NIC, [other, FIRST])
    _, nic = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(nic, GrantRefusedError)
    assert f"{NIC} {FIRST}: a pod holds its IOMMU group" in nic.text


async def test_together_they_are_given_and_again_to_the_same_pod(node):
    allocation = node.running.allocation
    both = await allocation.allocate(NIC, [SECOND, FIRST])
    assert [one.host for one in both.nodes] == ["/dev/vfio/vfio", "/dev/vfio/20"]
    assert (await allocation.allocate(NIC, [SECOND])).ids == (SECOND,)
    with pytest.raises(GrantRefusedError, match="a pod holds its IOMMU group"):
        await allocation.allocate(DISK, [SSD])


@pytest.mark.parametrize(
    ("change", "text", "then"),
    [
        ("sibling", f"IOMMU group 20 is not viable: {SSD} (nvme)", f"vfio: IOMMU group 20 is not viable: {SSD} (nvme)"),
        ("group", "/dev/vfio/22 is /dev/vfio/22 char 242:22 now, which was not listed", None),
        ("node", "/dev/vfio/20: no such file", "node vfio.group: vfio.group: /dev/vfio/20: no such file"),
        ("driver", "no driver is bound", "no longer offered: match.on_vfio = true, here false"),
        ("number", "/dev/vfio/20 is char 242:77 now, was listed as char 242:20", None),
    ],
)
async def test_what_changed_just_before_a_grant_is_refused_by_name_and_told_first(node, change, text, then):
    tree = node.tree
    stop_watching(node.running)  # nobody tells of it
    if change == "sibling":
        rebind(node, SSD, "nvme")
    elif change == "group":
        tree.vfio(22, node.at[FIRST])
    elif change == "node":
        tree.at("/dev/vfio/20").unlink()
    elif change == "driver":
        rebind(node, FIRST)
    else:
        tree.node("/dev/vfio/20", "c 242:77")
    with pytest.raises(GrantRefusedError) as refused:
        await node.running.allocation.allocate(NIC, [FIRST])
    assert refused.value.text.startswith(f"{NIC} {FIRST}: ")
    assert text in refused.value.text
    assert list_reasons(node, NIC).get(FIRST) == then  # without a word: it can be had as it is now


async def test_a_driver_of_the_host_in_the_group_makes_it_unhealthy_and_its_going_heals(node):
    rebind(node, SSD, "nvme")
    tell(node, SSD)
    await node.until(lambda: node.kubelet.unhealthy(NIC) == {FIRST, SECOND})
    assert list_reasons(node, NIC)[FIRST] == f"vfio: IOMMU group 20 is not viable: {SSD} (nvme)"
    rebind(node, SSD)
    tell(node, SSD)
    await node.until(lambda: not node.kubelet.unhealthy(NIC))


async def test_it_is_unhealthy_for_as_long_as_the_entry_says(rig):
    at = rig.tree.pci(FIRST, driver="vfio-pci"), rig.tree.pci(SECOND, driver="snd_hda_intel")
    rig.tree.vfio(20, *at)
    rig.serve(f'[[resource]]\nname = "{NIC}"\nclass = "vfio-pci"\nmatch.address = "{FIRST}"\n'
              'health.vfio.recover = "never"\n')  # fmt: skip
    async with rig.agent() as agent:
        await agent.tracker.wait_for_look()
        rig.running, rig.at = agent, {SECOND: at[1]}
        text = f"vfio: {FIRST}: IOMMU group 20 is not viable: {SECOND} (snd_hda_intel)"
        assert list_reasons(rig, NIC) == {FIRST: text}
        rebind(rig, SECOND, "vfio-pci")
        tell(rig, SECOND)
        await agent.tracker.wait_for_look()
        assert list_reasons(rig, NIC) == {FIRST: text}
        (device,) = agent.registry.get_list(NIC).devices
        clearing = asyncio.create_task(agent.tracker.clear(NIC, device, "vfio"))
        assert await clearing == {"vfio"}
        assert list_reasons(rig, NIC) == {}
