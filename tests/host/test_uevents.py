"""Real events of the kernel of this machine."""

import asyncio
import builtins
import subprocess

import pytest

from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.language.value import Absent
from agent.host import netlink, uevents
from agent.host.uevents import watch_uevents
from tests.uevents import NULL, needs_events, overrun

pytestmark = pytest.mark.usefixtures("whole_machine")


class Heard:
    def __init__(self):
        self.all = []
        self._told = asyncio.Event()

    def __call__(self, touched):
        self.all.append(touched)
        self._told.set()

    async def until(self, wanted, seconds=60):
        async with asyncio.timeout(seconds):
            while not any(wanted(touched) for touched in self.all):
                self._told.clear()
                await self._told.wait()


def change(path=NULL):
    with open(path, "w") as file:
        file.write("change")


def ip(*arguments):
    """Runs ip(8); why it failed, or nothing."""
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False).stderr.strip()


def is_null(touched):
    return touched == DirtySet(frozenset({"/sys/devices/virtual/mem/null", "/dev/null"}), frozenset({"mem"}))


@needs_events
def test_an_event_says_path_node_and_subsystem(play):
    async def scene():
        heard = Heard()
        async with watch_uevents(heard) as group:
            if isinstance(group, Absent):
                pytest.skip(group.reason)
            assert group == uevents.choose_group()
            change()
            await heard.until(is_null)

    play(scene())


@needs_events
def test_a_network_interface_renamed_is_touched_under_both_names(play):
    async def scene():
        heard = Heard()
        async with watch_uevents(heard):
            if reason := ip("link", "add", "da0", "type", "veth", "peer", "name", "da2"):
                pytest.skip(f"no such interfaces here: {reason}")
            try:
                await heard.until(lambda touched: "/sys/devices/virtual/net/da0" in touched.paths)
                assert not ip("link", "set", "da0", "name", "da1")
                names = {"/sys/devices/virtual/net/da0", "/sys/devices/virtual/net/da1"}
                await heard.until(lambda touched: names <= touched.paths)
            finally:
                ip("link", "del", "da2")
            assert any("net" in touched.subsystems for touched in heard.all)

    play(scene())


@needs_events
def test_a_burst_is_taken_in_bounded_pieces_and_none_is_lost(play):
    async def scene():
        heard = Heard()
        async with watch_uevents(heard):
            for _ in range(netlink.EVENTS * 3):
                change()
            change("/sys/devices/virtual/mem/zero/uevent")
            await heard.until(lambda touched: "/dev/zero" in touched.paths)
            assert len(heard.all) >= 3
            assert ALL_DIRTY not in heard.all

    play(scene())


@needs_events
def test_an_overrun_means_everything_and_the_monitor_lives_on(play, monkeypatch):
    overrun(monkeypatch)

    async def scene():
        for _ in range(2):
            heard = Heard()
            async with watch_uevents(heard):
                for _ in range(2):
                    for _ in range(300):
                        change()
                    await heard.until(lambda touched: touched.is_full_rescan)
                    heard.all.clear()
                    change()
                    await heard.until(is_null)
                    heard.all.clear()
                    quiet = len(heard.all)
                    await asyncio.sleep(0.1)
                    assert len(heard.all) - quiet < 50  # it does not spin; others may make events, too

    play(scene())


async def test_without_libudev_the_reason_is_said(monkeypatch):
    real = builtins.__import__

    def importing(name, *args, **kwargs):
        if name == "pyudev":
            raise ImportError("No library named udev")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", importing)
    async with watch_uevents(lambda _: None) as group:
        assert group == Absent("no kernel events: No library named udev")


@needs_events
async def test_one_is_opened_before_another_is_left():
    first, second = Heard(), Heard()
    async with watch_uevents(second):
        async with watch_uevents(first):
            change()
            await first.until(is_null)
            await second.until(is_null)
        change()
        second.all.clear()
        await second.until(is_null)
