"""Find the host device that a user names, or print the reason why there is none."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from agent.cli.host_report.device_search import SearchFailure, find_device, find_unlisted_source
from agent.cli.host_report.host_report import HostReport, HostReportItem
from agent.cli.host_report.scan_host import scan_host
from agent.cli.output import fail, is_json, print_json
from agent.config.load import Configuration
from agent.config.toml.finding import find_nearest
from agent.core.language.safe_text import escape, make_printable

NO_SUCH_DEVICE = 4


def resolve_device(
    arguments: argparse.Namespace,
    name: str,
    report: HostReport,
    configuration: Configuration,
    *,
    resources: Sequence[str] | None = None,
) -> tuple[HostReport, HostReportItem] | int:
    """Return the device and the report that contains it. If there is no device, print the reason and return the exit
    code.

    If the report has no source for the name, a second scan uses the subsystem of the device.

    resources: resource names that the command accepts too. None of them is equal to the name.
    """
    result = find_device(report, name)
    if isinstance(result, SearchFailure) and (source := find_unlisted_source(report.root, name)) is not None:
        report = scan_host(
            report.root,
            configuration.resources,
            extra_sources=(source,),
            cdi_directories=configuration.settings.paths.cdi,
        )
        result = find_device(report, name)
    if not isinstance(result, SearchFailure):
        return report, result
    if (path_hint := result.path_hint) is not None:
        if is_json(arguments):
            print_json(
                {"path": name, "device": None, "reason": path_hint.text, "next": path_hint.next_step or None}, arguments
            )
        else:
            print(f"{escape(name)}: no device: {path_hint.text}")
            print(f"  next         {path_hint.next_step}\n" if path_hint.next_step else "", end="")
        return 0
    nearest_name = find_nearest(name, resources or ())
    suggestions = (nearest_name,) if nearest_name else result.suggestions
    resource_text = "" if resources is None else ", and no such resource"
    shown_names = [make_printable(suggestion, None) for suggestion in suggestions]
    is_list = len(shown_names) > 1 and not is_json(arguments)
    hint = f"; nearest: {', '.join(shown_names)}" if shown_names and not is_list else ""
    fail(arguments, f"{name}: {result.reason}{resource_text}{hint}", NO_SUCH_DEVICE)
    for line in shown_names if is_list else ():
        print(f"  {line}", file=sys.stderr)
    return NO_SUCH_DEVICE
