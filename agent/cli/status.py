"""Is everything served, and what needs a person? Problems first, each with its next step, then every resource.

What a person has drained, or taken out of the configuration, is shown and is no problem. On a terminal resources that
wait for one thing are one row (-v: each has its own). -o name prints the resources' names; with RESOURCE, its devices'
ids. --watch says it again at each change, until Ctrl-C. Asks the running agent, as root.
Exit code 0: nothing needs a person. 1: something does. 3: no agent is running. 4: no such resource. 5: no permission.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

from agent.cli.agent_client import ask_agent
from agent.cli.output import is_json, print_json
from agent.cli.table import Column, Row, render
from agent.cli.terminal import Terminal
from agent.cli.time_text import Times, format_duration
from agent.control.control_socket import ControlAnswer
from agent.core.language.safe_text import escape, format_count

OUTPUTS = ("wide", "json", "jsonl", "name")
VERBOSE = True
NO_SUCH_RESOURCE = 4
PAUSE_SECONDS = 0.25  # between two answers: a storm of changes is not followed one by one
WATCH_SECONDS = 5.0  # so long the agent waits for a change before it answers all the same: pods come and go unheard
STALE_SECONDS = 10.0  # what pods hold is as the kubelet said; if that is older, it is said when

_COLUMNS = (
    Column("RESOURCE"),
    Column("STATE", min_width=12),
    Column("HEALTHY", right=True),
    Column("IN USE", right=True, drop_order=1),
    Column("SINCE", drop_order=2),
)
_WIDE_COLUMNS = (Column("EXPECTED", right=True), Column("STREAMS", right=True), Column("CLASS"), Column("ORIGIN"))


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of `status`."""
    parser.add_argument("resource", nargs="?", metavar="RESOURCE", help="this one alone, with its devices")
    parser.add_argument("--watch", action="store_true", help="say it again at each change")


def run(arguments: argparse.Namespace) -> int:
    """Ask, and print; once, or until Ctrl-C."""
    every = is_json(arguments) or arguments.resource is not None
    request = {"do": "status", "resource": arguments.resource, "devices": None if every else ""}
    answer = ask_agent(arguments, request, refusal_code=NO_SUCH_RESOURCE)
    while not isinstance(answer, int):
        _print_answer(answer, arguments)
        if not arguments.watch:
            return 1 if answer["attention"] else 0
        shown = answer["revision"]
        while not isinstance(answer, int) and answer["revision"] == shown:
            time.sleep(PAUSE_SECONDS)
            patient = {**request, "unlike": shown, "seconds": WATCH_SECONDS}
            answer = ask_agent(arguments, patient, wait_seconds=WATCH_SECONDS, refusal_code=NO_SUCH_RESOURCE)
    return answer


def _print_answer(answer: ControlAnswer, arguments: argparse.Namespace) -> None:
    if is_json(arguments):
        print_json(answer, arguments)
    elif arguments.output == "name":
        for one in answer["resources"]:
            named = [one["name"]] if arguments.resource is None else [device["id"] for device in one["devices"]]
            print("\n".join(named))
    else:
        terminal = Terminal.detect(sys.stdout, colour=arguments.color, utc=arguments.utc)
        fold = terminal.width is not None and not arguments.verbose
        wide = arguments.output == "wide"
        print("\n".join(format_status(answer, terminal, devices=arguments.resource is not None, fold=fold, wide=wide)))
        if arguments.watch:
            print()
    sys.stdout.flush()


def format_status(
    answer: ControlAnswer,
    terminal: Terminal,
    *,
    devices: bool = False,
    fold: bool = False,
    wide: bool = False,
) -> list[str]:
    """A status for people.

    devices: whether each of them has its line. fold: whether resources that
    wait for one thing are one row. wide: whether more is said of each resource.
    """
    attention = answer["attention"]
    said = format_agent_summary(answer, terminal)
    said += format_problems(answer, terminal) if attention else []
    said += [terminal.make_displayable(line) for line in _format_drains(answer, terminal)]
    said += _format_table(answer, terminal, fold=fold, wide=wide)
    if devices:
        said += [line for resource in answer["resources"] for line in format_device_table(answer, resource, terminal)]
    if not attention:
        said.append("Nothing needs a person.")
    return said


def format_holders(holders: Sequence[ControlAnswer]) -> str:
    """The pods that hold something; each once."""
    return escape(", ".join(dict.fromkeys(f"{one['namespace']}/{one['pod']}" for one in holders)))


def build_times(answer: ControlAnswer, terminal: Terminal) -> Times:
    """The times of an answer, as its reader wants them."""
    return Times(answer["time"], utc=terminal.utc)


def format_agent_summary(answer: ControlAnswer, terminal: Terminal) -> list[str]:
    """The first lines: which agent this is, and how things are."""
    return [*_format_summary_lines(answer, terminal)]


def _format_summary_lines(answer: ControlAnswer, terminal: Terminal) -> Iterator[str]:
    config, kubelet = answer["config"], answer["kubelet"]
    times = build_times(answer, terminal)
    mark = terminal.style("✖" if answer["attention"] else "●", "red" if answer["attention"] else "")
    shown, all_of_them = answer["resources"], config.get("resources", len(answer["resources"]))  # an older agent
    resources, files = format_count(all_of_them, "resource"), format_count(config["files"], "file")
    uptime = format_duration(answer["up_seconds"])
    yield terminal.make_displayable(
        f"{mark} device-agent {answer['version']} on {escape(answer['node'])}, up {uptime}, "
        f"configuration {config['digest']} of {times.format_time(config['loaded'])} ({resources}, {files})"
    )
    up = {"up": f"up {times.format_age(kubelet['since'] or answer['time'])}", "down": "down", None: "not seen yet"}
    healthy = sum(one["healthy"] for one in answer["resources"])
    total = healthy + sum(one["unhealthy"] for one in answer["resources"])
    last = [f"last change {times.format_time(answer['changes'][-1]['time'])}"] if answer["changes"] else []
    alone = shown[0] if 0 < len(shown) < all_of_them else None  # the one that was asked for
    streaming = f"{alone['name']} {alone['state']}" if alone else f"{answer['streaming']} of {len(shown)} streaming"
    parts = (
        f"kubelet {up[kubelet['state']]}",
        streaming,
        f"{healthy:,} of {format_count(total, 'device')} Healthy",
        *last,
    )
    yield "  " + (" · " if terminal.unicode else ", ").join(parts)


def format_problems(answer: ControlAnswer, terminal: Terminal) -> Iterator[str]:
    """What needs a person, each with its next step."""
    problems = answer["attention"]
    times = build_times(answer, terminal)
    yield f"  {len(problems)} thing{' needs' if len(problems) == 1 else 's need'} a person:"
    widest = max(len(problem["subject"]) for problem in problems)
    for number, problem in enumerate(problems, 1):
        begun = f" since {times.format_since(problem['since'])}" if problem["since"] else ""
        reason = f": {escape(problem['reason'])}" if problem["reason"] else ""
        subject = terminal.style(f"{problem['subject']:{widest}}", "red")
        yield terminal.make_displayable(
            f"  {number} {subject}  {_format_devices(problem)}{problem['what']}{begun}{reason}"
        )
        indent = " " * (widest + 6)
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
    first = escape(devices[0] if place == devices[0] else f"{devices[0]} at {place}")
    return f"{first} " if len(devices) == 1 else f"{len(devices)} devices, the first {first}, "


def _format_drains(answer: ControlAnswer, terminal: Terminal) -> Iterator[str]:
    times = build_times(answer, terminal)
    for one in answer["drained"]:
        what = one["resource"] or " ".join(one["devices"]) or f"{one['place']}, where nothing is now,"
        reason = f" ({escape(one['drained']['reason'])})" if one["drained"]["reason"] else ""
        yield f"  drained: {escape(what)}{reason} since {times.format_since(one['drained']['since'])}"


def _format_table(answer: ControlAnswer, terminal: Terminal, *, fold: bool, wide: bool) -> list[str]:
    times, resources = build_times(answer, terminal), answer["resources"]
    told = [one["in_use_as_of"] for one in resources if one["in_use_as_of"]]
    stale = f"* as the kubelet said at {times.format_time(max(told))}." if told and _is_stale(told, times) else ""
    folded = _fold_resources(resources) if fold else [[one] for one in resources]
    rows = [_build_row(same, times, mark="*" * bool(stale), wide=wide) for same in folded]
    columns = [*_COLUMNS, *_WIDE_COLUMNS] if wide else [*_COLUMNS]
    columns[3] = Column(f"IN USE{'*' * bool(stale)}", right=True, drop_order=1)
    return [*render(columns, rows, terminal), *([stale] if stale else [])]


def _is_stale(told: Sequence[str], times: Times) -> bool:
    return times.measure_age(max(told)) > STALE_SECONDS


def _build_row(same: Sequence[ControlAnswer], times: Times, *, mark: str, wide: bool) -> Row:
    """A resource; or several that are the same."""
    one = same[0]
    waiting = one["waiting_for"]
    in_use = [each["in_use"] for each in same]
    cells = [
        one["name"] if len(same) == 1 else f"+ {len(same)} alike",
        f"{one['state']}: {escape(waiting)}" if waiting else one["state"],
        f"{one['healthy']:,}/{one['healthy'] + one['unhealthy']:,}" if len(same) == 1 else "all Healthy",
        "?" if None in in_use else f"{sum(in_use):,}{mark}",
        times.format_time(min(each["since"] for each in same)),
    ]
    if wide:
        cells += ["–" if one["expected"] is None else str(one["expected"]), str(one["streams"])]
        cells += [escape(one["class"] or "–"), escape(one["origin"] or "–")]
    return Row(tuple(cells), "yellow" if waiting else "")


def _fold_resources(resources: Sequence[ControlAnswer]) -> list[list[ControlAnswer]]:
    """The resources; of those that only wait, and all for one thing, the row of the last has all."""
    found: dict[str, list[ControlAnswer]] = {}
    for one in resources:
        key = one["waiting_for"] if one["waiting_for"] and not one["unhealthy"] else None
        found.setdefault(f"for {key}" if key else one["name"], []).append(one)
    return sorted(found.values(), key=lambda same: len(same) > 1)


def format_device_table(answer: ControlAnswer, resource: ControlAnswer, terminal: Terminal) -> list[str]:
    """The devices of a resource, worst first."""
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
                one["id"] + (f" ×{one['shares']}" if one["shares"] is not None else ""),
                escape(one["address"]),
                " ".join(map(str, one["numa"])) or "–",
                one["health"],
                times.format_time(one["since"]),
                format_holders(one["held_by"]) or "–",
                escape(one["reason"] or ("in its pod, and not on the host" if one["in_pod"] else "")),
            ),
            "red" if one["health"] != "Healthy" and not one["drained"] else "",
        )
        for one in sorted(resource["devices"], key=lambda one: one["health"] == "Healthy")
    ]
    return ["", *render(columns, rows, terminal)] if rows else []
