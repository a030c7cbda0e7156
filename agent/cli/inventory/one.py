"""One host device by any name, for the commands that tell of one; where there is none, what is said instead."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from agent.cli.inventory.search import NotFound, find, unlisted_source
from agent.cli.inventory.take import Inventory, Item, take
from agent.config.load import Configuration
from agent.config.toml.finding import nearest
from agent.core.language.printable import escape, printable

NO_SUCH_DEVICE = 4


def one(
    command: str,
    name: str,
    inventory: Inventory,
    configuration: Configuration,
    *,
    as_json: bool,
    resources: Sequence[str] | None = None,
) -> tuple[Inventory, Item] | int:
    """The device, and the inventory that it is in; or, when it was said that there is none, the exit code.

    One that no source of the inventory shows is looked for afresh, by its own. resources: none of these is it, if the
    command takes such a name as well.
    """
    found = find(inventory, name)
    if isinstance(found, NotFound) and (source := unlisted_source(inventory.root, name)) is not None:
        inventory = take(inventory.root, configuration.resources, also=(source,), cdi=configuration.settings.paths.cdi)
        found = find(inventory, name)
    if not isinstance(found, NotFound):
        return inventory, found
    if (there := found.there) is not None:
        if as_json:
            print(json.dumps({"path": name, "device": None, "reason": there.said, "next": there.next or None}))
        else:
            print(f"{escape(name)}: no device: {there.said}")
            print(f"  next         {there.next}\n" if there.next else "", end="")
        return 0
    near = nearest(name, resources or ())
    suggestions = (near,) if near else found.suggestions
    nor = "" if resources is None else ", and no such resource"
    hint = f"; nearest: {printable(suggestions[0], None)}" if len(suggestions) == 1 else ""
    print(f"device-agent {command}: {escape(name)}: {found.reason}{nor}{hint}", file=sys.stderr)
    for suggestion in suggestions if len(suggestions) > 1 else ():
        print(f"  {printable(suggestion, None)}", file=sys.stderr)
    return NO_SUCH_DEVICE
