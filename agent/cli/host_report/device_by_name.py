"""One host device by any name, for the commands that tell of one; where there is none, what is said instead."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from agent.cli.host_report.device_search import SearchFailure, find_device, find_unlisted_source
from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.cli.host_report.scan_host import scan_host
from agent.cli.output import fail, is_json, say_json
from agent.config.load import Configuration
from agent.config.toml.finding import find_nearest
from agent.core.language.safe_text import escape, make_printable

NO_SUCH_DEVICE = 4


def resolve_device(
    arguments: argparse.Namespace,
    name: str,
    inventory: HostReport,
    configuration: Configuration,
    *,
    resources: Sequence[str] | None = None,
) -> tuple[HostReport, HostReportItem] | int:
    """The device, and the inventory that it is in; or, when it was said that there is none, the exit code.

    One that no source of the inventory shows is looked for afresh, by its own. resources: none of these is it, if the
    command takes such a name as well.
    """
    found = find_device(inventory, name)
    if isinstance(found, SearchFailure) and (source := find_unlisted_source(inventory.root, name)) is not None:
        inventory = scan_host(
            inventory.root,
            configuration.resources,
            extra_sources=(source,),
            cdi_directories=configuration.settings.paths.cdi,
        )
        found = find_device(inventory, name)
    if not isinstance(found, SearchFailure):
        return inventory, found
    if (there := found.path_hint) is not None:
        if is_json(arguments):
            say_json({"path": name, "device": None, "reason": there.text, "next": there.next_step or None}, arguments)
        else:
            print(f"{escape(name)}: no device: {there.text}")
            print(f"  next         {there.next_step}\n" if there.next_step else "", end="")
        return 0
    near = find_nearest(name, resources or ())
    suggestions = (near,) if near else found.suggestions
    nor = "" if resources is None else ", and no such resource"
    shown = [make_printable(suggestion, None) for suggestion in suggestions]
    several = len(shown) > 1 and not is_json(arguments)
    hint = f"; nearest: {', '.join(shown)}" if shown and not several else ""
    fail(arguments, f"{name}: {found.reason}{nor}{hint}", NO_SUCH_DEVICE)
    for line in shown if several else ():
        print(f"  {line}", file=sys.stderr)
    return NO_SUCH_DEVICE
