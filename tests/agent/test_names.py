"""Resources with generated names, devices that wait, shares that change: over real sockets."""

import asyncio

import pytest

from agent import wiring
from agent.allocation import devices_in_use
from agent.core.grants import held_ids
from agent.core.lists import build_lists, resource_names
from device_agent_lab.simulated.simulated_node import Limits
from tests.agent.rig import BAR, FOO, entry, phases

M1, M2 = "example.com/m1", "example.com/m2"
ONE, TWO = "0000:3b:00.0", "0000:5e:00.0"
CARDS = '[[resource]]\nname = "example.com/{label}"\nsource = "pci"\n'


def card(rig, address, label, revision="0x00"):
    rig.tree.pci(address, label=f"{label}\n", revision=f"{revision}\n")


@pytest.fixture
def fast_release(monkeypatch):
    """The end of a pod counts at once."""
    monkeypatch.setattr(devices_in_use, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(held_ids, "SURE_SECONDS", 0.0)


async def test_a_name_appears_with_its_device_and_moves_with_it(rig, fast_release):
    rig.serve(CARDS)
    rig.new_kubelet(limits=Limits(watcher_poll=0.01, pod_resources_rate=1e6))
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.until(lambda: rig.kubelet.events.select("pod_resources"))
        assert rig.registers() == 0
        card(rig, ONE, "m1")
        card(rig, TWO, "m1")
        agent.tracker.request_look()
        await rig.allocatable(M1, 2)
        await rig.kubelet.allocate("pod", "c", {M1: 1})
        (kept,) = rig.kubelet.get_held_ids(M1)
        (free,) = {ONE, TWO} - {kept}
        for address in (ONE, TWO):
            card(rig, address, "m2")
        agent.tracker.request_look()
        await rig.allocatable(M2, 1)
        assert rig.kubelet.healthy(M2) == {free}
        assert rig.kubelet.unhealthy(M1) == {kept}
        rig.kubelet.remove_pod("pod")
        await rig.allocatable(M2, 2)
        assert rig.kubelet.capacity(M1) == 0
        lists = [(event.resource, {device.id for device in event.devices}) for event in rig.kubelet.lists]
        joined = next(n for n, (name, there) in enumerate(lists) if name == M2 and free in there)
        left = next(there for name, there in lists[:joined][::-1] if name == M1)
        assert left == {kept}
        assert rig.registers(M1) == rig.registers(M2) == 1


async def test_an_empty_name_retires_and_can_come_back(rig, monkeypatch):
    monkeypatch.setattr(resource_names, "EMPTY_SECONDS", 0.05)
    monkeypatch.setattr(build_lists, "EMPTY_SECONDS", 0.05)
    rig.serve(CARDS)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        card(rig, ONE, "m1")
        agent.tracker.request_look()
        await rig.allocatable(M1, 1)
        card(rig, ONE, "m2")
        agent.tracker.request_look()
        await rig.allocatable(M2, 1)
        await rig.until(lambda: set(phases(agent)) == {M2})
        await rig.until(lambda: len(rig.sockets()) == 1)
        card(rig, ONE, "m1")
        agent.tracker.request_look()
        await rig.allocatable(M1, 1)


async def test_a_remembered_name_is_registered_before_the_host_is_looked_at(rig, monkeypatch):
    rig.serve(CARDS, FOO)
    rig.plug("foo0")
    card(rig, ONE, "m1")
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(M1, 1)
        await rig.allocatable(FOO, 1)
    looking = asyncio.Event()
    take = wiring.Tracker._run_look

    async def slow(self, touched):
        await looking.wait()
        await take(self, touched)

    monkeypatch.setattr(wiring.Tracker, "_run_look", slow)
    async with rig.agent() as agent:
        await rig.until(lambda: rig.kubelet.unhealthy(M1) == {ONE} and rig.kubelet.unhealthy(FOO) == {"foo0"})
        assert not agent.status.ready_sent.is_set()
        looking.set()
        await rig.allocatable(M1, 1)
        await rig.allocatable(FOO, 1)
        assert rig.registers(M1) == 2


async def test_a_new_name_is_registered_with_its_full_list(rig):
    rig.plug("foo0", "foo1")
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(FOO, 2)
        assert len(rig.kubelet.lists.select(FOO)[0].devices) == 2


GATED = 'gate.driver = { "/proc/acme" = "on" }'


async def test_a_gate_holds_devices_back_and_never_the_registration(rig):
    rig.plug("foo0")
    rig.serve(entry(FOO, GATED))
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO)
        assert rig.kubelet.capacity(FOO) == 0
        rig.tree.file("/proc/acme", "on\n")
        agent.tracker.request_look()
        await rig.allocatable(FOO, 1)
        rig.tree.file("/proc/acme", "off\n")
        agent.tracker.request_look()
        await rig.until(lambda: rig.kubelet.unhealthy(FOO) == {"foo0"})
        (device,) = agent.tracker.device_lists.lists[FOO].devices
        assert str(device.reason) == 'waits for gate.driver./proc/acme = "on", here off'


async def test_a_device_waits_and_turns_unhealthy_when_it_has_to_again(rig):
    rig.serve(CARDS + 'wait.old = { revision = "00" }')
    card(rig, ONE, "m1")
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await agent.tracker.wait_for_look()
        assert [one.reason for one in agent.tracker.device_lists.unlisted] == [
            'not yet: wait.old.revision = "00", here 00'
        ]
        card(rig, ONE, "m1", revision="0x01")
        agent.tracker.request_look()
        await rig.allocatable(M1, 1)
        card(rig, ONE, "m2")
        agent.tracker.request_look()
        await rig.until(lambda: rig.kubelet.unhealthy(M1) == {ONE})
        assert M2 not in phases(agent)


async def test_the_number_of_shares_follows_the_device(rig):
    shares = 'replicas = { by = "label", map = { shared = 4, dedicated = 1 } }'
    rig.serve(f'[[resource]]\nname = "{FOO}"\nsource = "pci"\n{shares}')
    card(rig, ONE, "shared")
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.allocatable(FOO, 4)
        card(rig, ONE, "dedicated")
        agent.tracker.request_look()
        await rig.allocatable(FOO, 1)
        assert rig.kubelet.healthy(FOO) == {f"{ONE}::0"}
        card(rig, ONE, "odd")
        agent.tracker.request_look()
        await rig.until(lambda: rig.kubelet.unhealthy(FOO) == {f"{ONE}::0"})


async def test_two_entries_of_one_resource_give_each_its_own(rig):
    rig.plug("foo0", "bar0")
    adding = entry(FOO, nodes="/dev/bar*", give='env = { BAR = { value = "{id}", join = "," } }')
    rig.serve(entry(FOO), adding.replace("name =", "adds_to ="))
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(FOO, 2)
        options = await rig.kubelet.allocate("pod", "c", {FOO: 2})
        assert options.devices == {"/dev/foo0": ("/dev/foo0", "rw")}
        assert options.envs == {"BAR": "bar0"}


async def test_a_slot_gives_all_that_is_healthy_and_takes_nothing_away(rig):
    rig.plug("foo0", "foo1", "bar0")
    rig.serve(entry(BAR, "slots = 2", nodes="/dev/foo*"), FOO)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(BAR, 2)
        await rig.allocatable(FOO, 2)
        options = await rig.kubelet.allocate("pod", "c", {BAR: 1})
        assert sorted(options.devices) == ["/dev/foo0", "/dev/foo1"]
        rig.unplug("foo0", "foo1")
        await rig.until(lambda: len(rig.kubelet.unhealthy(BAR)) == 2)


@pytest.mark.parametrize(
    ("limit", "asked", "said"),
    [
        ("limit.per_container = 2", 3, "a container can have at most 2 IDs (limit.per_container), not 3"),
        ("limit.distinct = true", 3, "a container can have one share of a device (limit.distinct), not 2"),
    ],
)
async def test_a_limit_is_kept_with_a_reason(rig, limit, asked, said):
    rig.plug("foo0", "foo1")
    rig.serve(entry(FOO, f"{limit}\nreplicas = 2"))
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(FOO, 4)
        with pytest.raises(Exception, match="a container can have") as refused:
            await rig.kubelet.allocate("pod", "c", {FOO: asked})
        assert said in str(refused.value)


async def test_shares_of_distinct_devices_are_preferred(rig):
    rig.plug("foo0", "foo1")
    rig.serve(entry(FOO, "limit.distinct = true\nreplicas = 2"), BAR)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(FOO, 4)
        options = await rig.kubelet.allocate("pod", "c", {FOO: 2})
        assert set(options.devices) == {"/dev/foo0", "/dev/foo1"}
        wants = {event.resource: event.detail["preferred"] for event in rig.kubelet.events.select("registered")}
        assert wants[FOO]
