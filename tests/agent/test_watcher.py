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
async def watcher_rig(rig):
    rig.settings(kubelet=WATCHER)
    rig.plug("foo0", "bar0")
    rig.serve(FOO)
    return rig


async def test_one_way_only(watcher_rig, both_loops):  # 89, 90
    await watcher_rig.kubelet.start()
    async with watcher_rig.agent() as agent:
        await watcher_rig.allocatable(FOO, 1)
        await watcher_rig.until(lambda: phases(agent) == {FOO: Phase.STREAMING})
        assert watcher_rig.registers() == 0
        assert watcher_rig.sockets() == []
        assert len(watcher_rig.sockets(watcher_rig.watched)) == 1
        (info,) = watcher_rig.kubelet.events.select("plugin_info")
        assert (info.resource, info.detail["type"], info.detail["versions"]) == (FOO, "DevicePlugin", ["v1beta1"])
        (registered,) = watcher_rig.kubelet.events.select("registered")
        assert os.path.dirname(registered.detail["socket"]) == str(watcher_rig.watched)
    assert watcher_rig.sockets(watcher_rig.watched) == []  # 94
    await watcher_rig.until(lambda: watcher_rig.kubelet.events.count("plugin_gone"))


async def test_both_ways_side_by_side(watcher_rig):  # 89
    watcher_rig.settings()
    watcher_rig.serve(entry(FOO, WATCHER), entry(BAR))
    await watcher_rig.kubelet.start()
    async with watcher_rig.agent():
        await watcher_rig.streaming(FOO, BAR)
        assert (watcher_rig.registers(FOO), watcher_rig.registers(BAR)) == (0, 1)
        assert [event.resource for event in watcher_rig.kubelet.events.select("plugin_info")] == [FOO]


async def test_socket_appears_by_rename_and_listens(watcher_rig, monkeypatch):  # 91
    seen = []
    rename = os.rename

    def noted(old, new, **how):
        seen.append((os.path.basename(old), os.path.basename(new)))
        rename(old, new, **how)

    monkeypatch.setattr(os, "rename", noted)
    await watcher_rig.kubelet.start()
    async with watcher_rig.agent():
        await watcher_rig.allocatable(FOO, 1)
        (name,) = watcher_rig.sockets(watcher_rig.watched)
    assert (f".{name}", name) in seen
    assert watcher_rig.kubelet.events.count("plugin_refused") == 0


async def test_kubelet_restart_needs_nothing_of_the_agent(watcher_rig):
    await watcher_rig.kubelet.start()
    async with watcher_rig.agent():
        await watcher_rig.allocatable(FOO, 1)
        before = watcher_rig.sockets(watcher_rig.watched)
        for kind in ("term", "kill"):
            await watcher_rig.kubelet.restart(kind=kind)
            await watcher_rig.allocatable(FOO, 1)
        assert watcher_rig.sockets(watcher_rig.watched) == before


async def test_refused_twice_then_accepted(watcher_rig, at_once, caplog):  # 92
    watcher_rig.new_kubelet(limits=replace(SHORT, watcher_backoff=60.0))  # it does not ask the same socket again
    watcher_rig.kubelet.faults.refuse_watched("no room for it", times=2)
    await watcher_rig.kubelet.start()
    async with watcher_rig.agent():
        await watcher_rig.allocatable(FOO, 1)
        told = [event.detail["registered"] for event in watcher_rig.kubelet.events.select("plugin_notified")]
        assert told == [False, False, True]
        paths = [event.detail["path"] for event in watcher_rig.kubelet.events.select("plugin_info")]
        assert len(set(paths)) == 3  # made anew each time
        assert len(watcher_rig.sockets(watcher_rig.watched)) == 1
    assert sum("no room for it" in record.getMessage() for record in caplog.records) == 1


async def test_refused_waits_five_seconds_at_least():  # 92
    assert watching.OFFER_BACKOFF.add_failure().compute_delay(1.0) >= 5.0
    assert watching.STREAM_SECONDS == 30.0  # 93


async def test_no_stream_makes_the_socket_anew(watcher_rig, at_once, monkeypatch):  # 93, #133725
    monkeypatch.setattr(watching, "STREAM_SECONDS", 0.05)
    watcher_rig.watched.mkdir(parents=True)
    async with watcher_rig.agent() as agent:
        await watcher_rig.until(lambda: watcher_rig.sockets(watcher_rig.watched))
        first = watcher_rig.sockets(watcher_rig.watched)
        await watcher_rig.until(lambda: watcher_rig.sockets(watcher_rig.watched) not in ([], first))
        await watcher_rig.until(
            lambda: "did not connect" in reason(agent, FOO) or phases(agent)[FOO] is Phase.REGISTERING
        )
        monkeypatch.setattr(watching, "STREAM_SECONDS", 30.0)
        await watcher_rig.kubelet.start()
        await watcher_rig.allocatable(FOO, 1)


async def test_own_socket_removed(watcher_rig, at_once):
    """It deregisters the resource, so it is made anew."""
    await watcher_rig.kubelet.start()
    async with watcher_rig.agent():
        await watcher_rig.allocatable(FOO, 1)
        (first,) = watcher_rig.sockets(watcher_rig.watched)
        (watcher_rig.watched / first).unlink()
        await watcher_rig.until(lambda: watcher_rig.kubelet.events.count("registered") == 2)
        await watcher_rig.allocatable(FOO, 1)
        assert watcher_rig.sockets(watcher_rig.watched) != [first]


async def test_own_socket_removed_while_no_kubelet_is_there(watcher_rig, at_once):
    watcher_rig.watched.mkdir(parents=True)
    async with watcher_rig.agent():
        await watcher_rig.until(lambda: watcher_rig.sockets(watcher_rig.watched))
        (first,) = watcher_rig.sockets(watcher_rig.watched)
        (watcher_rig.watched / first).unlink()
        await watcher_rig.until(lambda: watcher_rig.sockets(watcher_rig.watched))
        await watcher_rig.kubelet.start()
        await watcher_rig.allocatable(FOO, 1)


async def test_directory_comes_later_and_again(watcher_rig, monkeypatch):  # 11
    """Seen at once, whatever pause after failures there would be."""
    monkeypatch.setattr(watching, "OFFER_BACKOFF", Backoff(initial_s=1000.0, max_s=1000.0))
    async with watcher_rig.agent() as agent:
        await watcher_rig.until(lambda: phases(agent) == {FOO: Phase.WAITING})
        await watcher_rig.until(lambda: "cannot be created" in reason(agent, FOO))
        watcher_rig.watched.mkdir(parents=True)
        await watcher_rig.kubelet.start()
        await watcher_rig.allocatable(FOO, 1)


async def test_directory_made_anew(watcher_rig, at_once):
    await watcher_rig.kubelet.start()
    async with watcher_rig.agent():
        await watcher_rig.allocatable(FOO, 1)
        shutil.rmtree(watcher_rig.watched)
        watcher_rig.watched.mkdir()
        await watcher_rig.until(lambda: watcher_rig.kubelet.events.count("registered") == 2)
        await watcher_rig.allocatable(FOO, 1)


async def test_dropped_stream(watcher_rig, at_once, monkeypatch):
    monkeypatch.setattr(watching, "STREAM_SECONDS", 1.0)
    await watcher_rig.kubelet.start()
    async with watcher_rig.agent():
        await watcher_rig.allocatable(FOO, 1)
        watcher_rig.kubelet.cancel_stream(FOO)
        await watcher_rig.until(lambda: watcher_rig.kubelet.events.count("registered") == 2)
        await watcher_rig.allocatable(FOO, 1)


async def test_socket_that_is_always_removed_is_made_ever_more_seldom(watcher_rig, monkeypatch):
    monkeypatch.setattr(watching, "OFFER_BACKOFF", Steep(initial_s=0.02, max_s=60.0))
    await watcher_rig.kubelet.start()
    async with watcher_rig.agent():
        await made_seldom(watcher_rig, watcher_rig.watched, then=lambda: watcher_rig.kubelet.streams(FOO))
