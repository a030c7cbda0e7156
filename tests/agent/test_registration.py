"""Registration by Register on kubelet.sock. Numbers: see CONTRIBUTING.md."""

import asyncio
import errno
import os
import random
import shutil
from contextlib import asynccontextmanager

import inotify_simple
import pytest

from agent import kernel_events
from agent.core.backoff import Backoff
from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.registration_phase import Phase
from agent.core.struct import replace
from agent.host import socket_watch
from agent.host.socket_watch import SocketWatch
from agent.kubelet import endpoint, register
from agent.kubelet.endpoint import Endpoint
from agent.kubelet.socket_file import make_generation
from agent.registration import socket_registration
from agent.registry import Registry
from agent.single_instance import AlreadyRunning
from tests.agent.conftest import files
from tests.agent.rig import BAR, FOO, REAL, SHORT, phases, reason


async def wait_for_baseline(baseline, first):
    """There are as many tasks, and as many files, as there were at first, give or take what comes and goes."""
    for _ in range(3000):
        tasks, opened = baseline()
        if tasks <= first[0] + 3 and opened <= first[1] + 3:
            return
        await asyncio.sleep(0.01)
    names = sorted(str(task.get_coro()) for task in asyncio.all_tasks())
    raise AssertionError(f"{first} has become {baseline()}: {names}")


async def test_waits_for_a_kubelet_that_is_not_there(rig, both_loops):  # 7, 11
    rig.plug("foo0")
    rig.serve(FOO)
    async with rig.agent() as agent:
        await rig.until(lambda: phases(agent) == {FOO: Phase.WAITING})
        assert "does not exist" in str(agent.status.resources[FOO].reason)
        assert str(rig.dp) in agent.status.format_line()
        await rig.kubelet.start()
        await rig.allocatable(FOO, 1)
        assert rig.registers() == 1


async def test_directory_comes_later_and_again(rig):  # 11
    rig.plug("foo0")
    rig.serve(FOO)
    assert not rig.dp.parent.exists()
    async with rig.agent():
        await rig.kubelet.start()
        await rig.allocatable(FOO, 1)
        await rig.kubelet.stop()
        shutil.rmtree(rig.dp)
        await rig.kubelet.start()
        await rig.allocatable(FOO, 1)
        assert rig.registers() == 1


@pytest.mark.parametrize("part", ["k", "k/dp"])
async def test_directory_behind_a_link(rig, part):
    rig.plug("foo0")
    rig.serve(FOO)
    (rig.top / part).parent.mkdir(exist_ok=True)
    (rig.top / "real").mkdir()
    (rig.top / part).symlink_to(rig.top / "real")
    async with rig.agent():
        await rig.kubelet.start()
        await rig.allocatable(FOO, 1)
        await rig.kubelet.restart()
        await rig.allocatable(FOO, 1)
        assert rig.registers() == 1


async def test_socket_that_refuses_is_no_kubelet(rig, monkeypatch, caplog):  # 10
    monkeypatch.setattr(socket_registration, "DOWN_SECONDS", 0.03)
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    await rig.kubelet.stop("kill")
    async with rig.agent() as agent:
        await rig.until(lambda: "refused" in reason(agent, FOO))
        assert phases(agent) == {FOO: Phase.WAITING}
        await rig.kubelet.start()
        await rig.allocatable(FOO, 1)
        assert rig.registers() == 1
    (error,) = (record.getMessage() for record in caplog.records if record.levelname == "ERROR")
    assert error.startswith("kubelet: starting → down: ")  # said once, and nothing else is wrong


async def test_gap_between_bind_and_listen(rig, monkeypatch):  # 9
    """Nothing tells that it listens now: it is tried again at once, and not only after a longer while."""
    monkeypatch.setattr(socket_registration, "CONNECT_BACKOFF", Backoff(initial_s=1000.0, max_s=1000.0))
    monkeypatch.setattr(socket_registration, "EAGER_SECONDS", 30.0)  # a busy host may stand still for a second
    rig.plug("foo0")
    rig.serve(FOO)
    async with rig.agent():
        await rig.kubelet.start(listen_after=0.2)
        await rig.allocatable(FOO, 1)
        assert rig.registers() == 1
        assert len(rig.sockets()) == 1


async def test_retries_in_the_first_second_are_short():  # 9
    assert 0.010 <= socket_registration.EAGER_PAUSE <= 0.020
    assert socket_registration.EAGER_SECONDS >= 1.0


@pytest.mark.parametrize("kind", ["term", "kill"])
@pytest.mark.parametrize("wipe", [True, False])
async def test_restart_is_one_register_for_each_resource(rig, both_loops, kind, wipe):  # 8, 13, 81
    rig.plug("foo0", "foo1", "bar0")
    rig.serve(FOO, BAR)
    await rig.kubelet.start()
    async with rig.agent():
        for _ in range(5):
            await rig.streaming(FOO, BAR)
            assert (rig.registers(FOO), rig.registers(BAR)) == (1, 1)
            await rig.kubelet.stop(kind)
            stopped = len(rig.kubelet.events)
            await rig.kubelet.start(wipe=wipe)
            assert rig.kubelet.events[stopped].kind == "bound"  # 81: nothing came to a kubelet that was not there
        await rig.streaming(FOO, BAR)
        assert rig.kubelet.allocatable(FOO) == 2
        assert rig.kubelet.lists.repeated() == 0


async def test_both_signs_of_one_restart_in_either_order(rig):  # 12, 13
    """The socket made anew long before the stream ends, or long after: one Register all the same."""
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    old = rig.kubelet
    async with rig.agent() as agent:
        await rig.streaming(FOO)
        await rig.until(lambda: phases(agent) == {FOO: Phase.STREAMING})
        os.unlink(old.socket)
        new = rig.new_kubelet()
        await new.start(wipe=False)  # the old one lives on: its stream has to be ended by the agent
        await rig.streaming(FOO)
        assert old.events.select("stream_ended")[0].detail["code"] == "OK"
        await old.stop("kill")
        assert rig.registers() == 1
        await new.stop()
        await asyncio.sleep(0.05)  # long enough for the first sign to have been acted upon
        await new.start()
        await rig.streaming(FOO)
        assert rig.registers() == 1


async def test_socket_made_twice_in_one_restart(rig):  # 12
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO)
        await rig.kubelet.stop()
        await rig.kubelet.start(listen_after=0.0)
        await rig.kubelet.restart()
        await rig.streaming(FOO)
        assert rig.registers() == 1


async def test_more_events_of_the_same_socket_are_nothing(rig):  # 12
    """Files come and go beside kubelet.sock, and it is looked at again; it is the same one."""
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO)
        for name in ("a", "b"):
            (rig.dp / name).touch()
            (rig.dp / name).unlink()
            agent.parts.kubelet_socket.refresh()
        rig.plug("foo1")
        await rig.allocatable(FOO, 2)
        assert rig.registers() == 1
        assert rig.kubelet.events.count("stream_ended") == 0


async def test_refused_then_accepted(rig, at_once, caplog, both_loops):  # 18, akri#557
    rig.plug("foo0", "bar0")
    rig.serve(FOO, BAR)
    rig.kubelet.faults.refuse("plugin server is being shut down", times=20, resource=FOO)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO, BAR)
        assert rig.registers(FOO) == 21
        assert rig.registers(BAR) == 1  # 19
    said = [record.getMessage() for record in caplog.records if "being shut down" in record.getMessage()]
    assert len(said) == 1  # 18: once, with the kubelet's text


async def test_pauses_between_registers_are_those_of_the_contract():  # 18
    pauses = [socket_registration.REGISTER_BACKOFF]
    for _ in range(10):
        pauses.append(pauses[-1].add_failure())
    assert 1.0 <= pauses[1].compute_delay(1.0) < pauses[1].compute_delay(0.0) <= 2.0
    assert pauses[1].compute_delay(1.0) <= 0.81 * pauses[1].compute_delay(0.0)
    assert pauses[-1].compute_delay(0.0) == 60.0
    assert socket_registration.STEADY_SECONDS >= 10.0


async def test_another_kubelet_ends_the_pause_after_failures(rig, monkeypatch):  # 18, 8
    monkeypatch.setattr(socket_registration, "REGISTER_BACKOFF", Backoff(initial_s=1000.0, max_s=1000.0))
    rig.plug("foo0")
    rig.serve(FOO)
    rig.kubelet.faults.refuse("not now")
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.until(lambda: "not now" in reason(agent, FOO))
        await rig.kubelet.restart()
        await rig.streaming(FOO)


async def test_another_kubelet_ends_the_pause_after_a_dropped_stream(rig, monkeypatch):  # 8
    monkeypatch.setattr(socket_registration, "REGISTER_BACKOFF", Backoff(initial_s=1000.0, max_s=1000.0))
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO)
        await rig.until(lambda: phases(agent) == {FOO: Phase.STREAMING})
        rig.kubelet.cancel_stream(FOO)
        await rig.until(lambda: phases(agent) == {FOO: Phase.WAITING} and rig.sockets() == [])
        await rig.kubelet.restart(wipe=False)
        await rig.streaming(FOO)


async def test_register_goes_to_the_kubelet_that_was_meant(rig):  # 13
    """Another kubelet, of which no event has come yet: it is seen before Register, and gets one."""
    await rig.kubelet.start()
    presence = SocketWatch(rig.kubelet.socket)
    await rig.kubelet.restart()
    registry = Registry()

    def serve():
        return Endpoint.serve(str(rig.dp), FOO, make_generation(), registry, None, on_defect=print)

    keeping = asyncio.create_task(socket_registration.keep_registered(FOO, serve, presence, lambda *_: None))
    await rig.streaming(FOO)
    await rig.until(lambda: rig.kubelet.events.count("register_answered"))
    presence.check()  # the event comes at last
    registry.publish(DeviceList(FOO, (Device("a", "place", "key", Health.HEALTHY),)))
    await rig.allocatable(FOO, 1)
    assert rig.registers() == 1
    keeping.cancel()
    await asyncio.wait([keeping])


async def test_fresh_name_for_each_registration(rig, at_once):  # 16, 17
    rig.plug("foo0")
    rig.serve(FOO)
    rig.kubelet.faults.refuse("device plugin already connected: /x", times=3)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO)
        for number in range(5, 8):
            rig.kubelet.cancel_stream(FOO)
            await rig.until(lambda number=number: rig.registers() == number)
            await rig.streaming(FOO)
        names = [event.detail["endpoint"] for event in rig.kubelet.events.select("register")]
        assert len(set(names)) == len(names) == 7
        assert rig.sockets() == [names[-1]]


async def test_hanging_register_is_given_up_and_tried_again(rig, at_once, monkeypatch):  # 18, 19
    asking = socket_registration.register

    async def given_up_twice(*args, **how):
        hangs = args[2] == FOO and rig.registers(FOO) < 2
        monkeypatch.setattr(register, "DEADLINE_SECONDS", 0.2 if hangs else 60.0)  # which it reads as it begins
        await asking(*args, **how)

    monkeypatch.setattr(socket_registration, "register", given_up_twice)
    rig.plug("foo0", "bar0")
    rig.serve(FOO, BAR)
    rig.kubelet.faults.hang(1000, times=2, resource=FOO)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO, BAR)
        assert (rig.registers(FOO), rig.registers(BAR)) == (3, 1)


async def test_register_has_more_time_than_the_kubelet_takes(rig):  # 3
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO)
    (event,) = rig.kubelet.events.select("register")
    assert 12.0 <= event.detail["timeout"] <= 15.0


async def test_one_that_hangs_delays_no_other(rig):  # 19
    rig.plug("foo0", "bar0")
    rig.serve(FOO, BAR)
    rig.kubelet.faults.dial_late(1000, resource=FOO)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(BAR)
        assert phases(agent).get(FOO) is Phase.REGISTERING


@pytest.mark.parametrize("release", ["1.34", "1.36", "1.37"])
async def test_stream_counts_before_register_answers(rig, release):  # 2, 4
    rig.plug("foo0")
    rig.serve(FOO)
    rig.new_kubelet(release=release)
    rig.kubelet.faults.answer_late(2.0)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(FOO, 1)
        assert rig.kubelet.events.count("register_answered") == 0
        await rig.until(lambda: rig.kubelet.events.count("register_answered"))
        assert rig.kubelet.streams(FOO) == rig.registers() == 1


async def test_stream_counts_although_register_timed_out(rig, at_once, monkeypatch):  # 4
    monkeypatch.setattr(register, "DEADLINE_SECONDS", 1.0)
    rig.plug("foo0")
    rig.serve(FOO)
    rig.new_kubelet(release="1.34")
    rig.kubelet.faults.answer_late(1000)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.until(lambda: phases(agent).get(FOO) is Phase.STREAMING)
        rig.plug("foo1")
        await rig.allocatable(FOO, 2)
        assert rig.registers() == 1


async def test_stream_counts_although_the_answer_was_lost(rig):  # 4, 13
    rig.plug("foo0")
    rig.serve(FOO)
    rig.kubelet.faults.lose_answer()
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.until(lambda: phases(agent).get(FOO) is Phase.STREAMING)
        rig.plug("foo1")
        await rig.allocatable(FOO, 2)
        assert (rig.registers(), rig.kubelet.streams(FOO)) == (1, 1)


async def test_connection_closed_inside_register(rig, at_once):  # kubevirt/device-plugin-manager#32
    rig.plug("foo0")
    rig.serve(FOO)
    rig.kubelet.faults.close(times=5)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO)
        names = [event.detail["endpoint"] for event in rig.kubelet.events.select("register")]
        assert len(names) == len(set(names)) == 6


async def test_kubelet_dies_inside_register(rig):
    rig.plug("foo0")
    rig.serve(FOO)
    rig.kubelet.faults.dial_late(1000)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.until(rig.registers)
        await rig.kubelet.restart(kind="kill")
        await rig.streaming(FOO)
        assert rig.registers() == 1


async def test_dropped_stream_registers_that_resource_alone(rig, at_once, both_loops):  # ROCm#186
    rig.plug("foo0", "bar0")
    rig.serve(FOO, BAR)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO, BAR)
        rig.kubelet.cancel_stream(FOO)
        await rig.until(lambda: rig.registers(FOO) == 2)
        await rig.streaming(FOO, BAR)
        await rig.allocatable(FOO, 1)  # with its list on the new stream
        assert (rig.registers(FOO), rig.registers(BAR)) == (2, 1)
        assert rig.kubelet.events.count("stream_ended", BAR) == 0


async def test_no_stream_comes_after_register(rig, at_once, monkeypatch, caplog):
    """A kubelet that answers Register and opens no stream gets another try, with a reason that people see."""
    monkeypatch.setattr(socket_registration, "STREAM_SECONDS", 0.05)
    answered = []

    async def register(*args, **how):
        answered.append(args)

    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    with monkeypatch.context() as patched:
        patched.setattr(socket_registration, "register", register)
        async with rig.agent() as agent:
            await rig.until(lambda: len(answered) >= 3)
            await rig.until(lambda: "no stream" in reason(agent, FOO))
            patched.undo()
            monkeypatch.setattr(socket_registration, "STREAM_SECONDS", 10.0)
            await rig.streaming(FOO)


async def test_second_stream_is_fed_and_neither_is_ended(rig):  # 14
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO)
        other = await rig.client(FOO)
        await rig.until(lambda: other.lists)
        rig.plug("foo1")
        await rig.until(lambda: len(other.lists[-1].devices) == 2)
        await rig.allocatable(FOO, 2)
        await other.close()
        rig.plug("foo2")
        await rig.allocatable(FOO, 3)
        assert rig.registers() == 1
        assert rig.kubelet.events.count("stream_ended") == 0


async def test_second_stream_of_a_kubelet_that_ends_both(rig, at_once):  # 14, #121994
    rig.plug("foo0")
    rig.serve(FOO)
    rig.new_kubelet(release="1.36")
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO)
        await rig.kubelet.open_stream(FOO)
        await rig.streaming(FOO, streams=2)
        rig.kubelet.cancel_stream(FOO)
        await rig.until(lambda: rig.registers() == 2)
        await rig.allocatable(FOO, 1)
        await rig.until(lambda: rig.kubelet.streams(FOO) == 1)


async def test_own_socket_removed_while_the_stream_lives(rig):  # 23
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO)
        for name in rig.sockets():
            (rig.dp / name).unlink()
        rig.plug("foo1")
        await rig.allocatable(FOO, 2)
        assert rig.registers() == 1
        assert rig.kubelet.events.count("stream_ended") == 0


async def test_own_socket_removed_during_registration(rig):  # 24
    rig.plug("foo0")
    rig.serve(FOO)
    rig.kubelet.faults.dial_late(1000)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.until(rig.registers)
        (first,) = rig.sockets()
        (rig.dp / first).unlink()
        await rig.streaming(FOO)
        assert rig.registers() == 2
        assert first not in rig.sockets()


async def test_own_socket_removed_and_stream_dropped(rig, monkeypatch):  # 24
    monkeypatch.setattr(socket_registration, "REGISTER_BACKOFF", Backoff(initial_s=1000.0, max_s=1000.0))
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO)
        (first,) = rig.sockets()
        (rig.dp / first).unlink()
        rig.kubelet.cancel_stream(FOO)
        await rig.until(lambda: rig.registers() == 2)
        await rig.allocatable(FOO, 1)
        (second,) = rig.sockets()
        assert second != first


async def test_sockets_left_by_earlier_lives_go_and_others_stay(rig):  # 21
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    stale = [f"device-agent-{n:010x}-abc.sock" for n in range(3)]
    for directory in (rig.dp, rig.watched):
        for name in (*stale, f".{stale[0]}", "device-agent-mine.sock"):
            os.rename(rig.bystander(directory), directory / name)
        rig.bystander(directory)
    (rig.dp / "device-agent-0000000009-abc.sock").write_text("a file, and no socket")
    async with rig.agent():
        await rig.streaming(FOO)
        left = set(os.listdir(rig.dp)) | set(os.listdir(rig.watched))
        assert left.isdisjoint((*stale, f".{stale[0]}"))
        for directory in (rig.dp, rig.watched):
            assert {"foreign.sock", "device-agent-mine.sock"} <= set(os.listdir(directory))
        assert (rig.dp / "device-agent-0000000009-abc.sock").exists()
    assert {"foreign.sock", "device-agent-mine.sock", "kubelet.sock"} <= set(os.listdir(rig.dp))


async def test_nothing_but_sockets_in_the_kubelets_directory(rig):  # 22
    rig.plug("foo0")
    rig.serve(FOO)
    rig.dp.mkdir(parents=True)
    checkpoint = rig.dp / "kubelet_internal_checkpoint"
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
        assert rig.kinds() == set()
        assert all((rig.dp / name).stat().st_mode & 0o777 == 0o600 for name in rig.sockets())
        written = checkpoint.stat().st_mtime_ns
    assert checkpoint.stat().st_mtime_ns == written
    assert rig.sockets() == []
    assert rig.kinds() == set()


async def test_register_says_what_the_endpoint_says(rig):  # 1, 5, 20, 76
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO)
        (socket,) = rig.sockets()
    (asked,) = rig.kubelet.events.select("register")
    (answered,) = rig.kubelet.events.select("registered")
    assert asked.detail["version"] == "v1beta1"
    assert asked.detail["endpoint"] == socket
    assert asked.resource == FOO
    assert [asked.detail[key] for key in ("pre_start", "preferred")] == [
        answered.detail[key] for key in ("pre_start", "preferred")
    ]
    assert not answered.detail["pre_start"]  # 74: no hook is configured
    assert not answered.detail["preferred"]  # 71: no preference is configured


async def test_resource_name_that_kubelets_refuse_is_never_registered(rig):  # 6
    rig.plug("foo0")
    rig.serve("example.com/foo_")
    rig.serve(FOO, file="20.toml")
    await rig.kubelet.start()
    async with rig.agent(invalid=True):
        await rig.streaming(FOO)
        assert {event.resource for event in rig.kubelet.events.select("register")} == {FOO}


async def test_name_without_devices_is_registered_and_empty(rig):  # 29
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO)
        assert rig.kubelet.capacity(FOO) == 0
        assert rig.kubelet.is_known(FOO)
        rig.plug("foo0")
        await rig.allocatable(FOO, 1)


@pytest.mark.parametrize("release", ["1.30", "1.37"])
async def test_64_resources(rig, monkeypatch, release):  # 8, 19
    monkeypatch.setattr(register, "DEADLINE_SECONDS", 300.0)  # of 64 at once, on a busy host
    names = [f"example.com/r{n}x" for n in range(64)]
    rig.plug(*(f"r{n}x0" for n in range(64)))
    rig.serve(*names)
    rig.new_kubelet(release=release, limits=replace(SHORT, dial=300.0))
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(*names)
        assert all(rig.registers(name) == 1 for name in names)
        await rig.kubelet.restart()
        await rig.streaming(*names)
        assert all(rig.registers(name) == 1 for name in names)
        assert len(rig.sockets()) == 64
        assert all(rig.kubelet.allocatable(name) == 1 for name in names)
    assert rig.kubelet.connections() == 0


@pytest.mark.parametrize(("release", "times"), [("1.30", 20), ("1.36", 100), ("1.37", 20)])
async def test_restarts_without_end_leave_nothing(rig, baseline, release, times):  # 49, kubevirt#2068, RSHARE#48
    """While devices come and go, with gaps of any length, in any manner."""
    chance = random.Random(release)
    rig.plug("foo0", "foo1", "bar0")
    rig.serve(FOO, BAR)
    rig.new_kubelet(release=release)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO, BAR)
        await rig.until(lambda: not agent.devices_in_use._unconfirmed_count)  # all that runs has begun
        first = baseline()
        present = True
        for _ in range(times):
            await rig.kubelet.restart(
                gap=chance.choice((0, 0, 0.001, 0.01)),
                kind=chance.choice(("term", "kill")),
                listen_after=chance.choice((0, 0, 0.005)),
                wipe=chance.random() < 0.8,
            )
            if chance.random() < 0.3:
                rig.unplug("foo1") if present else rig.replug("foo1")
                present = not present
            if chance.random() < 0.7:
                await rig.streaming(FOO, BAR)
                assert (rig.registers(FOO), rig.registers(BAR)) == (1, 1)
        await rig.streaming(FOO, BAR)
        if not present:
            rig.replug("foo1")
        await rig.until(lambda: rig.kubelet.healthy(FOO) == {"foo0", "foo1"})
        assert rig.kubelet.unhealthy(FOO) == frozenset()
        assert rig.kubelet.healthy(BAR) == {"bar0"}
        assert len(rig.sockets()) == 2
        assert all(len(seen.duplicates) == 0 for seen in rig.kubelet.lists)
        assert rig.kubelet.lists.repeated() == 0
        await wait_for_baseline(baseline, first)
    assert rig.kubelet.crashed is None


async def test_the_second_of_two_agents_refuses(rig):  # 86
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO)
        before = rig.sockets()
        with pytest.raises(AlreadyRunning, match="another device-agent is running"):
            await rig.make_agent().run()
        assert rig.sockets() == before  # nor did it take anything of the first one's away
        assert rig.kubelet.streams(FOO) == 1
    async with rig.agent():
        await rig.streaming(FOO)


async def test_kubelet_directory_that_is_none(rig):
    """A file, where a directory should be: that is for people to see, and no end of the agent."""
    rig.plug("foo0")
    rig.serve(FOO)
    rig.dp.parent.mkdir()
    rig.dp.write_text("")
    async with rig.agent() as agent:
        await rig.until(lambda: phases(agent) == {FOO: Phase.WAITING})
        rig.dp.unlink()
        await rig.kubelet.start()
        await rig.allocatable(FOO, 1)


async def test_without_inotify_the_kubelet_is_found_within_a_second(rig, monkeypatch, caplog):
    """And each fault is said once, with the limit that it may be."""

    def no(*_args, **_how):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(inotify_simple, "INotify", no)
    rig.plug("foo0")
    rig.serve(FOO)
    async with rig.agent() as agent:
        await rig.until(lambda: phases(agent) == {FOO: Phase.WAITING})
        await rig.kubelet.start()
        assert socket_watch.POLL_SECONDS <= 1.0
        await rig.streaming(FOO)
        monkeypatch.undo()
        await rig.kubelet.restart()
        await rig.streaming(FOO)
    said = [record.getMessage() for record in caplog.records if "cannot be watched" in record.getMessage()]
    assert len(said) == 2  # the machine's directories, and those of sockets
    assert all("fs.inotify.max_user_instances" in text for text in said)


async def test_one_inotify_for_all_sockets(rig):
    rig.settings(kubelet='registration = "watcher"')
    rig.plug("foo0", "bar0")
    rig.serve(FOO, BAR)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO, BAR)
        assert files().count("anon_inode:inotify") == 2  # one for the machine


async def test_one_agent_for_each_kubelet(rig):
    """Whatever its state directory: the second says so and breaks nothing."""
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent():
        await rig.streaming(FOO)
        before = rig.sockets()
        with pytest.raises(AlreadyRunning, match=str(rig.dp)):
            await rig.make_agent(state=rig.top / "other").run()
        assert rig.sockets() == before
        assert rig.kubelet.streams(FOO) == 1


async def test_one_agent_for_a_kubelet_that_comes_later(rig):
    rig.plug("foo0")
    rig.serve(FOO)
    async with rig.agent() as one, rig.agent(state=rig.top / "other") as two:
        await rig.until(lambda: phases(one) == phases(two) == {FOO: Phase.WAITING})
        await rig.kubelet.start()
        await rig.streaming(FOO)
        await rig.until(lambda: "another device-agent" in reason(one, FOO) + reason(two, FOO))
        assert rig.kubelet.streams(FOO) == 1
        assert len(rig.sockets()) == 1


async def test_socket_that_is_always_removed_is_made_ever_more_seldom(rig, monkeypatch):
    rig.plug("foo0")
    rig.serve(FOO)
    monkeypatch.setattr(socket_registration, "REGISTER_BACKOFF", Steep(initial_s=0.02, max_s=60.0))
    rig.kubelet.faults.dial_late(60_000, times=1000)
    await rig.kubelet.start()
    async with rig.agent():
        await made_seldom(rig, rig.dp)


class Steep(Backoff):
    """The pause after the third failure outlasts every test."""

    def compute_delay(self, jitter):
        return super().compute_delay(jitter) if self.failures < 3 else 1000.0


async def made_seldom(rig, directory, *, then=lambda: True):
    """A socket that goes is made anew at once, then after a pause, then after a longer one, which is not over."""
    made = set()

    def taken():
        if then():
            for name in rig.sockets(directory):
                made.add(name)
                (directory / name).unlink(missing_ok=True)
        return len(made)

    await rig.until(lambda: taken() == 3)
    for _ in range(20):
        await asyncio.sleep(0.01)
        assert taken() == 3


async def test_own_socket_that_does_not_answer(rig, monkeypatch):
    async def never(_path):
        await asyncio.sleep(60)

    monkeypatch.setattr(endpoint, "wait_for_http2", never)
    monkeypatch.setattr(endpoint, "ANSWER_SECONDS", 0.05)
    rig.plug("foo0")
    rig.serve(FOO)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.until(lambda: reason(agent, FOO) == "our own socket did not answer within 0.05 s")


async def test_udev_that_comes_while_listening_begins(rig, monkeypatch):
    heard = []

    @asynccontextmanager
    async def uevents(_changed):
        heard.append("udev" if heard else "kernel")  # udev came right after the first was opened
        yield heard[-1]

    monkeypatch.setattr(kernel_events, "watch_uevents", uevents)
    monkeypatch.setattr(kernel_events, "choose_group", lambda: "udev")
    rig.serve(FOO)
    async with rig.agent(root=REAL):
        await rig.until(lambda: heard == ["kernel", "udev"])
