"""What a configuration makes of one host, as findings: entries that find nothing there, and devices that two want."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.cli.inventory.fall import Step, steps
from agent.cli.inventory.take import Inventory, Item
from agent.config.finding import Finding
from agent.config.load import Entry
from agent.config.spot import Spot
from agent.config.tree import Branch, Leaf
from agent.core.judge import judge
from agent.core.printable import printable
from agent.core.resource import ResourceSpec


def on_host(entries: Sequence[Entry], inventory: Inventory, where: str) -> Iterator[Finding]:
    """Warnings of entries that are served, about the host called `where`; those that an entry accepts are left out."""
    for entry in entries:
        spec = entry.spec
        if spec is None or spec not in inventory.specs:
            continue
        accepted = entry.sentence.tree.branch("accept")
        taken = [item for item in inventory.items if item.taken_by is spec]
        lost = [item for item in inventory.items if _wants(spec, item, inventory)]
        if lost and not (accepted and "overlap" in accepted.members):
            yield _overlap(entry, lost, where)
        elif not taken and not lost and not (accepted and "never-matches" in accepted.members):
            yield _never_matches(entry, steps(inventory, spec), where)


def _wants(spec: ResourceSpec, item: Item, inventory: Inventory) -> bool:
    """Whether an entry would take what an earlier one has."""
    other = item.taken_by
    if other is None or other is spec or other.source != spec.source:
        return False
    order = inventory.specs
    later = order.index(other) < order.index(spec)
    return later and judge(spec, inventory.facts(spec, item.host)) is None


def _overlap(entry: Entry, lost: Sequence[Item], where: str) -> Finding:
    first = lost[0].taken_by
    count = f"{len(lost)} devices of {where} match" if len(lost) != 1 else f"1 device of {where} matches"
    message = f"{count} {first.name if first else ''} too ({first.origin if first else ''}), which has them"
    return _spot(entry, "match").warning("overlap", message, "exclude them here, or put this entry first", mark="key")


def _never_matches(entry: Entry, fall: Sequence[Step], where: str) -> Finding:
    """At the clause by which the last of them fell, or at the source where it shows nothing."""
    last = next((step for step in reversed(fall) if step.fell), None)
    if last is None:
        shown = fall[0].left
        message = f"there is none of these on {where}: 0 devices"
        if shown:
            message = f"all {shown} of these on {where} are taken by earlier entries: 0 devices"
        return _spot(entry, "source").warning("never-matches", message, mark="key")
    item, turned = last.fell[0]
    section, _, address = turned.refusal.address.partition(".")
    message = f"the last to fall on {where} is {printable(item.host.name, None)}, here {printable(turned.refusal.here)}"
    write = f"device-agent explain {entry.spec.name if entry.spec else ''} shows how"
    return _spot(entry, section, address).warning("never-matches", f"{message}: 0 devices", write)


def _spot(entry: Entry, section: str, address: str = "") -> Spot:
    """Where a clause, a section or, failing that, the entry was written."""
    tree = entry.sentence.tree
    node = tree.members.get(section)
    if section == "exclude" and isinstance(node, Branch):
        name, _, address = address.partition(".")
        node = node.members.get(name)
    if isinstance(node, Branch) and address in node.members:
        node = node.members[address]
    return node.spot if isinstance(node, Leaf | Branch) else entry.spot
