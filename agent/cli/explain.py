"""Explain the state of a device or resource: why an entry takes or rejects a device, and why the device is Unhealthy.

NAME is a resource, or any name of a device that `scan` accepts. Without NAME, explain all resources with a problem.
If a running agent answers (as root), the output contains its data: times, check results, the pods that use the device,
and the last changes (--history). The first line names the source of the data. Without an agent the command reads the
host. Then it needs no kubelet and no root.

-o name prints one name per line. -o jsonl prints one JSON object per line. --watch prints the result again after each
change.
Exit code 0: success. 4: no device or resource has this name, or several devices have it.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator

from agent.cli.host_report.agent_data import AgentData, request_agent_data
from agent.cli.host_report.class_entries import compile_shipped_classes
from agent.cli.host_report.device_detail import format_match_result, format_nearby_devices, format_title
from agent.cli.host_report.device_json import build_device_json
from agent.cli.host_report.device_search import SearchFailure, find_device, resolve_device
from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.cli.host_report.match_steps import build_match_steps, find_match_hints, format_match_steps
from agent.cli.host_report.report_command import run_report
from agent.cli.host_report.scan_host import scan_host
from agent.cli.output import WRONG_COMMAND_LINE, fail, is_json, print_json
from agent.cli.terminal import Terminal
from agent.config.load import Configuration
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.language.safe_text import escape, make_printable
from agent.host.root import Root

OUTPUTS = ("json", "jsonl", "name")
_SHOWN_CLASSES = 8  # classes in the list


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `explain`."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="a resource, or any name of a device")
    parser.add_argument("--history", action="store_true", help="show the last changes of the device, from the agent")
    parser.add_argument("--watch", action="store_true", help="print the result again after each change, until Ctrl-C")


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation once, or with --watch after each change. Return the exit code."""
    if arguments.history and arguments.name is None:
        return fail(arguments, "--history needs a device: explain DEVICE --history", WRONG_COMMAND_LINE)
    return run_report(arguments, _print_answer)


def _print_answer(arguments: argparse.Namespace, root: Root, configuration: Configuration, terminal: Terminal) -> int:
    specs = configuration.resources
    report = scan_host(root, specs, compile_shipped_classes(), cdi_directories=configuration.settings.paths.cdi)
    agent_data = request_agent_data(arguments, configuration, root)
    if arguments.name is None:
        if arguments.output == "table":
            print("\n".join([agent_data.format_view(terminal), *agent_data.format_problems(terminal)]))
        return _explain_problems(arguments, report, configuration, terminal)
    spec = next((spec for spec in specs if spec.name == arguments.name), None)
    if spec is None:
        return _explain_device(arguments, report, configuration, terminal, agent_data)
    if is_json(arguments):
        print_json({**_build_json(report, spec), "agent": agent_data.resource}, arguments)
    elif arguments.output == "name":
        print("\n".join(device.id for device in report.find_listed_devices(spec)))
    else:
        print(
            "\n".join(
                [
                    agent_data.format_view(terminal),
                    *_format_resource(report, spec, terminal),
                    *agent_data.format_resource(terminal),
                ]
            )
        )
    return 0


def _explain_device(
    arguments: argparse.Namespace,
    report: HostReport,
    configuration: Configuration,
    terminal: Terminal,
    agent_data: AgentData,
) -> int:
    name = arguments.name
    if agent_data.devices and isinstance(find_device(report, name), SearchFailure):  # an absent device
        if is_json(arguments):
            print_json([*agent_data.devices], arguments)
        elif arguments.output == "name":
            print("\n".join(device["id"] for device in agent_data.devices))
        else:
            print("\n".join(agent_data.format_absent_devices(terminal)))
        return 0
    resources = [spec.name for spec in configuration.resources]
    match = resolve_device(arguments, name, report, configuration, resources=resources)
    if isinstance(match, int):
        return match
    report, item = match
    if is_json(arguments):
        print_json({**build_device_json(report, item), "agent": agent_data.find_device(item)}, arguments)
    elif arguments.output == "name":
        print(make_printable(item.host.name, None))
    else:
        print("\n".join(_format_device(report, item, terminal, agent_data)))
    return 0


def _format_device(report: HostReport, item: HostReportItem, terminal: Terminal, agent_data: AgentData) -> list[str]:
    """Return the lines about one device: its facts, its match result and the hints for other entries."""
    lines = [
        agent_data.format_view(terminal),
        format_title(report, item, terminal),
        *format_match_result(item, terminal, agent_data.format_device(item)),
    ]
    lines += format_nearby_devices(report, item)
    for entry_mismatch in item.mismatches if item.entry is None else ():
        mismatch = entry_mismatch.mismatch
        if entry_mismatch.is_only_mismatch:
            heading = f"  next         to give it to {mismatch.resource}:"
            lines += [f"{heading} {remedy}" for remedy in find_match_hints(report, item, mismatch)]
    return [terminal.make_displayable(line) for line in lines]


def _format_resource(report: HostReport, spec: ResourceSpec, terminal: Terminal) -> list[str]:
    class_text = f", class {spec.class_name}" if spec.class_name else ""
    return [
        f"{terminal.style(spec.name, 'bold')}      {spec.origin}{class_text}",
        *format_match_steps(report, spec, terminal),
    ]


def _explain_problems(
    arguments: argparse.Namespace, report: HostReport, configuration: Configuration, terminal: Terminal
) -> int:
    """Print each resource with a problem, then the number of the other resources. Return the exit code."""
    problem_specs = [spec for spec in configuration.resources if _has_problem(report, spec)]
    if is_json(arguments):
        print_json([_build_json(report, spec) for spec in problem_specs], arguments)
        return 0
    if arguments.output == "name":
        print("".join(f"{spec.name}\n" for spec in problem_specs), end="")
        return 0
    if not configuration.resources:
        print("\n".join(_format_no_resources(report, configuration)))
        return 0
    for spec in problem_specs:
        print("\n".join(_format_resource(report, spec, terminal)))
        print()
    healthy_count = len(configuration.resources) - len(problem_specs)
    noun = "resource has" if healthy_count == 1 else "resources have"
    print(f"{healthy_count} {noun} all devices Healthy, {len(problem_specs)} not.")
    return 0


def _format_no_resources(report: HostReport, configuration: Configuration) -> Iterator[str]:
    """Yield lines with the reason why the agent serves no resource, and with the first step to change this."""
    if not configuration.is_valid:
        yield "no resource is served: the configuration has errors"
        yield "  next         device-agent check   (shows each error with its correction)"
        return
    yield f"no resource is configured in {escape(configuration.settings.paths.resources)}"
    class_counts = Counter(name for item in report.items for name in item.matching_classes)
    if class_counts:
        shown_counts = (f"{name} {count}" for name, count in class_counts.most_common(_SHOWN_CLASSES))
        yield f"  classes      {', '.join(shown_counts)}"
        name = class_counts.most_common(1)[0][0]
        yield f"  next         device-agent class show {name}   (shows an entry to copy)"
    yield "  next         device-agent class list --here   (all classes that match this host)"


def _has_problem(report: HostReport, spec: ResourceSpec) -> bool:
    """Return whether the resource has no listed device, an unlisted candidate or a device that is not Healthy."""
    devices = report.find_listed_devices(spec)
    candidates = (item for item in report.items if item.entry is spec)
    has_unlisted = any(item.unlisted_reason or (item.device is None and spec.slots is None) for item in candidates)
    return not devices or has_unlisted or any(device.reason for device in devices)


def _build_json(report: HostReport, spec: ResourceSpec) -> dict[str, object]:
    """Return the JSON value of a resource."""
    return {
        "resource": spec.name,
        "file": spec.origin.file,
        "line": spec.origin.line,
        "class": spec.class_name,
        "candidates": [
            {
                "clause": step.text,
                "file": step.origin.file if step.origin else None,
                "line": step.origin.line if step.origin else None,
                "left": step.remaining,
                "fell": [
                    {"name": item.host.name, "here": entry_mismatch.mismatch.facts_text}
                    for item, entry_mismatch in step.mismatches
                ],
            }
            for step in build_match_steps(report, spec)
        ],
        "devices": [
            {
                "id": device.id,
                "shares": device.shares,
                "health": device.health.value,
                "reason": str(device.reason) or None,
            }
            for device in report.find_listed_devices(spec)
        ],
        "no_topology": [
            {"resource": name, "lacking": [*withheld.ids_without_node], "having": withheld.device_count}
            for name in report.find_resource_names(spec)
            if (withheld := report.withheld_topology.get(name)) is not None
        ],
        "unlisted": [
            {"place": unlisted.location, "reason": unlisted.reason}
            for unlisted in report.unlisted
            if unlisted.resource == spec.name
        ],
    }
