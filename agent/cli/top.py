"""Show the status of the agent on the whole terminal, and refresh it every second. Press q to end.

Press up and down to select a resource. Its devices and their pods appear below. Press / to filter, s to sort, u to show
only problems, and ? for help. The command changes nothing.
Sends requests to the running agent, as root.
Exit code 0: success. 2: the output is no terminal (use status). 3: no agent is running. 5: no permission.
"""

from __future__ import annotations

import argparse
import os
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from agent.cli.agent_client import AgentUnreachable, ask_agent, find_control_socket, send_request
from agent.cli.output import fail
from agent.cli.status import build_times, format_agent_summary, format_device_table
from agent.cli.table import Column, Row, render
from agent.cli.terminal import Terminal, cut
from agent.control.control_socket import ControlAnswer
from agent.core.language.safe_text import count_columns, escape, format_count
from agent.core.struct import Struct, replace

QUIET = False
NO_TERMINAL = 2
REFRESH_SECONDS = 1.0  # between two refreshes
ANSWER_SECONDS = 5.0
ORDERS = ("name", "in use", "unhealthy")
END_KEYS = (b"q", b"Q", b"\x03", b"\x04")
KEY_HINTS = "↑↓ move  ⏎ devices  / filter  s sort  u only unhealthy  ? help  q end"
HELP_LINES = (
    "k j, ↑ ↓   another resource",
    "⏎          show or hide its devices and the pods that hold them",
    "/          only resources with this text in their name; ⏎ confirms, Esc shows all",
    f"s          sort by {', '.join(ORDERS)}",
    "u          only resources with a device that is not Healthy, or that wait",
    "q          end",
    "It asks the agent each second, and changes nothing. For the cause of a problem: device-agent explain NAME",
)
_BAR_CELLS = 10  # width of a bar
_SHOWN_CHANGES = 3  # number of last changes on the screen
_CHANGES_MIN_HEIGHT = 24  # lines; a lower screen shows no last changes
_UP_KEYS, _DOWN_KEYS = (b"\x1b[A", b"\x1bOA", b"k"), (b"\x1b[B", b"\x1bOB", b"j")


def add(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""
    del parser


def run(arguments: argparse.Namespace) -> int:
    """Show the status until the user presses q. Return the exit code."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return fail(arguments, "the output is no terminal; use device-agent status", NO_TERMINAL)
    answer = ask_agent(arguments, {"do": "status", "devices": ""})
    if isinstance(answer, int):
        return answer
    path = find_control_socket(arguments)
    view: TopView | None = TopView()
    with _open_screen():
        while view is not None:
            names = [resource["name"] for resource in select_resources(answer, view)]
            if view.chosen_resource not in names:
                view = replace(view, chosen_resource=names[0] if names else "")
            response = send_request(
                path, {"do": "status", "devices": view.chosen_resource if view.shows_devices else ""}, ANSWER_SECONDS
            )
            failure = response.reason if isinstance(response, AgentUnreachable) else str(response.get("error", ""))
            answer = answer if failure else cast("ControlAnswer", response)
            terminal = Terminal.detect(sys.stdout, colour=arguments.color, utc=arguments.utc)
            _paint(format_screen(answer, view, failure, terminal, shutil.get_terminal_size().lines))
            key = _read_key()
            view = view if key is None else apply_key(view, key, answer)
    return 0


def _paint(lines: Sequence[str]) -> None:
    """Write each line over the old line, so that the screen does not flicker.

    The terminal cuts long lines, because wrapping is off.
    """
    screen_text = "\r\n".join(f"{line}\033[K" for line in lines)
    sys.stdout.write(f"\033[H{screen_text}\033[J")
    sys.stdout.flush()


def _read_key() -> bytes | None:
    """Return the next key, or None if no key comes before the next refresh."""
    if not select.select([sys.stdin], [], [], REFRESH_SECONDS)[0]:
        return None
    return os.read(sys.stdin.fileno(), 8) or b"q"


@contextmanager
def _open_screen() -> Iterator[None]:
    """Switch to the alternate screen and read keys without line buffering. Restore the terminal at the end."""
    keyboard = sys.stdin.fileno()
    previous_settings = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        sys.stdout.write("\033[?1049h\033[?25l\033[?7l")
        yield
    finally:
        sys.stdout.write("\033[?7h\033[?25h\033[?1049l")
        sys.stdout.flush()
        termios.tcsetattr(keyboard, termios.TCSADRAIN, previous_settings)


class TopView(Struct):
    """The choices of the user.

    chosen_resource: the marked resource. name_filter: text that the shown resource names contain. is_typing: keys are
    characters of that text.
    """

    chosen_resource: str = ""
    name_filter: str = ""
    is_typing: bool = False
    order: str = ORDERS[0]
    only_unhealthy: bool = False
    shows_devices: bool = True
    shows_help: bool = False


def apply_key(view: TopView, key: bytes, answer: ControlAnswer) -> TopView | None:
    """Return the view after a key, or None if the key ends the program."""
    if view.is_typing:
        return _apply_typed_key(view, key)
    if key in END_KEYS:
        return None
    if key in _UP_KEYS or key in _DOWN_KEYS:
        names = [resource["name"] for resource in select_resources(answer, view)]
        if not names:
            return view
        index = names.index(view.chosen_resource) if view.chosen_resource in names else 0
        return replace(
            view, chosen_resource=names[max(0, min(index + (key in _DOWN_KEYS) - (key in _UP_KEYS), len(names) - 1))]
        )
    match key:
        case b"\r" | b"\n":
            return replace(view, shows_devices=not view.shows_devices)
        case b"/":
            return replace(view, is_typing=True, name_filter="")
        case b"\x1b":
            return replace(view, name_filter="", shows_help=False)
        case b"s":
            return replace(view, order=ORDERS[(ORDERS.index(view.order) + 1) % len(ORDERS)])
        case b"u":
            return replace(view, only_unhealthy=not view.only_unhealthy)
        case b"?":
            return replace(view, shows_help=not view.shows_help)
        case _:
            return view


def _apply_typed_key(view: TopView, key: bytes) -> TopView | None:
    if key == b"\x03":
        return None
    if key in {b"\r", b"\n"}:
        return replace(view, is_typing=False)
    if key == b"\x1b":
        return replace(view, is_typing=False, name_filter="")
    if key in {b"\x7f", b"\b"}:
        return replace(view, name_filter=view.name_filter[:-1])
    text = key.decode("ascii", "ignore")
    return replace(view, name_filter=view.name_filter + text) if text.isprintable() else view


def select_resources(answer: ControlAnswer, view: TopView) -> list[ControlAnswer]:
    """Return the resources that pass the filters of the view, in the chosen order."""
    selected = [
        resource
        for resource in answer["resources"]
        if view.name_filter in resource["name"]
        and (not view.only_unhealthy or resource["unhealthy"] or resource["waiting_for"])
    ]
    if view.order == "in use":
        selected.sort(key=lambda resource: -(resource["in_use"] or 0))
    elif view.order == "unhealthy":
        selected.sort(key=lambda resource: (not resource["waiting_for"], -resource["unhealthy"]))
    return selected


def format_screen(answer: ControlAnswer, view: TopView, failure: str, terminal: Terminal, height: int) -> list[str]:
    """Return the lines of a screen with `height` lines.

    failure: the reason why the agent does not answer, or an empty string if it answers.
    """
    lines = [terminal.style(escape(f"old data: {failure}"), "red")] if failure else []
    lines += [_fit_line(line, terminal) for line in format_agent_summary(answer, terminal)]
    keys = KEY_HINTS if terminal.has_unicode else KEY_HINTS.replace("↑↓", "k j").replace("⏎", "CR")
    keys = f"/{view.name_filter}" if view.is_typing else keys
    if view.shows_help:
        lines += ["", *HELP_LINES]
    else:
        lines += _format_problems(answer, terminal, max(1, height // 4))
        changes = _format_changes(answer, terminal) if height >= _CHANGES_MIN_HEIGHT else []
        available_rows = height - len(lines) - len(changes) - 1
        lines += _format_body(answer, view, terminal, available_rows)
        lines += changes
    visible_lines = [terminal.make_displayable(line) for line in lines[: height - 1]]
    return [
        *visible_lines,
        *[""] * (height - 1 - len(visible_lines)),
        f"/{view.name_filter}" if view.is_typing else keys,
    ]


def _format_problems(answer: ControlAnswer, terminal: Terminal, max_lines: int) -> list[str]:
    """Return one line for each problem."""
    problems = answer["attention"]
    times = build_times(answer, terminal)
    lines = []
    for problem in problems[:max_lines]:
        devices = f"{escape(problem['devices'][0])} " if problem["devices"] else ""
        more_devices = f"and {len(problem['devices']) - 1} more " if len(problem["devices"]) > 1 else ""
        age = f" {times.format_age(problem['since'])}" if problem["since"] else ""
        reason = f": {escape(problem['reason'])}" if problem["reason"] else ""
        line = f"! {problem['subject']} {devices}{more_devices}{problem['what']}{age}{reason}"
        lines.append(terminal.style(_fit_line(line, terminal), "red"))
    if len(problems) > max_lines:
        lines.append(f"! {len(problems) - max_lines} more: device-agent status")
    return lines


def _format_body(answer: ControlAnswer, view: TopView, terminal: Terminal, available_rows: int) -> list[str]:
    """Return the rows of the resources around the chosen one. Below them add the devices of the chosen resource."""
    selected = select_resources(answer, view)
    names = [resource["name"] for resource in selected]
    index = names.index(view.chosen_resource) if view.chosen_resource in names else 0
    devices: list[str] = []
    if selected and view.shows_devices and selected[index]["devices"]:
        title = f"{names[index]}: {format_count(len(selected[index]['devices']), 'device')}, worst first"
        devices = [_format_heading(title, terminal), *format_device_table(answer, selected[index], terminal)[1:]]
    rows = max(3, available_rows - 1 - min(len(devices), available_rows // 2))
    first_row = max(0, min(index - rows // 2, len(selected) - rows))
    table = _format_table(answer, selected[first_row : first_row + rows], terminal, marked_row=index - first_row)
    if not selected:
        table.append("no resource matches; u and Esc show all")
    return [*table, *devices[: max(0, available_rows - len(table))]]


def _format_table(
    answer: ControlAnswer, selected: Sequence[ControlAnswer], terminal: Terminal, marked_row: int
) -> list[str]:
    times = build_times(answer, terminal)
    last_changes = {change["resource"]: change["time"] for change in answer["changes"]}
    titles = (
        Column("  RESOURCE"),
        Column("STATE", min_width=12),
        Column("HEALTHY", right=True),
        Column("IN USE", drop_order=1),
        Column("LAST CHANGE", drop_order=2),
    )
    rows = []
    for index, resource in enumerate(selected):
        device_count = resource["healthy"] + resource["unhealthy"]
        cause = resource["waiting_for"]
        cells = (
            f"{'>' if index == marked_row else ' '} {resource['name']}",
            f"{resource['state']}: {escape(cause)}" if cause else resource["state"],
            f"{resource['healthy']:,}/{device_count:,}",
            "?"
            if resource["in_use"] is None
            else f"{_format_bar(resource['in_use'], device_count)} {resource['in_use']:,}",
            times.format_age(last_changes[resource["name"]]) if resource["name"] in last_changes else "–",
        )
        rows.append(Row(cells, "yellow" if cause else ""))
    return render(titles, rows, terminal)


def _format_bar(part: int, whole: int) -> str:
    """Return a bar of part in whole. An empty bar means exactly zero, a full bar means all."""
    partial = max(1, min(_BAR_CELLS - 1, part * _BAR_CELLS // max(1, whole)))
    full_cells = 0 if not part else _BAR_CELLS if part >= whole else partial
    return "█" * full_cells + "░" * (_BAR_CELLS - full_cells)


def _format_changes(answer: ControlAnswer, terminal: Terminal) -> list[str]:
    """Return lines with the last changes. The newest change comes first."""
    times = build_times(answer, terminal)
    lines = []
    for change in reversed(answer["changes"][-_SHOWN_CHANGES:]):
        reason = f": {escape(change['reason'])}" if change["reason"] else ""
        transition = f"{change['from'] or 'new'} → {change['to'] or 'gone'}"
        lines.append(
            f"{times.format_time(change['time'])} {change['resource']} {escape(change['id'])} {transition}{reason}"
        )
    return [_format_heading("last changes", terminal), *(_fit_line(line, terminal) for line in lines)] if lines else []


def _fit_line(line: str, terminal: Terminal) -> str:
    return cut(line, terminal.width or count_columns(line))


def _format_heading(title: str, terminal: Terminal) -> str:
    return f"── {title} ".ljust(terminal.width or 0, "─")
