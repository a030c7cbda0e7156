"""Allocate, through the kubelet. Numbers: see CONTRIBUTING.md."""

import asyncio
import shutil
import threading

import pytest

from agent.allocation import allocation
from agent.core.grants.grant import GrantRefusedError
from agent.core.inventory.device import Health
from agent.kubelet.messages import v1beta1
from device_agent_lab.simulated.errors import PodRefused
from tests.agent.rig import BAR, FOO, entry, make_minor, stop_watching

GIVE = """
[resource.give.nodes]
it  = { path = "{node}", to = "/dev/it{n}", permissions = "rwm" }
aux = { path = "/dev/aux-{name}", optional = true, permissions = "r" }
[resource.give.env]
IDS = { value = "{id}", join = "," }
"""


@pytest.fixture
async def node(rig):
    rig.plug("foo0", "foo1", "foo2", "bar0")
    rig.serve(entry(FOO, give="").replace("[resource.give]\n", GIVE), BAR)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO, BAR)
        rig.running = agent
        yield rig


async def ask(node, *containers, resource=FOO):
    """A raw Allocate, as no kubelet asks it today: the containers' ids as they are given."""
    client = await node.client(resource)
    request = v1beta1.AllocateRequest(
        container_requests=[v1beta1.ContainerAllocateRequest(devices_ids=list(ids)) for ids in containers]
    )
    try:
        return (await client.peer.plugin.allocate(request)).container_responses
    finally:
        await client.close()


async def test_what_a_container_gets(node, both_loops):  # 63, 66
    options = await node.kubelet.allocate("pod", "c", {FOO: 3, BAR: 1})
    assert options.devices == {
        "/dev/it0": ("/dev/foo0", "rwm"),
        "/dev/it1": ("/dev/foo1", "rwm"),
        "/dev/it2": ("/dev/foo2", "rwm"),
        "/dev/bar0": ("/dev/bar0", "rw"),
    }
    assert options.envs == {"IDS": "foo0,foo1,foo2"}
    assert options.annotations == {}  # 62
    assert options.conflicts == []  # 61


async def test_order_of_ids_makes_no_difference(node):  # 54
    one, other = await ask(node, ["foo2", "foo0"], ["foo0", "foo2"])
    assert bytes(one) == bytes(other)
    assert one.envs["IDS"] == "foo0,foo2"


async def test_an_answer_for_each_container_in_order(node):  # 53
    answers = await ask(node, ["foo1"], ["foo0"], ["foo2", "foo1"])
    assert [answer.envs["IDS"] for answer in answers] == ["foo1", "foo0", "foo1,foo2"]


async def test_nothing_asked_for_is_an_error(node):  # 53, fact 12
    for containers in ((), ([],)):
        with pytest.raises(Exception, match="the request names no device"):
            await ask(node, *containers)


async def test_same_ids_again_give_the_same(node):  # 55, kubernetes#138446
    first = await ask(node, ["foo0"])
    assert [bytes(answer) for answer in await ask(node, ["foo0"])] == [bytes(answer) for answer in first]
    init = await node.kubelet.allocate("pod", "init", {FOO: 3}, init=True)
    app = await node.kubelet.allocate("pod", "app", {FOO: 3})
    assert init.devices == app.devices


async def test_many_at_once(node):  # 56
    wanted = [["foo0"], ["foo1"], ["foo2"], ["foo0", "foo1"], ["foo2", "foo1"]] * 10
    answers = await asyncio.gather(*(ask(node, ids) for ids in wanted))
    assert [answer[0].envs["IDS"] for answer in answers] == [",".join(sorted(ids)) for ids in wanted]


@pytest.fixture
def stuck(monkeypatch):
    """The hardware behind foo0 does not answer until this is set. `begun`: how often it was asked."""
    release = threading.Event()
    release.begun = 0
    read_anew = allocation.reread_devices

    def slow(root, asked, *more, **named):
        if "foo0" in {one.device.id for one in asked}:
            release.begun += 1
            release.wait()
        return read_anew(root, asked, *more, **named)

    monkeypatch.setattr(allocation, "reread_devices", slow)
    yield release
    release.set()


async def test_one_that_is_stuck_delays_no_other(node, stuck):  # 51, 52
    waiting = asyncio.create_task(ask(node, ["foo0"]))
    await node.until(lambda: stuck.begun)
    (answer,) = await ask(node, ["bar0"], resource=BAR)
    assert answer.devices[0].host_path == "/dev/bar0"
    assert not waiting.done()
    stuck.set()
    (answer,) = await waiting
    assert answer.devices[0].host_path == "/dev/foo0"


async def test_one_that_the_kubelet_gives_up_is_no_defect(node, stuck):
    waiting = asyncio.create_task(ask(node, ["foo0"]))
    await node.until(lambda: stuck.begun)
    waiting.cancel()
    await node.until(lambda: node.running.counters.allocations[FOO, "cancelled"] == 1)
    assert node.running.counters.allocations[FOO, "defect"] == 0


async def test_many_that_are_stuck_cost_one_thread_and_delay_no_other(node, stuck, monkeypatch):  # 52
    with monkeypatch.context() as patch:
        patch.setattr(allocation, "DEADLINE_SECONDS", 0.3)
        for _ in range(40):
            with pytest.raises(Exception, match="did not answer within") as raised:
                await ask(node, ["foo0"])
            assert raised.value.status.name == "DEADLINE_EXCEEDED"
    assert stuck.begun == 1  # and all others were refused at once
    assert sum(thread.name == "slow" for thread in threading.enumerate()) == 1
    (answer,) = await ask(node, ["bar0"], resource=BAR)
    assert answer.devices[0].host_path == "/dev/bar0"
    (answer,) = await ask(node, ["foo1"])
    assert answer.devices[0].host_path == "/dev/foo1"
    stuck.set()
    await node.until(lambda: not node.running.allocation._pending_reads)
    (answer,) = await ask(node, ["foo0"])
    assert answer.devices[0].host_path == "/dev/foo0"


async def test_unknown_id_is_named(node):  # 58
    with pytest.raises(Exception, match="no device 'gone-9' is listed") as raised:
        await ask(node, ["gone-9"])
    assert raised.value.status.name == "NOT_FOUND"


async def test_refusal_reaches_the_pod(node):  # 58, 60
    stop_watching(node.running)  # nobody sees it go, so the kubelet still believes in it
    node.unplug("foo0", "foo1", "foo2")
    with pytest.raises(PodRefused) as refused:
        await node.kubelet.allocate("pod", "c", {FOO: 1})
    assert refused.value.reason == "UnexpectedAdmissionError"
    assert "code = FailedPrecondition" in str(refused.value)
    assert "/dev/foo" in str(refused.value)
    assert "Traceback" not in str(refused.value)
    assert node.kubelet.pods["pod"].phase == "Failed"


async def test_gone_is_told_before_it_is_refused(node):  # 59
    stop_watching(node.running)
    node.unplug("foo0")
    before = len(node.kubelet.lists)
    with pytest.raises(Exception, match="foo0") as raised:
        await ask(node, ["foo0"])
    assert raised.value.status.name == "FAILED_PRECONDITION"
    assert [seen.healthy for seen in node.kubelet.lists[before:] if seen.resource == FOO] == [{"foo1", "foo2"}]


async def test_gone_is_told_before_it_is_refused_whatever_was_told_just_before(node):  # 59, 32
    for name in ("foo3", "foo4", "foo5"):
        node.plug(name)
        await node.until(lambda: name in node.kubelet.lists.select(FOO)[-1].healthy)  # noqa: B023
    stop_watching(node.running)
    node.unplug("foo0")
    with pytest.raises(GrantRefusedError, match="foo0"):
        await node.running.allocation.allocate(FOO, ["foo0"])
    assert node.running.registry.get_list(FOO).count_ids(Health.UNHEALTHY) == 1
    told = asyncio.ensure_future(node.running.registry.wait_until_delivered([FOO]))
    await asyncio.sleep(0)
    assert told.done()


async def test_known_to_be_unhealthy_is_refused(node):  # 59
    node.unplug("foo0")
    await node.allocatable(FOO, 2)
    with pytest.raises(Exception, match=r"foo0: Unhealthy since \d\d:\d\d:\d\dZ: absent") as raised:
        await ask(node, ["foo0"])
    assert raised.value.status.name == "FAILED_PRECONDITION"


async def test_other_hardware_under_the_same_name_is_refused(node):  # 64
    stop_watching(node.running)
    declared = node.tree.at("/.device-nodes")
    declared.write_text(declared.read_text().replace("/dev/foo0\n", "/dev/gone\n") + "c 99:1 /dev/foo0\n")
    with pytest.raises(Exception, match="99:1") as raised:
        await ask(node, ["foo0"])
    assert raised.value.status.name == "FAILED_PRECONDITION"


TTY = """[[resource]]
name = "example.com/foo"
source = { node = "NODES" }
id = ["{usb.serial}", "{usb.serial}@{usb.port}"]
[resource.give]
nodes = { it = "{node}" }
"""


def stick(tree, port, serial, tty, minor=0):
    """A serial adapter at that port; its directory."""
    tree.pci("0000:00:14.0")
    usb = tree.usb(f"/sys/devices/pci0000:00/0000:00:14.0/usb1/{port}", "0403", "6001", serial=serial, devnum=5 + minor)
    tree.class_device(f"{usb}/{port}:1.0/{tty}/tty/{tty}", "tty", tty, 188, minor)
    return usb


@pytest.mark.parametrize("port", ["1-2", "1-1"])
async def test_another_stick_that_got_the_name_and_the_number_is_refused(rig, port):  # 64
    """Nothing can be read of the one that was listed any more; or, of the same port, of the other one."""
    usb = stick(rig.tree, "1-1", "AAA", "ttyUSB0")
    rig.serve(TTY.replace("NODES", "/dev/ttyUSB*"))
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(FOO)
        stop_watching(agent)
        shutil.rmtree(rig.tree.at(usb))
        rig.tree.at("/sys/class/tty/ttyUSB0").unlink()
        rig.unplug("ttyUSB0")
        stick(rig.tree, port, "BBB", "ttyUSB0")
        before = len(rig.kubelet.lists)
        with pytest.raises(Exception, match="AAA: other hardware is in its place now") as raised:
            await ask(rig, ["AAA"])
        assert raised.value.status.name == "FAILED_PRECONDITION"
        healthy = [seen.healthy for seen in rig.kubelet.lists[before:]]
        assert healthy, "the kubelet is told first"
        assert all("AAA" not in each for each in healthy)


async def test_a_link_that_leads_to_another_stick_is_refused(rig):  # 64
    for number, serial in enumerate(("AAA", "BBB")):
        stick(rig.tree, f"1-{number + 1}", serial, f"ttyUSB{number}", number)
    rig.tree.link("/dev/lab/a", "/dev/ttyUSB0")
    rig.serve(TTY.replace("NODES", "/dev/lab/*"))
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(FOO)
        stop_watching(agent)
        rig.tree.link("/dev/lab/a", "/dev/ttyUSB1")
        with pytest.raises(Exception, match=r"AAA: .*/dev/ttyUSB1 char 188:1 now, which was not listed") as raised:
            await ask(rig, ["AAA"])
        assert raised.value.status.name == "FAILED_PRECONDITION"


async def test_a_node_that_udev_makes_anew_is_given(rig):  # 64
    stick(rig.tree, "1-1", "AAA", "ttyUSB0")
    rig.serve(TTY.replace("NODES", "/dev/ttyUSB*"))
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(FOO)
        stop_watching(agent)
        rig.unplug("ttyUSB0")
        rig.replug("ttyUSB0")
        (answer,) = await ask(rig, ["AAA"])
        assert [device.host_path for device in answer.devices] == ["/dev/ttyUSB0"]


async def test_optional_nodes_are_given_when_they_are_there(node):  # 64
    (without,) = await ask(node, ["foo0"])
    assert [device.host_path for device in without.devices] == ["/dev/foo0"]
    node.plug("aux-foo0")
    (with_it,) = await ask(node, ["foo0"])
    assert [(device.host_path, device.permissions) for device in with_it.devices] == [
        ("/dev/foo0", "rwm"),
        ("/dev/aux-foo0", "r"),
    ]


async def test_a_node_can_come_out_under_its_number(rig):
    rig.plug("foo0", "foo1")
    give = 'nodes = { it = { path = "{node}", to = ["{node}", "/dev/char/{major_minor}"] } }'
    rig.serve(entry(FOO, give=give))
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO)
        (answer,) = await ask(rig, ["foo0", "foo1"])
        numbers = [f"240:{make_minor(name)}" for name in ("foo0", "foo1")]
        assert [device.container_path for device in answer.devices] == [
            "/dev/foo0", f"/dev/char/{numbers[0]}", "/dev/foo1", f"/dev/char/{numbers[1]}",
        ]  # fmt: skip


async def test_own_words_are_read_anew(rig):
    rig.plug("foo7", "foo8")
    for minor in (7, 8):
        rig.tree.file(f"/proc/acme/{minor}/firmware", "version: 1\n")
    lines = """
    let.firmware = { field = "version", of = "/proc/acme/{minor}/firmware", type = "int" }
    let.said = { text = "{minor}:{firmware}" }
    match.firmware = 1
    """
    give = 'nodes = { it = "{node}" }\nenv = { FW = { value = "{said}", join = "," } }'
    rig.serve(entry(FOO, lines, nodes="/dev/foo{minor:int}", give=give))
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO)
        rig.tree.file("/proc/acme/7/firmware", "version: 2\n")
        (answer,) = await ask(rig, ["foo7", "foo8"])
        assert dict(answer.envs) == {"FW": "7:2,8:1"}


async def test_nothing_stays_of_a_pod_that_was_refused(node):  # 57
    await node.kubelet.allocate("pod", "c", {FOO: 3})
    with pytest.raises(PodRefused):
        await node.kubelet.allocate("other", "c", {FOO: 1})
    node.kubelet.remove_pod("pod")
    await node.kubelet.allocate("third", "c", {FOO: 3})


async def test_methods_that_nothing_is_configured_for_answer(node):  # 71, 73, 77
    client = await node.client(FOO)
    for available, must, size in ((["foo0", "foo1"], [], 1), ([], [], 0), (["foo0"], [], 5), ([], ["x"], -1)):
        answer = await client.peer.plugin.get_preferred_allocation(
            v1beta1.PreferredAllocationRequest(
                container_requests=[
                    v1beta1.ContainerPreferredAllocationRequest(
                        available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
                    )
                ]
            )
        )
        assert len(answer.container_responses) == 1
    await client.peer.plugin.pre_start_container(v1beta1.PreStartContainerRequest(devices_ids=["foo0"]))
    await client.peer.plugin.pre_start_container(v1beta1.PreStartContainerRequest())


async def test_unplugged_during_allocate(node, monkeypatch):  # 43, fact 8
    """The kubelet would crash if the id left the list; it is Unhealthy instead."""
    read_anew = allocation.reread_devices

    def unplugs(root, asked, *more, **named):
        chosen = read_anew(root, asked, *more, **named)
        node.unplug("foo0", "foo1", "foo2")
        return chosen

    monkeypatch.setattr(allocation, "reread_devices", unplugs)
    await node.kubelet.allocate("pod", "c", {FOO: 3})
    await node.until(lambda: node.kubelet.unhealthy(FOO) == {"foo0", "foo1", "foo2"})
    assert node.kubelet.crashed is None
