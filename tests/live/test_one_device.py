"""One device is one device under any name: whatever becomes of its names, no second pod gets what a pod has."""

import os
from contextlib import AsyncExitStack

import pytest

from agent.core.inventory.dirty_set import ALL_DIRTY
from device_agent_lab.simulated.errors import PodRefused
from tests.agent.rig import BAR, FOO, entry
from tests.live.received_lists import HEALTHY, last
from tests.live.sticks import stick
from tests.tree import Tree

BY_ID, TTYS = "/dev/serial/by-id/*", "/dev/ttyUSB*"
A, B = "/dev/serial/by-id/A", "/dev/serial/by-id/B"


def several(name, *globs, more=""):
    listed = ", ".join(f'"{glob}"' for glob in globs)
    return (
        f'[[resource]]\nname = "{name}"\nsource = {{ node = [{listed}] }}\n{more}\n'
        '[resource.give]\nnodes = { it = "{node}" }\n'
    )


def move(tree: Tree, path: str, to: str, number: str) -> None:
    """What stands at a path is renamed; of a tree the number has to be said of the new name."""
    tree.at(path).rename(tree.at(to))
    if tree.at(to).is_file():
        tree.node(to, f"c {number}")
    if tree.at("/sys/dev/char").joinpath(number).exists():
        directory = str(tree.at(f"/sys/dev/char/{number}").resolve().relative_to(tree.top.resolve()))
        major, minor = number.split(":")
        tree.file(f"/{directory}/uevent", f"MAJOR={major}\nMINOR={minor}\nDEVNAME={to.removeprefix('/dev/')}\n")


def recreate_node(tree, path, number):
    tree.at(path).rename(tree.at(f"/gone{len(os.listdir(tree.top))}"))
    tree.node(path, f"c {number}")


def remove_link(tree):
    tree.at(A).unlink()


def remove_link_and_recreate(tree):
    remove_link(tree)
    recreate_node(tree, "/dev/ttyUSB0", "188:0")


def restore_link(tree):
    tree.link(A, "/dev/ttyUSB0")


def restore_link_and_recreate(tree):
    recreate_node(tree, "/dev/ttyUSB0", "188:0")
    restore_link(tree)


def move_link(tree):
    tree.link(A, "/dev/ttyUSB1")


def exchange_link(tree):
    tree.link(A, "/dev/ttyUSB1")
    tree.link(B, "/dev/ttyUSB0")


def node_renamed(tree):
    move(tree, "/dev/ttyUSB0", "/dev/ttyUSB7", "188:0")


def node_renamed_with_its_link(tree):
    node_renamed(tree)
    tree.link(A, "/dev/ttyUSB7")


def second_node(tree):
    tree.node("/dev/ttyUSB00", "c 188:0")


def second_node_and_unlinked(tree):
    second_node(tree)
    remove_link(tree)


def directory_renamed(tree):
    tree.at("/dev/acme0").rename(tree.at("/dev/acme1"))
    tree.node("/dev/acme1/card", "c 188:0")


ONE = [several(FOO, BY_ID, TTYS)]
TWO = [entry(FOO, nodes=BY_ID), entry(BAR, nodes=TTYS)]
TWO_TURNED = TWO[::-1]
BY_CLASS = [
    (
        f'[[resource]]\nname = "{BAR}"\nsource = {{ subsystem = "tty" }}\nid = "tty-{{name}}"\nmatch = {{ node = '
        '{ exists = true } }\n[resource.give]\nnodes = { it = "{node}" }\n'
    )
]

# What it is called before, the entries, and what happens.
CASES = [
    pytest.param((A,), ONE, remove_link, id="the link vanishes"),
    pytest.param((A,), ONE, remove_link_and_recreate, id="the link vanishes and the node is made anew"),
    pytest.param((), ONE, restore_link, id="the link is late"),
    pytest.param((), ONE, restore_link_and_recreate, id="the link is late and the node is made anew"),
    pytest.param((A,), ONE, move_link, id="the link moves"),
    pytest.param((A, B), ONE, exchange_link, id="two links change places"),
    pytest.param((A, B), [entry(FOO, nodes=BY_ID)], exchange_link, id="two links of an entry for links change places"),
    pytest.param((A,), [entry(FOO, nodes=BY_ID)], move_link, id="the link of an entry for links moves"),
    pytest.param((A,), TWO, remove_link, id="two entries: the link vanishes"),
    pytest.param((), TWO, restore_link, id="two entries: the link is late"),
    pytest.param((A,), TWO, move_link, id="two entries: the link moves"),
    pytest.param((A,), TWO, second_node_and_unlinked, id="two entries: a second node, and the link vanishes"),
    pytest.param((A,), TWO_TURNED, node_renamed_with_its_link, id="two entries: the node is renamed"),
    pytest.param((A,), ONE, node_renamed_with_its_link, id="the node is renamed, its link with it"),
    pytest.param((), ONE, node_renamed, id="the node is renamed"),
    pytest.param((), ONE, second_node, id="a second node of the same number"),
    pytest.param((A,), ONE, second_node_and_unlinked, id="a second node, and the link vanishes"),
    pytest.param((), [entry(FOO, nodes="/dev/acme*/card")], directory_renamed, id="the directory is renamed"),
    pytest.param((A,), [*ONE, *BY_CLASS], remove_link, id="a class of the kernel shows it too: the link vanishes"),
    pytest.param((), [*BY_CLASS, *ONE], restore_link, id="a class of the kernel shows it first: the link is late"),
]


@pytest.mark.parametrize("located", [True, False], ids=["in sysfs", "not in sysfs"])
@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
@pytest.mark.parametrize(("links", "entries", "happens"), CASES)
async def test_no_second_pod_gets_what_a_pod_has(rig, soon, links, entries, happens, stopped, located):
    tree = rig.tree
    for minor in (0, 1):
        if located:
            stick(tree, str(minor + 1), f"ttyUSB{minor}", minor)
        else:
            tree.node(f"/dev/ttyUSB{minor}", f"c 188:{minor}")
    for number, link in enumerate(links):
        tree.link(link, f"/dev/ttyUSB{number}")
    if happens is directory_renamed:
        tree.node("/dev/acme0/card", "c 188:0")
    rig.serve(*entries)
    names = [name for name in (FOO, BAR) if any(f'"{name}"' in one for one in entries)]
    async with rig.kubelet, AsyncExitStack() as life:
        agent = await life.enter_async_context(rig.agent())
        await rig.streaming(*names)
        taken = [(name, one) for name in names for one, health in last(rig.kubelet, name).items() if health == HEALTHY]
        assert len(healthy(agent, names)) == len(taken) > 0
        for number, (name, _) in enumerate(taken):
            await rig.kubelet.allocate(f"p{number}", "c", {name: 1})
        if stopped:
            await life.aclose()
            happens(tree)
            agent = await life.enter_async_context(rig.agent())
            await rig.streaming(*names)
        else:
            happens(tree)
        await rig.until(lambda: not agent.devices_in_use._unconfirmed_count)
        await wait_for_lists(rig, agent, names)
        for name in names:
            with pytest.raises(PodRefused):
                await rig.kubelet.allocate("q", "c", {name: 1})
        assert {one for name, one in taken if one not in last(rig.kubelet, name)} == set()
        for number in range(len(taken)):
            rig.kubelet.remove_pod(f"p{number}")
        await rig.until(lambda: len(healthy(agent, names)) == len(taken))
        numbers = healthy(agent, names)
        assert len(set(numbers)) == len(numbers)


async def wait_for_lists(rig, agent, names):
    """Wait for a look at everything and for its lists in the kubelet."""
    agent.tracker.request_look(ALL_DIRTY)
    await agent.tracker.wait_for_look()
    lists = {name: agent.registry.get_list(name).devices for name in names}
    now = {name: {one.id: one.health.value for one in devices} for name, devices in lists.items()}
    await rig.until(lambda: {name: last(rig.kubelet, name) for name in names} == now)


def healthy(agent, names):
    """The numbers of what could be given, as often as it could be."""
    devices = [device for name in names for device in agent.registry.get_list(name).devices]
    return [
        (node.type, node.major, node.minor)
        for device in devices
        if device.health.value == HEALTHY
        for node in device.nodes
    ]
