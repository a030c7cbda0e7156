"""What the agent that runs on this machine knows of a device or a resource, beside what a look at the host shows."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from agent.cli.agent_client import AgentUnreachable, send_request
from agent.cli.host_report.host_report import HostReportItem
from agent.cli.status import attention_lines, device_table, held_by
from agent.cli.terminal import Terminal
from agent.cli.time_text import Times
from agent.config.load import Configuration
from agent.control.control_socket import Answer
from agent.core.language.safe_text import escape
from agent.core.struct import Struct
from agent.host.root import Root

ANSWER_SECONDS = 5.0

_BELOW = " " * 15


class AgentData(Struct):
    """What the agent says of what was asked; `said` is whose view this is, in one line.

    answer: None where no agent answers that looks at this machine. utc: how times are said.
    """

    view_text: str
    answer: Answer | None = None
    with_history: bool = False
    utc: bool = False

    @property
    def times(self) -> Times:
        """Of the moment of the answer."""
        return Times((self.answer or {})["time"], utc=self.utc)

    @property
    def devices(self) -> Sequence[Answer]:
        """The devices that were asked for, as the agent has them."""
        return self.answer["devices"] if self.answer else ()

    @property
    def resource(self) -> Answer | None:
        """The resource that was asked for, as the agent has it."""
        return self.answer["resource"] if self.answer else None

    def format_view(self, terminal: Terminal) -> str:
        """The first line of an answer: whose view it is."""
        return terminal.style(terminal.text(escape(self.view_text)), "dim")

    def find_device(self, item: HostReportItem) -> Answer | None:
        """A device of the host, as the agent has it."""
        same = (one for one in self.devices if one["resource"] == item.resource)
        return next((one for one in same if item.device is None or one["id"] == item.device.id), None)

    def format_device(self, item: HostReportItem) -> list[str]:
        """What is to be said of a device of the host; nothing if the agent does not know it."""
        said = self.find_device(item)
        return [] if said is None else list(self._lines(said))

    def format_absent_devices(self, terminal: Terminal) -> list[str]:
        """What is to be said of devices that this host does not show."""
        lines = [self.format_view(terminal)]
        for one in self.devices:
            lines += [f"{one['resource']} {one['id']}   (no look at this host finds it)", *self._lines(one)]
        return [terminal.text(line) for line in lines]

    def format_resource(self, terminal: Terminal) -> list[str]:
        """What is to be said of a resource."""
        one = self.resource
        if one is None or self.answer is None:
            return []
        waiting = f": {escape(one['reason'])}" if one["reason"] else ""
        lines = [f"  state        {one['state']} since {self.times.since(one['since'])}{waiting}"]
        if one["drained"]:
            lines.append(f"  drained      {_drained(one['drained'], self.times)}")
        if one["in_use"] is not None:
            lines.append(f"  in use       {one['in_use']}, as the kubelet said")
        return [*map(terminal.text, lines), *device_table(self.answer, one, terminal)]

    def format_problems(self, terminal: Terminal) -> list[str]:
        """All that needs a person, and an empty line."""
        answer = self.answer
        return [*attention_lines(answer, terminal), ""] if answer and answer["attention"] else []

    def _lines(self, one: Answer) -> Iterator[str]:
        times = self.times
        reason = f": {escape(one['reason'])}" if one["reason"] else ""
        yield f"  health       {one['health']} since {times.since(one['since'])}{reason}"
        if one["in_pod"]:
            yield f"{_BELOW}in its pod, and not on the host"
        if one["leaving"]:
            yield f"{_BELOW}offered no more: listed until no pod holds it"
        if one["drained"]:
            yield f"  drained      {_drained(one['drained'], times)}"
        yield from _format_checks(one["checks"], times)
        if one["held_by"]:
            yield f"  held by      {held_by(one['held_by'])}"
        elif one["may_be_held"]:
            yield "  held by      perhaps a pod: the kubelet has not said for sure that none has it"
        if not one["told_kubelet"]:
            kubelet = (self.answer or {})["kubelet"]
            down = f"; the kubelet is down since {times.since(kubelet['since'])}" if kubelet["up"] is False else ""
            yield f"  kubelet      not told yet{down}"
        yield from self._history(one["history"], times)

    def _history(self, changes: Sequence[Answer], times: Times) -> Iterator[str]:
        if not changes:
            return
        if not self.with_history:
            down = sum(change["to"] == "Unhealthy" != change["from"] for change in changes)
            up = sum(change["to"] == "Healthy" != change["from"] for change in changes)
            yield f"  history      {down} to Unhealthy, {up} to Healthy (--history: the last {len(changes)})"
            return
        for index, change in enumerate(changes):
            begun = "  history      " if index == 0 else _BELOW
            reason = f": {escape(change['reason'])}" if change["reason"] else ""
            at = times.when(change["time"])
            yield f"{begun}{at}  {change['from'] or 'new'} → {change['to'] or 'gone'}{reason}"


def request_agent_data(arguments: argparse.Namespace, configuration: Configuration, root: Root) -> AgentData:
    """Ask the agent that looks at this machine, if there is one."""
    name = arguments.name or ""
    real = root.resolve(name) if name.startswith("/") else name
    request = {"do": "explain", "name": real if isinstance(real, str) else name}
    answer = send_request(configuration.settings.paths.control, request, ANSWER_SECONDS)
    if isinstance(answer, AgentUnreachable):
        return AgentData(f"a fresh look: {answer.gist}")
    if answer.get("root") != (root.prefix or "/"):
        return AgentData("a fresh look: no agent that looks at this machine is running")
    if "error" in answer:
        return AgentData(f"a fresh look: {answer['error']}")
    stale = "" if answer["config"] == configuration.digest else f"; the files say {configuration.digest}: reload"
    return AgentData(
        f"view of the running agent, configuration {answer['config']}{stale}", answer, arguments.history, arguments.utc
    )


def _drained(drained: Answer, times: Times) -> str:
    reason = f"{escape(drained['reason'])}, " if drained["reason"] else ""
    return f"{reason}since {times.since(drained['since'])}, until device-agent undrain"


def _format_checks(checks: Sequence[Answer], times: Times) -> Iterator[str]:
    longest = max((len(one["check"]) for one in checks), default=0)
    for index, one in enumerate(checks):
        begun = f"  {'checks' if index == 0 else '':11}  "
        member = f"{escape(one['member'])}: " if one["member"] else ""
        why = f"  {member}{escape(one['reason'])}" if one["reason"] else ""
        turned = f"  since {times.since(one['since'])}" if one["since"] else ""
        latched = ", latched" if one["latched"] else ""
        yield f"{begun}{one['check']:{longest}}  {one['verdict']:9}{why}{turned}{latched}".rstrip()
        if one["evidence"]:
            yield f"{_BELOW}{'':{longest}}  evidence: {escape(one['evidence'])}"
        if one["recovers"]:
            yield f"{_BELOW}{'':{longest}}  recovers {one['recovers']}"
