"""What is on this host, and which resource takes it. A fresh look: needs no agent, no kubelet, no root.

Without DEVICE an overview; with one, all that match can say of it and why each entry takes it or not. DEVICE is any
name at hand: /dev/kvm, a link below /dev, 3b:00.0, eth0, a path below /sys, a device id, or how one of these begins.
Exit code 0: answered. 4: no such device, or several.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from agent.cli.inventory.classes import shipped
from agent.cli.inventory.detail import detail
from agent.cli.inventory.one import NO_SUCH_DEVICE, one
from agent.cli.inventory.overview import overview, summary
from agent.cli.inventory.record import record
from agent.cli.inventory.take import Inventory, take
from agent.cli.inventory.vocabulary import as_json as vocabulary_as_json
from agent.cli.inventory.vocabulary import page, source_of, vocabulary
from agent.cli.terminal import Terminal
from agent.config.load import Configuration, load
from agent.config.toml.finding import Severity, nearest
from agent.core.language.printable import counted, escape, printable
from agent.core.language.value import Absent
from agent.host.root import Root
from agent.scanners import catalog

OUTPUTS = ("json",)


def add(parser: argparse.ArgumentParser) -> None:
    """The flags of `scan`."""
    parser.add_argument("device", nargs="?", metavar="DEVICE", help="one device, by any name")
    parser.add_argument("--words", metavar="SOURCE", help="what may be said of a source's devices: pci, net, tty, …")
    parser.add_argument("--all", action="store_true", help="every host device, also those that nothing takes")


def run(arguments: argparse.Namespace) -> int:
    """Look, and print."""
    configuration = load(arguments.config)
    warn(configuration, arguments.config)
    root = Root(arguments.root)
    if arguments.words is not None:
        return _words(
            root,
            arguments.words,
            Terminal.of(sys.stdout, colour=arguments.color, utc=arguments.utc),
            arguments.output == "json",
        )
    started = time.monotonic()
    inventory = take(root, configuration.resources, shipped(), cdi=configuration.settings.paths.cdi)
    terminal = Terminal.of(sys.stdout, colour=arguments.color, utc=arguments.utc)
    if arguments.device is not None:
        return _one(inventory, configuration, arguments.device, terminal, as_json=arguments.output == "json")
    if arguments.output == "json":
        print(json.dumps([record(inventory, item) for item in inventory.items], indent=1))
        return 0
    lines = overview(inventory, terminal, everything=arguments.all)
    last = summary(inventory, (time.monotonic() - started) * 1000, everything=arguments.all)
    missing = [f"missing: {name}: {said} here" for name, said in inventory.missing.items()]
    print("\n".join((*lines, *_oddities(inventory), *missing)))
    print(terminal.text(last), file=sys.stdout if terminal.width is not None else sys.stderr)
    return 0


def _words(root: Root, name: str, terminal: Terminal, as_json: bool) -> int:  # noqa: FBT001  as it was asked
    """Answer about one source."""
    source = source_of(root, name)
    if source is None:
        near = nearest(name, [*catalog.KINDS, *_subsystems(root)])
        hint = f"; nearest: {printable(near, None)}" if near else ""
        print(f"device-agent scan: {escape(name)}: no such source on this host{hint}", file=sys.stderr)
        return NO_SUCH_DEVICE
    known = vocabulary(root, source)
    print(json.dumps(vocabulary_as_json(known), indent=1) if as_json else "\n".join(page(known, terminal)))
    return 0


def _subsystems(root: Root) -> list[str]:
    """The classes and buses of the kernel."""
    found = (root.names(f"/sys/{place}") for place in ("class", "bus"))
    return [name for names in found if not isinstance(names, Absent) for name in names]


def _one(inventory: Inventory, configuration: Configuration, name: str, terminal: Terminal, *, as_json: bool) -> int:
    """Answer about one device."""
    found = one("scan", name, inventory, configuration, as_json=as_json)
    if isinstance(found, int):
        return found
    inventory, item = found
    if as_json:
        print(json.dumps(record(inventory, item), indent=1))
    else:
        print("\n".join(detail(inventory, item, terminal)))
    return 0


def _oddities(inventory: Inventory) -> list[str]:
    """What configured sources came across and did not take for a device."""
    return [
        f"no device: {printable(oddity.path, None)}: {escape(oddity.reason)}   (source {source})"
        for source, oddities in inventory.oddities.items()
        for oddity in oddities
        if not oddity.reason.startswith("another name of ")
    ]


def warn(configuration: Configuration, directory: str) -> None:
    """Say on standard error what of the configuration was left out."""
    errors = [finding for finding in configuration.findings if finding.severity is Severity.ERROR]
    if errors:
        files = len({finding.file for finding in errors})
        print(
            f"{counted(len(errors), 'error')} in {counted(files, 'file')}, left out here: "
            f"device-agent check --config {directory}",
            file=sys.stderr,
        )
    elif not configuration.files:
        print(f"nothing is configured in {directory}: classes that would fit are shown", file=sys.stderr)
