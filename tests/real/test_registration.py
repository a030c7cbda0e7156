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
async def served_node(node):
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


async def test_01_socket_answers_when_register_is_sent(served_node, monkeypatch):
    answered = []

    async def asked_first(path, endpoint, resource, options, **how):
        async with Channel(path=str(served_node.dp / endpoint)) as channel:
            said = await v1beta1.DevicePluginStub(channel).get_device_plugin_options(v1beta1.Empty(), timeout=5)
        assert said == options.build_message()  # 5
        answered.append(resource)
        await real_register(path, endpoint, resource, options, **how)

    monkeypatch.setattr(socket_registration, "register", asked_first)
    async with served_node.agent():
        await ready(served_node)
        await ready(served_node, FOO, BAR)
        assert sorted(answered) == [BAR, FOO]
        assert served_node.kubelet.events.count("register_refused") == 0


async def test_02_stream_is_served_while_register_is_pending(served_node, monkeypatch):
    release = asyncio.Event()

    async def pending(*args, **how):
        await real_register(*args, **how)
        await release.wait()

    monkeypatch.setattr(socket_registration, "register", pending)
    async with served_node.agent() as agent:
        await ready(served_node)
        served_node.plug("foo2")
        await served_node.allocatable(FOO, 3)
        assert phases(agent)[FOO] is Phase.REGISTERING
        release.set()
        await served_node.until(lambda: phases(agent)[FOO] is Phase.STREAMING)
        assert served_node.registers(FOO) == 1


async def test_04_stream_counts_although_register_failed(served_node, monkeypatch):
    async def late(*args, **how):
        await real_register(*args, **how)
        await served_node.allocatable(args[2], 2 if args[2] == FOO else 1)
        raise TimeoutError("no answer came")

    monkeypatch.setattr(socket_registration, "register", late)
    async with served_node.agent() as agent:
        await served_node.until(lambda: phases(agent) == {FOO: Phase.STREAMING, BAR: Phase.STREAMING})
        served_node.plug("foo2")
        await served_node.allocatable(FOO, 3)
        assert served_node.registers() == 2


async def test_07_agent_waits_for_the_kubelet(node):
    node.plug("foo0", "foo1")
    node.serve(FOO)
    async with node.agent() as agent:
        await node.until(lambda: phases(agent) == {FOO: Phase.WAITING})
        await node.kubelet.start()
        await ready(node)
        assert node.registers() == 1


@pytest.mark.parametrize("kill", [False, True])
async def test_08_kubelet_begins_between_our_look_and_our_call(served_node, monkeypatch, kill):
    """It has removed our sockets: a Register would name one that is gone, which the kubelet dials for 10 s."""
    dial = register_module.dial
    begun = []

    @asynccontextmanager
    async def late(path):
        if not begun:
            begun.append(path)
            await served_node.kubelet.up()
        async with dial(path) as channel:
            yield channel

    async with served_node.agent() as agent:
        await ready(served_node, FOO, BAR)
        await served_node.kubelet.down(kill=kill)
        monkeypatch.setattr(agent.parts.kubelet_socket, "check", lambda: None)  # what inotify says comes later still
        monkeypatch.setattr(register_module, "dial", late)
        await ready(served_node, FOO, BAR)
        await served_node.allocatable(FOO, 2)
        assert served_node.registers() == 2
        assert served_node.kubelet.events.select("register_refused") == []


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


async def test_13_no_register_while_the_stream_lives(served_node):
    async with served_node.agent() as agent:
        await ready(served_node)
        for name in ("a", "b"):
            (served_node.dp / name).touch()
            (served_node.dp / name).unlink()
            agent.parts.kubelet_socket.refresh()
            agent.tracker.request_look()
        served_node.plug("foo2")
        await served_node.allocatable(FOO, 3)
        served_node.unplug("foo0")
        await served_node.allocatable(FOO, 2)
        served_node.replug("foo0")
        await served_node.allocatable(FOO, 3)
        await served_node.kubelet.admit("p", {BAR: 1})
        served_node.serve(entry(FOO, 'exclude.one = { name = "foo2" }'), BAR)
        await served_node.reload(agent)
        await served_node.allocatable(FOO, 2)
        assert (served_node.registers(FOO), served_node.registers(BAR)) == (1, 1)
        assert served_node.kubelet.events.count("stream_ended") == 0


async def test_14_second_stream_is_fed_too_and_its_end_is_survived(served_node, endpoints, at_once):
    """Somebody registers our socket a second time: 1.34 opens a second stream, 1.37 refuses and forgets the first."""
    async with served_node.agent():
        await ready(served_node, FOO, BAR)
        mine = next(one for one in endpoints if one._plugin._resource == FOO)
        (first,) = (connection for connection in mine._connections if connection.calls.tasks)
        if served_node.minor == "1.37":
            with pytest.raises(socket_registration.RefusedByKubelet, match="already connected"):
                await real_register(served_node.kubelet.socket, mine.name, FOO, mine.options)
            assert mine.stream_count == 1
        else:
            await real_register(served_node.kubelet.socket, mine.name, FOO, mine.options)
            await served_node.until(lambda: mine.stream_count == 2)
        served_node.plug("foo2")
        await served_node.allocatable(FOO, 3)
        assert served_node.registers(FOO) == 2
        first.abort()
        await served_node.until(lambda: served_node.registers(FOO) >= 3)
        served_node.plug("foo3")
        await served_node.allocatable(FOO, 4)
        await served_node.kubelet.sees(FOO, {"foo0", "foo1", "foo2", "foo3"})
        survived = served_node.registers(FOO)  # more than one if 1.34 was still taking leave of the streams before
        served_node.unplug("foo3")
        await served_node.allocatable(FOO, 3)
        await served_node.kubelet.admit("p", {FOO: 3})
        assert served_node.registers(FOO) == survived
        assert served_node.registers(BAR) == 1


async def test_15_register_comes_after_the_old_connection_is_closed(served_node):
    """The kubelet's socket looks like another one, the kubelet is the same: until 1.36 a Register too early is lost."""
    async with served_node.agent() as agent:
        await ready(served_node)
        await served_node.until(lambda: phases(agent)[FOO] is Phase.STREAMING)
        for number in range(2, 12):
            os.chmod(served_node.kubelet.socket, 0o700 + number)
            agent.parts.kubelet_socket.check()
            await served_node.until(lambda number=number: served_node.registers(FOO) == number)
            await ready(served_node)
            await served_node.until(lambda: phases(agent)[FOO] is Phase.STREAMING)
            mine = [event.kind for event in served_node.kubelet.events if event.resource == FOO]
            last = len(mine) - 1 - mine[::-1].index("register")
            assert mine[:last].count("disconnected") == number - 1
            assert served_node.kubelet.streams(FOO) == 1
        served_node.plug("foo2")
        await served_node.allocatable(FOO, 3)
        if served_node.real:
            assert await served_node.kubelet.clients(FOO) == 1


async def test_16_fresh_socket_name_each_time(served_node):
    names = set()
    async with served_node.agent():
        for number in range(1, 6):
            await ready(served_node, FOO, BAR)
            names |= set(served_node.sockets())
            assert len(names) == 2 * number
            await served_node.kubelet.again()


async def test_21_22_nothing_but_own_sockets_in_the_directory(served_node):
    for _ in range(3):
        async with run_agent(served_node) as process:
            await ready(served_node, FOO, BAR)
            process.send(signal.SIGKILL)
            await process.ended()
            await served_node.until(lambda: served_node.kubelet.streams(FOO) == served_node.kubelet.streams(BAR) == 0)
    other = served_node.bystander()
    async with served_node.agent():
        await ready(served_node, FOO, BAR)
        assert len(served_node.sockets()) == 2
        assert other.exists()
        await served_node.until(
            lambda: served_node.kinds() == set()
        )  # what the kubelet writes has another name at first
    assert sockets_in(served_node.dp) == sorted([other.name, "kubelet.sock"])


async def test_23_own_socket_file_is_not_missed_while_the_stream_lives(served_node):
    async with served_node.agent():
        await ready(served_node, FOO, BAR)
        for name in served_node.sockets():
            (served_node.dp / name).unlink()
        served_node.plug("foo2")
        await served_node.allocatable(FOO, 3)
        await served_node.kubelet.admit("p", {FOO: 3, BAR: 1})
        assert (served_node.registers(FOO), served_node.registers(BAR)) == (1, 1)
        await served_node.kubelet.again()  # 24
        await ready(served_node, FOO, BAR)
        await served_node.allocatable(FOO, 3)
        assert (served_node.registers(FOO), served_node.registers(BAR)) == (1, 1)


def list_headers(heard, path):
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
        assert list_headers(headers, path) == [own | {":path": path}]
    dialed = {":authority": quote(str(node.watched / name), safe="")}
    for method in ("GetInfo", "NotifyRegistrationStatus"):
        path = f"/pluginregistration.Registration/{method}"
        assert list_headers(headers, path) == ([own | dialed | {":path": path}] if way == "watcher" else [])
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


async def test_40_45_unplugged_is_unhealthy_and_healthy_again(served_node):
    async with served_node.agent():
        await ready(served_node)
        await served_node.kubelet.admit("p", {FOO: 2})
        for _ in range(3):
            served_node.unplug("foo0")
            await served_node.kubelet.sees(FOO, {"foo1"}, {"foo0"})
            assert (served_node.kubelet.capacity(FOO), served_node.kubelet.allocatable(FOO)) == (2, 1)
            served_node.replug("foo0")
            await served_node.kubelet.sees(FOO, {"foo0", "foo1"})
        assert (await served_node.kubelet.begin("p")).devices.keys() == {"/dev/foo0", "/dev/foo1"}


async def test_46_resource_taken_out_is_gone_at_once(served_node):
    async with served_node.agent() as agent:
        await ready(served_node, FOO, BAR)
        served_node.serve(BAR)
        await served_node.reload(agent)
        await served_node.until(
            lambda: served_node.kubelet.streams(FOO) == 0 and served_node.kubelet.capacity(FOO) == 0
        )
        await served_node.until(lambda: len(served_node.sockets()) == 1)
        await served_node.kubelet.sees(FOO, (), ())
        lists = list(served_node.kubelet.events.select("list", FOO))
        assert (lists[-1].detail.get("totalCount", 0), served_node.kubelet.streams(BAR)) == (0, 1)
        with pytest.raises(PodRefused, match="no healthy devices present"):
            await served_node.kubelet.admit("p", {FOO: 1})
        served_node.serve(FOO, BAR)
        await served_node.reload(agent)
        await ready(served_node)


@pytest.mark.parametrize("policy", ["none", "restricted"])
async def test_41_46_resource_taken_out_stays_while_a_pod_holds_it(served_node, fast_release, policy):
    async with served_node.agent() as agent:
        await ready(served_node, FOO, BAR)
        held = (await served_node.kubelet.admit("p", {FOO: 1}))["c0"][FOO]
        await served_node.kubelet.begin("p")
        served_node.serve(BAR)
        await served_node.reload(agent)
        await served_node.kubelet.sees(FOO, (), held)
        await served_node.kubelet.again()
        await ready(served_node, FOO, BAR)
        await served_node.kubelet.sees(FOO, (), held)
        assert await served_node.kubelet.pods_again() == {}
        await served_node.kubelet.over("p")
        await served_node.until(
            lambda: served_node.kubelet.streams(FOO) == 0 and served_node.kubelet.capacity(FOO) == 0
        )
        await served_node.until(lambda: len(served_node.sockets()) == 1)


@pytest.mark.parametrize("kind", REAL)
async def test_47_78_stop_closes_the_kubelets_connections(served_node):
    """A stream ends with OK, and the kubelet has closed its connection when the agent is gone."""
    counts = []
    for number in range(1, 5):
        async with run_agent(served_node) as process:
            await ready(served_node, FOO, BAR)
            process.send(signal.SIGTERM)
            assert await process.ended() == 0
        await served_node.until(lambda number=number: served_node.kubelet.events.count("stream_ended") == 2 * number)
        assert all(event.detail["error"] == "EOF" for event in served_node.kubelet.events.select("stream_ended"))
        await served_node.until(lambda number=number: served_node.kubelet.events.count("disconnected") == 2 * number)
        assert served_node.sockets() == []
        assert (served_node.kubelet.capacity(FOO), served_node.kubelet.allocatable(FOO)) == (2, 0)
        counts.append(served_node.kubelet.manager.files())
    assert served_node.registers() == 8
    assert max(counts) - min(counts) < 4, counts  # eight connections came and went


async def test_79_agent_killed_and_started_again(served_node):
    async with run_agent(served_node) as process:
        await ready(served_node)
        held = await served_node.kubelet.admit("p", {FOO: 1})
        process.send(signal.SIGKILL)
        await process.ended()
        await served_node.allocatable(FOO, 0)
        assert served_node.kubelet.capacity(FOO) == 2
        with pytest.raises(PodRefused):
            await served_node.kubelet.admit("too-early", {FOO: 1})
        assert (await served_node.kubelet.begin("p")).devices  # a container starts again without us
    async with run_agent(served_node):
        await ready(served_node)
        await served_node.kubelet.admit("q", {FOO: 1})
        seen = (await served_node.kubelet.view())[FOO]
        assert seen.allocated == {"foo0", "foo1"}
        assert held["c0"][FOO] < seen.allocated


async def test_86_second_agent_changes_nothing(served_node):
    async with run_agent(served_node):
        await ready(served_node, FOO, BAR)
        before = served_node.sockets()
        async with run_agent(served_node) as second:
            assert await second.ended(20) == 1
        assert served_node.sockets() == before
        served_node.plug("foo2")
        await served_node.allocatable(FOO, 3)
        assert served_node.registers() == 2


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
async def watcher_node(node):
    node.settings(kubelet='registration = "watcher"')
    node.plug("foo0", "foo1")
    node.serve(FOO)
    return node


async def test_89_90_91_watcher_registers_what_appears(watcher_node):
    await watcher_node.kubelet.start()
    async with watcher_node.agent() as agent:
        await ready(watcher_node)
        await watcher_node.until(lambda: phases(agent) == {FOO: Phase.STREAMING})
        assert watcher_node.registers() == 0
        assert watcher_node.sockets() == []
        assert len(watcher_node.sockets(watcher_node.watched)) == 1
        assert watcher_node.kubelet.events.count("registered") == 1
        assert watcher_node.kubelet.events.count("register_refused") == 0
        options = await watcher_node.kubelet.admit("p", {FOO: 2})
        assert options["c0"][FOO] == {"foo0", "foo1"}
    assert sockets_in(watcher_node.watched) == []  # 94
    await watcher_node.allocatable(FOO, 0)


async def test_watcher_registers_again_after_a_kubelet_restart(watcher_node):
    await watcher_node.kubelet.start()
    async with watcher_node.agent():
        await ready(watcher_node)
        before = watcher_node.sockets(watcher_node.watched)
        for kill in (False, True):
            await watcher_node.kubelet.again(kill=kill)
            await ready(watcher_node)
            watcher_node.unplug("foo0")
            await watcher_node.allocatable(FOO, 1)
            watcher_node.replug("foo0")
            await watcher_node.allocatable(FOO, 2)
        assert watcher_node.sockets(watcher_node.watched) == before


async def test_94_watcher_after_the_agent_was_killed(watcher_node):
    await watcher_node.kubelet.start()
    async with run_agent(watcher_node) as process:
        await ready(watcher_node)
        process.send(signal.SIGKILL)
        await process.ended()
        await watcher_node.allocatable(FOO, 0)
    async with run_agent(watcher_node):
        await ready(watcher_node)
        assert len(watcher_node.sockets(watcher_node.watched)) == 1


async def test_watcher_own_socket_removed(watcher_node, at_once):
    await watcher_node.kubelet.start()
    async with watcher_node.agent():
        await ready(watcher_node)
        (first,) = watcher_node.sockets(watcher_node.watched)
        (watcher_node.watched / first).unlink()
        await watcher_node.until(lambda: watcher_node.kubelet.events.count("registered") == 2)
        await ready(watcher_node)
        assert watcher_node.sockets(watcher_node.watched) != [first]


async def test_reload_moves_between_the_ways_of_registration(served_node):
    async with served_node.agent() as agent:
        await ready(served_node, FOO, BAR)
        for number, way in enumerate(("watcher", "socket", "watcher"), 2):
            served_node.serve(entry(FOO, f'registration = "{way}"'), BAR)
            assert (await served_node.reload(agent)).reregistered_names == (FOO,)
            await served_node.until(lambda number=number: served_node.kubelet.events.count("registered", FOO) == number)
            await served_node.until(lambda: phases(agent)[FOO] is Phase.STREAMING)
            await served_node.until(lambda: served_node.kubelet.streams(FOO) == 1)
            await ready(served_node)
        assert served_node.registers(BAR) == 1
