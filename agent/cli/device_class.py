"""Device classes: what can be served, each with documentation and an example to paste.

list: all of them, yours and shipped; with --here those that find something on this host, how much, and who has it.
show NAME: what one takes and gives, what it asks, how it is used; --aloud as one sentence with file and line, --toml
the file itself. Exit code 0: answered. 4: no class has this name.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from agent.cli.check import print_descriptions
from agent.cli.host_report.class_entries import compile_classes
from agent.cli.host_report.scan_host import scan_host
from agent.cli.output import fail, is_json, print_json
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
WRONG_COMMAND_LINE = 2
NO_SUCH_CLASS = 4

_COLUMNS = (Column("CLASS"), Column("TAKES", min_width=16), Column("SERVES", min_width=20))


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of `class`."""
    parser.add_argument("what", metavar="list|show", choices=("list", "show"), help="all of them, or one")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the class to show")
    parser.add_argument("--here", action="store_true", help="list: those that find something here, and who has it")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--aloud", action="store_true", help="show: as one sentence, each clause with its file and line")
    how.add_argument("--toml", action="store_true", help="show: the file itself")


def run(arguments: argparse.Namespace) -> int:
    """Print a list or one class."""
    if wrong := _find_usage_error(arguments):
        return fail(arguments, wrong, WRONG_COMMAND_LINE)
    studied = load_with_entries(arguments.config)
    terminal = Terminal.detect(sys.stdout, colour=arguments.color, utc=arguments.utc)
    if arguments.what == "list":
        manuals = [build_manual(studied, name) for name in sorted(studied.library.list_names())]
        here = _find_host_use(studied, Root(arguments.root)) if arguments.here else None
        _print_list(manuals, here, arguments, terminal)
        return 0
    names = studied.library.list_names()
    if arguments.name not in names:
        near = find_nearest(arguments.name, names)
        hint = f"nearest: {near}" if near else "device-agent class list shows them"
        return fail(arguments, f"{arguments.name}: no class has this name; {hint}", NO_SUCH_CLASS)
    _print_class(studied, arguments, terminal)
    return 0


def _find_usage_error(arguments: argparse.Namespace) -> str:
    """What is wrong with the command line; empty if nothing is."""
    if (arguments.what == "show") != (arguments.name is not None):
        return "it is class list, or class show NAME"
    if arguments.here and arguments.what == "show":
        return "--here is of class list"
    if (arguments.aloud or arguments.toml) and arguments.what == "list":
        return "--aloud and --toml are of class show NAME"
    if arguments.toml and arguments.output != "table":
        return f"no output as {arguments.output} of --toml: it is the file itself"
    return ""


class _HostUse(Struct):
    """How many host devices a class finds, and which resources have some of them."""

    count: int
    takers: tuple[str, ...]


def _find_host_use(studied: LoadedConfig, root: Root) -> dict[str, _HostUse]:
    """What each class that can serve as it is finds on this host."""
    classes = compile_classes(studied.library, studied.library.list_names())
    found: dict[str, list[str]] = {spec.class_name: [] for spec in classes if spec.class_name}
    for item in scan_host(root, (), classes, all_sources=False).items:
        for name in item.matching_classes:
            found[name].append(item.host.key)
    taken = scan_host(root, studied.configuration.resources, all_sources=False)
    takers = {item.host.key: item.entry.name for item in taken.items if item.entry}
    return {
        name: _HostUse(len(keys), tuple(dict.fromkeys(takers[key] for key in keys if key in takers)))
        for name, keys in found.items()
    }


def _print_list(
    manuals: Sequence[ClassManual],
    here: Mapping[str, _HostUse] | None,
    arguments: argparse.Namespace,
    terminal: Terminal,
) -> None:
    shown = manuals if here is None else [one for one in manuals if one.name in here and here[one.name].count]
    if is_json(arguments):
        found = [{**_build_json(one), **({} if here is None else asdict(here[one.name]))} for one in shown]
        print_json(found, arguments)
        return
    if arguments.output == "name":
        print("".join(f"{one.name}\n" for one in shown), end="")
        return
    rows = [
        Row(tuple(map(escape, (one.name, one.source_text, one.about, *_format_last_cells(one, here))))) for one in shown
    ]
    last = [Column("")] if here is None else [Column("HERE", right=True), Column("")]
    print("\n".join(render([*_COLUMNS, *last], rows, terminal)))
    own = sum(one.is_local for one in manuals)
    yours = f"; {own} {'is' if own == 1 else 'are'} yours" if own else ""
    count = format_count(len(manuals), "class", "classes")
    all_of = count if here is None else f"{len(shown)} of {count} find{'s' * (len(shown) == 1)} something here"
    summary = f"{all_of}{yours}. One in full, with an example: device-agent class show NAME"
    print(terminal.make_displayable(summary), file=sys.stdout if terminal.width is not None else sys.stderr)


def _format_last_cells(one: ClassManual, here: Mapping[str, _HostUse] | None) -> tuple[str, ...]:
    """The last columns: whose it is, or what it finds."""
    if here is None:
        return ("yours" if one.is_local else "",)
    return (str(here[one.name].count), " ".join(here[one.name].takers))


def _print_class(studied: LoadedConfig, arguments: argparse.Namespace, terminal: Terminal) -> None:
    sentence = studied.library.get_class(arguments.name)
    if arguments.toml:
        print(sentence.tree.spot.document.text, end="")
    elif arguments.output == "name":
        print(arguments.name)
    elif arguments.aloud:
        reading = describe_class(arguments.name, sentence)
        if is_json(arguments):
            print_json(convert_to_json(reading), arguments)
        else:
            print_descriptions([reading], terminal)
    elif is_json(arguments):
        print_json(_build_json(build_manual(studied, arguments.name)), arguments)
    else:
        title, *lines = format_manual(build_manual(studied, arguments.name), terminal.width)
        print(terminal.style(terminal.make_displayable(title), "bold"))
        for line in lines:
            print(terminal.make_displayable(line))


def _build_json(one: ClassManual) -> dict[str, object]:
    return {
        "name": one.name,
        "about": one.about or None,
        "file": one.file,
        "own": one.is_local,
        "part": one.is_base_class,
        "takes": one.source_text,
        "uses": list(one.uses),
        "says": [{"of": section, "text": said} for section, said in one.sections],
        "notes": [{"toml": toml, "text": text} for toml, text in one.notes],
        "example": one.example,
    }
