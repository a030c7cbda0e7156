"""The picture that `top` paints: what is chosen in it, what a key does to that, and its lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.cli.status import build_times, format_agent_summary, format_device_table
from agent.cli.table import Column, Row, render
from agent.cli.terminal import Terminal, cut
from agent.control.control_socket import ControlAnswer
from agent.core.language.safe_text import count_columns, escape, format_count
from agent.core.struct import Struct, replace

ORDERS = ("name", "in use", "unhealthy")
END_KEYS = (b"q", b"Q", b"\x03", b"\x04")
KEY_HINTS = "↑↓ move  ⏎ devices  / filter  s sort  u only unhealthy  ? help  q end"
HELP_LINES = (
    "k j, ↑ ↓   another resource",
    "⏎          show its devices and the pods that hold them, or do not",
    "/          only resources with this text in their name; ⏎ when it is typed, Esc for all",
    f"s          sort by {', '.join(ORDERS)}",
    "u          only resources with a device that is not Healthy, or that wait",
    "q          end",
    "It asks the agent each second, and changes nothing. Why something is off: device-agent explain NAME",
)
_BAR_CELLS = 10  # of a bar
_SHOWN_CHANGES = 3  # that are shown
_CHANGES_MIN_HEIGHT = 24  # lines; with fewer there are no last changes
_UP_KEYS, _DOWN_KEYS = (b"\x1b[A", b"\x1bOA", b"k"), (b"\x1b[B", b"\x1bOB", b"j")


class TopView(Struct):
    """What a person wants to see.

    chosen: the resource that is pointed at. only: text that names have. typing: keys are that text.
    """

    chosen_resource: str = ""
    name_filter: str = ""
    is_typing: bool = False
    order: str = ORDERS[0]
    only_unhealthy: bool = False
    shows_devices: bool = True
    shows_help: bool = False


def apply_key(view: TopView, key: bytes, answer: ControlAnswer) -> TopView | None:
    """The view after a key; none if it was to end."""
    if view.is_typing:
        return _apply_typed_key(view, key)
    if key in END_KEYS:
        return None
    if key in _UP_KEYS or key in _DOWN_KEYS:
        names = [one["name"] for one in select_resources(answer, view)]
        if not names:
            return view
        at = names.index(view.chosen_resource) if view.chosen_resource in names else 0
        return replace(
            view, chosen_resource=names[max(0, min(at + (key in _DOWN_KEYS) - (key in _UP_KEYS), len(names) - 1))]
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
    """The resources that are wanted, in their order."""
    wanted = [
        one
        for one in answer["resources"]
        if view.name_filter in one["name"] and (not view.only_unhealthy or one["unhealthy"] or one["waiting_for"])
    ]
    if view.order == "in use":
        wanted.sort(key=lambda one: -(one["in_use"] or 0))
    elif view.order == "unhealthy":
        wanted.sort(key=lambda one: (not one["waiting_for"], -one["unhealthy"]))
    return wanted


def format_screen(answer: ControlAnswer, view: TopView, gone: str, terminal: Terminal, height: int) -> list[str]:
    """What is on a screen of that height.

    gone: why the agent does not answer any more; empty if it does.
    """
    shown = [terminal.style(escape(f"not of now: {gone}"), "red")] if gone else []
    shown += [_fit_line(line, terminal) for line in format_agent_summary(answer, terminal)]
    keys = KEY_HINTS if terminal.unicode else KEY_HINTS.replace("↑↓", "k j").replace("⏎", "CR")
    keys = f"/{view.name_filter}" if view.is_typing else keys
    if view.shows_help:
        shown += ["", *HELP_LINES]
    else:
        shown += _format_problems(answer, terminal, max(1, height // 4))
        changes = _format_changes(answer, terminal) if height >= _CHANGES_MIN_HEIGHT else []
        room = height - len(shown) - len(changes) - 1
        shown += _format_body(answer, view, terminal, room)
        shown += changes
    kept = [terminal.make_displayable(line) for line in shown[: height - 1]]
    return [*kept, *[""] * (height - 1 - len(kept)), f"/{view.name_filter}" if view.is_typing else keys]


def _format_problems(answer: ControlAnswer, terminal: Terminal, most: int) -> list[str]:
    """What needs a person, a line each."""
    problems = answer["attention"]
    times = build_times(answer, terminal)
    lines = []
    for one in problems[:most]:
        devices = f"{escape(one['devices'][0])} " if one["devices"] else ""
        more = f"and {len(one['devices']) - 1} more " if len(one["devices"]) > 1 else ""
        age = f" {times.format_age(one['since'])}" if one["since"] else ""
        reason = f": {escape(one['reason'])}" if one["reason"] else ""
        line = f"! {one['subject']} {devices}{more}{one['what']}{age}{reason}"
        lines.append(terminal.style(_fit_line(line, terminal), "red"))
    if len(problems) > most:
        lines.append(f"! {len(problems) - most} more: device-agent status")
    return lines


def _format_body(answer: ControlAnswer, view: TopView, terminal: Terminal, room: int) -> list[str]:
    """The resources, as many as fit around the one that is chosen, and below them its devices."""
    wanted = select_resources(answer, view)
    names = [one["name"] for one in wanted]
    at = names.index(view.chosen_resource) if view.chosen_resource in names else 0
    devices: list[str] = []
    if wanted and view.shows_devices and wanted[at]["devices"]:
        title = f"{names[at]}: {format_count(len(wanted[at]['devices']), 'device')}, worst first"
        devices = [_format_heading(title, terminal), *format_device_table(answer, wanted[at], terminal)[1:]]
    rows = max(3, room - 1 - min(len(devices), room // 2))
    first = max(0, min(at - rows // 2, len(wanted) - rows))
    table = _format_table(answer, wanted[first : first + rows], terminal, pointed=at - first)
    if not wanted:
        table.append("no resource is like that; u and Esc show all")
    return [*table, *devices[: max(0, room - len(table))]]


def _format_table(
    answer: ControlAnswer, wanted: Sequence[ControlAnswer], terminal: Terminal, pointed: int
) -> list[str]:
    times = build_times(answer, terminal)
    last = {change["resource"]: change["time"] for change in answer["changes"]}
    titles = (
        Column("  RESOURCE"),
        Column("STATE", min_width=12),
        Column("HEALTHY", right=True),
        Column("IN USE", drop_order=1),
        Column("LAST CHANGE", drop_order=2),
    )
    rows = []
    for index, one in enumerate(wanted):
        total = one["healthy"] + one["unhealthy"]
        waiting = one["waiting_for"]
        cells = (
            f"{'>' if index == pointed else ' '} {one['name']}",
            f"{one['state']}: {escape(waiting)}" if waiting else one["state"],
            f"{one['healthy']:,}/{total:,}",
            "?" if one["in_use"] is None else f"{_format_bar(one['in_use'], total)} {one['in_use']:,}",
            times.format_age(last[one["name"]]) if one["name"] in last else "–",
        )
        rows.append(Row(cells, "yellow" if waiting else ""))
    return render(titles, rows, terminal)


def _format_bar(part: int, whole: int) -> str:
    """How much of it; empty and full are only what is nothing and all."""
    some = max(1, min(_BAR_CELLS - 1, part * _BAR_CELLS // max(1, whole)))
    full = 0 if not part else _BAR_CELLS if part >= whole else some
    return "█" * full + "░" * (_BAR_CELLS - full)


def _format_changes(answer: ControlAnswer, terminal: Terminal) -> list[str]:
    """What changed last, newest first."""
    times = build_times(answer, terminal)
    lines = []
    for one in reversed(answer["changes"][-_SHOWN_CHANGES:]):
        reason = f": {escape(one['reason'])}" if one["reason"] else ""
        way = f"{one['from'] or 'new'} → {one['to'] or 'gone'}"
        lines.append(f"{times.format_time(one['time'])} {one['resource']} {escape(one['id'])} {way}{reason}")
    return [_format_heading("last changes", terminal), *(_fit_line(line, terminal) for line in lines)] if lines else []


def _fit_line(line: str, terminal: Terminal) -> str:
    return cut(line, terminal.width or count_columns(line))


def _format_heading(title: str, terminal: Terminal) -> str:
    return f"── {title} ".ljust(terminal.width or 0, "─")
