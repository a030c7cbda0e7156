"""Why a device is taken, turned down or Unhealthy, and why a resource has the devices it has; without a name, all that
is off.

NAME is a resource, or any name of a device that scan takes. A fresh look: needs no agent, no kubelet, no root. What
pods hold and what happened before is the running agent's to say: journalctl -u device-agent.
Exit code 0: answered. 4: no such device or resource, or several.
"""

from __future__ import annotations

import argparse
import json
import re
import sys

from agent.cli.inventory.classes import shipped
from agent.cli.inventory.detail import verdict
from agent.cli.inventory.fall import explanation, steps
from agent.cli.inventory.pci_names import PciNames
from agent.cli.inventory.record import record
from agent.cli.inventory.search import NotFound, find, unlisted_source
from agent.cli.inventory.take import Inventory, Item, take
from agent.cli.inventory.what import what
from agent.cli.scan import warn
from agent.cli.terminal import Terminal
from agent.config.finding import nearest
from agent.config.load import Configuration, load
from agent.core.printable import escape, printable
from agent.core.resource import ResourceSpec
from agent.host.root import Root

NO_SUCH = 4
_TEXT = re.compile(r'"[a-z0-9_-]+"')


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of `explain`."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="a resource, or a device by any name")


def run(arguments: argparse.Namespace) -> int:
    """Look, and explain."""
    configuration = load(arguments.config)
    warn(configuration, arguments.config)
    specs = configuration.resources
    inventory = take(Root(arguments.root), specs, shipped(), cdi=configuration.settings.paths.cdi)
    terminal = Terminal.of(sys.stdout, colour=arguments.color)
    as_json = arguments.output == "json"
    if arguments.name is None:
        return _all(inventory, configuration, terminal, as_json=as_json)
    spec = next((spec for spec in specs if spec.name == arguments.name), None)
    if spec is not None:
        if as_json:
            print(json.dumps(_as_json(inventory, spec), indent=1))
        else:
            print("\n".join(_resource(inventory, spec, terminal)))
        return 0
    return _device(inventory, configuration, arguments.name, terminal, as_json=as_json)


def _device(inventory: Inventory, configuration: Configuration, name: str, terminal: Terminal, *, as_json: bool) -> int:
    specs = configuration.resources
    found = find(inventory, name)
    if isinstance(found, NotFound) and (source := unlisted_source(inventory.root, name)) is not None:
        inventory = take(inventory.root, specs, also=(source,), cdi=configuration.settings.paths.cdi)
        found = find(inventory, name)
    if isinstance(found, NotFound):
        if found.oddity is not None and not as_json:
            print(f"{escape(name)}: no device: {found.reason}")
            return 0
        near = nearest(name, [spec.name for spec in specs])
        suggestions = (near,) if near else found.suggestions
        hint = f"; nearest: {printable(suggestions[0], None)}" if len(suggestions) == 1 else ""
        print(f"device-agent explain: {escape(name)}: {found.reason}, and no such resource{hint}", file=sys.stderr)
        for suggestion in suggestions if len(suggestions) > 1 else ():
            print(f"  {printable(suggestion, None)}", file=sys.stderr)
        return NO_SUCH
    if as_json:
        print(json.dumps(record(inventory, found), indent=1))
    else:
        print("\n".join(_lines(inventory, found, terminal)))
    return 0


def _lines(inventory: Inventory, item: Item, terminal: Terminal) -> list[str]:
    """A device, and the verdict on it."""
    said = what(inventory, item, PciNames(inventory.root)).one
    first = terminal.style(f"{item.label} {printable(item.host.name, None)}", "bold") + (f"   {said}" if said else "")
    lines = [first, *verdict(item, terminal)]
    for turned in item.turned_down if item.taken_by is None else ():
        refusal = turned.refusal
        if turned.nearly:
            to = f"  next         to give it to {refusal.resource}:"
            here = printable(refusal.here)
            lines.append(f"{to} let {refusal.address} at {refusal.origin} allow {here}, then device-agent reload")
            if refusal.address == "match.driver" and item.label == "pci" and _TEXT.fullmatch(refusal.written):
                driver = refusal.written.strip('"')
                lines.append(f"{to} driverctl set-override {item.host.name} {driver}   (seen at once)")
    return [terminal.text(line) for line in lines]


def _resource(inventory: Inventory, spec: ResourceSpec, terminal: Terminal) -> list[str]:
    of = f", class {spec.class_name}" if spec.class_name else ""
    return [f"{terminal.style(spec.name, 'bold')}      {spec.origin}{of}", *explanation(inventory, spec, terminal)]


def _all(inventory: Inventory, configuration: Configuration, terminal: Terminal, *, as_json: bool) -> int:
    """Every resource that has nothing, or something that is not Healthy; of the others how many there are."""
    off = [spec for spec in configuration.resources if _is_off(inventory, spec)]
    if as_json:
        print(json.dumps([_as_json(inventory, spec) for spec in off], indent=1))
        return 0
    for spec in off:
        print("\n".join(_resource(inventory, spec, terminal)))
        print()
    well = len(configuration.resources) - len(off)
    noun = "resource has" if well == 1 else "resources have"
    print(f"{well} {noun} all devices Healthy, {len(off)} not.")
    return 0


def _is_off(inventory: Inventory, spec: ResourceSpec) -> bool:
    devices = [item.device for item in inventory.items if item.taken_by is spec]
    return not devices or any(device is None or device.reason for device in devices)


def _as_json(inventory: Inventory, spec: ResourceSpec) -> dict[str, object]:
    """A resource for programs."""
    devices = [item.device for item in inventory.items if item.taken_by is spec and item.device]
    return {
        "resource": spec.name,
        "file": spec.origin.file,
        "line": spec.origin.line,
        "class": spec.class_name,
        "candidates": [
            {
                "clause": step.said,
                "file": step.origin.file if step.origin else None,
                "line": step.origin.line if step.origin else None,
                "left": step.left,
                "fell": [{"name": item.host.name, "here": turned.refusal.here} for item, turned in step.fell],
            }
            for step in steps(inventory, spec)
        ],
        "devices": [
            {"id": device.id, "shares": device.shares, "health": device.health.value, "reason": device.reason or None}
            for device in devices
        ],
        "unlisted": [
            {"place": left.place, "reason": left.reason} for left in inventory.unlisted if left.resource == spec.name
        ],
    }
