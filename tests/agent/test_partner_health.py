"""The health of a partner: whoever speaks of it has it at once, all in one message, and it is one for all."""

import asyncio
import time

import pytest

from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from tests.agent.rig import entry

GPU, MIG = "acme.com/gpu", "acme.com/mig"
ONE, TWO = "0000:01:00.0", "0000:02:00.0"
CARDS = {address: f"/sys/devices/pci0000:00/{address}" for address in (ONE, TWO)}
CLASS = """about = "a GPU"
source = "pci"
match = { vendor = "10de" }
[exclude]
all = { vendor = "10de" }
[gate.driver]
"/proc/driver" = { exists = true }
[wait.firmware]
"./loading" = { exists = true }
[health.xid]
log = "NVRM: Xid (PCI:{address}): {code:int},"
latch = { code = 79 }
recover = "1h"
reason = "Xid {code}"
[health.state]
holds = { "./state" = "ready" }
trip = "1ms"
"""
PARTNER = """[resource.join.gpu]
class = "gpu"
on = { address = "pci.address" }
[resource.health.gpu]
holds = { gpu.healthy = true }
reason = "its GPU: {gpu.reason}"
"""


def mig(more=PARTNER, name=MIG, source="mig"):
    text = entry(name, f'id = "{{name}}"\n{more}', give='env = { a = "b" }')
    return text.replace(f'{{ node = "/dev/{name.rpartition("/")[2]}[0-9]*" }}', f'{{ subsystem = "{source}" }}')


@pytest.fixture
async def node(rig):
    (rig.etc / "classes").mkdir()
    (rig.etc / "classes/gpu.toml").write_text(CLASS)
    rig.tree.file("/proc/driver/version", "1")
    rig.number = 0
    for number, directory in enumerate(CARDS.values()):
        rig.tree.pci(directory.rpartition("/")[2], vendor="0x10de", state="ready")
        for part in range(3):
            rig.tree.class_device(f"{directory}/mig/mig{number}{part}", "mig")
    await rig.kubelet.start()
    return rig


def say(rig, code, address=ONE):
    say_line(rig, f"NVRM: Xid (PCI:{address[:-2]}): {code}, x")


def say_line(rig, text):
    rig.number += 1
    rig.tree.at("/dev").mkdir(exist_ok=True)
    with open(rig.tree.at("/dev/kmsg"), "a") as file:
        stamp = int(time.monotonic() * 1e6)
        file.write(f"4,{rig.number},{stamp},-;{text}\n")


def reasons(agent, name=MIG):
    return {device.id: str(device.reason) for device in agent.registry.get_list(name).devices if device.reason}


async def ill(rig, ids, name=MIG):
    await rig.until(lambda: rig.kubelet.unhealthy(name) == set(ids))


OF_ONE, OF_TWO = ({f"mig{number}{part}" for part in range(3)} for number in range(2))


async def test_a_parent_takes_all_its_children_along_in_one_message(node):
    node.serve(mig())
    async with node.agent() as agent:
        await node.allocatable(MIG, 6)
        before = node.kubelet.events.count("list")
        say(node, 8)
        agent.tracker.request_look(DirtySet())
        await ill(node, OF_ONE)
        assert reasons(agent) == dict.fromkeys(sorted(OF_ONE), "gpu: its GPU: xid: Xid 8")
        assert node.kubelet.events.count("list") == before + 1


async def test_what_a_look_finds_of_the_parent(node):
    """By an event of the parent, whose check takes its time; and back."""
    node.serve(mig())
    async with node.agent() as agent:
        await node.allocatable(MIG, 6)
        node.tree.file(f"{CARDS[ONE]}/state", "broken")
        agent.tracker.request_look(DirtySet(frozenset({CARDS[ONE]})))
        await ill(node, OF_ONE)
        assert set(reasons(agent).values()) == {'gpu: its GPU: state: ./state = "ready", here broken'}
        node.tree.file(f"{CARDS[ONE]}/state", "ready")
        agent.tracker.request_look(DirtySet(frozenset({CARDS[ONE]})))
        await ill(node, ())


async def test_what_one_child_sees_is_told_of_the_others(node):
    """Though these were not looked at: the parent is one."""
    (node.etc / "classes/gpu.toml").write_text(CLASS.replace('trip = "1ms"\n', ""))
    node.serve(mig())
    async with node.agent() as agent:
        await node.allocatable(MIG, 6)
        node.tree.file(f"{CARDS[ONE]}/state", "broken")
        agent.tracker.request_look(DirtySet(keys=frozenset(key for key in keys(agent) if key.endswith("mig01"))))
        await ill(node, OF_ONE)


def keys(agent):
    return [device.key for device in agent.registry.get_list(MIG).devices]


async def test_a_parent_that_waits_or_whose_gate_is_closed_is_not_healthy(node):
    node.serve(mig())
    async with node.agent() as agent:
        await node.allocatable(MIG, 6)
        node.tree.file(f"{CARDS[TWO]}/loading", "1")
        agent.tracker.request_look(ALL_DIRTY)
        await ill(node, OF_TWO)
        assert all(reason.startswith("gpu: its GPU: not yet: ") for reason in reasons(agent).values())
        node.tree.at(f"{CARDS[TWO]}/loading").unlink()
        agent.tracker.request_look(ALL_DIRTY)
        await ill(node, ())
        node.tree.at("/proc/driver/version").unlink()
        node.tree.at("/proc/driver").rmdir()
        agent.tracker.request_look(ALL_DIRTY)
        await ill(node, OF_ONE | OF_TWO)
        assert all(reason.startswith("gpu: its GPU: waits for ") for reason in reasons(agent).values())


async def test_one_latch_for_all_who_join_and_a_person_clears_it_at_any_of_them(node):
    other = PARTNER.replace('reason = "its GPU: {gpu.reason}"', "")
    for number, directory in enumerate(CARDS.values()):
        node.tree.class_device(f"{directory}/vgpu/vgpu{number}", "vgpu")
    node.serve(mig(), mig(other, "acme.com/vgpu", "vgpu"))
    async with node.agent() as agent:
        await node.allocatable(MIG, 6)
        say(node, 79)
        agent.tracker.request_look(DirtySet())
        await ill(node, OF_ONE)
        await ill(node, {"vgpu0"}, "acme.com/vgpu")
        assert reasons(agent, "acme.com/vgpu") == {"vgpu0": "gpu: gpu.healthy = true, here false"}
    async with node.agent() as agent:  # the latch is the parent's, over restarts too
        await ill(node, OF_ONE)
        device = next(each for each in agent.registry.get_list(MIG).devices if each.id == "mig00")
        assert await agent.tracker.clear(MIG, device, None) == {"gpu", "xid"}
        await ill(node, ())
        await ill(node, (), "acme.com/vgpu")
    async with node.agent() as agent:
        await node.allocatable(MIG, 6)
        say(node, 8)
        agent.tracker.request_look(DirtySet())
        await ill(node, OF_ONE)


async def test_an_entry_is_the_same_for_itself_and_for_who_joins_it(node):
    """`resource = …`: with its overrides, and its conditions are its own."""
    own = entry(GPU, 'match.vendor = "10de"\n[resource.health.state]\nholds = { "./state" = "ready" }\nlatch = true')
    own = own.replace('{ node = "/dev/gpu[0-9]*" }', '"pci"').replace('nodes = { it = "{node}" }', 'env.A = "b"')
    node.serve(own, mig(PARTNER.replace('class = "gpu"', f'resource = "{GPU}"')))
    async with node.agent() as agent:
        await node.allocatable(MIG, 6)
        node.tree.file(f"{CARDS[ONE]}/state", "broken")
        agent.tracker.request_look(DirtySet(frozenset({CARDS[ONE]})))
        await ill(node, {ONE}, GPU)
        await ill(node, OF_ONE)
        node.tree.file(f"{CARDS[ONE]}/state", "ready")
        (device, _) = agent.registry.get_list(GPU).devices
        assert await agent.tracker.clear(GPU, device, None) == {"state"}
        await ill(node, (), GPU)
        await ill(node, ())


async def test_a_child_that_goes_takes_nothing_of_its_parent_along(node):
    node.serve(mig())
    say(node, 8)
    async with node.agent() as agent:
        await ill(node, OF_ONE)
        node.tree.at("/sys/class/mig/mig00").unlink()
        agent.tracker.request_look(DirtySet(frozenset({f"{CARDS[ONE]}/mig/mig00"}), frozenset({"mig"})))
        await node.until(lambda: reasons(agent)["mig00"].startswith("absent"))
        assert {id_: reasons(agent)[id_] for id_ in OF_ONE - {"mig00"}} == dict.fromkeys(
            OF_ONE - {"mig00"}, "gpu: its GPU: xid: Xid 8"
        )
        agent.tracker.request_look(ALL_DIRTY)
        await agent.tracker.wait_for_look()
        await asyncio.sleep(0)
        assert set(reasons(agent)) == OF_ONE


async def test_without_the_parent_it_waits_and_optional_is_unknown(node):
    node.serve(mig(PARTNER.replace('class = "gpu"', 'class = "gpu"\noptional = true\nmatch.vendor = "ffff"')))
    async with node.agent() as agent:
        await node.streaming(MIG)
        await ill(node, OF_ONE | OF_TWO)
        assert all("(no gpu: " in reason for reason in reasons(agent).values()), reasons(agent)


WAITING = """[resource.join.gpu]
class = "gpu"
on = { address = "pci.address" }
[resource.wait.gpu]
gpu.healthy = false
"""


async def test_what_the_kernel_log_says_of_a_child_whose_reason_tells_of_the_parent_too(node):
    own = '[resource.health.own]\nlog = "mig {name}: {code:int}"\nreason = "{code}, its GPU: {gpu.reason}"\n'
    node.serve(mig(PARTNER.partition("[resource.health")[0] + own))
    async with node.agent() as agent:
        await node.allocatable(MIG, 6)
        say(node, 8)
        say_line(node, "mig mig02: 5")
        agent.tracker.request_look(DirtySet())
        await ill(node, {"mig02"})
        assert reasons(agent) == {"mig02": "own: 5, its GPU: xid: Xid 8"}


async def test_who_waits_for_the_parent_is_not_listed_and_who_is_listed_turns_with_it(node):
    (node.etc / "classes/gpu.toml").write_text(CLASS.replace('trip = "1ms"\n', ""))
    node.serve(mig(WAITING))
    node.tree.file(f"{CARDS[TWO]}/state", "broken")
    async with node.agent() as agent:
        await node.allocatable(MIG, 3)
        (reason,) = {one.reason for one in agent.tracker.device_lists.unlisted}
        assert reason.startswith("not yet: wait.gpu.gpu.healthy = false, here false (gpu: state: ./state = ")
        node.tree.file(f"{CARDS[TWO]}/state", "ready")
        agent.tracker.request_look(DirtySet(frozenset({CARDS[TWO]})))
        await node.allocatable(MIG, 6)
        say(node, 8)
        agent.tracker.request_look(DirtySet())
        await ill(node, OF_ONE)
        assert set(reasons(agent).values()) == {"not yet: wait.gpu.gpu.healthy = false, here false (gpu: xid: Xid 8)"}


async def test_a_name_with_words_is_there_though_all_of_it_wait_for_a_parent(node):
    """A pod that asks for a name which the kubelet does not know runs without its device."""
    (node.etc / "classes/gpu.toml").write_text(CLASS.replace('trip = "1ms"\n', ""))
    named = "acme.com/mig-0000-02-00.0"
    node.serve(mig(WAITING).replace(f'"{MIG}"', '"acme.com/mig-{pci.address}"'))
    node.tree.file(f"{CARDS[TWO]}/state", "broken")
    async with node.agent() as agent:
        await node.allocatable("acme.com/mig-0000-01-00.0", 3)
        await node.streaming(named)
        assert not agent.registry.get_list(named).devices
        node.tree.file(f"{CARDS[TWO]}/state", "ready")
        agent.tracker.request_look(DirtySet(frozenset({CARDS[TWO]})))
        await node.allocatable(named, 3)


async def test_what_is_given_hangs_on_how_the_parent_is_when_the_container_gets_it(node):
    given = '[resource.give.also.ill]\nwhen = { gpu.healthy = false }\nenv.ILL = { value = "{name}", join = "," }\n'
    node.serve(mig(WAITING.partition("[resource.wait")[0] + given))
    async with node.agent() as agent:
        await node.allocatable(MIG, 6)
        assert dict((await agent.allocation.allocate(MIG, ["mig00"])).env) == {"a": "b"}
        say(node, 8)
        agent.tracker.request_look(DirtySet())
        await agent.tracker.wait_for_look()
        assert not reasons(agent)
        assert dict((await agent.allocation.allocate(MIG, ["mig00"])).env) == {"a": "b", "ILL": "mig00"}
        assert dict((await agent.allocation.allocate(MIG, ["mig10"])).env) == {"a": "b"}
