"""What the scenario of a class has to have on its machine, and how that is seen to be so.

    [fixture]
    tree   = "built"                    from the layout that the kernel documents; or "published: OWNER/REPOSITORY#N"
    good   = ["ID", "ID"]               of its entries, Healthy in one and the same step, on different NUMA nodes
    faulty = { "ID" = "words" }         Unhealthy at some step, in the way that the class is known for: for that reason
    without = "why"                     in place of the marks that it goes without
    tried  = "on what, by which test"   if anything of it ever ran on hardware; else the page of the class says that not
    left   = { "NAME" = "clause" }      a device that is there at some step, which its entries turn down by that clause

NAME is what `scan` calls a device, and the clause what it says there (`match.driver`, `exclude.has_functions`).
A mark that the machine does not bear out fails the scenario.
"""

import re
import tomllib
from dataclasses import dataclass, field

from agent.core.inventory.device import Device, Health

MARKS = ("good", "faulty", "left")
TREE = re.compile(r"built|recorded|published: [\w.-]+/[\w.-]+#\d+(, [\w.-]+/[\w.-]+#\d+)*")


@dataclass
class Shown:
    """What a scenario has shown of the entries that use one class, step by step.

    lists: of each step, the devices that they list, by each of their ids.
    left: names of host devices with the clauses by which one of them turned each down, while no list had it.
    """

    about: str
    numbers: frozenset[int]
    lists: list[dict[str, Device]] = field(default_factory=list)
    left: set[tuple[str, str]] = field(default_factory=set)

    def add(self, agent) -> None:
        """See what there is now."""
        specs = [agent.tracker.specs[number] for number in sorted(self.numbers)]
        listed: dict[str, Device] = {}
        taken: set[str] = set()
        for name, snapshot in agent.tracker.device_lists.lists.items():
            taken.update(key for device in snapshot.devices for key in device.keys)
            if agent.tracker.find_entry(name) in specs or name in {spec.name for spec in specs}:
                listed |= {id_: device for device in snapshot.devices for id_ in device.list_ids()}
        self.lists.append(listed)
        written = {spec.name for spec in specs} | {spec.written_name for spec in specs}
        for key, sighting in agent.tracker.inventory.match_results.items():
            for refusal in sighting.mismatches if key not in taken else ():
                if refusal.resource in written and not refusal.is_undecided:
                    self.left.update((host.name, refusal.address) for host in sighting.devices)

    def lacks(self, mark: str, said: dict) -> str:
        """Why what a fixture says by one of its marks is not so; empty if it is."""
        return {"good": self._good, "faulty": self._faulty, "left": self._left}[mark](said.get(mark, ()))

    def _good(self, ids: list[str]) -> str:
        for listed in self.lists:
            devices = [listed[id_] for id_ in ids if id_ in listed and listed[id_].health is Health.HEALTHY]
            nodes = {device.numa for device in devices if device.numa}
            if len(devices) == len(ids) >= 2 and len(nodes) >= 2:
                return ""
        return f"good: {ids} are not Healthy together on different NUMA nodes"

    def _faulty(self, said: dict[str, str]) -> str:
        for id_, words in said.items():
            devices = [listed[id_] for listed in self.lists if id_ in listed]
            reasons = {str(device.reason) for device in devices if device.health is Health.UNHEALTHY}
            if not words or not any(words in reason for reason in reasons):
                return f"faulty: {id_} is not Unhealthy for {words!r}, but {sorted(reasons)}"
        return "" if said else "faulty: none"

    def _left(self, said: dict[str, str]) -> str:
        for name, clause in said.items():
            if (name, clause) not in self.left:
                other = sorted(address for left, address in self.left if left == name)
                return f"left: {name} is not turned down by {clause!r}, but {other}"
        return "" if said else "left: none"


def shown(said: dict) -> Shown:
    """What is to be seen of the class that a scenario is of; nothing of one that is of none."""
    name = said.get("class", "")
    entries = tomllib.loads(said["resources"])["resource"]
    uses = (number for number, entry in enumerate(entries) if name in {entry.get("class"), *entry.get("uses", ())})
    return Shown(said["about"], frozenset(uses))


def check(said: dict, seen: Shown) -> None:
    """That the machine bears out the marks of the scenario."""
    fixture = said["fixture"]
    keys = {"tree", "tried", "without", *MARKS}
    assert set(fixture) <= keys, f"fixture: no such keys: {set(fixture) - keys}"
    assert TREE.fullmatch(fixture.get("tree", "")), f"fixture: where the tree is from: {fixture.get('tree')}"
    for mark in MARKS:
        why = seen.lacks(mark, fixture) if mark in fixture else ""
        assert not why, f"fixture: {why}"
