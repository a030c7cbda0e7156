"""On this machine's own kernel: nodes, network interfaces, loop devices, its events. Needs root for most of it."""

import fcntl
import logging
import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import asynccontextmanager, contextmanager, suppress

import pytest

from agent import wiring
from agent.core.language.value import Absent
from agent.host import uevents
from tests.agent.rig import FOO, REAL, entry
from tests.cli.test_docs import blocks
from tests.live.received_lists import HEALTHY, UNHEALTHY, last, story
from tests.uevents import NULL, needs_events, overrun

pytestmark = pytest.mark.usefixtures("whole_machine")

LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C80, 0x4C81  # include/uapi/linux/loop.h


def make_entry(name, subsystem):
    return (
        f'[[resource]]\nname = "{FOO}"\nsource = {{ subsystem = "{subsystem}" }}\nmatch = {{ name = "{name}" }}\n'
        'id = "{name}"\n[resource.give.env]\nNAME = { value = "{name}", join = "," }\n'
    )


def ip(*arguments):
    """Runs ip(8); why it failed, or nothing."""
    try:
        return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False).stderr.strip()
    except FileNotFoundError:
        return "ip(8) is not here"


@contextmanager
def interface(name):
    if reason := ip("link", "add", name, "type", "veth", "peer", "name", f"{name}p"):
        pytest.skip(f"no such interfaces here: {reason}")
    try:
        yield
    finally:
        ip("link", "del", name)


def events(number, path=NULL):
    for _ in range(number):
        with open(path, "w") as file:
            file.write("change")


@pytest.fixture
def private():
    """A directory below /dev in which nodes can be made."""
    try:
        path = tempfile.mkdtemp(prefix="device-agent-test-", dir="/dev")
    except OSError as error:
        pytest.skip(f"/dev cannot be written: {error.strerror}")
    try:
        os.mknod(f"{path}/probe", 0o20600, os.makedev(1, 3))
        os.unlink(f"{path}/probe")
        yield path
    except PermissionError as error:
        pytest.skip(f"no nodes can be made: {error.strerror}")
    finally:
        shutil.rmtree(path)


async def test_nodes_below_dev_come_go_return_and_are_replaced(rig, both_loops, private):
    rig.serve(entry(FOO, nodes=f"{private}/x[0-9]*"))
    zero = f"{private.removeprefix('/dev/')}_x0"
    async with rig.kubelet, rig.agent(root=REAL) as agent:
        await rig.streaming(FOO)
        os.mknod(f"{private}/x0", 0o20600, os.makedev(1, 3))
        await rig.until(lambda: last(rig.kubelet, FOO) == {zero: HEALTHY})
        os.unlink(f"{private}/x0")
        await rig.until(lambda: last(rig.kubelet, FOO) == {zero: UNHEALTHY})
        os.mknod(f"{private}/x0", 0o20600, os.makedev(1, 5))
        await rig.until(lambda: last(rig.kubelet, FOO) == {zero: HEALTHY})
        os.mknod(f"{private}/new", 0o20600, os.makedev(1, 7))
        os.rename(f"{private}/new", f"{private}/x0")
        await rig.until(lambda: agent.registry.get_list(FOO).devices[0].nodes[0].minor == 7)
        assert (await rig.kubelet.allocate("p", "c", {FOO: 1})).devices == {
            f"{private}/x0": (f"{private}/x0", "rw"),
        }
        os.chmod(f"{private}/x0", 0o660)  # as udev's rules do: nothing that a kubelet could see
        os.unlink(f"{private}/x0")
        os.mkdir(f"{private}/x0")
        await rig.until(lambda: last(rig.kubelet, FOO) == {zero: UNHEALTHY})
    assert len(story(rig.kubelet, FOO)) == 5


@needs_events
async def test_a_network_interface_comes_goes_and_returns(rig, both_loops):
    rig.serve(make_entry("datest0", "net"))
    async with rig.kubelet, rig.agent(root=REAL):
        await rig.streaming(FOO)
        for _ in range(2):
            with interface("datest0"):
                await rig.until(lambda: last(rig.kubelet, FOO) == {"datest0": HEALTHY})
            await rig.until(lambda: last(rig.kubelet, FOO) == {"datest0": UNHEALTHY})
        with interface("datest1"):
            await rig.until(lambda: last(rig.kubelet, FOO) == {"datest0": UNHEALTHY})
            assert not ip("link", "set", "datest1", "name", "datest0")
            await rig.until(lambda: last(rig.kubelet, FOO) == {"datest0": HEALTHY})
            ip("link", "del", "datest0")
    assert len(story(rig.kubelet, FOO)) == 6


class Loop:
    """A loop device that does not exist yet."""

    def __init__(self, control):
        self._control = control
        self._number = next(n for n in range(20, 200) if not os.path.exists(f"/sys/block/loop{n}"))
        self.name = f"loop{self._number}"

    def add(self):
        fcntl.ioctl(self._control, LOOP_CTL_ADD, self._number)
        return os.path.exists(f"/dev/{self.name}")

    def remove(self):
        fcntl.ioctl(self._control, LOOP_CTL_REMOVE, self._number)


@pytest.fixture
def loop_device():
    try:
        control = open("/dev/loop-control", "rb")  # noqa: SIM115  closed below
    except OSError as error:
        pytest.skip(f"/dev/loop-control: {error.strerror}")
    with control:
        device = Loop(control)
        yield device
        with suppress(OSError):
            device.remove()


@needs_events
@pytest.mark.parametrize("source", ["block", "node"])
async def test_a_loop_device_comes_and_goes(rig, source, loop_device):
    name = loop_device.name
    rig.serve(make_entry(name, "block") if source == "block" else entry(FOO, nodes=f"/dev/{name}"))
    async with rig.kubelet, rig.agent(root=REAL):
        await rig.streaming(FOO)
        for _ in range(2):
            if not loop_device.add() and source == "node":
                pytest.skip("the kernel makes no nodes in this /dev")
            await rig.until(lambda: last(rig.kubelet, FOO) == {name: HEALTHY})
            loop_device.remove()
            await rig.until(lambda: last(rig.kubelet, FOO) == {name: UNHEALTHY})


async def test_a_program_opens_a_node(rig):
    """As docs/health.md has it. Whoever has no terminal of their own cannot open /dev/tty, see tty(4)."""
    (entry_,) = (text for _, text in blocks("docs/health.md") if "/opened.toml" in text)
    entry_ = entry_[entry_.index("[[resource]]") :]
    rig.serve(
        entry_.replace("/dev/fuse", "/dev/null"),
        entry_.replace("/dev/fuse", "/dev/tty").replace("example.com/opened", "example.com/tty"),
    )
    async with rig.kubelet, rig.agent(root=REAL) as agent:
        await rig.until(lambda: last(rig.kubelet, "example.com/opened") == {"null": HEALTHY})
        await rig.until(lambda: "exit code 1" in str(agent.registry.get_list("example.com/tty").devices[0].reason))
        await rig.until(lambda: last(rig.kubelet, "example.com/tty") == {"tty": UNHEALTHY})
        assert "/dev/tty" in str(agent.registry.get_list("example.com/tty").devices[0].reason)


@needs_events
async def test_events_that_change_nothing_send_nothing(rig):
    rig.serve(make_entry("null", "mem"))
    async with rig.kubelet, rig.agent(root=REAL) as agent:
        await rig.streaming(FOO)
        heard = agent.counters.events["uevents"]
        events(50)
        await rig.until(lambda: agent.counters.events["uevents"] > heard)
        await agent.tracker.wait_for_look()
        assert story(rig.kubelet, FOO) == [{"null": HEALTHY}]


@needs_events
async def test_lost_events_end_in_the_truth(rig, both_loops, monkeypatch, caplog):
    overrun(monkeypatch)
    rig.serve(make_entry("datest2", "net"))
    async with rig.kubelet, rig.agent(root=REAL):
        await rig.streaming(FOO)
        for _ in range(2):  # it hears on after the first time
            caplog.clear()
            events(500)
            with interface("datest2"):  # its events are lost with the others
                await rig.until(lambda: last(rig.kubelet, FOO) == {"datest2": HEALTHY})
                assert "events of the kernel were lost" in caplog.text
            await rig.until(lambda: last(rig.kubelet, FOO) == {"datest2": UNHEALTHY})


@needs_events
async def test_udev_comes_and_goes(rig, monkeypatch):
    """Only its control socket is here: with it the agent hears udev alone, which says nothing, and without it all."""
    control = str(rig.top / "control")
    monkeypatch.setattr(uevents, "CONTROL", control)
    monkeypatch.setattr(wiring, "UDEV_CONTROL", control)
    heard = []
    real = uevents.watch_uevents

    @asynccontextmanager
    async def fake_uevents(changed):
        async with real(changed) as group:
            heard.append(group)
            rig.kubelet.events.wake()
            yield group

    monkeypatch.setattr("agent.kernel_events.watch_uevents", fake_uevents)
    rig.serve(make_entry("datest3", "net"))
    async with rig.kubelet, rig.agent(root=REAL):
        await rig.streaming(FOO)
        assert heard == ["kernel"]
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as udev:
            udev.bind(control)
            await rig.until(lambda: heard == ["kernel", "udev"])
        with interface("datest3"):
            os.unlink(control)
            await rig.until(lambda: last(rig.kubelet, FOO) == {"datest3": HEALTHY})
            assert heard == ["kernel", "udev", "kernel"]
        await rig.until(lambda: last(rig.kubelet, FOO) == {"datest3": UNHEALTHY})


@needs_events
async def test_without_kernel_events_the_sweep_does_it(rig, monkeypatch, caplog):
    @asynccontextmanager
    async def fake_uevents(changed):
        yield Absent("no kernel events: out of order")

    monkeypatch.setattr("agent.kernel_events.watch_uevents", fake_uevents)
    rig.settings(look='settle = "5ms"\nevery = "30ms"')
    rig.serve(make_entry("datest4", "net"))
    with caplog.at_level(logging.WARNING):
        async with rig.kubelet, rig.agent(root=REAL):
            await rig.streaming(FOO)
            with interface("datest4"):
                await rig.until(lambda: last(rig.kubelet, FOO) == {"datest4": HEALTHY})
    assert "no kernel events: out of order" in caplog.text
