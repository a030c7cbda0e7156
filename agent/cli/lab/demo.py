"""The demonstration: six steps on this machine's own devices. Each says what it did and checks that it is so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator

from agent.cli.host_report.host_report import HostReport
from agent.cli.host_report.scan_host import scan_host
from agent.cli.lab import configuration as made
from agent.cli.lab.grant import grant_lines
from agent.cli.lab.lab import DEADLINE, Lab
from agent.cli.terminal import Terminal, pad
from agent.config.toml.finding import render
from agent.core.inventory.device import DeviceNode, Health
from agent.core.language.safe_text import format_count, make_printable
from agent.kubelet.simulated.errors import KubeletCrashed, KubeletStopped, PodRefused

WIDTH = 80
FAILED = 1
_CLOCK = "%H:%M:%S"
AWAY = 1.0  # seconds that the terminal stays unplugged, as a cable would


class Unexpected(Exception):  # noqa: N818  it is what it says
    """A step that did not go as it should."""

    def __init__(self, expected: str, seen: str) -> None:
        super().__init__(f"expected {expected}, saw {seen}")
        self.expected = expected
        self.seen = seen


class Demo:
    """The six steps over one lab."""

    def __init__(self, lab: Lab, terminal: Terminal, say: Callable[[str], None]) -> None:
        self._lab = lab
        self._terminal = terminal
        self._say = say

    async def run(self) -> int:
        """Go through the steps; 0 if all are as they should be."""
        self._say("A simulated kubelet in a private directory; the devices are this machine's own.")
        self._say("Nothing on the machine is changed.")
        steps: tuple[tuple[str, str, Callable[[], AsyncIterator[str]]], ...] = (
            ("What is here", "device-agent scan", self._here),
            ("Resources, a few lines of TOML each", "device-agent lab --write DIR", self._configured),
            ("The kubelet starts; each resource registers by itself", "echo | device-agent lab", self._registered),
            ("A container asks, and gets", "", self._granted),
            ("A device is unplugged, and plugged in again", "echo replug | device-agent lab", self._replugged),
            ("The kubelet restarts, wipes its directory", "echo kubelet restart | device-agent lab", self._restarted),
        )
        failed = 0
        for number, (title, command, step) in enumerate(steps, start=1):
            self._say(_title(number, title, command or f"echo allocate {self._asked()} | device-agent lab"))
            failed += not await self._one(step)
        self._end(len(steps), failed)
        return FAILED if failed else 0

    async def _one(self, step: Callable[[], AsyncIterator[str]]) -> bool:
        """Whether a step went as it should; its lines are said as they come."""
        try:
            async for line in step():
                self._say(f"    {line}")
        except Unexpected as unexpected:
            wrong = unexpected
        except (TimeoutError, OSError, PodRefused, KubeletStopped, KubeletCrashed) as error:
            wrong = Unexpected(f"it to go through within {DEADLINE:g} s", str(error) or type(error).__name__)
        else:
            return True
        self._say(self._terminal.style(f"    ✖ expected  {wrong.expected}", "red"))
        self._say(f"      seen      {make_printable(wrong.seen, None)}")
        return False

    async def _here(self) -> AsyncIterator[str]:
        inventory = scan_host(self._lab.root, self._lab.configuration.resources)
        if not inventory.items:
            raise Unexpected("devices", "none: neither below /dev nor in sysfs")
        for line in _wrapped(_kinds(inventory)):
            yield line

    async def _configured(self) -> AsyncIterator[str]:
        lab = self._lab
        wrong = [render(finding) for finding in lab.configuration.findings]
        if wrong or len(lab.names) != len(lab.entries):
            seen = f"{len(lab.names)} of {len(lab.entries)}; " + "; ".join(wrong)
            raise Unexpected(f"{len(lab.entries)} resources without a mistake", seen)
        for entry in lab.entries:
            lines = [line for line in entry.toml.splitlines() if not line.startswith("[[")]
            shown = "; ".join(" ".join(line.split()) for line in lines[1:])
            for line in _wrapped([pad(f"{entry.name}{_count(lab, entry.name)}", 23), *shown.split("; ")]):
                yield line
        empty = [name for name in lab.names if not len(lab.snapshot(name).devices)]
        if empty:
            raise Unexpected("a device in each resource", f"none in {', '.join(empty)}")

    async def _registered(self) -> AsyncIterator[str]:
        lab = self._lab
        await lab.kubelet.start()
        start = lab.kubelet.events.of("listening")[-1].at
        try:
            await lab.kubelet.until(lab.listed, DEADLINE)
        except TimeoutError:
            missing = [f"{name} ({lab.phase(name).value})" for name in lab.names if not lab.has(name)]
            raise Unexpected("every resource listed once", f"not {', '.join(missing)}") from None
        yield f"{_clock(start)}  kubelet.sock appears"
        for event in sorted((lab.kubelet.events.of("list", name)[0] for name in lab.names), key=lambda event: event.at):
            count = len(lab.kubelet.healthy(event.resource))
            after = f"+{(event.at - start) * 1000:.0f} ms"
            plural = "" if count == 1 else "s"
            yield f"{_clock(event.at)}  {pad(event.resource, 24)} streaming {after:>7}   {count} device{plural}"

    async def _granted(self) -> AsyncIterator[str]:
        lab = self._lab
        resource = self._asked()
        pod = await lab.allocate(resource, 1)
        holders = {holder for holder, _ in lab.kubelet.held(resource).values()}
        if len(pod.ids) != 1 or holders != {pod.name}:
            raise Unexpected(f"one device of {resource} held by {pod.name}", f"{pod.ids} held by {holders}")
        wrong = [
            host for host, _ in pod.options.devices.values() if not isinstance(lab.root.find_node(host), DeviceNode)
        ]
        if wrong or not pod.options.devices:
            raise Unexpected("nodes that are there", ", ".join(wrong) or "none")
        yield f"{pod.ids[0]}  of {resource}"
        for line in grant_lines(pod.options, lab.root.find_node):
            yield line
        lab.release(pod.name)

    async def _replugged(self) -> AsyncIterator[str]:
        lab = self._lab
        if lab.terminal is None:
            yield f"left out: {lab.without}"
            return
        yield f"(a pseudo-terminal of the demo's own, unplugged for {AWAY:g} s)"
        if not lab.place.links:
            yield "(no directory below /dev can be written: a terminal without a link to it)"
        for plugged, way in ((False, "Healthy → Unhealthy"), (True, "Unhealthy → Healthy")):
            if plugged:
                await asyncio.sleep(AWAY)
            took = await lab.replug(plugged=plugged)
            (device,) = lab.snapshot(made.PTY).devices
            wanted = Health.HEALTHY if plugged else Health.UNHEALTHY
            if device.id != made.PTY_ID or device.health is not wanted:
                raise Unexpected(f"{made.PTY_ID} {wanted.value}", f"{device.id} {device.health.value}")
            why = "back, same id" if plugged else "absent"
            yield f"+{took:.0f} ms  {made.PTY} {device.id}  {way}: {why}"

    async def _restarted(self) -> AsyncIterator[str]:
        lab = self._lab
        before = _ids(lab)
        lists = {name: lab.kubelet.events.count("list", name) for name in lab.names}
        await lab.kubelet.restart()
        await lab.kubelet.until(lab.listed, DEADLINE)
        after = _ids(lab)
        if after != before:
            raise Unexpected(str(before), str(after))
        old = [name for name, count in lists.items() if lab.kubelet.events.count("list", name) == count]
        if old:
            raise Unexpected("a new list of each resource", f"none of {', '.join(old)}")
        count = len(lab.names)
        yield f"{count} of {count} listed again {lab.listed_after():.0f} ms after kubelet.sock was back,"
        yield f"with the same {format_count(sum(map(len, before.values())), 'id')}: nothing lost"

    def _asked(self) -> str:
        """The resource whose grant says most: the first that gives a node."""
        specs = self._lab.configuration.resources
        return next((spec.name for spec in specs if spec.nodes), specs[0].name if specs else "")

    def _end(self, steps: int, failed: int) -> None:
        if failed:
            self._say(self._terminal.style(f"{failed} of {steps} steps did not go as they should.", "red"))
            return
        self._say(f"All {steps} steps as they should be.")
        self._say("Go on:  device-agent lab               stays open: unplug, allocate by hand")
        self._say("        device-agent scan DEVICE       all that is known of one device")
        self._say("        docs/quickstart.md             on a real node")


def _title(number: int, title: str, command: str) -> str:
    text = f"{number} {title}"
    space = WIDTH - len(command)
    return f"{pad(text, space)}{command}" if len(text) + 2 <= space else f"{text}\n{' ' * space}{command}"


def _kinds(inventory: HostReport) -> Iterator[str]:
    """What is here, in a few words."""
    for path in ("/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/vhost-net", "/dev/dri/renderD128"):
        if any(item.host.name == path for item in inventory.items):
            yield path
    names = [item.host.name for item in inventory.items if item.label == "dev"]
    for kind, said in (("loop", "loop device"), ("tty", "tty"), ("video", "video node"), ("hidraw", "HID device")):
        if count := sum(_is(name, kind) for name in names):
            yield format_count(count, said)
    for label, said in (("pci", "PCI function"), ("usb", "USB device"), ("net", "network interface")):
        if inventory.count_items(label):
            yield format_count(inventory.count_items(label), said)
    yield f"{format_count(len(names), 'device node')} in all"


def _is(name: str, kind: str) -> bool:
    rest = name.removeprefix(f"/dev/{kind}")
    return rest != name and rest[-1:].isdecimal()


def _count(lab: Lab, resource: str) -> str:
    total = lab.snapshot(resource).id_count
    return f" ×{total}" if total > 1 else ""


def _ids(lab: Lab) -> dict[str, frozenset[str]]:
    """The ids that the kubelet has, by resource."""
    return {name: lab.kubelet.healthy(name) | lab.kubelet.unhealthy(name) for name in lab.names}


def _clock(at: float) -> str:
    """A moment of the monotonic clock as the time of day."""
    moment = time.time() - time.monotonic() + at
    return f"{time.strftime(_CLOCK, time.localtime(moment))}.{int(moment * 1000) % 1000:03}"


def _wrapped(parts: Iterator[str] | list[str]) -> Iterator[str]:
    """Parts side by side, in lines that with their indent stay within the width."""
    line = ""
    for part in parts:
        if line and len(line) + 2 + len(part) > WIDTH - 4:
            yield line
            line = " " * 2 + part
        else:
            line = f"{line}  {part}" if line else part
    yield line
