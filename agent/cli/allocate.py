"""Show what a container would get from a resource, to try a device in a container without a cluster.

The command reads the host, and selects and checks devices like an Allocate call. It needs no agent, no kubelet and no
root. It allocates nothing, because only the kubelet allocates. If an agent is running, IDs that pods use are not
selected. Otherwise all Healthy IDs are free.
--as selects the form: grant (for people), grpc (the answer to the kubelet), cdi (a CDI spec), or the arguments of
docker run, podman run or ctr run, quoted for a shell:
  eval "docker run --rm -it $(device-agent allocate example.com/serial --dry-run --as docker) debian"
Exit code 0: success. 1: the container would get nothing, or the form cannot express the grant. 4: no resource or device
has this name.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from typing import NamedTuple

from agent.cli.grant_preview.dry_run import DryRun, GeneratedSpec, take_dry_run
from agent.cli.grant_preview.dry_run import request_held_ids as known_held
from agent.cli.grant_preview.grant_formats import (
    ARGUMENT_BUILDERS,
    GrantContext,
    UnsupportedGrantError,
    build_cdi_spec,
    build_grant_json,
    format_grant,
    list_notes,
)
from agent.cli.host_report.report_command import warn_of_config_errors
from agent.cli.output import NO_SUCH_NAME, WRONG_COMMAND_LINE, fail
from agent.cli.terminal import Terminal
from agent.config.load import load
from agent.config.toml.finding import find_nearest
from agent.core.entry.prefer import PCIE, DistanceRule, PreferRule
from agent.core.grants.grant import Grant, GrantRefusedError, RefusalCause
from agent.core.inventory.device import split_share
from agent.core.language.safe_text import make_printable
from agent.host.root import Root
from agent.kubelet.allocate_response import format_allocate_response

OUTPUTS = ("json",)
FORMS = ("grant", "grpc", "cdi", "podman", "docker", "ctr")
# These forms name the CDI spec that the agent writes. The other forms contain its content.
KUBELET_FORMS = {"grant", "grpc"}
REFUSED = 1


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `allocate`."""
    parser.add_argument("resource", metavar="RESOURCE", help="the resource, as in a pod spec")
    parser.add_argument(
        "--count", type=_parse_count, metavar="N", help="number of free devices, chosen by preference (default: 1)"
    )
    parser.add_argument("--id", nargs="+", metavar="ID", default=[], dest="ids", help="IDs of the devices")
    parser.add_argument("--prefer", action="store_true", help="choose --count devices from the IDs of --id")
    parser.add_argument(
        "--as", choices=FORMS, default="grant", dest="form", help="the form of the output (default: grant)"
    )
    parser.add_argument("--dry-run", action="store_true", help="required: only show the grant, and allocate nothing")


def run(arguments: argparse.Namespace) -> int:
    """Print the grant that a container would get. Return the exit code."""
    usage_error = _find_usage_error(arguments)
    if usage_error:
        return fail(arguments, usage_error, WRONG_COMMAND_LINE)
    configuration = load(arguments.config)
    warn_of_config_errors(configuration, arguments.config)
    dry_run = take_dry_run(Root(arguments.root), configuration.resources, configuration.settings.paths.cdi)
    name = arguments.resource
    as_json = arguments.output == "json"
    if name not in dry_run.lists.written_names:
        nearest_name = find_nearest(name, dry_run.lists.written_names)
        hint = f"; nearest: {nearest_name}" if nearest_name else ""
        return fail(arguments, f"{name}: no such resource{hint}", NO_SUCH_NAME)
    try:
        paths = configuration.settings.paths
        pool = _build_pool(dry_run, arguments, paths.control)
        ids = pool.ids if pool.is_exact else dry_run.choose_ids(name, arguments.count or 1, pool.ids, pool.state)
        grant = dry_run.preview_grant(name, ids, with_generated_spec=arguments.form in KUBELET_FORMS)
        spec = dry_run.build_generated_spec(name, ids) if arguments.form == "grant" else None
        text = _format_output(grant, arguments.form, spec, as_json=as_json)
    except (GrantRefusedError, UnsupportedGrantError) as error:
        if isinstance(error, GrantRefusedError) and error.cause is RefusalCause.UNKNOWN_ID:
            return fail(arguments, f"{error}{_format_hint(arguments.ids, dry_run, name)}", NO_SUCH_NAME)
        if as_json:
            cause = error.cause.value if isinstance(error, GrantRefusedError) else "form"
            print(json.dumps({"resource": name, "refused": cause, "reason": str(error)}, indent=1))
        return fail(arguments, str(error), REFUSED)
    terminal = Terminal.detect(sys.stdout, colour=arguments.color, utc=arguments.utc)
    if text is None:
        context = GrantContext(
            dry_run.preview_grant(name, ids, with_generated_spec=False),
            dry_run.map_paths_to_ids(name, ids),
            spec,
            paths.devinfo,
        )
        print(terminal.make_displayable(_format_title(dry_run, grant, pool)))
        print("\n".join(map(terminal.make_displayable, format_grant(grant, context))))
        print(f"Every node was checked {_describe_host(arguments.root)} just now.")
    else:
        print(text)
    for note in list_notes(grant, arguments.form):
        print(f"device-agent allocate: {note}", file=sys.stderr)
    return 0


def _format_hint(ids: Sequence[str], dry_run: DryRun, resource: str) -> str:
    """Return a hint with the ID nearest to the first unknown ID, or an empty string."""
    known_ids = [id for device in dry_run.device_lists[resource].devices for id in device.list_ids()]  # noqa: A001
    unknown_id = next((id for id in ids if id not in known_ids), "")  # noqa: A001
    nearest_id = find_nearest(unknown_id, known_ids)
    return f"; nearest: {nearest_id}" if nearest_id else ""


def _find_usage_error(arguments: argparse.Namespace) -> str:
    """Return the fault of the command line, or an empty string."""
    if not arguments.dry_run:
        return "only the kubelet allocates: add --dry-run to show what a container would get"
    if arguments.prefer and not arguments.count:
        return "--prefer needs --count N"
    if arguments.ids and arguments.count and not arguments.prefer:
        return "use --count or --id; with --prefer use both, to choose --count devices from the IDs"
    return ""


def _parse_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: write a number of at least 1")
    return int(text)


class _IdPool(NamedTuple):
    """The IDs from which the preview chooses.

    state: "free" if an agent of this host answers with the held IDs, else "Healthy".
    available_count: the number of IDs in that state. is_exact: the user named exactly these IDs.
    """

    ids: tuple[str, ...]
    state: str
    available_count: int
    is_exact: bool = False


def _build_pool(dry_run: DryRun, arguments: argparse.Namespace, control: str) -> _IdPool:
    name = arguments.resource
    healthy_ids, held_ids = dry_run.list_healthy_ids(name), known_held(control, dry_run.host.root, name)
    if held_ids is None:
        free_ids, state = healthy_ids, "Healthy"
    else:
        free_ids, state = [id for id in healthy_ids if id not in held_ids], "free"  # noqa: A001  the API's own word
    if arguments.ids:
        return _IdPool(tuple(dict.fromkeys(arguments.ids)), state, len(free_ids), is_exact=not arguments.prefer)
    return _IdPool(tuple(free_ids), state, len(free_ids))


def _format_output(grant: Grant, form: str, spec: GeneratedSpec | None, *, as_json: bool) -> str | None:
    """Return the grant in the requested form, or None for the page that people read."""
    if form == "grpc":
        return format_allocate_response(grant)
    if form == "cdi":
        return json.dumps(build_cdi_spec(grant), indent=1)
    if form == "grant":
        return json.dumps(build_grant_json(grant, spec), indent=1) if as_json else None
    command_words = ARGUMENT_BUILDERS[form](grant)
    return json.dumps(command_words, indent=1) if as_json else shlex.join(command_words)


def _format_title(dry_run: DryRun, grant: Grant, pool: _IdPool) -> str:
    """Return the title: the IDs, their number, the NUMA nodes and the rules of `prefer`."""
    device_list = dry_run.device_lists[grant.resource]
    devices = [match[0] for id in grant.ids if (match := device_list.find_device(id))]  # noqa: A001  the API's own word
    numa_nodes = sorted({node for device in devices for node in device.numa})
    numa_text = f", NUMA {' '.join(map(str, numa_nodes))}" if numa_nodes else ""
    device_count = len({split_share(id)[0] for id in grant.ids})  # noqa: A001  the API's own word
    shares_text = (
        "" if device_count == len(grant.ids) else f"shares of {device_count} device{'s' * (device_count != 1)}, "
    )
    ids = " ".join(make_printable(id, None) for id in grant.ids)  # noqa: A001  the API's own word
    rules = dry_run.find_entry(grant.resource).prefer
    rules_text = (
        f", {', then '.join(map(_describe_rule, rules))}"
        if rules and not pool.is_exact and len(pool.ids) > len(grant.ids)
        else ""
    )
    count = f"{shares_text}{len(grant.ids)} of {pool.available_count} {pool.state}"
    return f"grant of {grant.resource} for one container: {ids}   ({count}{numa_text}{rules_text})"


def _describe_rule(rule: PreferRule) -> str:
    """Return a rule of `prefer` as English text."""
    if isinstance(rule, DistanceRule):
        return f"near {rule.links.name if rule.links else PCIE}"
    return {"same": f"same {rule.word}", "order": f"by {rule.word}"}.get(rule.verb, f"{rule.verb} by {rule.word}")


def _describe_host(root: str) -> str:
    return "on the host" if os.path.realpath(root) == "/" else "below --root"
