"""The picture that `top` paints: what is chosen in it, what a key does to that, and its lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.cli.status import device_table, summary, times_of
from agent.cli.table import Column, Row, render
from agent.cli.terminal import Terminal, cut
from agent.control.control_socket import ControlAnswer
from agent.core.language.safe_text import count_columns, escape, format_count
from agent.core.struct import Struct, replace

ORDERS = ("name", "in use", "unhealthy")
END = (b"q", b"Q", b"\x03", b"\x04")
KEYS = "↑↓ move  ⏎ devices  / filter  s sort  u only unhealthy  ? help  q end"
HELP = (
    "k j, ↑ ↓   another resource",
    "⏎          show its devices and the pods that hold them, or do not",
    "/          only resources with this text in their name; ⏎ when it is typed, Esc for all",
    f"s          sort by {', '.join(ORDERS)}",
    "u          only resources with a device that is not Healthy, or that wait",
    "q          end",
    "It asks the agent each second, and changes nothing. Why something is off: device-agent explain NAME",
)
_CELLS = 10  # of a bar
_CHANGES = 3  # that are shown
_SMALL = 24  # lines; with fewer there are no last changes
_UP, _DOWN = (b"\x1b[A", b"\x1bOA", b"k"), (b"\x1b[B", b"\x1bOB", b"j")


class TopView(Struct):
    """What a person wants to see.

    chosen: the resource that is pointed at. only: text that names have. typing: keys are that text.
    """

    chosen: str = ""
    only: str = ""
    typing: bool = False
    order: str = ORDERS[0]
    unhealthy: bool = False
    devices: bool = True
    help: bool = False


def pressed(view: TopView, key: bytes, answer: ControlAnswer) -> TopView | None:
    """The view after a key; none if it was to end."""
    if view.typing:
        return _typed(view, key)
    if key in END:
        return None
    if key in _UP or key in _DOWN:
        names = [one["name"] for one in resources(answer, view)]
        if not names:
            return view
        at = names.index(view.chosen) if view.chosen in names else 0
        return replace(view, chosen=names[max(0, min(at + (key in _DOWN) - (key in _UP), len(names) - 1))])
    match key:
        case b"\r" | b"\n":
            return replace(view, devices=not view.devices)
        case b"/":
            return replace(view, typing=True, only="")
        case b"\x1b":
            return replace(view, only="", help=False)
        case b"s":
            return replace(view, order=ORDERS[(ORDERS.index(view.order) + 1) % len(ORDERS)])
        case b"u":
            return replace(view, unhealthy=not view.unhealthy)
        case b"?":
            return replace(view, help=not view.help)
        case _:
            return view


def _typed(view: TopView, key: bytes) -> TopView | None:
    if key == b"\x03":
        return None
    if key in {b"\r", b"\n"}:
        return replace(view, typing=False)
    if key == b"\x1b":
        return replace(view, typing=False, only="")
    if key in {b"\x7f", b"\b"}:
        return replace(view, only=view.only[:-1])
    text = key.decode("ascii", "ignore")
    return replace(view, only=view.only + text) if text.isprintable() else view


def resources(answer: ControlAnswer, view: TopView) -> list[ControlAnswer]:
    """The resources that are wanted, in their order."""
    wanted = [
        one
        for one in answer["resources"]
        if view.only in one["name"] and (not view.unhealthy or one["unhealthy"] or one["waiting_for"])
    ]
    if view.order == "in use":
        wanted.sort(key=lambda one: -(one["in_use"] or 0))
    elif view.order == "unhealthy":
        wanted.sort(key=lambda one: (not one["waiting_for"], -one["unhealthy"]))
    return wanted


def picture(answer: ControlAnswer, view: TopView, gone: str, terminal: Terminal, height: int) -> list[str]:
    """What is on a screen of that height.

    gone: why the agent does not answer any more; empty if it does.
    """
    shown = [terminal.style(escape(f"not of now: {gone}"), "red")] if gone else []
    shown += [_fitting(line, terminal) for line in summary(answer, terminal)]
    keys = KEYS if terminal.unicode else KEYS.replace("↑↓", "k j").replace("⏎", "CR")
    keys = f"/{view.only}" if view.typing else keys
    if view.help:
        shown += ["", *HELP]
    else:
        shown += _problems(answer, terminal, max(1, height // 4))
        changes = _changes(answer, terminal) if height >= _SMALL else []
        room = height - len(shown) - len(changes) - 1
        shown += _body(answer, view, terminal, room)
        shown += changes
    kept = [terminal.text(line) for line in shown[: height - 1]]
    return [*kept, *[""] * (height - 1 - len(kept)), f"/{view.only}" if view.typing else keys]


def _problems(answer: ControlAnswer, terminal: Terminal, most: int) -> list[str]:
    """What needs a person, a line each."""
    problems = answer["attention"]
    times = times_of(answer, terminal)
    lines = []
    for one in problems[:most]:
        devices = f"{escape(one['devices'][0])} " if one["devices"] else ""
        more = f"and {len(one['devices']) - 1} more " if len(one["devices"]) > 1 else ""
        age = f" {times.age(one['since'])}" if one["since"] else ""
        reason = f": {escape(one['reason'])}" if one["reason"] else ""
        line = f"! {one['subject']} {devices}{more}{one['what']}{age}{reason}"
        lines.append(terminal.style(_fitting(line, terminal), "red"))
    if len(problems) > most:
        lines.append(f"! {len(problems) - most} more: device-agent status")
    return lines


def _body(answer: ControlAnswer, view: TopView, terminal: Terminal, room: int) -> list[str]:
    """The resources, as many as fit around the one that is chosen, and below them its devices."""
    wanted = resources(answer, view)
    names = [one["name"] for one in wanted]
    at = names.index(view.chosen) if view.chosen in names else 0
    devices: list[str] = []
    if wanted and view.devices and wanted[at]["devices"]:
        title = f"{names[at]}: {format_count(len(wanted[at]['devices']), 'device')}, worst first"
        devices = [_rule(title, terminal), *device_table(answer, wanted[at], terminal)[1:]]
    rows = max(3, room - 1 - min(len(devices), room // 2))
    first = max(0, min(at - rows // 2, len(wanted) - rows))
    table = _table(answer, wanted[first : first + rows], terminal, pointed=at - first)
    if not wanted:
        table.append("no resource is like that; u and Esc show all")
    return [*table, *devices[: max(0, room - len(table))]]


def _table(answer: ControlAnswer, wanted: Sequence[ControlAnswer], terminal: Terminal, pointed: int) -> list[str]:
    times = times_of(answer, terminal)
    last = {change["resource"]: change["time"] for change in answer["changes"]}
    titles = (
        Column("  RESOURCE"),
        Column("STATE", narrowest=12),
        Column("HEALTHY", right=True),
        Column("IN USE", leaves=1),
        Column("LAST CHANGE", leaves=2),
    )
    rows = []
    for index, one in enumerate(wanted):
        total = one["healthy"] + one["unhealthy"]
        waiting = one["waiting_for"]
        cells = (
            f"{'>' if index == pointed else ' '} {one['name']}",
            f"{one['state']}: {escape(waiting)}" if waiting else one["state"],
            f"{one['healthy']:,}/{total:,}",
            "?" if one["in_use"] is None else f"{_bar(one['in_use'], total)} {one['in_use']:,}",
            times.age(last[one["name"]]) if one["name"] in last else "–",
        )
        rows.append(Row(cells, "yellow" if waiting else ""))
    return render(titles, rows, terminal)


def _bar(part: int, whole: int) -> str:
    """How much of it; empty and full are only what is nothing and all."""
    some = max(1, min(_CELLS - 1, part * _CELLS // max(1, whole)))
    full = 0 if not part else _CELLS if part >= whole else some
    return "█" * full + "░" * (_CELLS - full)


def _changes(answer: ControlAnswer, terminal: Terminal) -> list[str]:
    """What changed last, newest first."""
    times = times_of(answer, terminal)
    lines = []
    for one in reversed(answer["changes"][-_CHANGES:]):
        reason = f": {escape(one['reason'])}" if one["reason"] else ""
        way = f"{one['from'] or 'new'} → {one['to'] or 'gone'}"
        lines.append(f"{times.when(one['time'])} {one['resource']} {escape(one['id'])} {way}{reason}")
    return [_rule("last changes", terminal), *(_fitting(line, terminal) for line in lines)] if lines else []


def _fitting(line: str, terminal: Terminal) -> str:
    return cut(line, terminal.width or count_columns(line))


def _rule(title: str, terminal: Terminal) -> str:
    return f"── {title} ".ljust(terminal.width or 0, "─")
