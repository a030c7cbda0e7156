"""Registration by a socket in the plugin watcher's directory. Numbers are those of the kubelet contract."""

import os
import shutil

import pytest

from agent.core.backoff import Backoff
from agent.core.registration_phase import Phase
from agent.core.struct import replace
from agent.registration import watcher_registration as watching
from tests.agent.rig import BAR, FOO, SHORT, entry, phases, reason
from tests.agent.test_registration import Steep, made_seldom

WATCHER = 'registration = "watcher"'


@pytest.fixture
async def watched(rig):
    rig.settings(kubelet=WATCHER)
    rig.plug("foo0", "bar0")
    rig.serve(FOO)
    return rig


async def test_one_way_only(watched, both_loops):  # 89, 90
    await watched.kubelet.start()
    async with watched.agent() as agent:
        await watched.allocatable(FOO, 1)
        await watched.until(lambda: phases(agent) == {FOO: Phase.STREAMING})
        assert watched.registers() == 0
        assert watched.sockets() == []
        assert len(watched.sockets(watched.watched)) == 1
        (info,) = watched.kubelet.events.select("plugin_info")
        assert (info.resource, info.detail["type"], info.detail["versions"]) == (FOO, "DevicePlugin", ["v1beta1"])
        (registered,) = watched.kubelet.events.select("registered")
        assert os.path.dirname(registered.detail["socket"]) == str(watched.watched)
    assert watched.sockets(watched.watched) == []  # 94
    await watched.until(lambda: watched.kubelet.events.count("plugin_gone"))


async def test_both_ways_side_by_side(watched):  # 89
    watched.settings()
    watched.serve(entry(FOO, WATCHER), entry(BAR))
    await watched.kubelet.start()
    async with watched.agent():
        await watched.streaming(FOO, BAR)
        assert (watched.registers(FOO), watched.registers(BAR)) == (0, 1)
        assert [event.resource for event in watched.kubelet.events.select("plugin_info")] == [FOO]


async def test_socket_appears_by_rename_and_listens(watched, monkeypatch):  # 91
    seen = []
    rename = os.rename

    def noted(old, new, **how):
        seen.append((os.path.basename(old), os.path.basename(new)))
        rename(old, new, **how)

    monkeypatch.setattr(os, "rename", noted)
    await watched.kubelet.start()
    async with watched.agent():
        await watched.allocatable(FOO, 1)
        (name,) = watched.sockets(watched.watched)
    assert (f".{name}", name) in seen
    assert watched.kubelet.events.count("plugin_refused") == 0


async def test_kubelet_restart_needs_nothing_of_the_agent(watched):
    await watched.kubelet.start()
    async with watched.agent():
        await watched.allocatable(FOO, 1)
        before = watched.sockets(watched.watched)
        for kind in ("term", "kill"):
            await watched.kubelet.restart(kind=kind)
            await watched.allocatable(FOO, 1)
        assert watched.sockets(watched.watched) == before


async def test_refused_twice_then_accepted(watched, at_once, caplog):  # 92
    watched.new_kubelet(limits=replace(SHORT, watcher_backoff=60.0))  # it does not ask the same socket again
    watched.kubelet.faults.refuse_watched("no room for it", times=2)
    await watched.kubelet.start()
    async with watched.agent():
        await watched.allocatable(FOO, 1)
        told = [event.detail["registered"] for event in watched.kubelet.events.select("plugin_notified")]
        assert told == [False, False, True]
        paths = [event.detail["path"] for event in watched.kubelet.events.select("plugin_info")]
        assert len(set(paths)) == 3  # made anew each time
        assert len(watched.sockets(watched.watched)) == 1
    assert sum("no room for it" in record.getMessage() for record in caplog.records) == 1


async def test_refused_waits_five_seconds_at_least():  # 92
    assert watching.OFFER_BACKOFF.add_failure().compute_delay(1.0) >= 5.0
    assert watching.STREAM_SECONDS == 30.0  # 93


async def test_no_stream_makes_the_socket_anew(watched, at_once, monkeypatch):  # 93, #133725
    monkeypatch.setattr(watching, "STREAM_SECONDS", 0.05)
    watched.watched.mkdir(parents=True)
    async with watched.agent() as agent:
        await watched.until(lambda: watched.sockets(watched.watched))
        first = watched.sockets(watched.watched)
        await watched.until(lambda: watched.sockets(watched.watched) not in ([], first))
        await watched.until(lambda: "nobody came" in reason(agent, FOO) or phases(agent)[FOO] is Phase.REGISTERING)
        monkeypatch.setattr(watching, "STREAM_SECONDS", 30.0)
        await watched.kubelet.start()
        await watched.allocatable(FOO, 1)


async def test_own_socket_removed(watched, at_once):
    """It deregisters the resource, so it is made anew."""
    await watched.kubelet.start()
    async with watched.agent():
        await watched.allocatable(FOO, 1)
        (first,) = watched.sockets(watched.watched)
        (watched.watched / first).unlink()
        await watched.until(lambda: watched.kubelet.events.count("registered") == 2)
        await watched.allocatable(FOO, 1)
        assert watched.sockets(watched.watched) != [first]


async def test_own_socket_removed_while_no_kubelet_is_there(watched, at_once):
    watched.watched.mkdir(parents=True)
    async with watched.agent():
        await watched.until(lambda: watched.sockets(watched.watched))
        (first,) = watched.sockets(watched.watched)
        (watched.watched / first).unlink()
        await watched.until(lambda: watched.sockets(watched.watched))
        await watched.kubelet.start()
        await watched.allocatable(FOO, 1)


async def test_directory_comes_later_and_again(watched, monkeypatch):  # 11
    """Seen at once, whatever pause after failures there would be."""
    monkeypatch.setattr(watching, "OFFER_BACKOFF", Backoff(initial_s=1000.0, max_s=1000.0))
    async with watched.agent() as agent:
        await watched.until(lambda: phases(agent) == {FOO: Phase.WAITING})
        await watched.until(lambda: "cannot be made" in reason(agent, FOO))
        watched.watched.mkdir(parents=True)
        await watched.kubelet.start()
        await watched.allocatable(FOO, 1)


async def test_directory_made_anew(watched, at_once):
    await watched.kubelet.start()
    async with watched.agent():
        await watched.allocatable(FOO, 1)
        shutil.rmtree(watched.watched)
        watched.watched.mkdir()
        await watched.until(lambda: watched.kubelet.events.count("registered") == 2)
        await watched.allocatable(FOO, 1)


async def test_dropped_stream(watched, at_once, monkeypatch):
    monkeypatch.setattr(watching, "STREAM_SECONDS", 1.0)
    await watched.kubelet.start()
    async with watched.agent():
        await watched.allocatable(FOO, 1)
        watched.kubelet.cancel_stream(FOO)
        await watched.until(lambda: watched.kubelet.events.count("registered") == 2)
        await watched.allocatable(FOO, 1)


async def test_socket_that_is_always_removed_is_made_ever_more_seldom(watched, monkeypatch):
    monkeypatch.setattr(watching, "OFFER_BACKOFF", Steep(initial_s=0.02, max_s=60.0))
    await watched.kubelet.start()
    async with watched.agent():
        await made_seldom(watched, watched.watched, then=lambda: watched.kubelet.streams(FOO))
