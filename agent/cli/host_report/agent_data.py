"""Data of the running agent about a device or a resource. A look at the host does not show these data."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from agent.cli.agent_client import AgentUnreachable, send_request
from agent.cli.host_report.host_report import HostReportItem
from agent.cli.status import format_device_table, format_holders, format_problems
from agent.cli.terminal import Terminal
from agent.cli.time_text import Times
from agent.config.load import Configuration
from agent.control.control_socket import ControlAnswer
from agent.core.language.safe_text import escape
from agent.core.struct import Struct
from agent.host.root import Root

ANSWER_SECONDS = 5.0

_INDENT = " " * 15


class AgentData(Struct):
    """The answer of the agent about a device or resource.

    view_text: one line that names the source of the data.
    answer: None if no agent on this machine looks at this host.
    with_history: whether to show the single changes.
    utc: whether to show times in UTC.
    """

    view_text: str
    answer: ControlAnswer | None = None
    with_history: bool = False
    utc: bool = False

    @property
    def times(self) -> Times:
        """The formatter for times, relative to the time of the answer."""
        return Times((self.answer or {})["time"], utc=self.utc)

    @property
    def devices(self) -> Sequence[ControlAnswer]:
        """The requested devices, from the agent."""
        return self.answer["devices"] if self.answer else ()

    @property
    def resource(self) -> ControlAnswer | None:
        """The requested resource, from the agent, or None."""
        return self.answer["resource"] if self.answer else None

    def format_view(self, terminal: Terminal) -> str:
        """Return the first line, which names the source of the data."""
        return terminal.style(terminal.make_displayable(escape(self.view_text)), "dim")

    def find_device(self, item: HostReportItem) -> ControlAnswer | None:
        """Return the data of the agent about a host device, or None."""
        devices = (device for device in self.devices if device["resource"] == item.resource)
        return next((device for device in devices if item.device is None or device["id"] == item.device.id), None)

    def format_device(self, item: HostReportItem) -> list[str]:
        """Return the lines about a host device. The list is empty if the agent does not know the device."""
        device = self.find_device(item)
        return [] if device is None else list(self._format_device_lines(device))

    def format_absent_devices(self, terminal: Terminal) -> list[str]:
        """Return the lines about devices that this host does not show."""
        lines = [self.format_view(terminal)]
        for device in self.devices:
            lines += [
                f"{device['resource']} {device['id']}   (this host does not show it)",
                *self._format_device_lines(device),
            ]
        return [terminal.make_displayable(line) for line in lines]

    def format_resource(self, terminal: Terminal) -> list[str]:
        """Return the lines about the resource."""
        resource = self.resource
        if resource is None or self.answer is None:
            return []
        waiting = f": {escape(resource['reason'])}" if resource["reason"] else ""
        lines = [f"  state        {resource['state']} since {self.times.format_since(resource['since'])}{waiting}"]
        if resource["drained"]:
            lines.append(f"  drained      {_format_drain(resource['drained'], self.times)}")
        if resource["in_use"] is not None:
            lines.append(f"  in use       {resource['in_use']}, as the kubelet reported")
        return [*map(terminal.make_displayable, lines), *format_device_table(self.answer, resource, terminal)]

    def format_problems(self, terminal: Terminal) -> list[str]:
        """Return the lines about all problems and an empty line, or nothing if there is no problem."""
        answer = self.answer
        return [*format_problems(answer, terminal), ""] if answer and answer["attention"] else []

    def _format_device_lines(self, device: ControlAnswer) -> Iterator[str]:
        times = self.times
        reason = f": {escape(device['reason'])}" if device["reason"] else ""
        yield f"  health       {device['health']} since {times.format_since(device['since'])}{reason}"
        if device["in_pod"]:
            yield f"{_INDENT}moved into its pod, so the host does not show it"
        if device["leaving"]:
            yield f"{_INDENT}no entry offers it: it stays in the list until no pod uses it"
        if device["drained"]:
            yield f"  drained      {_format_drain(device['drained'], times)}"
        yield from _format_checks(device["checks"], times)
        if device["held_by"]:
            yield f"  held by      {format_holders(device['held_by'])}"
        elif device["may_be_held"]:
            yield "  held by      perhaps a pod: the kubelet has not confirmed that no pod uses it"
        if not device["told_kubelet"]:
            kubelet = (self.answer or {})["kubelet"]
            outage = (
                f"; the kubelet has been down since {times.format_since(kubelet['since'])}"
                if kubelet["up"] is False
                else ""
            )
            yield f"  kubelet      the new list is not sent yet{outage}"
        yield from self._format_history(device["history"], times)

    def _format_history(self, changes: Sequence[ControlAnswer], times: Times) -> Iterator[str]:
        if not changes:
            return
        if not self.with_history:
            failure_count = sum(change["to"] == "Unhealthy" != change["from"] for change in changes)
            recovery_count = sum(change["to"] == "Healthy" != change["from"] for change in changes)
            counts = f"{failure_count} to Unhealthy, {recovery_count} to Healthy"
            yield f"  history      {counts} (--history: the last {len(changes)})"
            return
        for index, change in enumerate(changes):
            prefix = "  history      " if index == 0 else _INDENT
            reason = f": {escape(change['reason'])}" if change["reason"] else ""
            time_text = times.format_time(change["time"])
            yield f"{prefix}{time_text}  {change['from'] or 'new'} → {change['to'] or 'gone'}{reason}"


def request_agent_data(arguments: argparse.Namespace, configuration: Configuration, root: Root) -> AgentData:
    """Ask the agent on this machine, if there is one, about the device or resource that the user named."""
    name = arguments.name or ""
    real = root.resolve(name) if name.startswith("/") else name
    request = {"do": "explain", "name": real if isinstance(real, str) else name}
    answer = send_request(configuration.settings.paths.control, request, ANSWER_SECONDS)
    if isinstance(answer, AgentUnreachable):
        return AgentData(f"read from this host: {answer.gist}")
    if answer.get("root") != (root.prefix or "/"):
        return AgentData("read from this host: no agent of this host is running")
    if "error" in answer:
        return AgentData(f"read from this host: {answer['error']}")
    stale = (
        ""
        if answer["config"] == configuration.digest
        else f"; the files contain {configuration.digest}: run device-agent reload"
    )
    return AgentData(
        f"data of the running agent, configuration {answer['config']}{stale}", answer, arguments.history, arguments.utc
    )


def _format_drain(drain: ControlAnswer, times: Times) -> str:
    reason = f"{escape(drain['reason'])}, " if drain["reason"] else ""
    return f"{reason}since {times.format_since(drain['since'])}, until device-agent undrain"


def _format_checks(checks: Sequence[ControlAnswer], times: Times) -> Iterator[str]:
    longest = max((len(check["check"]) for check in checks), default=0)
    for index, check in enumerate(checks):
        prefix = f"  {'checks' if index == 0 else '':11}  "
        member = f"{escape(check['member'])}: " if check["member"] else ""
        reason = f"  {member}{escape(check['reason'])}" if check["reason"] else ""
        since_text = f"  since {times.format_since(check['since'])}" if check["since"] else ""
        latched = ", latched" if check["latched"] else ""
        yield f"{prefix}{check['check']:{longest}}  {check['verdict']:9}{reason}{since_text}{latched}".rstrip()
        if check["evidence"]:
            yield f"{_INDENT}{'':{longest}}  evidence: {escape(check['evidence'])}"
        if check["recovers"]:
            yield f"{_INDENT}{'':{longest}}  recovers {check['recovers']}"
