"""An exclusive device stays one pod's over restarts of the agent, whatever PodResources says and when."""

import asyncio
import json
import shutil
import signal

import pytest

from agent.allocation.devices_in_use import DevicesInUse
from agent.core.grants import held_ids
from agent.core.grants.grant import GrantRefusedError
from agent.core.health.drain_overlay import Drain, DrainSet
from device_agent_lab.simulated.errors import PodRefused
from tests.agent.process import run_agent
from tests.agent.rig import BAR, FOO, entry
from tests.agent.test_vfio import ALONE, DISK, FIRST, NIC, SECOND, SSD, install


class PodResources:
    """The kubelet's socket for it, which can be away."""

    def __init__(self, rig):
        self.there, self.elsewhere = rig.pods / "kubelet.sock", rig.pods / "away.sock"

    def go(self):
        self.there.rename(self.elsewhere)

    def come(self):
        self.elsewhere.rename(self.there)


@pytest.fixture
async def node(rig, at_once, monkeypatch):
    """A kubelet, and two resources whose devices share an IOMMU group."""
    monkeypatch.setattr(held_ids, "SURE_SECONDS", 0.3)
    install(rig)
    await rig.kubelet.start()
    rig.pod_resources = PodResources(rig)
    return rig


async def wait_for_devices(node):
    await node.streaming(NIC, DISK)
    await node.allocatable(NIC, 3)


def healthy(node, since, resource=NIC):
    """The IDs that the kubelet was told are Healthy, in any list of the resource after the first `since`."""
    lists = node.kubelet.lists.select(resource)[since:]
    return {device.id for list_ in lists for device in list_.devices if device.health == "Healthy"}


@pytest.mark.parametrize("answers", ["present", "late", "away"])
@pytest.mark.parametrize("end", ["clean", "kill"])
async def test_after_a_restart_exactly_one_pod_has_the_group(node, end, answers):
    kubelet = node.kubelet
    if answers != "present":
        node.pod_resources.go()
    state = node.state
    async with node.agent():
        await wait_for_devices(node)
        await kubelet.allocate("vm1", "c", {DISK: 1})
        if end == "kill":  # what a kill at this moment leaves
            state = shutil.copytree(node.state, node.top / "left")
    before = len(kubelet.lists.select(NIC))
    async with node.agent(state=state) as agent:
        await node.until(lambda: kubelet.healthy(NIC) == {ALONE})
        if answers == "late":
            node.pod_resources.come()
        if answers != "away":
            await node.until(lambda: agent.devices_in_use.answered_at)
            assert agent.devices_in_use.confirmed_ids == agent.devices_in_use.ids == {SSD}
        await node.until(lambda: kubelet.healthy(DISK) == {SSD})
        await kubelet.allocate("vm2", "c", {NIC: 1})
        with pytest.raises(PodRefused):
            await kubelet.allocate("vm3", "c", {NIC: 1})
        for name in FIRST, SECOND:
            with pytest.raises(GrantRefusedError, match="a pod holds its IOMMU group"):
                await agent.allocation.allocate(NIC, [name])
        assert healthy(node, before) == {ALONE}
        kubelet.remove_pod("vm1")
        if answers == "away":  # nothing proves that the pod has ended: the group stays with its last device
            agent.devices_in_use.assume_in_use()
            await agent.tracker.wait_for_look()
            assert kubelet.healthy(NIC) == {ALONE}
            await kubelet.allocate("vm4", "c", {DISK: 1})
        else:
            await node.until(lambda: kubelet.healthy(NIC) == {ALONE, FIRST, SECOND})
            await kubelet.allocate("vm4", "c", {NIC: 1})
            await node.until(lambda: not kubelet.healthy(DISK))


async def test_a_process_that_is_killed_right_after_its_answer_leaves_the_group_with_the_pod(node):
    """As another one starts: SIGKILL, no PodResources, nothing but the state file."""
    kubelet = node.kubelet
    node.pod_resources.go()
    async with run_agent(node) as process:
        await wait_for_devices(node)
        await kubelet.allocate("vm1", "c", {DISK: 1})
        process.send(signal.SIGKILL)
        await process.ended()
    before = len(kubelet.lists.select(NIC))
    async with run_agent(node):
        await node.until(lambda: kubelet.healthy(NIC) == {ALONE})
        assert healthy(node, before) == {ALONE}


async def test_a_resource_that_is_new_frees_no_group(node):
    """A reload raises doubt about what pods hold; that made every function of the group a holder."""
    kubelet = node.kubelet
    node.pod_resources.go()
    async with node.agent() as agent:
        await wait_for_devices(node)
        await kubelet.allocate("vm1", "c", {DISK: 1})
        await node.until(lambda: kubelet.healthy(NIC) == {ALONE})
        node.plug("foo0")
        node.serve("example.com/foo", file="20.toml")
        await node.reload(agent)
        await node.allocatable("example.com/foo", 1)
        await agent.tracker.wait_for_look()
        assert kubelet.healthy(NIC) == {ALONE}


@pytest.mark.parametrize("answers", ["present", "silent", "away"])
async def test_with_its_state_lost_the_agent_asks_before_it_gives_a_group(node, monkeypatch, answers):
    """Whatever was not remembered, or was granted by another plugin, PodResources knows."""
    kubelet = node.kubelet
    async with node.agent():
        await wait_for_devices(node)
        await kubelet.allocate("vm1", "c", {DISK: 1})
    monkeypatch.setattr("agent.allocation.allocation.CONFIRM_SECONDS", 60.0 if answers == "present" else 0.01)

    async def never(self, _):
        await asyncio.Event().wait()

    monkeypatch.setattr(DevicesInUse, "run", never)  # the first answer is that to a question of the grant
    if answers == "silent":
        monkeypatch.setattr("agent.allocation.devices_in_use.list_holders", never)
    if answers == "away":
        node.pod_resources.go()
    async with node.agent(state=node.top / "other") as agent:
        await wait_for_devices(node)
        asked = [agent.allocation.allocate(NIC, [name]) for name in (FIRST, ALONE, SECOND)]
        first, alone, second = await asyncio.gather(*asked, return_exceptions=True)
        assert alone.ids == (ALONE,)
        if answers == "present":
            for refused in first, second:
                assert isinstance(refused, GrantRefusedError)
                assert f"a pod holds its IOMMU group, as {DISK} {SSD}" in refused.text
        else:  # nobody knows of the pod; still only one of two gets it
            assert [isinstance(one, GrantRefusedError) for one in (first, second)].count(True) == 1


FORMER = """\
{"version": 1,
"lists": {
 "example.com/disk": [{"id": "0000:06:00.0", "place": "0000:06:00.0", "key": "pci:0000:06:00.0", "stamp": "1", \
"numa": [], "shares": null, "first_share": 0, "shuts": ["pci:0000:05:00.0", "pci:0000:05:00.1"]}],
 "example.com/nic": [{"id": "0000:05:00.0", "place": "0000:05:00.0", "key": "pci:0000:05:00.0", "stamp": "1", \
"numa": [], "shares": null, "first_share": 0, "shuts": ["pci:0000:05:00.1", "pci:0000:06:00.0"]}]
},
"fanned": {},
"held": ["0000:06:00.0"],
"failing": {},
"boot": "",
"latched": {},
"counted": {},
"cleared": {},
"well": {},
"drained": {"places": {}, "resources": {}}}
"""


async def test_after_an_upgrade_the_state_of_the_version_before_excludes(node):
    node.pod_resources.go()
    node.state.mkdir()
    (node.state / "state.json").write_text(FORMER)
    async with node.agent():
        await node.streaming(NIC, DISK)
        await node.until(lambda: node.kubelet.healthy(NIC) == {ALONE})
        assert healthy(node, 0) == {ALONE}
    assert json.loads((node.state / "state.json").read_text())["held"] == [SSD]


@pytest.mark.parametrize("answers", ["present", "late", "away"])
@pytest.mark.parametrize("shares", ["", "replicas = 2"])
async def test_after_a_restart_with_another_entry_for_it_a_device_is_still_its_pod_s(node, answers, shares):
    """It is listed as what the pod was given, and is nothing else meanwhile."""
    kubelet = node.kubelet
    if answers != "present":
        node.pod_resources.go()
    node.plug("foo0", "foo1")
    node.serve(entry(FOO, shares))
    async with node.agent():
        await node.until(lambda: kubelet.allocatable(FOO))
        (path,) = (await kubelet.allocate("pod", "c", {FOO: 1})).devices
    node.serve(entry(BAR, shares and "replicas = 3", nodes="/dev/foo[0-9]*"))
    other = {"/dev/foo0": "/dev/foo1", "/dev/foo1": "/dev/foo0"}[path]
    async with node.agent() as agent:
        if answers == "late":
            node.pod_resources.come()
        if answers == "away":
            await agent.tracker.wait_for_look()
            assert not agent.registry.get_list(BAR).devices  # in doubt the other one may be a pod's, too
        else:
            await node.until(lambda: kubelet.healthy(BAR))
            (device,) = agent.registry.get_list(BAR).devices
            assert f"/dev/{device.id}" == other
        assert {unlisted.reason for unlisted in agent.tracker.device_lists.unlisted} >= {
            f"a pod holds it as {FOO} {path.removeprefix('/dev/')}"
        }


@pytest.mark.parametrize("end", ["clean", "kill"])
async def test_what_is_drained_is_in_no_list_healthy_after_a_restart(node, end):
    state = node.state
    node.plug("foo0", "foo1")
    node.serve(FOO)
    async with node.agent() as agent:
        await node.allocatable(FOO, 2)
        places = {device.id: device.location for device in agent.registry.get_list(FOO).devices}
        await agent.drain(DrainSet(locations={places["foo0"]: Drain("repair", 0.0)}))
        if end == "kill":
            state = shutil.copytree(node.state, node.top / "left")
    before = len(node.kubelet.lists.select(FOO))
    async with node.agent(state=state):
        await node.until(lambda: node.kubelet.healthy(FOO) == {"foo1"})
        assert healthy(node, before, FOO) == {"foo1"}
