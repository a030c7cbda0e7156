"""Show the state of the agent: problems with their next steps, then all resources.

A drained device and a removed entry are shown, but they are no problems. On a terminal, resources that wait for the
same cause share one row (-v: one row for each). With RESOURCE, print also its devices. -o name prints resource names,
or with RESOURCE device IDs. --watch prints the status again after each change, until Ctrl-C.
Sends a request to the running agent, as root.
Exit code 0: no problem. 1: a problem. 3: no agent is running. 4: no resource has this name. 5: no permission.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

from agent.cli.agent_client import ask_agent
from agent.cli.output import NO_SUCH_NAME, is_json, print_json
from agent.cli.table import Column, Row, render
from agent.cli.terminal import Terminal
from agent.cli.time_text import Times, format_duration
from agent.control.control_socket import ControlAnswer
from agent.core.language.safe_text import escape, format_count

OUTPUTS = ("wide", "json", "jsonl", "name")
VERBOSE = True
PAUSE_SECONDS = 0.25  # between two answers; many changes in this time become one output
WATCH_SECONDS = 5.0  # the agent answers after this time without a change, because pods cause none
STALE_SECONDS = 10.0  # if the kubelet's report of devices in use is older, the table shows its time

_COLUMNS = (
    Column("RESOURCE"),
    Column("STATE", min_width=12),
    Column("HEALTHY", right=True),
    Column("IN USE", right=True, drop_order=1),
    Column("SINCE", drop_order=2),
)
_WIDE_COLUMNS = (Column("EXPECTED", right=True), Column("STREAMS", right=True), Column("CLASS"), Column("ORIGIN"))


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `status`."""
    parser.add_argument("resource", nargs="?", metavar="RESOURCE", help="show only this resource, with its devices")
    parser.add_argument("--watch", action="store_true", help="print the status again after each change")


def run(arguments: argparse.Namespace) -> int:
    """Print the status once, or with --watch after each change until Ctrl-C. Return the exit code."""
    with_devices = is_json(arguments) or arguments.resource is not None
    request = {"do": "status", "resource": arguments.resource, "devices": None if with_devices else ""}
    answer = ask_agent(arguments, request, refusal_code=NO_SUCH_NAME)
    while not isinstance(answer, int):
        _print_answer(answer, arguments)
        if not arguments.watch:
            return 1 if answer["attention"] else 0
        shown_revision = answer["revision"]
        while not isinstance(answer, int) and answer["revision"] == shown_revision:
            time.sleep(PAUSE_SECONDS)
            next_request = {**request, "unlike": shown_revision, "seconds": WATCH_SECONDS}
            answer = ask_agent(arguments, next_request, wait_seconds=WATCH_SECONDS, refusal_code=NO_SUCH_NAME)
    return answer


def _print_answer(answer: ControlAnswer, arguments: argparse.Namespace) -> None:
    if is_json(arguments):
        print_json(answer, arguments)
    elif arguments.output == "name":
        for resource in answer["resources"]:
            names = (
                [resource["name"]] if arguments.resource is None else [device["id"] for device in resource["devices"]]
            )
            print("\n".join(names))
    else:
        terminal = Terminal.detect(sys.stdout, colour=arguments.color, utc=arguments.utc)
        text_lines = format_status(
            answer,
            terminal,
            with_devices=arguments.resource is not None,
            is_folded=terminal.width is not None and not arguments.verbose,
            is_wide=arguments.output == "wide",
        )
        print("\n".join(text_lines))
        if arguments.watch:
            print()
    sys.stdout.flush()


def format_status(
    answer: ControlAnswer,
    terminal: Terminal,
    *,
    with_devices: bool = False,
    is_folded: bool = False,
    is_wide: bool = False,
) -> list[str]:
    """Return the lines of a status for people.

    with_devices: whether each device has a line. is_folded: whether resources that wait for the same cause share one
    row. is_wide: whether each resource has more columns.
    """
    attention = answer["attention"]
    text_lines = format_agent_summary(answer, terminal)
    text_lines += format_problems(answer, terminal) if attention else []
    text_lines += [terminal.make_displayable(line) for line in _format_drains(answer, terminal)]
    text_lines += _format_table(answer, terminal, is_folded=is_folded, is_wide=is_wide)
    if with_devices:
        text_lines += [
            line for resource in answer["resources"] for line in format_device_table(answer, resource, terminal)
        ]
    if not attention:
        text_lines.append("There are no problems.")
    return text_lines


def format_holders(holders: Sequence[ControlAnswer]) -> str:
    """Return the names of the pods that hold a device. Each pod appears once."""
    return escape(", ".join(dict.fromkeys(f"{holder['namespace']}/{holder['pod']}" for holder in holders)))


def build_times(answer: ControlAnswer, terminal: Terminal) -> Times:
    """Return the formatter for the times of an answer, in the time zone of the terminal."""
    return Times(answer["time"], utc=terminal.utc)


def format_agent_summary(answer: ControlAnswer, terminal: Terminal) -> list[str]:
    """Return the first lines: the agent, its configuration, the kubelet and the number of Healthy devices."""
    return [*_format_summary_lines(answer, terminal)]


def _format_summary_lines(answer: ControlAnswer, terminal: Terminal) -> Iterator[str]:
    config, kubelet = answer["config"], answer["kubelet"]
    times = build_times(answer, terminal)
    mark = terminal.style("✖" if answer["attention"] else "●", "red" if answer["attention"] else "")
    shown_resources = answer["resources"]
    resource_count = config.get("resources", len(shown_resources))  # the answer of an older agent has no number
    resources, files = format_count(resource_count, "resource"), format_count(config["files"], "file")
    uptime = format_duration(answer["up_seconds"])
    yield terminal.make_displayable(
        f"{mark} device-agent {answer['version']} on {escape(answer['node'])}, up {uptime}, "
        f"configuration {config['digest']} of {times.format_time(config['loaded'])} ({resources}, {files})"
    )
    kubelet_states = {
        "up": f"up {times.format_age(kubelet['since'] or answer['time'])}",
        "down": "down",
        None: "not seen yet",
    }
    healthy_count = sum(resource["healthy"] for resource in answer["resources"])
    device_count = healthy_count + sum(resource["unhealthy"] for resource in answer["resources"])
    last_change = [f"last change {times.format_time(answer['changes'][-1]['time'])}"] if answer["changes"] else []
    requested_resource = shown_resources[0] if 0 < len(shown_resources) < resource_count else None
    streaming_text = (
        f"{requested_resource['name']} {requested_resource['state']}"
        if requested_resource
        else f"{answer['streaming']} of {len(shown_resources)} streaming"
    )
    parts = (
        f"kubelet {kubelet_states[kubelet['state']]}",
        streaming_text,
        f"{healthy_count:,} of {format_count(device_count, 'device')} Healthy",
        *last_change,
    )
    yield "  " + (" · " if terminal.has_unicode else ", ").join(parts)


def format_problems(answer: ControlAnswer, terminal: Terminal) -> Iterator[str]:
    """Yield the lines of all problems, each with its next step."""
    problems = answer["attention"]
    times = build_times(answer, terminal)
    yield f"  {len(problems)} problem{'s' if len(problems) != 1 else ''}:"
    subject_width = max(len(problem["subject"]) for problem in problems)
    for number, problem in enumerate(problems, 1):
        since_text = f" since {times.format_since(problem['since'])}" if problem["since"] else ""
        reason = f": {escape(problem['reason'])}" if problem["reason"] else ""
        subject = terminal.style(f"{problem['subject']:{subject_width}}", "red")
        yield terminal.make_displayable(
            f"  {number} {subject}  {_format_devices(problem)}{problem['what']}{since_text}{reason}"
        )
        indent = " " * (subject_width + 6)
        if problem["means"]:
            yield f"{indent}{problem['means']}"
        if problem["held_by"]:
            yield f"{indent}held by {format_holders(problem['held_by'])}"
        yield from (f"{indent}next: {escape(step)}" for step in problem["next"])


def _format_devices(problem: ControlAnswer) -> str:
    devices = problem["devices"]
    if not devices:
        return ""
    place = problem["places"][0] if problem["places"] else devices[0]
    first_device = escape(devices[0] if place == devices[0] else f"{devices[0]} at {place}")
    return f"{first_device} " if len(devices) == 1 else f"{len(devices)} devices, the first {first_device}, "


def _format_drains(answer: ControlAnswer, terminal: Terminal) -> Iterator[str]:
    times = build_times(answer, terminal)
    for drain in answer["drained"]:
        subject = drain["resource"] or " ".join(drain["devices"]) or f"{drain['place']}, a location without a device,"
        reason = f" ({escape(drain['drained']['reason'])})" if drain["drained"]["reason"] else ""
        yield f"  drained: {escape(subject)}{reason} since {times.format_since(drain['drained']['since'])}"


def _format_table(answer: ControlAnswer, terminal: Terminal, *, is_folded: bool, is_wide: bool) -> list[str]:
    times, resources = build_times(answer, terminal), answer["resources"]
    usage_times = [resource["in_use_as_of"] for resource in resources if resource["in_use_as_of"]]
    stale_note = (
        f"* as the kubelet reported at {times.format_time(max(usage_times))}."
        if usage_times and _is_stale(usage_times, times)
        else ""
    )
    groups = _fold_resources(resources) if is_folded else [[resource] for resource in resources]
    rows = [_build_row(group, times, mark="*" * bool(stale_note), is_wide=is_wide) for group in groups]
    columns = [*_COLUMNS, *_WIDE_COLUMNS] if is_wide else [*_COLUMNS]
    columns[3] = Column(f"IN USE{'*' * bool(stale_note)}", right=True, drop_order=1)
    return [*render(columns, rows, terminal), *([stale_note] if stale_note else [])]


def _is_stale(usage_times: Sequence[str], times: Times) -> bool:
    return times.measure_age(max(usage_times)) > STALE_SECONDS


def _build_row(resources: Sequence[ControlAnswer], times: Times, *, mark: str, is_wide: bool) -> Row:
    """Return the row of one resource, or of several equal resources."""
    resource = resources[0]
    cause = resource["waiting_for"]
    in_use = [member["in_use"] for member in resources]
    cells = [
        resource["name"] if len(resources) == 1 else f"+ {len(resources)} alike",
        f"{resource['state']}: {escape(cause)}" if cause else resource["state"],
        f"{resource['healthy']:,}/{resource['healthy'] + resource['unhealthy']:,}"
        if len(resources) == 1
        else "all Healthy",
        "?" if None in in_use else f"{sum(in_use):,}{mark}",
        times.format_time(min(member["since"] for member in resources)),
    ]
    if is_wide:
        cells += ["–" if resource["expected"] is None else str(resource["expected"]), str(resource["streams"])]
        cells += [escape(resource["class"] or "–"), escape(resource["origin"] or "–")]
    return Row(tuple(cells), "yellow" if cause else "")


def _fold_resources(resources: Sequence[ControlAnswer]) -> list[list[ControlAnswer]]:
    """Return the resources in groups, one group for each row.

    Resources that only wait for the same cause form one group. These groups come last.
    """
    groups: dict[str, list[ControlAnswer]] = {}
    for resource in resources:
        key = resource["waiting_for"] if resource["waiting_for"] and not resource["unhealthy"] else None
        groups.setdefault(f"for {key}" if key else resource["name"], []).append(resource)
    return sorted(groups.values(), key=lambda group: len(group) > 1)


def format_device_table(answer: ControlAnswer, resource: ControlAnswer, terminal: Terminal) -> list[str]:
    """Return the lines of a table of the devices of a resource. Unhealthy devices come first."""
    columns = (
        Column("DEVICE"),
        Column("WHERE", drop_order=2),
        Column("NUMA", drop_order=3),
        Column("HEALTH"),
        Column("SINCE", drop_order=1),
        Column("HELD BY"),
        Column("WHY"),
    )
    times = build_times(answer, terminal)
    rows = [
        Row(
            (
                device["id"] + (f" ×{device['shares']}" if device["shares"] is not None else ""),
                escape(device["address"]),
                " ".join(map(str, device["numa"])) or "–",
                device["health"],
                times.format_time(device["since"]),
                format_holders(device["held_by"]) or "–",
                escape(
                    device["reason"] or ("moved into its pod, so the host does not show it" if device["in_pod"] else "")
                ),
            ),
            "red" if device["health"] != "Healthy" and not device["drained"] else "",
        )
        for device in sorted(resource["devices"], key=lambda device: device["health"] == "Healthy")
    ]
    return ["", *render(columns, rows, terminal)] if rows else []
