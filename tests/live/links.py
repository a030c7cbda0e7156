"""Run in a network namespace of its own: a pair of real interfaces and their link events.

Arguments: `asyncio` or `uvloop`, and `seen`, `moved`, `overrun` or `routes`. Prints nothing; a failure is an exception.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import uvloop

from agent.core.entry.check import Check
from agent.core.entry.clause_check import ClauseCheck
from agent.core.entry.kernel_log import Log
from agent.core.entry.kernel_log_check import KernelLogCheck
from agent.core.entry.resource_spec import Source
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.language.operators import Equals, Not
from agent.core.language.template import parse
from agent.core.language.value import ValueType
from agent.host import link_events
from agent.host.link_events import ROUTES_PATH, watch_link_events
from agent.host.root import Root
from tests.core.builders import clause, line, spec
from tests.core.test_log_pattern import message
from tests.live.trackers import make_tracker

DIRECTORY = "/sys/devices/virtual/net"
VETH = clause(line("name", "lo", test=Not(Equals("lo"))))


def ip(command, lines=None, within=None):
    into = [] if within is None else ["nsenter", f"--net=/proc/{within.pid}/ns/net"]
    subprocess.run([*into, "ip", *command.split()], input=lines, text=True, check=True)


def network_namespace():
    """A process with a network namespace of its own."""
    made = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo; exec sleep 1000"], stdout=subprocess.PIPE, text=True
    )
    made.stdout.readline()
    return made


def until_linked():
    """The kernel says so a little later than it is asked to, and with an event of its own."""
    while not all("up" in Path(f"{DIRECTORY}/{name}/operstate").read_text() for name in ("va", "vb")):
        pass


class Heard:
    """Events as they come; `until` returns what was touched once that meets the condition, and forgets it."""

    def __init__(self):
        self.touched = DirtySet()
        self._came = asyncio.Event()

    def __call__(self, touched):
        self.touched |= touched
        self._came.set()

    async def until(self, condition):
        async with asyncio.timeout(60):
            while not condition(self.touched):
                self._came.clear()
                await self._came.wait()
        touched, self.touched = self.touched, DirtySet()
        return touched


async def seen():
    """A resource of interfaces with link: its list follows the other end of the pair."""
    linked = spec(
        "example.com/net",
        source=Source("net"),
        id=(parse("{name}"),),
        match=clause(line("carrier", True, ValueType.BOOL)),
    )
    published = asyncio.Event()
    tracker = make_tracker(Root(), [linked], lambda _: published.set())

    def healthy():
        devices = tracker.device_lists.lists["example.com/net"].devices
        return [device.id for device in devices if device.health.value == "Healthy"]

    async def until(ids):
        async with asyncio.timeout(60):
            while healthy() != ids:
                published.clear()
                await published.wait()

    async with watch_link_events(Root(), tracker.request_look) as deaf:
        assert deaf is None
        running = asyncio.create_task(tracker.run())
        await tracker.wait_for_look()
        assert healthy() == []
        ip("link set va up")
        ip("link set vb up")
        await until(["va", "vb"])
        ip("link set vb down")
        await until([])
        ip("link set vb up")
        await until(["va", "vb"])
        running.cancel()


async def healthy():
    """Checks of real interfaces: a link that goes down and comes back, and what the kernel says in its log."""
    link = Check("link", ClauseCheck(clause(line("carrier", True, ValueType.BOOL))))
    renamed = Check("renamed", KernelLogCheck(Log(message("{name}: renamed from {old:text}"))), recovery_threshold=None)
    entry = spec("example.com/net", source=Source("net"), id=(parse("{name}"),), checks=(link, renamed), match=VETH)
    published = asyncio.Event()
    tracker = make_tracker(Root(), [entry], lambda _: published.set())

    async def until(faults):
        async with asyncio.timeout(60):
            while {
                device.id: str(device.reason).partition(":")[0]
                for device in tracker.device_lists.lists["example.com/net"].devices
            } != faults:
                published.clear()
                await published.wait()

    async with watch_link_events(Root(), tracker.request_look):
        running = asyncio.create_task(tracker.run())
        await tracker.wait_for_look()
        await until({"va": "link", "vb": "link"})
        ip("link set va up")
        ip("link set vb up")
        await until({"va": "", "vb": ""})
        ip("link set vb down")
        await until({"va": "link", "vb": "link"})
        name = f"v{os.getpid()}"
        ip("link set va down")
        ip(f"link set va name {name}")
        ip("link set vb up")
        ip(f"link set {name} up")
        tracker.request_look(ALL_DIRTY)  # that it moved is udev's to tell
        # The kernel says so in its log, which is the whole machine's, of the one that has this name now.
        await until({"va": "absent", "vb": "", name: "renamed"})
        running.cancel()


async def moved():
    """An interface that a pod holds moves into another network namespace and comes back: of it nothing is told."""
    entry = spec("example.com/net", source=Source("net"), id=(parse("{name}"),), moved_words=(), match=VETH)
    held = {"va"}
    published = asyncio.Event()
    tracker = make_tracker(Root(), [entry], lambda _: published.set(), held=held)

    async def until(condition):
        async with asyncio.timeout(60):
            while not condition():
                published.clear()
                await published.wait()

    def listed():
        return {device.id: str(device.reason) for device in tracker.device_lists.lists["example.com/net"].devices}

    pod = network_namespace()
    try:
        async with watch_link_events(Root(), tracker.request_look) as deaf:
            assert deaf is None
            running = asyncio.create_task(tracker.run())
            await tracker.wait_for_look()
            assert listed() == {"va": "", "vb": ""}
            told = tracker.device_lists.lists["example.com/net"]
            ip(f"link set va netns {pod.pid}")
            await until(lambda: tracker.inventory.in_pod_keys)
            assert tracker.device_lists.lists["example.com/net"] is told
            ip(f"link set vb netns {pod.pid}")  # which nobody holds
            await until(lambda: listed()["vb"])
            assert listed() == {"va": "", "vb": "absent"}
            ip(f"link set va netns {os.getpid()}", within=pod)
            await until(lambda: not tracker.inventory.in_pod_keys)
            assert listed()["va"] == ""
            ip(f"link set va netns {pod.pid}")
            await until(lambda: tracker.inventory.in_pod_keys)
            held.clear()
            tracker.request_lists()
            await until(lambda: listed()["va"])
            assert listed() == {"va": "absent", "vb": "absent"}
            running.cancel()
    finally:
        pod.kill()
        pod.wait()


async def routes():
    """Default routes are heard, of both families, and others are not; so is another name of an interface."""
    heard = Heard()
    ip("link set va up")
    ip("link set vb up")
    ip("addr add 10.9.0.1/24 dev va")
    ip("-6 addr add fd00:9::1/64 dev va nodad")
    until_linked()
    async with watch_link_events(Root(), heard):
        for family, prefix, gateway in (("-4", "10.1.0.0/16", "10.9.0.2"), ("-6", "fd00:1::/64", "fd00:9::2")):
            ip(f"{family} route add {prefix} via {gateway}")
            ip("link set vb txqueuelen 77")  # heard behind the route, which was not
            await heard.until(lambda touched: f"{DIRECTORY}/vb" in touched.paths)
            ip(f"{family} route add default via {gateway}")
            assert (await heard.until(bool)).paths == {ROUTES_PATH}
            ip("link set vb txqueuelen 78")
            await heard.until(lambda touched: f"{DIRECTORY}/vb" in touched.paths)
        ip("link set va name vz")
        await heard.until(lambda touched: f"{DIRECTORY}/vz" in touched.paths)
        ip("link del vz")
        await heard.until(lambda touched: f"{DIRECTORY}/vz" in touched.paths)


async def overrun():
    """When messages were lost everything is looked at, once, and it hears on."""
    heard = Heard()
    link_events._RECEIVE = 4096
    async with watch_link_events(Root(), heard):
        batch = "\n".join(f"link set vb txqueuelen {100 + n % 50}" for n in range(500))
        ip("-batch -", batch)  # and we do not read meanwhile
        await heard.until(lambda touched: touched.is_full_rescan)
        ip("link set va up")
        await heard.until(lambda touched: f"{DIRECTORY}/va" in touched.paths)


if __name__ == "__main__":
    loop, what = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
        runner.run({"seen": seen, "healthy": healthy, "moved": moved, "routes": routes, "overrun": overrun}[what]())
