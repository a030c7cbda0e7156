"""The words of the lab: what a person can type, and what is done and said then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from agent.cli.lab import configuration as lab_configuration
from agent.cli.lab.grant import format_grant_options
from agent.cli.lab.lab import DEADLINE, Lab
from agent.cli.table import Column, Row, render
from agent.cli.terminal import Terminal
from agent.config.toml.finding import Severity, find_nearest
from agent.config.toml.finding import render as render_finding
from agent.core.inventory.device import Device, Health
from agent.core.language.safe_text import escape, format_count, make_printable
from agent.core.struct import Struct
from agent.kubelet.simulated.errors import KubeletCrashed, KubeletStopped, PodRefused


class LabCommandError(Exception):
    """A line that cannot be done, and why."""


class LabCommand(Struct):
    """One word: what may follow it, what it does, and the doing."""

    arguments: str
    about: str
    run: Callable[..., Awaitable[list[str]]]
    min_arguments: int = 0
    max_arguments: int = 0


class LabCommands:
    """The words over one lab; each answers with lines."""

    def __init__(self, lab: Lab, terminal: Terminal) -> None:
        self._lab = lab
        self._terminal = terminal
        self.commands: Mapping[str, LabCommand] = {
            "help": LabCommand("", "this", self._help),
            "show": LabCommand(
                "[RESOURCE|POD]", "what is listed and held; one resource; what a pod got", self._show, 0, 1
            ),
            "allocate": LabCommand(
                "RESOURCE [N]", "a pod asks for N devices (1), and what it gets", self._allocate, 1, 2
            ),
            "release": LabCommand("POD", "the pod ends", self._release, 1, 1),
            "kubelet": LabCommand("restart|stop|start", "what happens to the kubelet", self._kubelet, 1, 1),
            "unplug": LabCommand("", f"take the lab's own terminal away ({lab_configuration.PTY})", self._unplug),
            "plug": LabCommand("", "plug it in again", self._plug),
            "replug": LabCommand("", "both", self._replug),
            "reload": LabCommand("", "read the configuration again, apply what differs", self._reload),
            "quit": LabCommand("", "end (also: end of input)", self._help),
        }

    async def run_line(self, line: str) -> list[str]:
        """Do what a line says; its answer.

        Raises:
            Wrong: it cannot be done.
        """
        name, *rest = line.split()
        word = self.commands.get(name)
        if word is None:
            near = find_nearest(name, self.commands)
            raise LabCommandError(
                f"{make_printable(name)}: no such word" + (f"; nearest: {near}" if near else "; try: help")
            )
        if not word.min_arguments <= len(rest) <= word.max_arguments:
            raise LabCommandError(f"say: {name} {word.arguments}".rstrip())
        try:
            return await word.run(*rest)
        except PodRefused as refused:
            raise LabCommandError(f"the pod is refused: {refused.reason}: {escape(refused.message)}") from refused
        except (KubeletStopped, KubeletCrashed) as error:
            raise LabCommandError(f"the kubelet: {escape(str(error))}") from error
        except (TimeoutError, OSError) as error:
            raise LabCommandError(escape(str(error).partition("\n")[0] or type(error).__name__)) from error

    def list_next_words(self, before: str) -> Sequence[str]:
        """What may come after a beginning of a line."""
        match before.split():
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
        return [f"{f'{name} {word.arguments}'.strip():28} {word.about}" for name, word in self.commands.items()]

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
        near = find_nearest(name, (*lab.resource_names, *lab.pods))
        raise LabCommandError(
            f"{make_printable(name)}: no resource and no pod" + (f"; nearest: {near}" if near else "")
        )

    def _format_resources(self) -> list[str]:
        lab = self._lab
        titles = (Column("RESOURCE"), Column("STATE"), Column("HEALTHY", right=True), Column("IN USE", right=True))
        rows = []
        for name in lab.resource_names:
            snapshot = lab.get_list(name)
            total = snapshot.id_count
            state = lab.agent.status.resources[name]
            why = f": {escape(str(state.reason))}" if state.reason else ""
            healthy = f"{snapshot.count_ids(Health.HEALTHY)}/{total}"
            rows.append(Row((name, f"{state.phase.value}{why}", healthy, str(len(lab.kubelet.get_held_ids(name))))))
        pods = [f"pod {pod.name}: {' '.join(pod.ids)} of {pod.resource}" for pod in lab.pods.values()]
        return [*render(titles, rows, self._terminal), *pods]

    def _format_devices(self, resource: str) -> list[str]:
        held = self._lab.kubelet.get_held_ids(resource)

        def row(device: Device) -> Row:
            holders = sorted({held[each][0] for each in device.list_ids() if each in held})
            shares = f" ×{device.shares}" if device.shares is not None else ""
            health = f"{device.health.value}{f': {escape(str(device.reason))}' if device.reason else ''}"
            style = "red" if device.reason else ""
            return Row(
                (f"{device.id}{shares}", make_printable(device.location, None), health, " ".join(holders) or "–"), style
            )

        titles = (Column("DEVICE"), Column("WHERE"), Column("HEALTH"), Column("HELD BY"))
        return render(titles, [row(device) for device in self._lab.get_list(resource).devices], self._terminal)

    async def _allocate(self, resource: str, count: str = "1") -> list[str]:
        if not count.isascii() or not count.isdecimal() or not 0 < int(count[:7]) <= 1_000_000:
            raise LabCommandError(f"{make_printable(count)}: a number of devices is wanted")
        pod = await self._lab.allocate(resource, int(count))
        if pod.options.without:
            near = find_nearest(resource, self._lab.resource_names)
            hint = f"; nearest: {near}" if near else ""
            raise LabCommandError(
                f"the kubelet has never heard of {make_printable(resource)}: the pod would start without{hint}"
            )
        return [f"{pod.name}: {' '.join(pod.ids)}", *format_grant_options(pod.options, self._lab.root.find_node)]

    async def _release(self, name: str) -> list[str]:
        pod = self._lab.pods.get(name)
        if pod is None:
            raise LabCommandError(
                f"{make_printable(name)}: no such pod; there are: {', '.join(self._lab.pods) or 'none'}"
            )
        self._lab.release(name)
        return [f"{pod.name} ended; {' '.join(pod.ids)} can be had again"]

    async def _kubelet(self, what: str) -> list[str]:
        lab = self._lab
        if what == "stop":
            await lab.kubelet.stop()
            return ["stopped"]
        if what not in {"restart", "start"}:
            raise LabCommandError("say: kubelet restart, stop or start")
        if what == "start" and lab.kubelet.running:
            raise LabCommandError("it is running")
        await lab.kubelet.stop()
        await lab.kubelet.start()
        await lab.kubelet.until(lab.is_listed, DEADLINE)
        count = len(lab.resource_names)
        return [f"{count} of {count} listed again after {lab.measure_listing_time():.0f} ms"]

    async def _unplug(self) -> list[str]:
        return await self._set_plugged(plugged=False)

    async def _plug(self) -> list[str]:
        return await self._set_plugged(plugged=True)

    async def _replug(self) -> list[str]:
        return [*await self._set_plugged(plugged=False), *await self._set_plugged(plugged=True)]

    async def _set_plugged(self, *, plugged: bool) -> list[str]:
        terminal = self._lab.terminal
        word = "plugged in" if plugged else "unplugged"
        if terminal is not None and terminal.is_plugged is plugged:
            raise LabCommandError(f"it is {word} already")
        took = await self._lab.replug(plugged=plugged)
        told = f"the kubelet has it after {took:.0f} ms" if self._lab.kubelet.running else "no kubelet is running"
        return [f"{word}; {told}"]

    async def _reload(self) -> list[str]:
        lab = self._lab
        configuration = lab.load()
        errors = [each for each in configuration.findings if each.severity is Severity.ERROR]
        if errors:
            shown = "\n".join(map(render_finding, errors))
            raise LabCommandError(f"{shown}\nrefused: {format_count(len(errors), 'error')}; everything stays as it is")
        change = await lab.agent.reload(configuration)
        lab.configuration = configuration
        return [str(change)]
