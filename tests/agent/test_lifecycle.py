"""Reload, retiring, what pods hold, hostile peers. Numbers: see CONTRIBUTING.md."""

import asyncio
import json
import time
from argparse import Namespace
from contextlib import asynccontextmanager

import pytest

from agent.cli import run
from agent.core.grants import held_ids
from agent.core.registration_phase import Phase
from agent.kubelet.endpoint import Endpoint
from agent.kubelet.pod_resources import PodResourcesUnavailable
from agent.status.agent_status import Status
from agent.tracker import look_thread
from device_agent_lab.simulated.errors import PodRefused
from device_agent_lab.simulated.simulated_node import Limits
from tests.agent.rig import BAR, FOO, entry, phases
from tests.core.builders import no_kubelet


@pytest.fixture
def fast_release(monkeypatch, at_once):
    """Two answers of PodResources that do not name an id are enough, however close."""
    monkeypatch.setattr(held_ids, "SURE_SECONDS", 0.0)


async def test_reload_leaves_what_is_unchanged_alone(rig, both_loops):
    rig.plug("foo0", "bar0", "baz0")
    rig.serve(FOO, BAR)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO, BAR)
        rig.serve(entry(BAR, 'exclude.x = { name = "none" }'), "example.com/baz", FOO)
        change = await rig.reload(agent)
        assert (change.unchanged_names, change.added_names, change.changed_names) == (
            (FOO,),
            ("example.com/baz",),
            (BAR,),
        )
        await rig.streaming(FOO, BAR, "example.com/baz")
        assert rig.kubelet.events.count("stream_ended") == 0
        assert rig.registers(FOO) == rig.registers(BAR) == 1
        assert rig.kubelet.lists.repeated() == 0


async def test_reload_changes_a_list_on_its_stream(rig):
    rig.plug("foo0", "foo1")
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.allocatable(FOO, 2)
        rig.serve(entry(FOO, 'exclude.one = { name = "foo1" }'))
        await rig.reload(agent)
        await rig.until(lambda: rig.kubelet.capacity(FOO) == 1)  # nobody holds foo1, so it goes at once
        rig.serve(entry(FOO, 'exclude.one = { name = "foo1" }\nreplicas = 3'))
        await rig.reload(agent)
        await rig.allocatable(FOO, 3)
        assert rig.registers() == 1


async def test_reload_moves_between_the_ways_of_registration(rig):  # 89
    rig.plug("foo0", "bar0")
    rig.serve(FOO, BAR)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO, BAR)
        for way in ("watcher", "socket", "watcher"):
            rig.serve(entry(FOO, f'registration = "{way}"'), BAR)
            change = await rig.reload(agent)
            assert change.reregistered_names == (FOO,)
            directory, other = (rig.watched, rig.dp) if way == "watcher" else (rig.dp, rig.watched)
            await rig.until(lambda d=directory, o=other: (
                sum("76f699faa1" in name for name in rig.sockets(d)), sum("76f699faa1" in n for n in rig.sockets(o)),
            ) == (1, 0))  # fmt: skip
            await rig.allocatable(FOO, 1)
            await rig.until(lambda: phases(agent)[FOO] is Phase.STREAMING)
        assert rig.kubelet.events.count("stream_ended", BAR) == 0


async def test_reload_takes_out_what_nobody_holds(rig):  # 46
    rig.plug("foo0", "bar0")
    rig.serve(FOO, BAR)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO, BAR)
        rig.serve(BAR)
        await rig.reload(agent)
        await rig.until(lambda: rig.kubelet.streams(FOO) == 0)
        assert rig.kubelet.lists.select(FOO)[-1].devices == ()
        (ended,) = rig.kubelet.events.select("stream_ended")
        assert ended.detail["code"] == "OK"
        await rig.until(lambda: len(rig.sockets()) == 1)
        await rig.until(lambda: phases(agent) == {BAR: Phase.STREAMING})
        assert rig.kubelet.capacity(FOO) == 0
        rig.serve(FOO, BAR)
        await rig.reload(agent)
        await rig.allocatable(FOO, 1)


async def test_reload_keeps_what_a_pod_holds_until_it_is_released(rig, fast_release):  # 41, 46
    rig.plug("foo0", "foo1", "bar0")
    rig.serve(FOO, BAR)
    rig.new_kubelet(limits=Limits(watcher_poll=0.01, pod_resources_rate=1e6))
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO, BAR)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
        (held,) = rig.kubelet.get_held_ids(FOO)
        rig.serve(BAR)
        await rig.reload(agent)
        await rig.until(lambda: rig.kubelet.capacity(FOO) == 1)
        assert rig.kubelet.unhealthy(FOO) == {held}
        await rig.kubelet.restart()
        await rig.streaming(FOO, BAR)  # a retired resource registers too: held ids must not vanish (fact 9)
        assert rig.kubelet.unhealthy(FOO) == {held}
        rig.kubelet.remove_pod("pod")
        await rig.until(lambda: rig.kubelet.capacity(FOO) == 0)
        await rig.until(lambda: rig.kubelet.streams(FOO) == 0)
        await rig.until(lambda: len(rig.sockets()) == 1)


async def test_a_retired_resource_can_come_back(rig):
    rig.plug("foo0")
    rig.serve(FOO, BAR)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO, BAR)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
        rig.serve(BAR)
        await rig.reload(agent)
        await rig.until(lambda: rig.kubelet.unhealthy(FOO))
        rig.serve(FOO, BAR)
        await rig.reload(agent)
        await rig.allocatable(FOO, 1)
        assert rig.registers(FOO) == 1


async def test_gone_and_held_stays_listed(rig, fast_release):  # 40, 41, 45
    rig.plug("foo0", "foo1")
    rig.serve(FOO)
    rig.new_kubelet(limits=Limits(watcher_poll=0.01, pod_resources_rate=1e6))
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(FOO, 2)
        await rig.kubelet.allocate("pod", "c", {FOO: 2})
        rig.unplug("foo0", "foo1")
        await rig.until(lambda: rig.kubelet.unhealthy(FOO) == {"foo0", "foo1"})
        rig.replug("foo0")
        await rig.until(lambda: rig.kubelet.healthy(FOO) == {"foo0"})
        assert rig.kubelet.unhealthy(FOO) == {"foo1"}


@pytest.mark.parametrize("reachable", [True, False])
async def test_held_ids_survive_a_restart_without_their_hardware(rig, reachable):  # 44, 98
    rig.plug("foo0", "foo1")
    rig.serve(FOO)
    if not reachable:
        rig.new_kubelet(pod_resources_directory=None)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(FOO, 2)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
        (held,) = rig.kubelet.get_held_ids(FOO)
    assert json.loads((rig.state / "state.json").read_text())["held"]
    rig.unplug(held)
    before = len(rig.kubelet.lists)
    async with rig.agent():
        await rig.until(lambda: len(rig.kubelet.lists) > before)
        first = rig.kubelet.lists[before]
        assert held in first.ids - first.healthy
        rig.replug(held)
        await rig.allocatable(FOO, 2)


async def test_pod_resources_is_found_again(rig, fast_release):  # 95, 96
    """Its socket is made anew by each kubelet, and its limit of calls is met."""
    rig.plug("foo0")
    rig.serve(FOO)
    rig.new_kubelet(pod_resources_directory=None)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.allocatable(FOO, 1)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
        rig.unplug("foo0")
        await rig.until(lambda: rig.kubelet.unhealthy(FOO) == {"foo0"})
        await rig.kubelet.stop()
        rig.new_kubelet(limits=Limits(watcher_poll=0.01, pod_resources_rate=5.0, pod_resources_burst=1))
        await rig.kubelet.start()  # it knows no pod: what is held there is free
        await rig.streaming(FOO)
        await rig.until(lambda: not agent.devices_in_use.ids)


async def test_state_that_is_damaged(rig, caplog):
    rig.plug("foo0")
    rig.serve(FOO)
    rig.state.mkdir()
    await rig.kubelet.start()
    for text in ("", "[]", "{", '{"version": 1, "lists": 3, "held": []}', '{"version": 99}', "\0"):
        (rig.state / "state.json").write_text(text)
        async with rig.agent():
            await rig.streaming(FOO)
            await rig.allocatable(FOO, 1)
        await rig.until(lambda: rig.kubelet.streams(FOO) == 0)


async def test_defect_in_a_call_ends_the_agent(rig, monkeypatch):
    """Not swallowed: the kubelet gets an error without a traceback, the process its end."""
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()

    async def allocate(*_):
        raise ZeroDivisionError("a defect")

    agent = rig.make_agent()
    monkeypatch.setattr(agent.allocation, "allocate", allocate)
    task = asyncio.create_task(agent.run())
    await rig.allocatable(FOO, 1)
    with pytest.raises(PodRefused, match=r"ZeroDivisionError|Unavailable|Canceled") as refused:
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
    assert "Traceback" not in str(refused.value)
    with pytest.raises(ExceptionGroup) as raised:
        await task
    assert raised.value.split(ZeroDivisionError)[1] is None
    assert rig.sockets() == []


def test_defect_is_exit_70(monkeypatch, tmp_path, caplog):
    async def serve(*_):
        raise ExceptionGroup("unhandled", [ZeroDivisionError("a defect")])

    monkeypatch.setattr(run, "_serve", serve)
    monkeypatch.setattr(run, "log_to_stderr", lambda _: None)
    assert run.run(Namespace(config=str(tmp_path), root="/", state=None)) == 70
    assert "a defect" in caplog.text


async def test_garbage_on_our_socket(rig):
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO)
        path = str(rig.dp / rig.sockets()[0])
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        for data in (b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 300, preface + b"\xff" * 999):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(data)
            try:
                writer.write_eof()
                await reader.read()
            except OSError:
                pass
            writer.close()
        rig.plug("foo1")
        await rig.allocatable(FOO, 2)
        assert not agent.task.done()
        assert rig.registers() == 1


async def test_a_hundred_streams_that_are_never_read(rig):  # 50
    rig.plug("foo0", "bar0")
    rig.serve(entry(FOO, "replicas = 3000"), BAR)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO, BAR)
        for _ in range(100):
            await rig.client(FOO, reading=False)
        rig.unplug("foo0")
        await rig.until(lambda: len(rig.kubelet.unhealthy(FOO)) == 3000)
        rig.plug("bar1")
        await rig.allocatable(BAR, 2)
        options = await rig.kubelet.allocate("pod", "c", {BAR: 1})
        assert options.devices
        assert rig.registers() == 2


async def test_slow_look_at_start_is_no_reason_not_to_stop(rig, monkeypatch):  # 78, 84
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    take_look = look_thread.run_look

    def slow(*args, **named):
        loop.call_soon_threadsafe(begun.set)
        time.sleep(0.3)
        return take_look(*args, **named)

    monkeypatch.setattr(look_thread, "run_look", slow)
    rig.plug("foo0")
    rig.serve(FOO)
    agent = rig.make_agent()
    task = asyncio.create_task(agent.run())
    await begun.wait()
    agent.stop()
    await task
    assert agent.status.resources == {}


async def test_status_line_says_what_is_waited_for():
    status = Status()
    status.add(FOO)
    status.set_phase(FOO, Phase.WAITING, no_kubelet("/x/kubelet.sock is not there"))
    assert status.format_line().startswith("waiting for the kubelet since ")
    assert "/x/kubelet.sock is not there" in status.format_line()


async def test_a_resource_that_returns_while_it_retires_is_registered_once_at_a_time(rig, monkeypatch):
    """Whatever the moment at which it is wanted again: its last list, or the end of its endpoint."""
    rig.plug("foo0", "bar0")
    rig.serve(FOO, BAR)
    await rig.kubelet.start()
    open_now, most = [], 0
    serve, end = Endpoint.serve, Endpoint.end

    @asynccontextmanager
    async def noted(directory, resource, generation, *args, **how):
        nonlocal most
        open_now.append(resource)
        most = max(most, open_now.count(resource))
        try:
            async with serve(directory, resource, generation, *args, **how) as endpoint:
                yield endpoint
        finally:
            open_now.remove(resource)

    async def late(endpoint, timeout_s=5.0):
        await end(endpoint, timeout_s)
        await asyncio.sleep(0.2)  # a kubelet that closes late

    monkeypatch.setattr(Endpoint, "end", late)
    monkeypatch.setattr(Endpoint, "serve", noted)
    async with rig.agent() as agent:
        await rig.streaming(FOO, BAR)
        for pause in (0.0, 0.02, 0.1):
            rig.serve(BAR)
            await rig.reload(agent)
            await asyncio.sleep(pause)
            rig.serve(FOO, BAR)
            await rig.reload(agent)
            await rig.allocatable(FOO, 1)
            await rig.until(lambda: phases(agent) == {FOO: Phase.STREAMING, BAR: Phase.STREAMING})
        await asyncio.sleep(0.5)
        assert agent.registry.get_list(FOO).devices
        assert rig.kubelet.streams(FOO) == 1
        assert rig.kubelet.allocatable(FOO) == 1
    assert most == 1


async def test_a_held_resource_returns_with_another_way_of_registration(rig):
    rig.plug("foo0", "bar0")
    rig.serve(FOO, BAR)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO, BAR)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
        rig.serve(BAR)
        await rig.reload(agent)
        await rig.until(lambda: rig.kubelet.unhealthy(FOO))
        rig.serve(entry(FOO, 'registration = "watcher"'), BAR)
        await rig.reload(agent)
        await rig.until(lambda: rig.sockets(rig.watched))
        await rig.allocatable(FOO, 1)
        assert len(rig.sockets()) == 1


async def test_what_a_pod_holds_is_asked_when_nothing_is_remembered(rig):
    """The state file is gone; the pod is there."""
    rig.plug("foo0", "bar0")
    rig.serve(FOO, BAR)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO, BAR)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
    (rig.state / "state.json").unlink()
    async with rig.agent() as agent:
        await rig.streaming(FOO, BAR)
        await rig.until(lambda: agent.devices_in_use.ids == {"foo0"})
        rig.serve(BAR)
        await rig.reload(agent)
        await rig.until(lambda: rig.kubelet.unhealthy(FOO) == {"foo0"})
        await asyncio.sleep(0.2)
        assert rig.kubelet.unhealthy(FOO) == {"foo0"}


async def test_what_pods_hold_is_asked_when_the_kubelet_has_the_lists(rig, monkeypatch):
    """Asking takes messages of its own to be made, for which the first lists do not wait."""
    stood = []

    async def ask(*_):
        stood.append(phases(agent))
        raise PodResourcesUnavailable("not yet", can_retry=True)

    monkeypatch.setattr("agent.allocation.devices_in_use.list_holders", ask)
    monkeypatch.setattr("agent.app.ARRIVAL_SECONDS", 60.0)
    rig.plug("foo0", "bar0")
    rig.serve(FOO, BAR)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.until(lambda: stood)
    assert stood[0] == {FOO: Phase.STREAMING, BAR: Phase.STREAMING}


async def test_what_pods_hold_is_asked_though_a_registration_hangs(rig, monkeypatch):
    monkeypatch.setattr("agent.app.ARRIVAL_SECONDS", 0.0)
    rig.plug("foo0")
    rig.serve(FOO)
    rig.new_kubelet().faults.hang(30.0)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.until(lambda: agent.devices_in_use.answered_at is not None)
        await rig.until(lambda: phases(agent) == {FOO: Phase.REGISTERING})
        await rig.kubelet.stop()


async def test_without_an_answer_everything_listed_may_be_held(rig, at_once):
    """Nothing was granted in this life, and nothing is remembered; only the kubelet could say that all is free."""
    rig.plug("foo0", "foo1", "bar0")
    rig.serve(FOO, BAR)
    rig.new_kubelet(pod_resources_directory=None)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.allocatable(FOO, 2)
        rig.serve(entry(FOO, 'exclude.one = { name = "foo1" }'), BAR)
        await rig.reload(agent)
        await rig.until(lambda: rig.kubelet.unhealthy(FOO) == {"foo1"})
        rig.serve(BAR)
        await rig.reload(agent)
        await rig.until(lambda: rig.kubelet.unhealthy(FOO) == {"foo0", "foo1"})
        await rig.kubelet.stop()
        rig.new_kubelet()  # this one answers, and no pod has anything
        await rig.kubelet.start()
        await rig.until(lambda: phases(agent) == {BAR: Phase.STREAMING})
        assert not agent.devices_in_use.ids


async def test_a_new_resource_may_be_held_already(rig):
    """Another plugin served it before, and pods have its devices."""
    rig.plug("foo0", "bar0")
    rig.serve(FOO, BAR)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO, BAR)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
    (rig.state / "state.json").unlink()
    rig.serve(BAR)
    async with rig.agent() as agent:
        await rig.streaming(BAR)
        await rig.until(lambda: not agent.devices_in_use._unconfirmed_count)
        rig.serve(FOO, BAR)
        await rig.reload(agent)
        await rig.streaming(FOO)
        rig.serve(BAR)
        await rig.reload(agent)
        await rig.until(lambda: rig.kubelet.unhealthy(FOO) == {"foo0"})
        await asyncio.sleep(0.2)
        assert rig.kubelet.unhealthy(FOO) == {"foo0"}


async def test_settings_take_effect_at_the_next_start(rig, caplog):
    """All of them, how resources register that do not say included."""
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO)
        rig.settings(kubelet='registration = "watcher"')
        change = await rig.reload(agent)
        assert (change.unchanged_names, change.reregistered_names) == ((FOO,), ())
        assert any("agent.toml has changed" in record.getMessage() for record in caplog.records)
        assert len(rig.sockets()) == 1
    async with rig.agent():
        await rig.until(lambda: rig.sockets(rig.watched))
