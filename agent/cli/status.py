"""Is everything served, and what needs a person? Problems first, each with its next step, then every resource.

Asks the running agent, as root. What a person has drained, or taken out of the configuration, is shown and is no
problem.
Exit code 0: nothing needs a person. 1: something does. 3: no agent is running. 4: no such resource. 5: no permission.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence

from agent.cli.asking import asked
from agent.cli.clock import age, read, since, when
from agent.cli.table import Column, Row, render
from agent.cli.terminal import Terminal
from agent.control import Answer
from agent.core.language.printable import counted, escape

NO_SUCH_RESOURCE = 4

_COLUMNS = (
    Column("RESOURCE"),
    Column("STATE", narrowest=12),
    Column("HEALTHY", right=True),
    Column("IN USE", right=True, leaves=1),
    Column("SINCE", leaves=2),
)


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of `status`."""
    parser.add_argument("resource", nargs="?", metavar="RESOURCE", help="this one alone, with its devices")


def run(arguments: argparse.Namespace) -> int:
    """Ask, and print."""
    every = arguments.output == "json" or arguments.resource is not None
    request = {"do": "status", "resource": arguments.resource, "devices": None if every else ""}
    answer = asked("status", arguments.config, request)
    if isinstance(answer, int):
        return NO_SUCH_RESOURCE if answer == 1 else answer
    if arguments.output == "json":
        print(json.dumps(answer, indent=1))
    else:
        terminal = Terminal.of(sys.stdout, colour=arguments.color)
        print("\n".join(lines(answer, terminal, devices=arguments.resource is not None)))
    return 1 if answer["attention"] else 0


def lines(answer: Answer, terminal: Terminal, *, devices: bool = False, chosen: int | None = None) -> list[str]:
    """A status for people. devices: whether each of them has its line. chosen: the resource that is pointed at."""
    attention = answer["attention"]
    said = [*_head(answer, terminal)]
    said += attention_lines(answer, terminal) if attention else []
    said += [terminal.text(line) for line in _drained(answer)]
    said += _table(answer, terminal, chosen)
    if devices:
        said += [line for resource in answer["resources"] for line in device_table(answer, resource, terminal)]
    if not attention:
        said.append("Nothing needs a person.")
    return said


def held_by(holders: Sequence[Answer]) -> str:
    """The pods that hold something; each once."""
    return escape(", ".join(dict.fromkeys(f"{one['namespace']}/{one['pod']}" for one in holders)))


def _head(answer: Answer, terminal: Terminal) -> Iterator[str]:
    config, kubelet = answer["config"], answer["kubelet"]
    now = read(answer["time"])
    mark = terminal.style("✖" if answer["attention"] else "●", "red" if answer["attention"] else "")
    resources, files = counted(len(answer["resources"]), "resource"), counted(config["files"], "file")
    loaded = when(read(config["loaded"]), now)
    yield terminal.text(
        f"{mark} device-agent {answer['version']} on {escape(answer['node'])}, up {age(answer['up_seconds'])}, "
        f"configuration {config['digest']} of {loaded} ({resources}, {files})"
    )
    up = {"up": f"up since {since(kubelet['since'], answer['time'])}", "down": "down", None: "not seen yet"}
    healthy = sum(one["healthy"] for one in answer["resources"])
    total = healthy + sum(one["unhealthy"] for one in answer["resources"])
    parts = (
        f"kubelet {up[kubelet['state']]}",
        f"{answer['streaming']} of {len(answer['resources'])} streaming",
        f"{healthy:,} of {counted(total, 'device')} Healthy",
    )
    yield "  " + (" · " if terminal.unicode else ", ").join(parts)


def attention_lines(answer: Answer, terminal: Terminal) -> Iterator[str]:
    """What needs a person, each with its next step."""
    problems = answer["attention"]
    yield f"  {len(problems)} thing{' needs' if len(problems) == 1 else 's need'} a person:"
    widest = max(len(problem["subject"]) for problem in problems)
    for number, problem in enumerate(problems, 1):
        begun = f" since {since(problem['since'], answer['time'])}" if problem["since"] else ""
        reason = f": {escape(problem['reason'])}" if problem["reason"] else ""
        subject = terminal.style(f"{problem['subject']:{widest}}", "red")
        yield terminal.text(f"  {number} {subject}  {_which(problem)}{problem['what']}{begun}{reason}")
        indent = " " * (widest + 6)
        if problem["held_by"]:
            yield f"{indent}held by {held_by(problem['held_by'])}"
        yield from (f"{indent}next: {escape(step)}" for step in problem["next"])


def _which(problem: Answer) -> str:
    devices = problem["devices"]
    if not devices:
        return ""
    first = escape(devices[0])
    return f"{first} " if len(devices) == 1 else f"{len(devices)} devices, the first {first}, "


def _drained(answer: Answer) -> Iterator[str]:
    for one in answer["drained"]:
        what = one["resource"] or " ".join(one["devices"]) or f"{one['place']}, where nothing is now,"
        reason = f" ({escape(one['drained']['reason'])})" if one["drained"]["reason"] else ""
        yield f"  drained: {escape(what)}{reason} since {since(one['drained']['since'], answer['time'])}"


def _table(answer: Answer, terminal: Terminal, chosen: int | None) -> list[str]:
    rows = []
    now = read(answer["time"])
    for index, one in enumerate(answer["resources"]):
        waiting = one["waiting_for"]
        total = one["healthy"] + one["unhealthy"]
        rows.append(
            Row(
                (
                    f"> {one['name']}" if index == chosen else one["name"],
                    f"{one['state']}: {escape(waiting)}" if waiting else one["state"],
                    f"{one['healthy']:,}/{total:,}",
                    "?" if one["in_use"] is None else f"{one['in_use']:,}",
                    when(read(one["since"]), now),
                ),
                "yellow" if waiting else "",
            )
        )
    return render(_COLUMNS, rows, terminal) if rows else []


def device_table(answer: Answer, resource: Answer, terminal: Terminal) -> list[str]:
    """The devices of a resource, worst first."""
    columns = (
        Column("DEVICE"),
        Column("WHERE", leaves=2),
        Column("NUMA", leaves=3),
        Column("HEALTH"),
        Column("SINCE", leaves=1),
        Column("HELD BY"),
        Column("WHY"),
    )
    now = read(answer["time"])
    rows = [
        Row(
            (
                one["id"] + (f" ×{one['shares']}" if one["shares"] is not None else ""),
                escape(one["address"]),
                " ".join(map(str, one["numa"])) or "–",
                one["health"],
                when(read(one["since"]), now),
                held_by(one["held_by"]) or "–",
                escape(one["reason"] or ("in its pod, and not on the host" if one["in_pod"] else "")),
            ),
            "red" if one["health"] != "Healthy" and not one["drained"] else "",
        )
        for one in sorted(resource["devices"], key=lambda one: one["health"] == "Healthy")
    ]
    return ["", *render(columns, rows, terminal)] if rows else []
