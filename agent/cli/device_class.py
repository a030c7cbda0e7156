"""List the device classes, or show one of them with its documentation and an example entry.

list: all classes, your own and those of the package. With --here, only classes that match a device of this host, with
the number of devices and the resources that take them.
show NAME: devices, grant, options and use of one class. --aloud prints a description with file and line. --toml prints
the file of the class.
Exit code 0: success. 4: no class has this name.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from agent.cli.check import print_descriptions
from agent.cli.host_report.class_entries import compile_classes
from agent.cli.host_report.scan_host import scan_host
from agent.cli.output import NO_SUCH_NAME, WRONG_COMMAND_LINE, fail, is_json, print_json
from agent.cli.table import Column, Row, render
from agent.cli.terminal import Terminal
from agent.config.describe.class_manual import ClassManual, build_manual, format_manual
from agent.config.describe.descriptions import convert_to_json, describe_class
from agent.config.load import LoadedConfig, load_with_entries
from agent.config.toml.finding import find_nearest
from agent.core.language.safe_text import escape, format_count
from agent.core.struct import Struct, asdict
from agent.host.root import Root

OUTPUTS = ("json", "jsonl", "name")

_COLUMNS = (Column("CLASS"), Column("TAKES", min_width=16), Column("SERVES", min_width=20))


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `class`."""
    parser.add_argument("what", metavar="list|show", choices=("list", "show"), help="list all classes, or show one")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the class to show")
    parser.add_argument(
        "--here",
        action="store_true",
        help="list: only classes that match a device here, and the resources that take it",
    )
    form_group = parser.add_mutually_exclusive_group()
    form_group.add_argument(
        "--aloud", action="store_true", help="show: print a description, each clause with its file and line"
    )
    form_group.add_argument("--toml", action="store_true", help="show: print the file of the class")


def run(arguments: argparse.Namespace) -> int:
    """Print a list of classes or one class. Return the exit code."""
    if usage_error := _find_usage_error(arguments):
        return fail(arguments, usage_error, WRONG_COMMAND_LINE)
    loaded = load_with_entries(arguments.config)
    terminal = Terminal.detect(sys.stdout, colour=arguments.color, utc=arguments.utc)
    if arguments.what == "list":
        manuals = [build_manual(loaded, name) for name in sorted(loaded.library.list_names())]
        host_use = _find_host_use(loaded, Root(arguments.root)) if arguments.here else None
        _print_list(manuals, host_use, arguments, terminal)
        return 0
    names = loaded.library.list_names()
    if arguments.name not in names:
        nearest_name = find_nearest(arguments.name, names)
        hint = f"nearest: {nearest_name}" if nearest_name else "device-agent class list shows all classes"
        return fail(arguments, f"{arguments.name}: no class has this name; {hint}", NO_SUCH_NAME)
    _print_class(loaded, arguments, terminal)
    return 0


def _find_usage_error(arguments: argparse.Namespace) -> str:
    """Return the fault of the command line, or an empty string."""
    if (arguments.what == "show") != (arguments.name is not None):
        return "write class list, or class show NAME"
    if arguments.here and arguments.what == "show":
        return "--here is only for class list"
    if (arguments.aloud or arguments.toml) and arguments.what == "list":
        return "--aloud and --toml are only for class show NAME"
    if arguments.toml and arguments.output != "table":
        return f"-o {arguments.output} has no effect on --toml, which prints the file of the class"
    return ""


class _HostUse(Struct):
    """The number of host devices that a class finds, and the names of the resources that take some of them."""

    count: int
    takers: tuple[str, ...]


def _find_host_use(loaded: LoadedConfig, root: Root) -> dict[str, _HostUse]:
    """Return the use of each class on this host, by class name.

    Leaves out classes that are not valid without other keys.
    """
    classes = compile_classes(loaded.library, loaded.library.list_names())
    keys_by_class: dict[str, list[str]] = {spec.class_name: [] for spec in classes if spec.class_name}
    for item in scan_host(root, (), classes, all_sources=False).items:
        for name in item.matching_classes:
            keys_by_class[name].append(item.host.key)
    report = scan_host(root, loaded.configuration.resources, all_sources=False)
    takers = {item.host.key: item.entry.name for item in report.items if item.entry}
    return {
        name: _HostUse(len(keys), tuple(dict.fromkeys(takers[key] for key in keys if key in takers)))
        for name, keys in keys_by_class.items()
    }


def _print_list(
    manuals: Sequence[ClassManual],
    host_use: Mapping[str, _HostUse] | None,
    arguments: argparse.Namespace,
    terminal: Terminal,
) -> None:
    shown_manuals = (
        manuals
        if host_use is None
        else [manual for manual in manuals if manual.name in host_use and host_use[manual.name].count]
    )
    if is_json(arguments):
        json_values = [
            {**_build_json(manual), **({} if host_use is None else asdict(host_use[manual.name]))}
            for manual in shown_manuals
        ]
        print_json(json_values, arguments)
        return
    if arguments.output == "name":
        print("".join(f"{manual.name}\n" for manual in shown_manuals), end="")
        return
    rows = [
        Row(tuple(map(escape, (manual.name, manual.source_text, manual.about, *_format_last_cells(manual, host_use)))))
        for manual in shown_manuals
    ]
    last_columns = [Column("")] if host_use is None else [Column("HERE", right=True), Column("")]
    print("\n".join(render([*_COLUMNS, *last_columns], rows, terminal)))
    local_count = sum(manual.is_local for manual in manuals)
    local_text = f"; {local_count} {'is' if local_count == 1 else 'are'} yours" if local_count else ""
    count = format_count(len(manuals), "class", "classes")
    count_text = (
        count
        if host_use is None
        else f"{len(shown_manuals)} of {count} match{'es' * (len(shown_manuals) == 1)} a device here"
    )
    summary = f"{count_text}{local_text}. For one class with an example: device-agent class show NAME"
    print(terminal.make_displayable(summary), file=sys.stdout if terminal.width is not None else sys.stderr)


def _format_last_cells(manual: ClassManual, host_use: Mapping[str, _HostUse] | None) -> tuple[str, ...]:
    """Return the last cells of a row: the owner of the class, or the devices that the class finds on this host."""
    if host_use is None:
        return ("yours" if manual.is_local else "",)
    return (str(host_use[manual.name].count), " ".join(host_use[manual.name].takers))


def _print_class(loaded: LoadedConfig, arguments: argparse.Namespace, terminal: Terminal) -> None:
    merged_entry = loaded.library.get_class(arguments.name)
    if arguments.toml:
        print(merged_entry.tree.spot.document.text, end="")
    elif arguments.output == "name":
        print(arguments.name)
    elif arguments.aloud:
        description = describe_class(arguments.name, merged_entry)
        if is_json(arguments):
            print_json(convert_to_json(description), arguments)
        else:
            print_descriptions([description], terminal)
    elif is_json(arguments):
        print_json(_build_json(build_manual(loaded, arguments.name)), arguments)
    else:
        title, *lines = format_manual(build_manual(loaded, arguments.name), terminal.width)
        print(terminal.style(terminal.make_displayable(title), "bold"))
        for line in lines:
            print(terminal.make_displayable(line))


def _build_json(manual: ClassManual) -> dict[str, object]:
    return {
        "name": manual.name,
        "about": manual.about or None,
        "file": manual.file,
        "own": manual.is_local,
        "part": manual.is_base_class,
        "takes": manual.source_text,
        "uses": list(manual.uses),
        "says": [{"of": section, "text": text} for section, text in manual.sections],
        "notes": [{"toml": toml, "text": text} for toml, text in manual.notes],
        "example": manual.example,
    }
