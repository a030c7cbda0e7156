"""Devices come, go, return and are replaced while the agent serves them from a tree on disk."""

import itertools
import os

import pytest

from agent.allocation import devices_in_use
from agent.core.inventory.dirty_set import ALL_DIRTY
from agent.core.language.value import Absent
from agent.host import udev
from agent.host.inotify import PathWatch
from agent.host.root import Root
from device_agent_lab.simulated.errors import PodRefused
from tests.agent.rig import BAR, FOO, entry, make_minor
from tests.live.received_lists import HEALTHY, UNHEALTHY, kernel_event, last, moments, story
from tests.live.sticks import stick, unstick

VFIO, NET = "example.com/vfio", "example.com/net"
SERIAL = "example.com/serial"


def pci_entry(name, driver, more=""):
    return (
        f'[[resource]]\nname = "{name}"\nsource = "pci"\nmatch = {{ driver = "{driver}" }}\n{more}\n'
        '[resource.give.env]\nADDRESS = { value = "{address}", join = "," }\n'
    )


# ---------------------------------------------------------------- nodes


async def test_a_node_appears_vanishes_and_returns(rig, both_loops):
    rig.serve(FOO)
    rig.plug("foo0")
    async with rig.kubelet, rig.agent():
        await rig.streaming(FOO)
        rig.plug("foo1")
        await rig.until(lambda: last(rig.kubelet, FOO) == {"foo0": HEALTHY, "foo1": HEALTHY})
        rig.unplug("foo0")
        await rig.until(lambda: last(rig.kubelet, FOO) == {"foo0": UNHEALTHY, "foo1": HEALTHY})
        rig.replug("foo0")
        await rig.until(lambda: last(rig.kubelet, FOO) == {"foo0": HEALTHY, "foo1": HEALTHY})
    assert len(story(rig.kubelet, FOO)) == 4


async def test_a_blip_is_two_lists(rig):
    rig.serve(FOO)
    rig.plug("foo0")
    async with rig.kubelet, rig.agent():
        await rig.streaming(FOO)
        rig.unplug("foo0")
        await rig.until(lambda: last(rig.kubelet, FOO) == {"foo0": UNHEALTHY})
        rig.replug("foo0")
        await rig.until(lambda: last(rig.kubelet, FOO) == {"foo0": HEALTHY})
    assert story(rig.kubelet, FOO) == [{"foo0": HEALTHY}, {"foo0": UNHEALTHY}, {"foo0": HEALTHY}]


async def test_a_node_made_anew_between_two_looks_is_handed_out_as_it_is_now(rig):
    rig.serve(FOO, BAR)
    rig.plug("foo0", "bar0")
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(FOO, BAR)
        # An ID that a pod may hold does not pass to other hardware.
        await rig.until(lambda: not agent.devices_in_use._unconfirmed_count)
        (before,) = agent.registry.get_list(FOO).devices
        rig.unplug("foo0")
        rig.tree.node("/dev/foo0", "c 250:7")
        rig.plug("bar1")
        await rig.until(lambda: last(rig.kubelet, BAR) == {"bar0": HEALTHY, "bar1": HEALTHY})
        await agent.tracker.wait_for_look()
        (after,) = agent.registry.get_list(FOO).devices
        assert [(node.major, node.minor) for node in (*before.nodes, *after.nodes)] == [
            (240, make_minor("foo0")),
            (250, 7),
        ]
        assert (await rig.kubelet.allocate("p", "c", {FOO: 1})).devices == {"/dev/foo0": ("/dev/foo0", "rw")}
        assert len(story(rig.kubelet, FOO)) == 1  # the kubelet sees no difference
        assert agent.counters.blips == {FOO: 1}


async def test_a_link_that_leads_elsewhere_gives_the_other_node_once_no_pod_has_the_first(rig, soon):
    rig.tree.node("/dev/ttyUSB0", "c 188:0")
    rig.tree.node("/dev/ttyUSB1", "c 188:1")
    rig.tree.link("/dev/serial/scale", "/dev/ttyUSB0")
    rig.serve(entry(SERIAL, nodes="/dev/serial/*", give='nodes = { it = { path = "{node}", to = "/dev/scale{n}" } }'))
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(SERIAL)
        assert (await rig.kubelet.allocate("p", "c", {SERIAL: 1})).devices == {"/dev/scale0": ("/dev/ttyUSB0", "rw")}
        rig.tree.link("/dev/serial/scale.new", "/dev/ttyUSB1")
        rig.tree.at("/dev/serial/scale.new").rename(rig.tree.at("/dev/serial/scale"))
        await rig.until(lambda: last(rig.kubelet, SERIAL) == {"serial_scale": UNHEALTHY})
        rig.kubelet.remove_pod("p")
        await rig.until(lambda: agent.registry.get_list(SERIAL).devices[0].key == "node:c188:1")
        await rig.until(lambda: last(rig.kubelet, SERIAL) == {"serial_scale": HEALTHY})
        assert (await rig.kubelet.allocate("q", "c", {SERIAL: 1})).devices == {"/dev/scale0": ("/dev/ttyUSB1", "rw")}
        rig.tree.at("/dev/ttyUSB1").unlink()  # in a directory of which the source's own glob says nothing
        await rig.until(lambda: last(rig.kubelet, SERIAL) == {"serial_scale": UNHEALTHY})
        rig.kubelet.remove_pod("q")
        rig.tree.link("/dev/serial/scale", "/dev/ttyUSB0")
        await rig.until(lambda: last(rig.kubelet, SERIAL) == {"serial_scale": HEALTHY})


async def test_the_directory_of_a_source_appears_later_goes_and_returns(rig):
    rig.serve(entry(FOO, nodes="/dev/acme/cards/x[0-9]*"))
    async with rig.kubelet, rig.agent():
        await rig.streaming(FOO)
        for _ in range(2):
            rig.tree.node("/dev/acme/cards/x0", "c 240:0")
            await rig.until(lambda: last(rig.kubelet, FOO) == {"acme_cards_x0": HEALTHY})
            rig.tree.at("/dev/acme").rename(rig.tree.at("/dev/away"))
            await rig.until(lambda: last(rig.kubelet, FOO) == {"acme_cards_x0": UNHEALTHY})
            rig.tree.at("/dev/away/cards/x0").unlink()
            rig.tree.at("/dev/away/cards").rmdir()
            rig.tree.at("/dev/away").rmdir()
    assert story(rig.kubelet, FOO)[0] == {}  # registered and empty, not: unknown


async def test_what_happens_between_a_look_and_the_watch_that_follows_from_it_is_seen(rig, monkeypatch):
    rig.serve(FOO)
    rig.plug("foo0")
    real = PathWatch.watch

    def watch(self, directories):
        if "/dev" in directories and not rig.tree.at("/dev/foo1").exists():
            rig.plug("foo1")
        return real(self, directories)

    monkeypatch.setattr(PathWatch, "watch", watch)
    async with rig.kubelet, rig.agent():
        await rig.until(lambda: last(rig.kubelet, FOO) == {"foo0": HEALTHY, "foo1": HEALTHY})


async def test_two_names_of_one_node_are_one_device_and_the_other_name_takes_over(rig):
    rig.plug("foo1")
    rig.tree.link("/dev/foo0", "/dev/foo1")
    rig.serve(FOO)
    async with rig.kubelet, rig.agent():
        await rig.streaming(FOO)
        assert last(rig.kubelet, FOO) == {"foo0": HEALTHY}
        rig.unplug("foo0")
        await rig.until(lambda: last(rig.kubelet, FOO).get("foo1") == HEALTHY)
        assert last(rig.kubelet, FOO).get("foo0") in (None, UNHEALTHY)


async def test_what_is_no_node_is_never_offered_and_turns_a_device_out(rig):
    rig.serve(FOO)
    rig.plug("foo0", "foo1")
    tree = rig.tree
    tree.at("/dev/foo2").mkdir()
    os.mkfifo(tree.at("/dev/foo3"))
    tree.file("/dev/foo4")
    tree.link("/dev/foo5", "/dev/nothing")
    tree.link("/dev/foo6", "/dev/foo6")
    async with rig.kubelet, rig.agent():
        await rig.streaming(FOO)
        assert last(rig.kubelet, FOO) == {"foo0": HEALTHY, "foo1": HEALTHY}
        for make in (
            lambda path: path.mkdir(),
            os.mkfifo,
            lambda path: path.symlink_to("nothing"),
        ):
            rig.unplug("foo1")
            make(tree.at("/dev/foo1"))
            await rig.until(lambda: last(rig.kubelet, FOO) == {"foo0": HEALTHY, "foo1": UNHEALTHY})
            (tree.at("/dev/foo1").rmdir if tree.at("/dev/foo1").is_dir() else tree.at("/dev/foo1").unlink)()
            rig.replug("foo1")
            await rig.until(lambda: last(rig.kubelet, FOO) == {"foo0": HEALTHY, "foo1": HEALTHY})
        tree.node("/dev/nothing", "c 240:99")  # the dangling link finds its node
        await rig.until(lambda: last(rig.kubelet, FOO).get("foo5") == HEALTHY)
    assert not {"foo2", "foo3", "foo4", "foo6"} & {each for told in story(rig.kubelet, FOO) for each in told}


async def test_the_first_entry_takes_and_what_it_takes_is_not_offered_again(rig):
    rig.plug("foo0", "foo1")
    special = entry(BAR, nodes="/dev/foo1")
    rig.serve(special, FOO)
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(FOO, BAR)
        assert (last(rig.kubelet, BAR), last(rig.kubelet, FOO)) == ({"foo1": HEALTHY}, {"foo0": HEALTHY})
        rig.plug("foo2")
        await rig.until(lambda: "foo2" in last(rig.kubelet, FOO))
        rig.serve(FOO, special)  # now the wider one comes first
        await rig.reload(agent)
        await rig.until(lambda: last(rig.kubelet, FOO) == dict.fromkeys(("foo0", "foo1", "foo2"), HEALTHY))
        assert last(rig.kubelet, BAR) == {}


# ---------------------------------------------------------------- silence


async def test_nothing_is_sent_while_nothing_changes(rig):
    rig.settings(look='settle = "5ms"\nevery = "20ms"')
    rig.serve(FOO, pci_entry(NET, "mlx5_core"))
    rig.plug("foo0")
    rig.tree.pci("0000:3b:00.0", driver="mlx5_core")
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(FOO, NET)
        looks = [agent.tracker.inventory]  # kept, for the next one may stand where one that is gone stood
        while len(looks) < 10:  # sweeps, and the noise of other devices
            agent.tracker.request_look(kernel_event("/sys/devices/virtual/mem/null", "mem"))
            await agent.tracker.wait_for_look()
            if agent.tracker.inventory is not looks[-1]:
                looks.append(agent.tracker.inventory)
        rig.tree.node("/dev/other", "c 1:1")
        await agent.tracker.wait_for_look()
    assert [len(story(rig.kubelet, name)) for name in (FOO, NET)] == [1, 1]


async def test_the_sweep_sees_what_no_event_told(rig):
    rig.settings(look='settle = "5ms"\nevery = "20ms"')
    rig.serve(pci_entry(NET, "mlx5_core"))
    card = rig.tree.pci("0000:3b:00.0", driver="other")
    async with rig.kubelet, rig.agent():
        await rig.streaming(NET)
        rig.tree.at("/sys/bus/pci/drivers/mlx5_core").mkdir()
        rig.tree.link(f"{card}/driver", "/sys/bus/pci/drivers/mlx5_core")
        await rig.until(lambda: last(rig.kubelet, NET) == {"0000:3b:00.0": HEALTHY})


# ---------------------------------------------------------------- sysfs


async def test_a_device_of_a_class_appears_and_vanishes(rig):
    rig.serve(
        f'[[resource]]\nname = "{FOO}"\nsource = {{ subsystem = "npu" }}\nid = "{{name}}"\n[resource.give.env]\nN = "1"'
    )
    async with rig.kubelet, rig.agent():
        await rig.streaming(FOO)
        rig.tree.device("/sys/devices/virtual/npu/npu0", "npu")
        await rig.until(lambda: last(rig.kubelet, FOO) == {"npu0": HEALTHY})
        rig.tree.at("/sys/class/npu/npu0").unlink()
        rig.tree.at("/sys/devices/virtual/npu/npu0").rename(rig.tree.at("/sys/devices/virtual/npu/x"))
        await rig.until(lambda: last(rig.kubelet, FOO) == {"npu0": UNHEALTHY})
        rig.tree.device("/sys/devices/virtual/npu/npu0", "npu")
        await rig.until(lambda: last(rig.kubelet, FOO) == {"npu0": HEALTHY})


async def test_a_rebound_function_leaves_one_resource_before_it_joins_the_other(rig):
    rig.serve(pci_entry(NET, "mlx5_core"), pci_entry(VFIO, "vfio-pci"))
    tree, address = rig.tree, "0000:3b:00.0"
    card = tree.pci(address, driver="mlx5_core")
    tree.pci("0000:3b:00.1", driver="vfio-pci")
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(NET, VFIO)
        await rig.until(
            lambda: not agent.devices_in_use._unconfirmed_count
        )  # until then pods may hold all that is listed
        for driver, here, there in (("vfio-pci", VFIO, NET), ("mlx5_core", NET, VFIO)):
            tree.link(f"{card}/driver", f"/sys/bus/pci/drivers/{driver}")
            agent.tracker.request_look(kernel_event(card, "pci"))
            await rig.until(lambda here=here: last(rig.kubelet, here).get(address) == HEALTHY)
            assert address not in last(rig.kubelet, there)
    assert story(rig.kubelet, NET) == [{address: HEALTHY}, {}, {address: HEALTHY}]
    assert any(address not in now.get(NET, {}) and address not in now.get(VFIO, {}) for now in moments(rig.kubelet))


async def test_a_device_between_drivers_is_in_no_list_or_is_unhealthy(rig):
    rig.serve(pci_entry(NET, "mlx5_core"), pci_entry(VFIO, "vfio-pci"))
    tree, address = rig.tree, "0000:3b:00.0"
    card = tree.pci(address, driver="mlx5_core")
    tree.at("/sys/bus/pci/drivers/vfio-pci").mkdir(parents=True)
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(NET, VFIO)
        tree.at(f"{card}/driver").unlink()
        agent.tracker.request_look(kernel_event(card, "pci"))
        await rig.until(lambda: address not in last(rig.kubelet, NET))
        tree.link(f"{card}/driver", "/sys/bus/pci/drivers/vfio-pci")
        agent.tracker.request_look(kernel_event(card, "pci"))
        await rig.until(lambda: last(rig.kubelet, VFIO) == {address: HEALTHY})


async def test_a_held_function_stays_unhealthy_where_it_was_until_the_pod_is_gone(rig, soon):
    rig.serve(pci_entry(NET, "mlx5_core"), pci_entry(VFIO, "vfio-pci"))
    tree, address = rig.tree, "0000:3b:00.0"
    card = tree.pci(address, driver="mlx5_core")
    tree.at("/sys/bus/pci/drivers/vfio-pci").mkdir(parents=True)
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(NET, VFIO)
        await rig.kubelet.allocate("p", "c", {NET: 1})
        tree.link(f"{card}/driver", "/sys/bus/pci/drivers/vfio-pci")
        agent.tracker.request_look(kernel_event(card, "pci"))
        await rig.until(lambda: last(rig.kubelet, NET) == {address: UNHEALTHY})
        asked = answers(rig)
        await rig.until(lambda: answers(rig) >= asked + 3)  # PodResources names it
        assert (last(rig.kubelet, NET), last(rig.kubelet, VFIO)) == ({address: UNHEALTHY}, {})
        rig.kubelet.remove_pod("p")
        await rig.until(lambda: last(rig.kubelet, VFIO) == {address: HEALTHY})
        assert last(rig.kubelet, NET) == {}


def answers(rig):
    """How often the kubelet's PodResources was asked: nothing in its log tells."""
    return rig.asked


@pytest.fixture(autouse=True)
def count_answers(request, monkeypatch):
    """Counts in `rig.asked` the answers that the agent had from PodResources, and wakes who waits."""
    if "rig" not in request.fixturenames:
        return
    rig = request.getfixturevalue("rig")
    rig.asked = 0
    real = devices_in_use.list_holders

    async def holders(*arguments):
        answer = await real(*arguments)
        rig.asked += 1
        rig.kubelet.events.wake()
        return answer

    monkeypatch.setattr(devices_in_use, "list_holders", holders)


async def test_unplugged_while_held_and_replugged_with_another_minor(rig, soon):
    rig.serve(
        f'[[resource]]\nname = "{SERIAL}"\nsource = {{ node = "/dev/ttyUSB*" }}\nid = "{{usb.port}}"\n'
        '[resource.give.nodes]\ntty = { path = "{node}", to = "/dev/serial{n}" }\n'
    )
    directory = stick(rig.tree, "1", "ttyUSB0", 0)
    async with rig.kubelet, rig.agent():
        await rig.streaming(SERIAL)
        (name,) = last(rig.kubelet, SERIAL)
        assert (await rig.kubelet.allocate("p", "c", {SERIAL: 1})).devices == {"/dev/serial0": ("/dev/ttyUSB0", "rw")}
        unstick(rig.tree, directory, "ttyUSB0", 0)
        await rig.until(lambda: last(rig.kubelet, SERIAL) == {name: UNHEALTHY})
        with pytest.raises(PodRefused):
            await rig.kubelet.allocate("q", "c", {SERIAL: 1})
        stick(rig.tree, "1", "ttyUSB1", 1)
        await rig.until(lambda: last(rig.kubelet, SERIAL) == {name: HEALTHY})
        with pytest.raises(PodRefused):  # still held by p
            await rig.kubelet.allocate("q", "c", {SERIAL: 1})
        rig.kubelet.remove_pod("p")
        assert (await rig.kubelet.allocate("r", "c", {SERIAL: 1})).devices == {"/dev/serial0": ("/dev/ttyUSB1", "rw")}
        again = await rig.kubelet.start_container("r", "c")
        assert again.devices == {"/dev/serial0": ("/dev/ttyUSB1", "rw")}
    assert {each for told in story(rig.kubelet, SERIAL) for each in told} == {name}


async def test_a_device_goes_during_allocate_and_the_kubelet_is_told_before_the_error(rig):
    rig.serve(FOO)
    rig.plug("foo0")
    async with rig.kubelet, rig.agent():
        await rig.streaming(FOO)
        rig.unplug("foo0")
        with pytest.raises(PodRefused, match="foo0"):
            await rig.kubelet.allocate("p", "c", {FOO: 1})
        await rig.until(lambda: last(rig.kubelet, FOO) == {"foo0": UNHEALTHY})
        kinds = [event.kind for event in rig.kubelet.events if event.kind in {"list", "pod_refused"}]
        assert kinds == ["list", "list", "pod_refused"]


# ---------------------------------------------------------------- NUMA


async def test_numa_nodes_are_told_if_all_devices_have_one(rig):
    rig.serve(pci_entry(NET, "mlx5_core"), pci_entry(VFIO, "vfio-pci"))
    rig.tree.pci("0000:3b:00.0", driver="mlx5_core", numa_node="0\n")
    card = rig.tree.pci("0000:3b:00.1", driver="mlx5_core", numa_node="1\n")
    rig.tree.pci("0000:3c:00.0", driver="vfio-pci", numa_node="-1\n")
    rig.new_kubelet(numa_nodes=(0, 1))
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(NET, VFIO)
        nodes = lambda name: [device.nodes for device in rig.kubelet.lists.select(name)[-1].devices]
        assert (nodes(NET), nodes(VFIO)) == ([(0,), (1,)], [()])
        rig.tree.file(f"{card}/numa_node", "-1\n")
        agent.tracker.request_look(kernel_event(card, "pci"))
        await rig.until(lambda: nodes(NET) == [(), ()])
        rig.tree.file(f"{card}/numa_node", "1\n")
        agent.tracker.request_look(kernel_event(card, "pci"))
        await rig.until(lambda: nodes(NET) == [(0,), (1,)])
        rig.tree.at("/sys/bus/pci/devices/0000:3b:00.1").unlink()
        await rig.until(lambda: last(rig.kubelet, NET)["0000:3b:00.1"] == UNHEALTHY)
        assert nodes(NET) == [(0,), (1,)]  # the topology of what is absent stays


# ---------------------------------------------------------------- identity


def healths(kubelet, *names):
    return {health for name in names for health in last(kubelet, name).values()}


async def test_ids_are_the_same_after_a_restart_in_any_order_of_entries_and_files(rig):
    rig.plug("foo0", "foo1", "bar0")
    rig.tree.pci("0000:3b:00.0", driver="mlx5_core")
    orders = itertools.permutations((FOO, BAR, pci_entry(NET, "mlx5_core")))
    async with rig.kubelet:
        seen = []
        for order in orders:
            for number, item in enumerate(order):
                rig.serve(item, file=f"{number}.toml")
            async with rig.agent():
                await rig.streaming(FOO, BAR, NET)
                await rig.until(lambda: {HEALTHY} == healths(rig.kubelet, FOO, BAR, NET))
                seen.append({name: last(rig.kubelet, name) for name in (FOO, BAR, NET)})
        assert seen == [seen[0]] * len(seen)


async def test_an_absent_device_is_listed_unhealthy_by_the_next_agent(rig):
    rig.serve(FOO)
    rig.plug("foo0", "foo1")
    async with rig.kubelet:
        async with rig.agent():
            await rig.streaming(FOO)
        rig.unplug("foo1")
        async with rig.agent():
            await rig.until(lambda: last(rig.kubelet, FOO) == {"foo0": HEALTHY, "foo1": UNHEALTHY})
            rig.replug("foo1")
            await rig.until(lambda: last(rig.kubelet, FOO) == {"foo0": HEALTHY, "foo1": HEALTHY})


USB_IDS = (
    f'[[resource]]\nname = "{SERIAL}"\nsource = {{ node = "/dev/ttyUSB*" }}\n'
    'id = ["{usb.serial}", "{usb.serial}@{usb.port}"]\n[resource.give.nodes]\ntty = "{node}"\n'
)


async def test_identical_sticks_with_equal_serials_are_two_devices_that_keep_their_ids(rig):
    rig.serve(USB_IDS)
    first, second = stick(rig.tree, "1", "ttyUSB0", 0), stick(rig.tree, "2", "ttyUSB1", 1)
    async with rig.kubelet:
        async with rig.agent():
            await rig.streaming(SERIAL)
            both = last(rig.kubelet, SERIAL)
            assert len(both) == 2
            assert set(both.values()) == {HEALTHY}
            unstick(rig.tree, first, "ttyUSB0", 0)
            await rig.until(lambda: sorted(last(rig.kubelet, SERIAL).values()) == [HEALTHY, UNHEALTHY])
            first = stick(rig.tree, "1", "ttyUSB7", 7)
            await rig.until(lambda: last(rig.kubelet, SERIAL) == both)
        async with rig.agent():
            await rig.until(lambda: last(rig.kubelet, SERIAL) == both)
            # Both out, and the ttys dealt the other way round.
            unstick(rig.tree, first, "ttyUSB7", 7)
            unstick(rig.tree, second, "ttyUSB1", 1)
            await rig.until(lambda: set(last(rig.kubelet, SERIAL).values()) == {UNHEALTHY})
            stick(rig.tree, "2", "ttyUSB0", 20)
            stick(rig.tree, "1", "ttyUSB1", 21)
            await rig.until(lambda: last(rig.kubelet, SERIAL) == both)


async def test_a_second_stick_with_the_same_serial_does_not_rename_the_first(rig):
    rig.serve(USB_IDS)
    stick(rig.tree, "1", "ttyUSB0", 0)
    async with rig.kubelet, rig.agent():
        await rig.streaming(SERIAL)
        assert last(rig.kubelet, SERIAL) == {"S1": HEALTHY}
        stick(rig.tree, "2", "ttyUSB1", 1)
        await rig.until(lambda: last(rig.kubelet, SERIAL) == {"S1": HEALTHY, "S1@1-2": HEALTHY})


async def test_another_stick_in_the_same_port_is_another_device(rig, soon):
    rig.serve(USB_IDS)
    directory = stick(rig.tree, "1", "ttyUSB0", 0, serial="S1")
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(SERIAL)
        await rig.kubelet.allocate("p", "c", {SERIAL: 1})
        unstick(rig.tree, directory, "ttyUSB0", 0)
        stick(rig.tree, "1", "ttyUSB0", 0, serial="S2")
        # Its number is that which the container of the pod may use: until this is gone no other gets it.
        await rig.until(lambda: last(rig.kubelet, SERIAL) == {"S1": UNHEALTHY})
        assert [one.reason for one in agent.tracker.device_lists.unlisted] == [f"a pod holds it as {SERIAL} S1"]
        assert rig.kubelet.get_held_ids(SERIAL) == {"S1": ("p", "c")}
        rig.kubelet.remove_pod("p")
        await rig.until(lambda: last(rig.kubelet, SERIAL) == {"S1": UNHEALTHY, "S2": HEALTHY})


async def test_an_optional_node_that_comes_changes_no_id_and_is_in_the_next_grant(rig):
    rig.serve(entry(FOO, give='nodes = { it = "{node}", more = { path = "/dev/extra", optional = true } }'))
    rig.plug("foo0")
    async with rig.kubelet, rig.agent():
        await rig.streaming(FOO)
        assert set((await rig.kubelet.allocate("p", "c", {FOO: 1})).devices) == {"/dev/foo0"}
        rig.kubelet.remove_pod("p")
        rig.tree.node("/dev/extra", "c 1:9")
        assert set((await rig.kubelet.allocate("q", "c", {FOO: 1})).devices) == {"/dev/foo0", "/dev/extra"}
    assert story(rig.kubelet, FOO) == [{"foo0": HEALTHY}]


async def test_a_required_node_of_another_name_makes_devices_unhealthy_while_it_is_gone(rig):
    rig.serve(entry(FOO, give='nodes = { it = "{node}", ctl = "/dev/ctl/all" }'))
    rig.plug("foo0", "foo1")
    async with rig.kubelet, rig.agent():
        await rig.streaming(FOO)
        assert last(rig.kubelet, FOO) == {"foo0": UNHEALTHY, "foo1": UNHEALTHY}
        rig.tree.node("/dev/ctl/all", "c 1:9")
        await rig.until(lambda: last(rig.kubelet, FOO) == {"foo0": HEALTHY, "foo1": HEALTHY})
        rig.tree.at("/dev/ctl/all").unlink()
        await rig.until(lambda: last(rig.kubelet, FOO) == {"foo0": UNHEALTHY, "foo1": UNHEALTHY})
    assert len(story(rig.kubelet, FOO)) == 3  # all of them in one message


# ---------------------------------------------------------------- what cannot be read


class Blind(Root):
    """A machine on which one place cannot be read."""

    blind = ""

    def _host(self, path):
        if self.blind and path.startswith(self.blind):
            return Absent("cannot be read: Permission denied", unreadable=True)
        return super()._get_host_path(path)


@pytest.mark.parametrize(
    "place", ["/sys/bus/pci/devices", "/sys/devices/pci0000:00/0000:3b:00.0", "/sys", "/sys/devices/system/node"]
)
async def test_a_place_that_cannot_be_read_costs_only_that(rig, place):
    rig.serve(FOO, pci_entry(NET, "mlx5_core"), pci_entry(VFIO, "vfio-pci"))
    rig.plug("foo0")
    rig.tree.pci("0000:3b:00.0", driver="mlx5_core")
    rig.tree.pci("0000:3c:00.0", driver="vfio-pci")
    root = Blind(str(rig.tree.top))
    async with rig.kubelet, rig.agent(root=root) as agent:
        await rig.streaming(FOO, NET, VFIO)
        root.blind = place
        agent.tracker.request_look(ALL_DIRTY)
        rig.plug("foo1")
        await rig.until(lambda: last(rig.kubelet, FOO) == {"foo0": HEALTHY, "foo1": HEALTHY})
        await agent.tracker.wait_for_look()
        assert set(last(rig.kubelet, NET)) <= {"0000:3b:00.0"}
        if place.endswith("devices"):
            assert last(rig.kubelet, NET) == {"0000:3b:00.0": HEALTHY}  # nothing says that it went
        if place != "/sys":
            assert last(rig.kubelet, VFIO) == {"0000:3c:00.0": HEALTHY}
        root.blind = ""
        agent.tracker.request_look(ALL_DIRTY)
        await rig.until(lambda: last(rig.kubelet, NET) == {"0000:3b:00.0": HEALTHY})
        await rig.until(lambda: last(rig.kubelet, VFIO) == {"0000:3c:00.0": HEALTHY})


# ---------------------------------------------------------------- udev's database


async def test_udev_words_come_from_the_database_or_from_uevent_without_one(rig):
    tree = rig.tree
    for number, model in enumerate(("good", "bad")):
        directory = tree.class_device(f"/sys/devices/virtual/npu/npu{number}", "npu", f"npu{number}", 240, number)
        tree.file(f"{directory}/uevent", f"MAJOR=240\nMINOR={number}\nDEVNAME=npu{number}\nMODEL={model}\n")

    rig.serve(
        f'[[resource]]\nname = "{FOO}"\nsource = {{ subsystem = "npu" }}\nid = "{{name}}"\n'
        'match = { udev.MODEL = "good" }\n[resource.give.nodes]\nit = "{node}"\n'
    )
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(FOO)
        assert last(rig.kubelet, FOO) == {"npu0": HEALTHY}
        tree.file("/run/udev/data/c240:1", "I:1\nE:MODEL=good\n")
        agent.tracker.request_look(kernel_event("/sys/devices/virtual/npu/npu1", "npu"))
        await rig.until(lambda: last(rig.kubelet, FOO) == {"npu0": HEALTHY, "npu1": HEALTHY})
        tree.file("/run/udev/data/c240:0", "I:1\nE:MODEL=bad\n")
        agent.tracker.request_look(kernel_event("/sys/devices/virtual/npu/npu0", "npu"))
        await rig.until(lambda: last(rig.kubelet, FOO) == {"npu1": HEALTHY})


# ---------------------------------------------------------------- before udev has finished

CAMERA = 'source = { subsystem = "video4linux" }\n'
BY_SERIAL = f'[[resource]]\nname = "{FOO}"\n{CAMERA}id = ["{{udev.ID_SERIAL_SHORT}}", "{{path_id}}"]\n'
CAPTURES = (
    f'[[resource]]\nname = "{FOO}"\n{CAMERA}id = "{{name}}"\n'
    '[resource.match]\nudev.ID_V4L_CAPABILITIES = [{ like = "*:capture:*" }, { exists = false }]\n'
)
ALL_OTHERS = f'[[resource]]\nname = "{BAR}"\n{CAMERA}id = "{{name}}-other"\n[resource.give.nodes]\nit = "{{node}}"\n'
GIVES = '[resource.give.nodes]\nit = "{node}"\n'
EXCLUDES = (
    f'[[resource]]\nname = "{FOO}"\n{CAMERA}id = "{{name}}"\n'
    '[resource.exclude.in_use]\nudev.ID_V4L_CAPABILITIES = { not = "x" }\n'
)


def camera(tree):
    """One that udev has not dealt with yet, on a machine where udevd runs."""
    tree.file("/run/udev/control")
    tree.at("/run/udev/data").mkdir(parents=True)
    port = f"{tree.pci('0000:00:14.0')}/usb1/1-1"
    return tree.class_device(f"{port}/1-1:1.0/video4linux/video0", "video4linux", "video0", 81, 0)


@pytest.mark.parametrize(
    ("written", "said", "then"),
    [
        (BY_SERIAL, "ID_SERIAL_SHORT=SER1", {"SER1": HEALTHY}),
        (BY_SERIAL, "ID_MODEL=x", {"pci-0000_00_14.0": HEALTHY}),
        (CAPTURES, "ID_V4L_CAPABILITIES=:capture:", {"video0": HEALTHY}),
        (CAPTURES, "ID_V4L_CAPABILITIES=:meta:", {}),
        (EXCLUDES, "ID_V4L_CAPABILITIES=x", {"video0": HEALTHY}),
    ],
)
async def test_what_udev_has_not_finished_with_waits(rig, written, said, then):
    directory = camera(rig.tree)
    rig.serve(written + GIVES, ALL_OTHERS)
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(FOO, BAR)
        assert (last(rig.kubelet, FOO), last(rig.kubelet, BAR)) == ({}, {})
        rig.tree.file("/run/udev/data/c81:0", f"I:1\nE:{said}\n")
        agent.tracker.request_look(kernel_event(directory, "video4linux"))
        await agent.tracker.wait_for_look()
        there = last(rig.kubelet, FOO)
        await rig.until(lambda: last(rig.kubelet, FOO) or last(rig.kubelet, BAR))
        there = last(rig.kubelet, FOO)
        assert {name.replace(":", "_"): health for name, health in there.items()} == then
        assert last(rig.kubelet, BAR) == ({} if then else {"video0-other": HEALTHY})


async def test_what_udev_never_deals_with_waits_no_longer(rig, monkeypatch):
    camera(rig.tree)
    rig.serve(BY_SERIAL + GIVES)
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(FOO)
        monkeypatch.setattr(udev, "PENDING_SECONDS", 0.0)
        agent.tracker.request_look()
        await rig.until(lambda: last(rig.kubelet, FOO) == {"pci-0000:00:14.0": HEALTHY})


async def test_without_udevd_nothing_waits(rig):
    camera(rig.tree)
    rig.tree.at("/run/udev/control").unlink()
    rig.serve(BY_SERIAL + GIVES)
    async with rig.kubelet, rig.agent():
        await rig.streaming(FOO)
        await rig.until(lambda: last(rig.kubelet, FOO) == {"pci-0000:00:14.0": HEALTHY})
