"""The commands of the lab: what a user can type, and the answer to each line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from agent.cli.table import Column, Row, render
from agent.cli.terminal import Terminal
from agent.config.toml.finding import Severity, find_nearest
from agent.config.toml.finding import render as render_finding
from agent.core.inventory.device import Device, Health
from agent.core.language.safe_text import escape, format_count, make_printable
from agent.core.struct import Struct
from device_agent_lab.command import configuration as lab_configuration
from device_agent_lab.command.grant import format_grant_options
from device_agent_lab.command.lab import DEADLINE, Lab
from device_agent_lab.simulated.errors import KubeletCrashed, KubeletStopped, PodRefused


class LabCommandError(Exception):
    """A failed line of input, with the reason."""


class LabCommand(Struct):
    """One command: its arguments, its help text and the coroutine that runs it."""

    arguments: str
    about: str
    run: Callable[..., Awaitable[list[str]]]
    min_arguments: int = 0
    max_arguments: int = 0


class LabCommands:
    """The commands of one lab. Each command returns lines of text."""

    def __init__(self, lab: Lab, terminal: Terminal) -> None:
        self._lab = lab
        self._terminal = terminal
        self.commands: Mapping[str, LabCommand] = {
            "help": LabCommand("", "print this list", self._help),
            "show": LabCommand(
                "[RESOURCE|POD]", "print all resources and pods, one resource, or the grant of a pod", self._show, 0, 1
            ),
            "allocate": LabCommand(
                "RESOURCE [N]",
                "start a pod that requests N devices (default: 1), and print its grant",
                self._allocate,
                1,
                2,
            ),
            "release": LabCommand("POD", "end the pod", self._release, 1, 1),
            "kubelet": LabCommand("restart|stop|start", "restart, stop or start the kubelet", self._kubelet, 1, 1),
            "unplug": LabCommand(
                "",
                f"unplug the terminal of the lab ({lab_configuration.PTY})",
                partial(self._set_plugged, plugged=False),
            ),
            "plug": LabCommand("", "plug the terminal in again", partial(self._set_plugged, plugged=True)),
            "replug": LabCommand("", "unplug and plug in", self._replug),
            "reload": LabCommand("", "load the configuration again and apply the changes", self._reload),
            "quit": LabCommand("", "end the lab, as the end of input does", self._help),
        }

    async def run_line(self, line: str) -> list[str]:
        """Run one line of input. Return the lines of the answer.

        Raises:
            LabCommandError: the command failed.
        """
        name, *command_arguments = line.split()
        command = self.commands.get(name)
        if command is None:
            nearest_name = find_nearest(name, self.commands)
            raise LabCommandError(
                f"{make_printable(name)}: unknown command"
                + (f"; nearest: {nearest_name}" if nearest_name else "; try: help")
            )
        if not command.min_arguments <= len(command_arguments) <= command.max_arguments:
            raise LabCommandError(f"usage: {name} {command.arguments}".rstrip())
        try:
            return await command.run(*command_arguments)
        except PodRefused as refused:
            raise LabCommandError(f"the pod is refused: {refused.reason}: {escape(refused.message)}") from refused
        except (KubeletStopped, KubeletCrashed) as error:
            raise LabCommandError(f"the kubelet: {escape(str(error))}") from error
        except (TimeoutError, OSError) as error:
            raise LabCommandError(escape(str(error).partition("\n")[0] or type(error).__name__)) from error

    def list_next_words(self, line_start: str) -> Sequence[str]:
        """Return the possible next words after the start of a line."""
        match line_start.split():
            case []:
                return tuple(self.commands)
            case ["allocate"]:
                return self._lab.resource_names
            case ["show"]:
                return (*self._lab.resource_names, *self._lab.pods)
            case ["release"]:
                return tuple(self._lab.pods)
            case ["kubelet"]:
                return ("restart", "stop", "start")
        return ()

    async def _help(self) -> list[str]:
        return [
            f"{f'{name} {command.arguments}'.strip():28} {command.about}" for name, command in self.commands.items()
        ]

    async def _show(self, name: str = "") -> list[str]:
        lab = self._lab
        if not name:
            return self._format_resources()
        if (pod := lab.pods.get(name)) is not None:
            return [
                f"{pod.name}: {' '.join(pod.ids)} of {pod.resource}",
                *format_grant_options(pod.options, lab.root.find_node),
            ]
        if name in lab.resource_names:
            return self._format_devices(name)
        nearest_name = find_nearest(name, (*lab.resource_names, *lab.pods))
        raise LabCommandError(
            f"{make_printable(name)}: no resource and no pod" + (f"; nearest: {nearest_name}" if nearest_name else "")
        )

    def _format_resources(self) -> list[str]:
        lab = self._lab
        titles = (Column("RESOURCE"), Column("STATE"), Column("HEALTHY", right=True), Column("IN USE", right=True))
        rows = []
        for name in lab.resource_names:
            device_list = lab.get_list(name)
            id_count = device_list.id_count
            state = lab.agent.status.resources[name]
            reason = f": {escape(str(state.reason))}" if state.reason else ""
            healthy_text = f"{device_list.count_ids(Health.HEALTHY)}/{id_count}"
            rows.append(
                Row((name, f"{state.phase.value}{reason}", healthy_text, str(len(lab.kubelet.get_held_ids(name)))))
            )
        pods = [f"pod {pod.name}: {' '.join(pod.ids)} of {pod.resource}" for pod in lab.pods.values()]
        return [*render(titles, rows, self._terminal), *pods]

    def _format_devices(self, resource: str) -> list[str]:
        held_ids = self._lab.kubelet.get_held_ids(resource)

        def build_row(device: Device) -> Row:
            holders = sorted({held_ids[device_id][0] for device_id in device.list_ids() if device_id in held_ids})
            shares = f" ×{device.shares}" if device.shares is not None else ""
            health = f"{device.health.value}{f': {escape(str(device.reason))}' if device.reason else ''}"
            style = "red" if device.reason else ""
            return Row(
                (f"{device.id}{shares}", make_printable(device.location, None), health, " ".join(holders) or "–"), style
            )

        titles = (Column("DEVICE"), Column("WHERE"), Column("HEALTH"), Column("HELD BY"))
        return render(titles, [build_row(device) for device in self._lab.get_list(resource).devices], self._terminal)

    async def _allocate(self, resource: str, count: str = "1") -> list[str]:
        if not count.isascii() or not count.isdecimal() or not 0 < int(count[:7]) <= 1_000_000:
            raise LabCommandError(f"{make_printable(count)}: not a number of devices; write 1 to 1000000")
        pod = await self._lab.allocate(resource, int(count))
        if pod.options.without:
            nearest_name = find_nearest(resource, self._lab.resource_names)
            hint = f"; nearest: {nearest_name}" if nearest_name else ""
            raise LabCommandError(
                f"the kubelet does not know {make_printable(resource)}: the pod would start without a device{hint}"
            )
        return [f"{pod.name}: {' '.join(pod.ids)}", *format_grant_options(pod.options, self._lab.root.find_node)]

    async def _release(self, name: str) -> list[str]:
        pod = self._lab.pods.get(name)
        if pod is None:
            raise LabCommandError(
                f"{make_printable(name)}: no such pod; there are: {', '.join(self._lab.pods) or 'none'}"
            )
        self._lab.release(name)
        return [f"{pod.name} ended; free again: {' '.join(pod.ids)}"]

    async def _kubelet(self, action: str) -> list[str]:
        lab = self._lab
        if action == "stop":
            await lab.kubelet.stop()
            return ["stopped"]
        if action not in {"restart", "start"}:
            raise LabCommandError("usage: kubelet restart|stop|start")
        if action == "start" and lab.kubelet.running:
            raise LabCommandError("the kubelet is running already")
        await lab.kubelet.stop()
        await lab.kubelet.start()
        await lab.kubelet.until(lab.is_listed, DEADLINE)
        count = len(lab.resource_names)
        return [f"{count} of {count} listed again after {lab.measure_listing_time():.0f} ms"]

    async def _replug(self) -> list[str]:
        return [*await self._set_plugged(plugged=False), *await self._set_plugged(plugged=True)]

    async def _set_plugged(self, *, plugged: bool) -> list[str]:
        terminal = self._lab.terminal
        state_text = "plugged in" if plugged else "unplugged"
        if terminal is not None and terminal.is_plugged is plugged:
            raise LabCommandError(f"the terminal is {state_text} already")
        milliseconds = await self._lab.replug(plugged=plugged)
        kubelet_text = (
            f"the kubelet has the change after {milliseconds:.0f} ms"
            if self._lab.kubelet.running
            else "no kubelet is running"
        )
        return [f"{state_text}; {kubelet_text}"]

    async def _reload(self) -> list[str]:
        lab = self._lab
        configuration = lab.load()
        errors = [finding for finding in configuration.findings if finding.severity is Severity.ERROR]
        if errors:
            error_text = "\n".join(map(render_finding, errors))
            raise LabCommandError(
                f"{error_text}\nrefused: {format_count(len(errors), 'error')}; the active configuration stays"
            )
        change = await lab.agent.reload(configuration)
        lab.configuration = configuration
        return [str(change)]
