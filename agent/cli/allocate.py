"""What a container would get of a resource, so that a device can be tried in a container with no cluster.

A fresh look, chosen and checked on the host as an Allocate is: needs no agent, no kubelet, no root. Nothing is
allocated: that is the kubelet's to do, which alone knows what pods hold.
--as says in which form: grant (for people), grpc (the answer to the kubelet), cdi (a CDI spec), or as arguments of
docker run, podman run, ctr run, quoted for a shell:
  eval "docker run --rm -it $(device-agent allocate example.com/serial --dry-run --as docker) debian"
Exit code 0: that is what it gets. 1: nothing, for the reason said, or the form cannot say it. 4: no such resource.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys

from agent.cli.granted.dry import Sight, sight
from agent.cli.granted.forms import ARGUMENTS, NotSaid, cdi, notes
from agent.cli.granted.page import page, record
from agent.cli.scan import warn
from agent.cli.terminal import Terminal
from agent.config.load import load
from agent.config.toml.finding import nearest
from agent.core.grants.grant import Grant, Refused
from agent.core.inventory.device import split_share
from agent.core.language.printable import escape, printable
from agent.host.root import Root
from agent.kubelet.wire import answer_json

OUTPUTS = ("json",)
FORMS = ("grant", "grpc", "cdi", "podman", "docker", "ctr")
TOLD = {"grant", "grpc"}  # as the kubelet is told; the others are for whoever has no agent that writes CDI specs
REFUSED = 1
WRONG_COMMAND_LINE = 2
NO_SUCH_NAME = 4


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of `allocate`."""
    parser.add_argument("resource", metavar="RESOURCE", help="the resource, as pods ask for it")
    parser.add_argument("--count", type=_count, metavar="N", help="so many, as preferred, of those Healthy (1)")
    parser.add_argument("--id", nargs="+", metavar="ID", default=[], dest="ids", help="these devices")
    parser.add_argument("--prefer", action="store_true", help="of those of --id, --count as preferred")
    parser.add_argument("--as", choices=FORMS, default="grant", dest="form", help="in which form (grant)")
    parser.add_argument("--dry-run", action="store_true", help="say what a container would get; nothing else is done")


def run(arguments: argparse.Namespace) -> int:
    """Look, and print the grant."""
    wrong = _wrong(arguments)
    if wrong:
        print(f"device-agent allocate: {wrong}", file=sys.stderr)
        return WRONG_COMMAND_LINE
    configuration = load(arguments.config)
    warn(configuration, arguments.config)
    seen = sight(Root(arguments.root), configuration.resources, configuration.settings.paths.cdi)
    name = arguments.resource
    as_json = arguments.output == "json"
    if name not in seen.assembly.written:
        near = nearest(name, seen.assembly.written)
        hint = f"; nearest: {near}" if near else ""
        print(f"device-agent allocate: {escape(name)}: no such resource{hint}", file=sys.stderr)
        return NO_SUCH_NAME
    try:
        grant = seen.grant(name, _ids(seen, arguments), by_spec=arguments.form in TOLD)
        said = _said(grant, arguments.form, as_json=as_json)
    except (Refused, NotSaid) as refused:
        if as_json:
            cause = refused.cause.value if isinstance(refused, Refused) else "form"
            print(json.dumps({"resource": name, "refused": cause, "reason": str(refused)}, indent=1))
        print(f"device-agent allocate: {escape(str(refused))}", file=sys.stderr)
        return REFUSED
    terminal = Terminal.of(sys.stdout, colour=arguments.color, utc=arguments.utc)
    if said is None:
        print(terminal.text(_title(seen, grant)))
        print("\n".join(map(terminal.text, page(grant))))
        print(f"Every node was checked {_where(arguments.root)} just now.")
    else:
        print(said)
    for note in notes(grant, arguments.form):
        print(f"device-agent allocate: {note}", file=sys.stderr)
    return 0


def _wrong(arguments: argparse.Namespace) -> str:
    """What is wrong with the command line."""
    if not arguments.dry_run:
        return "only the kubelet allocates: write --dry-run to see what a container would get"
    if arguments.prefer and not arguments.count:
        return "--prefer chooses --count N"
    if arguments.ids and arguments.count and not arguments.prefer:
        return "--count or --id; with --prefer, --count of those of --id"
    return ""


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: a number from 1")
    return int(text)


def _ids(seen: Sight, arguments: argparse.Namespace) -> tuple[str, ...]:
    """The ids that the container gets."""
    if arguments.ids and not arguments.prefer:
        return tuple(dict.fromkeys(arguments.ids))
    return seen.preferred(arguments.resource, arguments.count or 1, arguments.ids or seen.healthy(arguments.resource))


def _said(grant: Grant, form: str, *, as_json: bool) -> str | None:
    """The grant in a form; none if that is the page for people."""
    if form == "grpc":
        return answer_json(grant)
    if form == "cdi":
        return json.dumps(cdi(grant), indent=1)
    if form == "grant":
        return json.dumps(record(grant), indent=1) if as_json else None
    words = ARGUMENTS[form](grant)
    return json.dumps(words, indent=1) if as_json else shlex.join(words)


def _title(seen: Sight, grant: Grant) -> str:
    """Which ids, of how many, and where they are."""
    listed = seen.resources[grant.resource]
    found = [found[0] for id in grant.ids if (found := listed.find(id))]  # noqa: A001  the API's own word
    nodes = sorted({node for device in found for node in device.numa})
    numa = f", NUMA {' '.join(map(str, nodes))}" if nodes else ""
    healthy = len(seen.healthy(grant.resource))
    many = len({split_share(id)[0] for id in grant.ids})  # noqa: A001  the API's own word
    of = "" if many == len(grant.ids) else f"shares of {many} device{'s' * (many != 1)}, "
    ids = " ".join(printable(id, None) for id in grant.ids)  # noqa: A001  the API's own word
    return f"grant of {grant.resource} for one container: {ids}   ({of}{len(grant.ids)} of {healthy} Healthy{numa})"


def _where(root: str) -> str:
    return "on the host" if os.path.realpath(root) == "/" else "in what --root says"
