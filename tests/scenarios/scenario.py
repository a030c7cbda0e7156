"""Scenarios: a machine, a configuration, steps, and the lists of the kubelet, in one TOML file each.

    about = "in a sentence"
    tree = '''dump''' · recording = "FILE"     the machine at first: see dump.py, and `device-agent record`
    machine = "NAME"                           in place of it one of machines/; then tree says what differs there,
    lacks = ["/devices/…"]                     and these are missing, with what is below them
    files = { "/proc/x" = "text" }             beside it
    resources = '''[[resource]] …'''           the configuration; classes = { NAME = '''…''' } are those of one's own
    [fixture]                                  what the class has on this machine; see fixture.py
    [[step]]                                   in order; all keys may be left out
    about = "…"
    plug = '''dump''' · unplug = ["/devices/…"]        with the kernel's event
    plug = ["/devices/…"]                              as they were at first, with what is below them
    write = { "/sys/…" = "text" } · remove = ["/…"]    without one, so everything is looked at
    log = ["line"]                             what the kernel says, or with `<12>` before it a program
    later = "10m"                              time that passes first
    clear = ["id"]                             a person clears these, with all that fails or is lost
    release = ["id"]                           pods that were granted these end; until then they hold them
    lists."RESOURCE" = ["ID Healthy", "ID Unhealthy: reason"]      whole, in order; a reason may be left out
    numa."RESOURCE" = { "ID" = [0] }                   NUMA nodes that the kubelet is told, of every device listed
    grant."RESOURCE" = { ids = […], nodes = ["/dev/a as /dev/b rw"], env = {…}, mounts = […], cdi = […], refused = "…" }
                                                       devinfo = { "FILE" = 'JSON' }
    prefer."RESOURCE" = { ids = […] }                  what the kubelet is told to take where it wants so many;
                                                       of = [ids]: of these, not of all Healthy ones; must = [ids]

What is granted a dry run grants as well.

Lists that are not named stay as they were: a step that changes another list fails, also by what the one before granted.
After each step comes a sweep, and then everything is looked at anew. Neither must change anything: what an event brings
is what a sweep would see, and that is what whoever has seen nothing before would see.
"""

import shutil
import time
import tomllib
from copy import copy
from pathlib import Path

import pytest

from agent.cli.grant_preview.dry_run import take_dry_run
from agent.config.language.value_checks import parse_duration
from agent.core.grants.grant import Grant, GrantRefusedError
from agent.core.inventory.device import Health
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.host.recording import unpack_recording
from tests.agent.rig import Rig
from tests.scenarios import dump, fixture

HAPPENS = {"plug", "unplug", "write", "remove", "log", "later", "clear", "release"}
STEP = HAPPENS | {"about", "lists", "numa", "prefer", "grant"}
TOP = {"about", "machine", "lacks", "tree", "recording", "files", "resources", "classes", "step", "fixture"}
PREFER = {"ids", "of", "must"}
GRANT = {"ids", "nodes", "env", "mounts", "cdi", "annotations", "devinfo", "refused"}


class Clock:
    """Monotonic time that stands still until a scenario puts it forward, however long a step takes."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def __call__(self) -> float:
        return self.now


class Pods:
    """Pods that use each ID from its grant until they end; the agent sees that as `HeldIdSource`."""

    def __init__(self) -> None:
        self.ids: frozenset[str] = frozenset()

    @property
    def confirmed_ids(self) -> frozenset[str]:
        return self.ids

    def __contains__(self, id_: object) -> bool:
        return id_ in self.ids

    def add_grant(self, ids) -> None:
        self.ids |= frozenset(ids)

    async def confirm(self, timeout_s: float) -> bool:
        del timeout_s
        return False

    def end(self, ids) -> None:
        self.ids -= frozenset(ids)


def read(path: Path) -> dict:
    """A scenario's file."""
    said = tomllib.loads(path.read_text())
    for name in {"recording"} & said.keys():
        said[name] = path.parent / said[name]
    assert set(said) <= TOP, set(said) - TOP
    assert said["about"], "a scenario says what it is about"
    if "machine" in said:
        shared = dump.without(dump.machine(said["machine"]), said.get("lacks", []))
        said["tree"] = dump.upon(shared, said.get("tree", ""))
    for step in said["step"]:
        if isinstance(step.get("plug"), list):
            step["plug"] = dump.below(said.get("tree", ""), step["plug"])
    return said | {"class": path.stem.removeprefix("class-")}


async def play(said: dict, rig: Rig) -> None:
    """Run a scenario. A failed assertion names the step."""
    if "recording" in said:
        unpack(said["recording"], rig)
    if "tree" in said:
        dump.plug(rig.tree, said["tree"])
    for file, text in said.get("files", {}).items():
        rig.tree.file(file, text)
    for name, text in said.get("classes", {}).items():
        (rig.etc / "classes").mkdir(exist_ok=True)
        (rig.etc / "classes" / f"{name}.toml").write_text(text)
    (rig.etc / "resources.d/10.toml").write_text(said["resources"])
    clock, pods = Clock(), Pods()
    seen = fixture.shown(said)
    async with rig.agent(clock=clock, held_ids=pods) as agent:
        await agent.tracker.wait_for_look()
        before = format_lists(agent)
        for number, step in enumerate(said["step"], 1):
            where = f"step {number}: {step.get('about', '')}"
            assert set(step) <= STEP, f"{where}: no such keys: {set(step) - STEP}"
            await run_step(rig, agent, clock, pods, step)
            now = format_lists(agent)
            seen.add(agent)
            expected = step.get("lists", {})
            for resource in sorted({*expected, *now, *before}):
                lines = expected.get(resource, before.get(resource, []))
                assert is_expected(now.get(resource, []), lines), f"{where}: {resource}: {now.get(resource)}"
            for resource, wanted in step.get("numa", {}).items():
                nodes = {device.id: list(device.numa) for device in agent.tracker.device_lists.lists[resource].devices}
                assert nodes == wanted, f"{where}: numa of {resource}: {nodes}"
            for resource, wanted in step.get("prefer", {}).items():
                check_preferred(agent, resource, wanted, where)
            for resource, wanted in step.get("grant", {}).items():
                await check_grant(agent, resource, wanted, where)
            agent.tracker.request_lists()
            await agent.tracker.wait_for_look()
            after = format_lists(agent)  # what grants changed of it is for the next step to say
            for what in ("a sweep", "looking at everything anew"):
                agent.tracker.request_look(ALL_DIRTY)
                if what != "a sweep":  # other entries that say the same: nothing rests on what was seen before
                    agent.tracker.configure(list(map(copy, agent.tracker.specs)))
                await agent.tracker.wait_for_look()
                assert format_lists(agent) == after, f"{where}: {what} sees something else"
            before = now
    if "fixture" in said:
        fixture.check(said, seen)


def unpack(recording: Path, rig: Rig) -> None:
    """Put a recording's tree in the place of the machine's."""
    with unpack_recording(str(recording)) as directory:
        shutil.copytree(directory, rig.tree.top, symlinks=True, dirs_exist_ok=True)


async def run_step(rig: Rig, agent, clock: Clock, pods: Pods, step: dict) -> None:
    """Run one step of a scenario."""
    clock.now += parse_duration(step["later"]) if "later" in step else 0.0
    moved: list[tuple[str, str]] = []
    for path in step.get("unplug", ()):
        moved += dump.unplug(rig.tree, path)
    if "plug" in step:
        moved += dump.plug(rig.tree, step["plug"])
    for file, text in step.get("write", {}).items():
        rig.tree.file(file, text)
    for file in step.get("remove", ()):
        rig.tree.at(file).unlink()
    for line in step.get("log", ()):
        say(rig, clock, line)
    pods.end(step.get("release", ()))
    for id_ in step.get("clear", ()):
        lists = agent.tracker.device_lists.lists.values()
        for found in [
            (list_.resource, device) for list_ in lists for device in list_.devices if id_ in device.list_ids()
        ]:
            await agent.tracker.clear(*found, None)
    if "write" in step or "remove" in step:
        agent.tracker.request_look(ALL_DIRTY)
    elif moved:
        paths, subsystems = zip(*moved, strict=True)
        agent.tracker.request_look(DirtySet(frozenset(paths), frozenset(subsystems)))
    agent.tracker.request_lists()
    await agent.tracker.wait_for_look()


def say(rig: Rig, clock: Clock, line: str) -> None:
    """A line in the kernel log, now."""
    path = rig.tree.at("/dev/kmsg")
    number = path.read_text().count("\n") if path.exists() else 0
    level, text = (line[1:].split(">", 1)) if line.startswith("<") else ("4", line)
    path.parent.mkdir(exist_ok=True)
    with open(path, "a") as file:
        file.write(f"{level},{number},{int(clock() * 1e6)},-;{text}\n")


def format_lists(agent) -> dict[str, list[str]]:
    """Return every list as lines, without empty lists."""
    lists = {}
    for name, snapshot in agent.tracker.device_lists.lists.items():
        lines = [
            f"{id_} {device.health.value}" + (f": {device.reason}" if device.health is Health.UNHEALTHY else "")
            for device in snapshot.devices
            for id_ in device.list_ids()
        ]
        if lines:
            lists[name] = lines
    return lists


def is_expected(now: list[str], expected: list[str]) -> bool:
    """Return whether a list is as expected. An expected line without a reason matches any reason."""
    if len(now) != len(expected):
        return False
    pairs = zip(now, expected, strict=True)
    return all(
        line == wanted or (wanted.endswith(" Unhealthy") and line.startswith(f"{wanted}: ")) for line, wanted in pairs
    )


def check_preferred(agent, resource: str, wanted: dict, where: str) -> None:
    assert set(wanted) <= PREFER, f"{where}: no such keys: {set(wanted) - PREFER}"
    devices = agent.tracker.device_lists.lists[resource].devices
    healthy = [id_ for device in devices if device.health is Health.HEALTHY for id_ in device.list_ids()]
    available = wanted.get("of", healthy)
    chosen = agent.allocation.prefer(resource, available, wanted.get("must", ()), len(wanted["ids"]))
    assert sorted(chosen) == sorted(wanted["ids"]), f"{where}: preferred of {resource}: {list(chosen)}"


async def check_grant(agent, resource: str, wanted: dict, where: str) -> None:
    assert set(wanted) <= GRANT, f"{where}: no such keys: {set(wanted) - GRANT}"
    if "refused" in wanted:
        with pytest.raises(GrantRefusedError) as refused:
            await agent.allocation.allocate(resource, wanted["ids"])
        assert wanted["refused"] in refused.value.text, f"{where}: {refused.value.text}"
        return
    grant = await agent.allocation.allocate(resource, wanted["ids"])
    assert dry(agent, resource, wanted["ids"]) in (None, grant), f"{where}: {resource}: a dry run says something else"
    said = shown(grant)
    for part in wanted.keys() - {"ids"}:
        assert said[part] == wanted[part], f"{where}: {part}: {said[part]}"


def dry(agent, resource: str, ids: list[str]) -> Grant | None:
    """Return the grant of `allocate --dry-run`; None if an ID depends on an earlier state."""
    seen = take_dry_run(agent.root, agent.tracker.specs, agent.settings.paths.cdi)
    return seen.preview_grant(resource, ids) if all(map(seen.device_lists[resource].find_device, ids)) else None


def shown(grant: Grant) -> dict[str, object]:
    """A grant as scenarios write it."""

    def way(host: str, container: str, how: str) -> str:
        return " ".join((host if host == container else f"{host} as {container}", how)).strip()

    return {
        "nodes": [way(node.host, node.container, node.permissions) for node in grant.nodes],
        "mounts": [way(mount.host, mount.container, "ro" * mount.read_only) for mount in grant.mounts],
        "env": dict(grant.env),
        "annotations": dict(grant.annotations),
        "cdi": list(grant.cdi),
        "devinfo": {info.name: info.text for info in grant.devinfo},
    }
