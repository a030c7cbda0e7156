"""Registration and streams. Numbers: see CONTRIBUTING.md."""

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from urllib.parse import quote

import pytest
from grpclib.client import Channel

from agent.core.registration_phase import Phase
from agent.kubelet import register as register_module
from agent.kubelet.messages import v1beta1
from agent.kubelet.register import register as real_register
from agent.registration import socket_registration
from device_agent_lab.simulated.errors import PodRefused
from device_agent_lab.simulated.release import Release
from tests.agent.process import run_agent
from tests.agent.rig import BAR, FOO, entry, phases
from tests.real.conftest import sockets_in
from tests.real.kubelets import HEAVY, NOTHING, REAL

MANY = [f"example.com/r{number:03}x" for number in range(100)]


@pytest.fixture
async def served(node):
    """Two resources: foo with two devices, bar with one."""
    node.plug("foo0", "foo1", "bar0")
    node.serve(FOO, BAR)
    await node.kubelet.start()
    return node


async def ready(node, *resources):
    await node.streaming(*resources or (FOO,))
    if not resources:
        await node.allocatable(FOO, 2)


def serve_many(node):
    node.plug(*(f"{name.rpartition('/')[2]}0" for name in MANY))
    node.serve(*MANY)


async def all_ready(node):
    await node.until(lambda: node.kubelet.open_streams == len(MANY))
    await node.kubelet.seen(lambda view: all(len(view.get(name, NOTHING).healthy) == 1 for name in MANY))


async def test_01_socket_answers_when_register_is_sent(served, monkeypatch):
    answered = []

    async def asked_first(path, endpoint, resource, options, **how):
        async with Channel(path=str(served.dp / endpoint)) as channel:
            said = await v1beta1.DevicePluginStub(channel).get_device_plugin_options(v1beta1.Empty(), timeout=5)
        assert said == options.build_message()  # 5
        answered.append(resource)
        await real_register(path, endpoint, resource, options, **how)

    monkeypatch.setattr(socket_registration, "register", asked_first)
    async with served.agent():
        await ready(served)
        await ready(served, FOO, BAR)
        assert sorted(answered) == [BAR, FOO]
        assert served.kubelet.events.count("register_refused") == 0


async def test_02_stream_is_served_while_register_is_pending(served, monkeypatch):
    release = asyncio.Event()

    async def pending(*args, **how):
        await real_register(*args, **how)
        await release.wait()

    monkeypatch.setattr(socket_registration, "register", pending)
    async with served.agent() as agent:
        await ready(served)
        served.plug("foo2")
        await served.allocatable(FOO, 3)
        assert phases(agent)[FOO] is Phase.REGISTERING
        release.set()
        await served.until(lambda: phases(agent)[FOO] is Phase.STREAMING)
        assert served.registers(FOO) == 1


async def test_04_stream_counts_although_register_failed(served, monkeypatch):
    async def late(*args, **how):
        await real_register(*args, **how)
        await served.allocatable(args[2], 2 if args[2] == FOO else 1)
        raise TimeoutError("no answer came")

    monkeypatch.setattr(socket_registration, "register", late)
    async with served.agent() as agent:
        await served.until(lambda: phases(agent) == {FOO: Phase.STREAMING, BAR: Phase.STREAMING})
        served.plug("foo2")
        await served.allocatable(FOO, 3)
        assert served.registers() == 2


async def test_07_agent_waits_for_the_kubelet(node):
    node.plug("foo0", "foo1")
    node.serve(FOO)
    async with node.agent() as agent:
        await node.until(lambda: phases(agent) == {FOO: Phase.WAITING})
        await node.kubelet.start()
        await ready(node)
        assert node.registers() == 1


@pytest.mark.parametrize("kill", [False, True])
async def test_08_kubelet_begins_between_our_look_and_our_call(served, monkeypatch, kill):
    """It has removed our sockets: a Register would name one that is gone, which the kubelet dials for 10 s."""
    dial = register_module.dial
    begun = []

    @asynccontextmanager
    async def late(path):
        if not begun:
            begun.append(path)
            await served.kubelet.up()
        async with dial(path) as channel:
            yield channel

    async with served.agent() as agent:
        await ready(served, FOO, BAR)
        await served.kubelet.down(kill=kill)
        monkeypatch.setattr(agent.parts.kubelet_socket, "check", lambda: None)  # what inotify says comes later still
        monkeypatch.setattr(register_module, "dial", late)
        await ready(served, FOO, BAR)
        await served.allocatable(FOO, 2)
        assert served.registers() == 2
        assert served.kubelet.events.select("register_refused") == []


@pytest.mark.parametrize("kind", HEAVY)
@pytest.mark.parametrize("kill", [False, True])
async def test_08_hundred_resources_are_registered_again(node, kill):
    serve_many(node)
    await node.kubelet.start()
    async with node.agent():
        for _ in range(3):
            await all_ready(node)
            assert node.registers() == 100  # 13: one each
            await node.kubelet.again(kill=kill)
        await all_ready(node)
        assert node.kubelet.events.select("register_refused") == []
        assert len(node.sockets()) == 100


async def test_13_no_register_while_the_stream_lives(served):
    async with served.agent() as agent:
        await ready(served)
        for name in ("a", "b"):
            (served.dp / name).touch()
            (served.dp / name).unlink()
            agent.parts.kubelet_socket.refresh()
            agent.tracker.request_look()
        served.plug("foo2")
        await served.allocatable(FOO, 3)
        served.unplug("foo0")
        await served.allocatable(FOO, 2)
        served.replug("foo0")
        await served.allocatable(FOO, 3)
        await served.kubelet.admit("p", {BAR: 1})
        served.serve(entry(FOO, 'exclude.one = { name = "foo2" }'), BAR)
        await served.reload(agent)
        await served.allocatable(FOO, 2)
        assert (served.registers(FOO), served.registers(BAR)) == (1, 1)
        assert served.kubelet.events.count("stream_ended") == 0


async def test_14_second_stream_is_fed_too_and_its_end_is_survived(served, endpoints, at_once):
    """Somebody registers our socket a second time: 1.34 opens a second stream, 1.37 refuses and forgets the first."""
    async with served.agent():
        await ready(served, FOO, BAR)
        mine = next(one for one in endpoints if one._plugin._resource == FOO)
        (first,) = (connection for connection in mine._connections if connection.calls.tasks)
        if served.minor == "1.37":
            with pytest.raises(socket_registration.RefusedByKubelet, match="already connected"):
                await real_register(served.kubelet.socket, mine.name, FOO, mine.options)
            assert mine.stream_count == 1
        else:
            await real_register(served.kubelet.socket, mine.name, FOO, mine.options)
            await served.until(lambda: mine.stream_count == 2)
        served.plug("foo2")
        await served.allocatable(FOO, 3)
        assert served.registers(FOO) == 2
        first.abort()
        await served.until(lambda: served.registers(FOO) >= 3)
        served.plug("foo3")
        await served.allocatable(FOO, 4)
        await served.kubelet.sees(FOO, {"foo0", "foo1", "foo2", "foo3"})
        survived = served.registers(FOO)  # more than one if 1.34 was still taking leave of the streams before
        served.unplug("foo3")
        await served.allocatable(FOO, 3)
        await served.kubelet.admit("p", {FOO: 3})
        assert served.registers(FOO) == survived
        assert served.registers(BAR) == 1


async def test_15_register_comes_after_the_old_connection_is_closed(served):
    """The kubelet's socket looks like another one, the kubelet is the same: until 1.36 a Register too early is lost."""
    async with served.agent() as agent:
        await ready(served)
        await served.until(lambda: phases(agent)[FOO] is Phase.STREAMING)
        for number in range(2, 12):
            os.chmod(served.kubelet.socket, 0o700 + number)
            agent.parts.kubelet_socket.check()
            await served.until(lambda number=number: served.registers(FOO) == number)
            await ready(served)
            await served.until(lambda: phases(agent)[FOO] is Phase.STREAMING)
            mine = [event.kind for event in served.kubelet.events if event.resource == FOO]
            last = len(mine) - 1 - mine[::-1].index("register")
            assert mine[:last].count("disconnected") == number - 1
            assert served.kubelet.streams(FOO) == 1
        served.plug("foo2")
        await served.allocatable(FOO, 3)
        if served.real:
            assert await served.kubelet.clients(FOO) == 1


async def test_16_fresh_socket_name_each_time(served):
    names = set()
    async with served.agent():
        for number in range(1, 6):
            await ready(served, FOO, BAR)
            names |= set(served.sockets())
            assert len(names) == 2 * number
            await served.kubelet.again()


async def test_21_22_nothing_but_own_sockets_in_the_directory(served):
    for _ in range(3):
        async with run_agent(served) as process:
            await ready(served, FOO, BAR)
            process.send(signal.SIGKILL)
            await process.ended()
            await served.until(lambda: served.kubelet.streams(FOO) == served.kubelet.streams(BAR) == 0)
    other = served.bystander()
    async with served.agent():
        await ready(served, FOO, BAR)
        assert len(served.sockets()) == 2
        assert other.exists()
        await served.until(lambda: served.kinds() == set())  # what the kubelet writes has another name at first
    assert sockets_in(served.dp) == sorted([other.name, "kubelet.sock"])


async def test_23_own_socket_file_is_not_missed_while_the_stream_lives(served):
    async with served.agent():
        await ready(served, FOO, BAR)
        for name in served.sockets():
            (served.dp / name).unlink()
        served.plug("foo2")
        await served.allocatable(FOO, 3)
        await served.kubelet.admit("p", {FOO: 3, BAR: 1})
        assert (served.registers(FOO), served.registers(BAR)) == (1, 1)
        await served.kubelet.again()  # 24
        await ready(served, FOO, BAR)
        await served.allocatable(FOO, 3)
        assert (served.registers(FOO), served.registers(BAR)) == (1, 1)


def spoken(heard, path):
    """Header fields of the calls to a method, without those that differ between kubelets of one release.

    Whether gzip is announced hangs on what else is built into the program: the whole kubelet does, a manager may not.
    """
    return [
        {name: value for name, value in fields.items() if name not in ("grpc-timeout", "grpc-accept-encoding")}
        for fields in heard
        if fields[":path"] == path
    ]


@pytest.mark.parametrize("way", ["socket", "watcher"])
async def test_26_every_authority_is_accepted(node, headers, way):
    node.settings(kubelet=f'registration = "{way}"')
    node.plug("foo0", "foo1")
    node.serve(FOO)
    await node.kubelet.start()
    async with node.agent():
        await ready(node)
        await node.kubelet.admit("p", {FOO: 1})
        (name,) = node.sockets(node.watched if way == "watcher" else node.dp)
    own = {
        ":method": "POST", ":scheme": "http", ":authority": "localhost", "content-type": "application/grpc",
        "te": "trailers", "user-agent": Release.parse(node.minor).user_agent,
    }  # fmt: skip
    for method in ("GetDevicePluginOptions", "ListAndWatch", "Allocate"):
        path = f"/v1beta1.DevicePlugin/{method}"
        assert spoken(headers, path) == [own | {":path": path}]
    dialed = {":authority": quote(str(node.watched / name), safe="")}
    for method in ("GetInfo", "NotifyRegistrationStatus"):
        path = f"/pluginregistration.Registration/{method}"
        assert spoken(headers, path) == ([own | dialed | {":path": path}] if way == "watcher" else [])
    limited = {fields[":path"].rpartition("/")[2] for fields in headers if "grpc-timeout" in fields}
    of_register = {"GetDevicePluginOptions"} if node.minor == "1.37" and way == "socket" else set()
    assert limited == of_register | ({"GetInfo", "NotifyRegistrationStatus"} if way == "watcher" else set())


async def test_29_empty_list_makes_the_resource_known(node):
    """A pod that asks for what no machine has is refused, and not run without it."""
    node.serve(FOO)
    await node.kubelet.start()
    async with node.agent():
        await ready(node, FOO)
        assert (node.kubelet.capacity(FOO), node.kubelet.allocatable(FOO)) == (0, 0)
        with pytest.raises(PodRefused, match="no healthy devices present; cannot allocate unhealthy devices"):
            await node.kubelet.admit("p", {FOO: 1})
        node.plug("foo0")
        await node.allocatable(FOO, 1)
        await node.kubelet.admit("q", {FOO: 1})


async def test_40_45_unplugged_is_unhealthy_and_healthy_again(served):
    async with served.agent():
        await ready(served)
        await served.kubelet.admit("p", {FOO: 2})
        for _ in range(3):
            served.unplug("foo0")
            await served.kubelet.sees(FOO, {"foo1"}, {"foo0"})
            assert (served.kubelet.capacity(FOO), served.kubelet.allocatable(FOO)) == (2, 1)
            served.replug("foo0")
            await served.kubelet.sees(FOO, {"foo0", "foo1"})
        assert (await served.kubelet.begin("p")).devices.keys() == {"/dev/foo0", "/dev/foo1"}


async def test_46_resource_taken_out_is_gone_at_once(served):
    async with served.agent() as agent:
        await ready(served, FOO, BAR)
        served.serve(BAR)
        await served.reload(agent)
        await served.until(lambda: served.kubelet.streams(FOO) == 0 and served.kubelet.capacity(FOO) == 0)
        await served.until(lambda: len(served.sockets()) == 1)
        await served.kubelet.sees(FOO, (), ())
        lists = list(served.kubelet.events.select("list", FOO))
        assert (lists[-1].detail.get("totalCount", 0), served.kubelet.streams(BAR)) == (0, 1)
        with pytest.raises(PodRefused, match="no healthy devices present"):
            await served.kubelet.admit("p", {FOO: 1})
        served.serve(FOO, BAR)
        await served.reload(agent)
        await ready(served)


@pytest.mark.parametrize("policy", ["none", "restricted"])
async def test_41_46_resource_taken_out_stays_while_a_pod_holds_it(served, released, policy):
    async with served.agent() as agent:
        await ready(served, FOO, BAR)
        held = (await served.kubelet.admit("p", {FOO: 1}))["c0"][FOO]
        await served.kubelet.begin("p")
        served.serve(BAR)
        await served.reload(agent)
        await served.kubelet.sees(FOO, (), held)
        await served.kubelet.again()
        await ready(served, FOO, BAR)
        await served.kubelet.sees(FOO, (), held)
        assert await served.kubelet.pods_again() == {}
        await served.kubelet.over("p")
        await served.until(lambda: served.kubelet.streams(FOO) == 0 and served.kubelet.capacity(FOO) == 0)
        await served.until(lambda: len(served.sockets()) == 1)


@pytest.mark.parametrize("kind", REAL)
async def test_47_78_stop_closes_the_kubelets_connections(served):
    """A stream ends with OK, and the kubelet has closed its connection when the agent is gone."""
    counts = []
    for number in range(1, 5):
        async with run_agent(served) as process:
            await ready(served, FOO, BAR)
            process.send(signal.SIGTERM)
            assert await process.ended() == 0
        await served.until(lambda number=number: served.kubelet.events.count("stream_ended") == 2 * number)
        assert all(event.detail["error"] == "EOF" for event in served.kubelet.events.select("stream_ended"))
        await served.until(lambda number=number: served.kubelet.events.count("disconnected") == 2 * number)
        assert served.sockets() == []
        assert (served.kubelet.capacity(FOO), served.kubelet.allocatable(FOO)) == (2, 0)
        counts.append(served.kubelet.manager.files())
    assert served.registers() == 8
    assert max(counts) - min(counts) < 4, counts  # eight connections came and went


async def test_79_agent_killed_and_started_again(served):
    async with run_agent(served) as process:
        await ready(served)
        held = await served.kubelet.admit("p", {FOO: 1})
        process.send(signal.SIGKILL)
        await process.ended()
        await served.allocatable(FOO, 0)
        assert served.kubelet.capacity(FOO) == 2
        with pytest.raises(PodRefused):
            await served.kubelet.admit("too-early", {FOO: 1})
        assert (await served.kubelet.begin("p")).devices  # a container starts again without us
    async with run_agent(served):
        await ready(served)
        await served.kubelet.admit("q", {FOO: 1})
        seen = (await served.kubelet.view())[FOO]
        assert seen.allocated == {"foo0", "foo1"}
        assert held["c0"][FOO] < seen.allocated


async def test_86_second_agent_changes_nothing(served):
    async with run_agent(served):
        await ready(served, FOO, BAR)
        before = served.sockets()
        async with run_agent(served) as second:
            assert await second.ended(20) == 1
        assert served.sockets() == before
        served.plug("foo2")
        await served.allocatable(FOO, 3)
        assert served.registers() == 2


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", REAL)
async def test_87_twenty_agents_leave_no_files_open(node):
    serve_many(node)
    await node.kubelet.start()
    counts = []
    for _ in range(21):
        async with node.agent():
            await all_ready(node)
        await node.until(lambda: node.kubelet.open_streams == 0)
        ended = node.registers()
        await node.until(lambda ended=ended: node.kubelet.events.count("disconnected") == ended)
        counts.append(node.kubelet.manager.files())
    assert node.registers() == 2100
    assert abs(counts[-1] - counts[0]) <= 5, counts


# ---------------------------------------------------------------- plugin watcher


@pytest.fixture
async def watched(node):
    node.settings(kubelet='registration = "watcher"')
    node.plug("foo0", "foo1")
    node.serve(FOO)
    return node


async def test_89_90_91_watcher_registers_what_appears(watched):
    await watched.kubelet.start()
    async with watched.agent() as agent:
        await ready(watched)
        await watched.until(lambda: phases(agent) == {FOO: Phase.STREAMING})
        assert watched.registers() == 0
        assert watched.sockets() == []
        assert len(watched.sockets(watched.watched)) == 1
        assert watched.kubelet.events.count("registered") == 1
        assert watched.kubelet.events.count("register_refused") == 0
        options = await watched.kubelet.admit("p", {FOO: 2})
        assert options["c0"][FOO] == {"foo0", "foo1"}
    assert sockets_in(watched.watched) == []  # 94
    await watched.allocatable(FOO, 0)


async def test_watcher_registers_again_after_a_kubelet_restart(watched):
    await watched.kubelet.start()
    async with watched.agent():
        await ready(watched)
        before = watched.sockets(watched.watched)
        for kill in (False, True):
            await watched.kubelet.again(kill=kill)
            await ready(watched)
            watched.unplug("foo0")
            await watched.allocatable(FOO, 1)
            watched.replug("foo0")
            await watched.allocatable(FOO, 2)
        assert watched.sockets(watched.watched) == before


async def test_94_watcher_after_the_agent_was_killed(watched):
    await watched.kubelet.start()
    async with run_agent(watched) as process:
        await ready(watched)
        process.send(signal.SIGKILL)
        await process.ended()
        await watched.allocatable(FOO, 0)
    async with run_agent(watched):
        await ready(watched)
        assert len(watched.sockets(watched.watched)) == 1


async def test_watcher_own_socket_removed(watched, at_once):
    await watched.kubelet.start()
    async with watched.agent():
        await ready(watched)
        (first,) = watched.sockets(watched.watched)
        (watched.watched / first).unlink()
        await watched.until(lambda: watched.kubelet.events.count("registered") == 2)
        await ready(watched)
        assert watched.sockets(watched.watched) != [first]


async def test_reload_moves_between_the_ways_of_registration(served):
    async with served.agent() as agent:
        await ready(served, FOO, BAR)
        for number, way in enumerate(("watcher", "socket", "watcher"), 2):
            served.serve(entry(FOO, f'registration = "{way}"'), BAR)
            assert (await served.reload(agent)).reregistered_names == (FOO,)
            await served.until(lambda number=number: served.kubelet.events.count("registered", FOO) == number)
            await served.until(lambda: phases(agent)[FOO] is Phase.STREAMING)
            await served.until(lambda: served.kubelet.streams(FOO) == 1)
            await ready(served)
        assert served.registers(BAR) == 1
