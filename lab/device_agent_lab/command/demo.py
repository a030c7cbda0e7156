"""The demo: six steps with the devices of this machine. Each step prints its result and checks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

from agent.cli.host_report.host_report import HostReport
from agent.cli.host_report.scan_host import scan_host
from agent.cli.terminal import Terminal, pad
from agent.config.toml.finding import render
from agent.core.inventory.device import DeviceNode, Health
from agent.core.language.safe_text import format_count, make_printable
from device_agent_lab.command import configuration as lab_configuration
from device_agent_lab.command.grant import format_grant_options
from device_agent_lab.command.lab import DEADLINE, Lab, format_clock
from device_agent_lab.simulated.errors import KubeletCrashed, KubeletStopped, PodRefused

WIDTH = 80
FAILED = 1
UNPLUG_SECONDS = 1.0  # seconds that the terminal stays unplugged, like a cable


class DemoStepError(Exception):
    """A demo step with an unexpected result: the expected and the actual result."""

    def __init__(self, expected: str, actual: str) -> None:
        super().__init__(f"expected {expected}, saw {actual}")
        self.expected = expected
        self.actual = actual


class Demo:
    """The six steps of the demo in one lab."""

    def __init__(self, lab: Lab, terminal: Terminal, print_line: Callable[[str], None]) -> None:
        self._lab = lab
        self._terminal = terminal
        self._print_line = print_line

    async def run(self) -> int:
        """Run all steps. Return the exit code: 0 if every step succeeds, else FAILED."""
        self._print_line("A simulated kubelet in a private directory, with the devices of this machine.")
        self._print_line("Nothing on the machine is changed.")
        steps: tuple[tuple[str, str, Callable[[], AsyncIterator[str]]], ...] = (
            ("Devices of this host", "device-agent scan", self._show_host),
            ("Resources, a few lines of TOML each", "device-agent lab --write DIR", self._show_resources),
            ("The kubelet starts; each resource registers by itself", "echo | device-agent lab", self._start_kubelet),
            ("A container requests a device", "", self._allocate),
            ("A device is unplugged, and plugged in again", "echo replug | device-agent lab", self._replug),
            (
                "The kubelet restarts, wipes its directory",
                "echo kubelet restart | device-agent lab",
                self._restart_kubelet,
            ),
        )
        failure_count = 0
        for number, (title, command, step) in enumerate(steps, start=1):
            self._print_line(
                _format_title(number, title, command or f"echo allocate {self._choose_resource()} | device-agent lab")
            )
            failure_count += not await self._run_step(step)
        self._print_summary(len(steps), failure_count)
        return FAILED if failure_count else 0

    async def _run_step(self, step: Callable[[], AsyncIterator[str]]) -> bool:
        """Run a step and print its lines immediately. Return whether the step succeeds."""
        try:
            async for line in step():
                self._print_line(f"    {line}")
        except DemoStepError as step_error:
            failure = step_error
        except (TimeoutError, OSError, PodRefused, KubeletStopped, KubeletCrashed) as error:
            failure = DemoStepError(f"success within {DEADLINE:g} s", str(error) or type(error).__name__)
        else:
            return True
        self._print_line(self._terminal.style(f"    ✖ expected  {failure.expected}", "red"))
        self._print_line(f"      seen      {make_printable(failure.actual, None)}")
        return False

    async def _show_host(self) -> AsyncIterator[str]:
        report = scan_host(self._lab.root, self._lab.configuration.resources)
        if not report.items:
            raise DemoStepError("devices", "none: neither below /dev nor in sysfs")
        for line in _wrap(_describe_devices(report)):
            yield line

    async def _show_resources(self) -> AsyncIterator[str]:
        lab = self._lab
        findings = [render(finding) for finding in lab.configuration.findings]
        if findings or len(lab.resource_names) != len(lab.entries):
            actual = f"{len(lab.resource_names)} of {len(lab.entries)}; " + "; ".join(findings)
            raise DemoStepError(f"{len(lab.entries)} resources without an error", actual)
        for entry in lab.entries:
            lines = [line for line in entry.toml.splitlines() if not line.startswith("[[")]
            entry_text = "; ".join(" ".join(line.split()) for line in lines[1:])
            for line in _wrap(
                [pad(f"{entry.name}{_format_share_count(lab, entry.name)}", 23), *entry_text.split("; ")]
            ):
                yield line
        empty_resources = [name for name in lab.resource_names if not len(lab.get_list(name).devices)]
        if empty_resources:
            raise DemoStepError("a device in each resource", f"none in {', '.join(empty_resources)}")

    async def _start_kubelet(self) -> AsyncIterator[str]:
        lab = self._lab
        await lab.kubelet.start()
        start_time = lab.kubelet.events.select("listening")[-1].at
        try:
            await lab.kubelet.until(lab.is_listed, DEADLINE)
        except TimeoutError:
            missing_resources = [
                f"{name} ({lab.get_phase(name).value})" for name in lab.resource_names if not lab.has_list(name)
            ]
            raise DemoStepError("every resource listed once", f"not {', '.join(missing_resources)}") from None
        yield f"{format_clock(start_time)}  kubelet.sock appears"
        for event in sorted(
            (lab.kubelet.events.select("list", name)[0] for name in lab.resource_names), key=lambda event: event.at
        ):
            count = len(lab.kubelet.healthy(event.resource))
            elapsed = f"+{(event.at - start_time) * 1000:.0f} ms"
            plural = "" if count == 1 else "s"
            name = pad(event.resource, 24)
            yield f"{format_clock(event.at)}  {name} streaming {elapsed:>7}   {count} device{plural}"

    async def _allocate(self) -> AsyncIterator[str]:
        lab = self._lab
        resource = self._choose_resource()
        pod = await lab.allocate(resource, 1)
        holders = {holder for holder, _ in lab.kubelet.get_held_ids(resource).values()}
        if len(pod.ids) != 1 or holders != {pod.name}:
            raise DemoStepError(f"one device of {resource} held by {pod.name}", f"{pod.ids} held by {holders}")
        missing_nodes = [
            host for host, _ in pod.options.devices.values() if not isinstance(lab.root.find_node(host), DeviceNode)
        ]
        if missing_nodes or not pod.options.devices:
            raise DemoStepError("device nodes that exist", ", ".join(missing_nodes) or "none")
        yield f"{pod.ids[0]}  of {resource}"
        for line in format_grant_options(pod.options, lab.root.find_node):
            yield line
        lab.release(pod.name)

    async def _replug(self) -> AsyncIterator[str]:
        lab = self._lab
        if lab.terminal is None:
            yield f"skipped: {lab.no_terminal_reason}"
            return
        yield f"(a pseudo-terminal of the demo's own, unplugged for {UNPLUG_SECONDS:g} s)"
        if not lab.directories.links:
            yield "(no directory below /dev can be written: a terminal without a link to it)"
        for plugged, transition in ((False, "Healthy → Unhealthy"), (True, "Unhealthy → Healthy")):
            if plugged:
                await asyncio.sleep(UNPLUG_SECONDS)
            milliseconds = await lab.replug(plugged=plugged)
            (device,) = lab.get_list(lab_configuration.PTY).devices
            expected_health = Health.HEALTHY if plugged else Health.UNHEALTHY
            if device.id != lab_configuration.PTY_ID or device.health is not expected_health:
                raise DemoStepError(
                    f"{lab_configuration.PTY_ID} {expected_health.value}", f"{device.id} {device.health.value}"
                )
            reason = "back, same id" if plugged else "absent"
            yield f"+{milliseconds:.0f} ms  {lab_configuration.PTY} {device.id}  {transition}: {reason}"

    async def _restart_kubelet(self) -> AsyncIterator[str]:
        lab = self._lab
        previous_ids = _list_kubelet_ids(lab)
        lists = {name: lab.kubelet.events.count("list", name) for name in lab.resource_names}
        await lab.kubelet.restart()
        await lab.kubelet.until(lab.is_listed, DEADLINE)
        current_ids = _list_kubelet_ids(lab)
        if current_ids != previous_ids:
            raise DemoStepError(str(previous_ids), str(current_ids))
        unlisted_resources = [name for name, count in lists.items() if lab.kubelet.events.count("list", name) == count]
        if unlisted_resources:
            raise DemoStepError("a new list of each resource", f"none of {', '.join(unlisted_resources)}")
        count = len(lab.resource_names)
        yield f"{count} of {count} listed again {lab.measure_listing_time():.0f} ms after kubelet.sock appeared,"
        yield f"with the same {format_count(sum(map(len, previous_ids.values())), 'id')}: nothing lost"

    def _choose_resource(self) -> str:
        """Return the name of the first resource that gives a device node, because its grant shows most."""
        specs = self._lab.configuration.resources
        return next((spec.name for spec in specs if spec.nodes), specs[0].name if specs else "")

    def _print_summary(self, steps: int, failure_count: int) -> None:
        if failure_count:
            self._print_line(self._terminal.style(f"{failure_count} of {steps} steps failed.", "red"))
            return
        self._print_line(f"All {steps} steps succeeded.")
        self._print_line("Next:   device-agent lab               stays open: unplug, allocate by hand")
        self._print_line("        device-agent scan DEVICE       all facts of one device")
        self._print_line("        docs/quickstart.md             on a real node")


def _format_title(number: int, title: str, command: str) -> str:
    text = f"{number} {title}"
    space = WIDTH - len(command)
    return f"{pad(text, space)}{command}" if len(text) + 2 <= space else f"{text}\n{' ' * space}{command}"


def _describe_devices(report: HostReport) -> Iterator[str]:
    """Yield short texts that describe the devices of this machine."""
    for path in ("/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/vhost-net", "/dev/dri/renderD128"):
        if any(item.host.name == path for item in report.items):
            yield path
    names = [item.host.name for item in report.items if item.label == "dev"]
    for kind, noun in (("loop", "loop device"), ("tty", "tty"), ("video", "video node"), ("hidraw", "HID device")):
        if count := sum(_is_of_kind(name, kind) for name in names):
            yield format_count(count, noun)
    for label, noun in (("pci", "PCI function"), ("usb", "USB device"), ("net", "network interface")):
        if report.count_items(label):
            yield format_count(report.count_items(label), noun)
    yield f"{format_count(len(names), 'device node')} in all"


def _is_of_kind(name: str, kind: str) -> bool:
    suffix = name.removeprefix(f"/dev/{kind}")
    return suffix != name and suffix[-1:].isdecimal()


def _format_share_count(lab: Lab, resource: str) -> str:
    total = lab.get_list(resource).id_count
    return f" ×{total}" if total > 1 else ""


def _list_kubelet_ids(lab: Lab) -> dict[str, frozenset[str]]:
    """Return the device IDs that the kubelet has, by resource."""
    return {name: lab.kubelet.healthy(name) | lab.kubelet.unhealthy(name) for name in lab.resource_names}


def _wrap(parts: Iterator[str] | list[str]) -> Iterator[str]:
    """Yield lines of parts, two spaces between them. With their indent the lines fit into WIDTH columns."""
    line = ""
    for part in parts:
        if line and len(line) + 2 + len(part) > WIDTH - 4:
            yield line
            line = " " * 2 + part
        else:
            line = f"{line}  {part}" if line else part
    yield line
