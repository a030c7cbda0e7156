"""The kernel log in a running agent: before the first list, immediately, over restarts and reloads."""

import asyncio
import json
import os
import time

import pytest

from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from tests.agent.rig import entry

GPU = "acme.com/gpu"
ONE, TWO = "0000:01:00.0", "0000:02:00.0"
LATCHED = 'latch = { code = 79 }\nignore = { code = 13 }\nrecover = "1h"\nreason = "Xid {code} of {address}"'


def gpu(check=LATCHED, more="", name=GPU):
    health = f'[resource.health.xid]\nlog = "NVRM: Xid (PCI:{{address}}): {{code:int}},"\n{check}'
    text = entry(name, f'match.vendor = "10de"\n{more}\n{health}', give='env = { a = "b" }')
    return text.replace(f'{{ node = "/dev/{name.rpartition("/")[2]}[0-9]*" }}', '"pci"')


@pytest.fixture
async def node(rig):
    for address in (ONE, TWO):
        rig.tree.pci(address, vendor="0x10de")
    rig.number = 0
    await rig.kubelet.start()
    return rig


def say(rig, text, prefix=4):
    rig.number += 1
    rig.tree.at("/dev").mkdir(exist_ok=True)
    with open(rig.tree.at("/dev/kmsg"), "a") as file:
        file.write(f"{prefix},{rig.number},{int(time.monotonic() * 1e6)},-;{text}\n")


def xid(rig, code, address=ONE, **how):
    say(rig, f"NVRM: Xid (PCI:{address.partition('.')[0]}): {code}, pid=1", **how)


def reasons(agent, name=GPU):
    return {device.id: str(device.reason) for device in agent.registry.get_list(name).devices if device.reason}


async def ill(rig, *ids):
    await rig.until(lambda: rig.kubelet.unhealthy(GPU) == set(ids))


async def test_what_was_said_since_boot_is_in_the_first_list(node):
    xid(node, 79)
    xid(node, 13)
    node.serve(gpu())
    async with node.agent() as agent:
        await node.streaming(GPU)
        assert node.kubelet.unhealthy(GPU) == {ONE}
        assert reasons(agent) == {ONE: f"xid: Xid 79 of {ONE}"}


async def test_a_line_that_comes_is_told_at_once_and_of_its_device_alone(node, caplog):
    say(node, "something")
    node.serve(gpu())
    async with node.agent() as agent:
        await node.allocatable(GPU, 2)
        looks = agent.tracker.inventory
        xid(node, 8, TWO)
        agent.tracker.request_look(DirtySet())  # what the log does by itself, and a plain file in its place does not
        await ill(node, TWO)
        assert agent.tracker.inventory is looks  # nobody was looked at for it
        (line,) = (record.fields for record in caplog.records if "→ Unhealthy" in record.getMessage())
        assert line["DEVICE_AGENT_EVIDENCE"] == f"NVRM: Xid (PCI:{TWO[:-2]}): 8, pid=1"
        xid(node, 79)
        agent.tracker.request_look(DirtySet())
        await ill(node, ONE, TWO)
        xid(node, 13)
        xid(node, 79, "0000:09:00.0")
        agent.tracker.request_look(ALL_DIRTY)
        await agent.tracker.wait_for_look()
        assert reasons(agent) == {ONE: f"xid: Xid 79 of {ONE}", TWO: f"xid: Xid 8 of {TWO}"}


async def test_what_only_looks_like_it_is_not_believed(node):
    node.serve(gpu())
    async with node.agent() as agent:
        await node.allocatable(GPU, 2)
        xid(node, 79, prefix=12)  # a program may write to /dev/kmsg
        say(node, f"usb 1-1: Product: NVRM: Xid (PCI:{ONE[:-2]}): 79,")  # and hardware calls itself what it likes
        xid(node, 79, TWO)
        agent.tracker.request_look(DirtySet())
        await ill(node, TWO)
        assert set(reasons(agent)) == {TWO}


async def test_all_shares_in_one_message(node):
    node.serve(gpu(more="replicas = 4"))
    async with node.agent() as agent:
        await node.allocatable(GPU, 8)
        before = node.kubelet.events.count("list")
        xid(node, 79)
        agent.tracker.request_look(DirtySet())
        await node.allocatable(GPU, 4)
        assert node.kubelet.events.count("list") == before + 1


async def test_it_heals_though_nothing_happens(node):
    node.serve(gpu('recover = "1s"'))
    async with node.agent() as agent:
        await node.allocatable(GPU, 2)
        xid(node, 8)
        agent.tracker.request_look(DirtySet())
        await ill(node, ONE)
        await ill(node)


async def test_what_a_person_cleared_does_not_come_back_with_the_next_life(node):
    """It is still in the kernel log, which is read from its beginning."""
    xid(node, 79)
    node.serve(gpu())
    async with node.agent() as agent:
        await node.streaming(GPU)
        await ill(node, ONE)
        (device, _) = agent.registry.get_list(GPU).devices
        assert await agent.tracker.clear(GPU, device, None) == {"xid"}
        await ill(node)
    async with node.agent() as agent:
        await node.allocatable(GPU, 2)
        xid(node, 79, TWO)
        agent.tracker.request_look(DirtySet())
        await ill(node, TWO)
        xid(node, 79)
        agent.tracker.request_look(DirtySet())
        await ill(node, ONE, TWO)
    async with node.agent():
        await node.streaming(GPU)
        await ill(node, ONE, TWO)


async def test_a_latch_outlasts_the_kernel_log_and_the_boot(node):
    xid(node, 79)
    xid(node, 8, TWO)
    node.serve(gpu())
    async with node.agent():
        await node.streaming(GPU)
        await ill(node, ONE, TWO)
    node.tree.at("/dev/kmsg").unlink()
    node.tree.file("/proc/sys/kernel/random/boot_id", "another")
    async with node.agent() as agent:
        await ill(node, ONE)
        assert reasons(agent) == {ONE: f"xid: Xid 79 of {ONE}"}


async def test_in_another_boot_lines_have_other_numbers(node):
    xid(node, 79)
    node.serve(gpu())
    async with node.agent() as agent:
        await node.streaming(GPU)
        (device, _) = agent.registry.get_list(GPU).devices
        for _ in range(20):
            say(node, "something")
        await agent.tracker.wait_for_look()
        assert await agent.tracker.clear(GPU, device, None) == {"xid"}
    assert json.loads((node.state / "state.json").read_text())["cleared"]
    node.tree.at("/dev/kmsg").unlink()
    node.tree.file("/proc/sys/kernel/random/boot_id", "another")
    node.number = 0
    xid(node, 79)
    async with node.agent():
        await node.streaming(GPU)
        await ill(node, ONE)


async def test_an_entry_that_comes_later_hears_what_was_said_before(node):
    node.serve(entry(GPU, 'match.vendor = "10de"').replace('{ node = "/dev/gpu[0-9]*" }', '"pci"'))
    xid(node, 79)
    async with node.agent() as agent:
        await node.streaming(GPU)
        node.serve(gpu())
        await node.reload(agent)
        await ill(node, ONE)
        node.serve(gpu("only = { code = 48 }"))
        await node.reload(agent)
        await ill(node, ONE)  # latched


@pytest.mark.usefixtures("both_loops")
async def test_a_log_that_tells_by_itself(node):
    """As /dev/kmsg does: here a FIFO, which becomes readable."""
    node.tree.at("/dev").mkdir(exist_ok=True)
    os.mkfifo(node.tree.at("/dev/kmsg"))
    node.serve(gpu())
    async with node.agent():
        await node.allocatable(GPU, 2)
        writer = os.open(node.tree.at("/dev/kmsg"), os.O_WRONLY)
        try:
            os.write(writer, f"4,1,1,-;NVRM: Xid (PCI:{ONE[:-2]}): 79, x\n".encode())
            await ill(node, ONE)
        finally:
            os.close(writer)


async def test_a_log_that_cannot_be_read_is_a_reason(node):
    """What watches health and cannot is a fault of its own: else all would look well."""
    node.tree.at("/dev").mkdir(exist_ok=True)
    os.symlink("kmsg", node.tree.at("/dev/kmsg"))
    node.serve(gpu(), gpu('on_unknown = "healthy"', 'match.device = { not = "1" }', name="acme.com/other"))
    async with node.agent() as agent:
        await node.streaming(GPU)
        await ill(node, ONE, TWO)
        assert set(reasons(agent).values()) == {
            "xid: the kernel log: /dev/kmsg cannot be read: Too many levels of symbolic links"
        }
        node.tree.at("/dev/kmsg").unlink()
        agent.tracker.request_look(ALL_DIRTY)
        await ill(node)


async def test_nobody_listens_nothing_is_opened(node):
    xid(node, 79)
    node.serve(gpu())
    async with node.agent() as agent:
        await node.streaming(GPU)
        assert is_log_open()
        node.serve(entry(GPU, 'match.vendor = "10de"').replace('{ node = "/dev/gpu[0-9]*" }', '"pci"'))
        await node.reload(agent)
        assert not is_log_open()


def is_log_open():
    """Return whether the log is open."""
    links = [f"/proc/self/fd/{handle}" for handle in os.listdir("/proc/self/fd")]
    return any(os.readlink(link).endswith("/dev/kmsg") for link in links if os.path.islink(link))


async def test_a_flood_of_lines_is_one_message_and_holds_nobody_up(node):
    node.serve(gpu('recover = "1h"'))
    async with node.agent() as agent:
        await node.allocatable(GPU, 2)
        before = node.kubelet.events.count("list")
        for number in range(20_000):
            say(node, f"NVRM: Xid (PCI:{ONE[:-2]}): {number % 90}, pid=1")
        agent.tracker.request_look(DirtySet())
        await ill(node, ONE)
        await asyncio.sleep(0)
        assert node.kubelet.events.count("list") == before + 1
