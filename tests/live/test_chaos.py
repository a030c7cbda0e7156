"""Anything in any order, and then a rest: what every stream was told last is what the tree and the entries say.

The truth is worked out here from the files alone. `CHAOS_RUNS=50` makes fifty runs with seeds of their own,
`CHAOS_SEED=123` repeats one; the seed of a run is in its name, and what it did in its failure.
"""

import asyncio
import os
import random
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

import pytest

from agent.allocation import allocation
from agent.core.grants import held_ids
from agent.registration import socket_registration
from agent.tracker import list_publisher
from device_agent_lab.simulated.errors import KubeletStopped, PodRefused
from device_agent_lab.simulated.kubelet import Kubelet
from tests.live.received_lists import HEALTHY, kernel_event, last, map_health

FOO, BAR, NET, VFIO = (f"chaos.example/{name}" for name in ("foo", "bar", "net", "vfio"))
NODES = [f"foo{number}" for number in range(5)]
CARDS = [f"0000:3b:00.{number}" for number in range(3)]
DRIVERS = {NET: "mlx5_core", VFIO: "vfio-pci"}
OPERATIONS = 60
BETWEEN_RESTS = 12


def seeds():
    if seed := os.environ.get("CHAOS_SEED"):
        return [int(seed)]
    if runs := os.environ.get("CHAOS_RUNS"):
        # The workers of one run (pytest -n) have to find the same tests.
        return random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID")).sample(range(1_000_000), int(runs))
    return [1, 2, 3, 4]


@dataclass(frozen=True)
class Entry:
    name: str
    shares: int | None = None

    def takes(self, device, driver):
        """Whether a device is of its kind: what its source and match say."""
        if self.name in DRIVERS:
            return driver == DRIVERS[self.name]
        return device in NODES and (self.name == FOO or device in {"foo0", "foo2", "foo4"})

    def ids(self, device):
        return {device} if self.shares is None else {f"{device}::{share}" for share in range(self.shares)}

    def __str__(self):
        if self.name in DRIVERS:
            rest = f'source = "pci"\nmatch = {{ driver = "{DRIVERS[self.name]}" }}'
            give = '[resource.give.env]\nCARDS = { value = "{address}", join = "," }'
        else:
            rest = f'source = {{ node = "/dev/foo{"[0-9]" if self.name == FOO else "[024]"}" }}'
            give = '[resource.give.nodes]\nit = "{node}"'
        shares = "" if self.shares is None else f"replicas = {self.shares}"
        return f'[[resource]]\nname = "{self.name}"\n{rest}\n{shares}\n{give}\n'


def base(each):
    return each.partition("::")[0]


class Chaos:
    """The world, and what can happen in it: every method without an underscore is an operation."""

    def __init__(self, rig, seed):
        self.rig = rig
        self.chance = random.Random(seed)
        self.done = []
        self.entries = (Entry(FOO), Entry(BAR), Entry(NET), Entry(VFIO))
        self.pods = 0
        self.trash = 0
        self.under_way = set()
        self.were_out = set()  # these may be absent under one name and there under another, until they are forgotten
        self.agent = None
        self.stack = AsyncExitStack()
        self.operations = [name for name in vars(Chaos) if not name.startswith("_")]
        for driver in DRIVERS.values():
            rig.tree.at(f"/sys/bus/pci/drivers/{driver}").mkdir(parents=True)
        for device in NODES[:3]:
            self._node(device)
        for device in CARDS[:2]:
            self._card(device, "mlx5_core")
        rig.serve(*map(str, self.entries))

    # ------------------------------------------------------------ the machine

    def plug(self):
        if gone := sorted(set(NODES) - set(self._nodes())):
            self._node(self.chance.choice(gone))

    def unplug(self):
        if there := self._nodes():
            self._away(f"/dev/{self.chance.choice(there)}")

    def replace(self):
        if there := self._nodes():
            device = self.chance.choice(there)
            self._away(f"/dev/{device}")
            self._node(device)

    def plug_card(self):
        if gone := sorted(set(CARDS) - set(self._drivers())):
            self._card(self.chance.choice(gone), self.chance.choice(list(DRIVERS.values())))

    def unplug_card(self):
        if there := sorted(self._drivers()):
            device = self.chance.choice(there)
            self._away(f"/sys/bus/pci/devices/{device}")
            self._away(f"/sys/devices/pci0000:00/{device}")
            self._event(device)

    def bind(self):
        if there := sorted(self._drivers()):
            device = self.chance.choice(there)
            driver = self.chance.choice([*DRIVERS.values(), "none"])
            at = f"/sys/devices/pci0000:00/{device}/driver"
            if driver == "none":
                self.rig.tree.at(at).unlink(missing_ok=True)
            else:
                self.rig.tree.link(at, f"/sys/bus/pci/drivers/{driver}")
            self._event(device)

    def noise(self):
        self._event("0000:99:00.0")
        self.rig.tree.file(f"/dev/other{self.chance.randrange(3)}")

    def _node(self, device):
        self.rig.tree.node(f"/dev/{device}", f"c 240:{self.chance.randrange(256)}")

    def _card(self, device, driver):
        self.rig.tree.pci(device, driver=driver)
        self._event(device)

    def _away(self, path):
        """Moved out of the way: a disk may give the number of a deleted inode to the next file."""
        self.were_out.add(path.rpartition("/")[2])
        self.trash += 1
        self.rig.tree.at(path).rename(self.rig.top / f"trash{self.trash}")

    def _event(self, device):
        if self.agent is not None:
            self.agent.tracker.request_look(kernel_event(f"/sys/devices/pci0000:00/{device}", "pci"))

    def _nodes(self):
        return sorted(set(NODES) & set(os.listdir(self.rig.tree.at("/dev"))))

    def _drivers(self):
        """Each card that is there with its driver."""
        devices = self.rig.tree.at("/sys/bus/pci/devices")
        found = {}
        for device in os.listdir(devices) if devices.is_dir() else ():
            driver = devices / device / "driver"
            found[device] = os.path.basename(os.readlink(driver)) if driver.is_symlink() else ""
        return found

    # ------------------------------------------------------------ the configuration

    async def edit(self):
        names = self.chance.sample([FOO, BAR, NET, VFIO], self.chance.choice([2, 3, 4, 4]))
        self.entries = tuple(Entry(name, self.chance.choice([None, None, 2, 4])) for name in names)
        self.rig.serve(*map(str, self.entries))
        await self.rig.reload(self.agent)

    async def restart_agent(self):
        await self._stop_agent()
        await self._start_agent()

    async def _start_agent(self):
        self.agent = await self.stack.enter_async_context(self.rig.agent())

    async def _stop_agent(self):
        self.agent = None
        await self.stack.aclose()

    # ------------------------------------------------------------ the kubelet

    async def stop_kubelet(self):
        await self.rig.kubelet.stop(self.chance.choice(["term", "kill"]))

    async def start_kubelet(self):
        if not self.rig.kubelet.running:
            await self.rig.kubelet.start(wipe=self.chance.random() < 0.7)

    async def restart_kubelet(self):
        await self.stop_kubelet()
        await self.start_kubelet()

    async def restart_kubelet_twice(self):
        await self.restart_kubelet()
        await asyncio.sleep(self.chance.random() * 0.02)
        await self.restart_kubelet()

    def wipe(self):
        for name in self.rig.sockets():
            (self.rig.dp / name).unlink()

    def close_stream(self):
        if streaming := self._streams():
            self.rig.kubelet.cancel_stream(self.chance.choice(streaming))

    def stop_reading(self):
        if streaming := self._streams():
            self.rig.kubelet.stop_reading(self.chance.choice(streaming))

    def resume_reading(self):
        for name in self._streams():
            self.rig.kubelet.resume_reading(name)

    def lose_pod_resources(self):
        if (there := self.rig.pods / "kubelet.sock").exists():
            there.rename(self.rig.pods / "away")

    def find_pod_resources(self):
        if (away := self.rig.pods / "away").exists():
            if (self.rig.pods / "kubelet.sock").exists():  # that of the next life
                away.unlink()
            else:
                away.rename(self.rig.pods / "kubelet.sock")

    def allocate(self):
        self.pods += 1
        wanted = {self.chance.choice([FOO, BAR, NET, VFIO]): self.chance.choice([1, 1, 2])}
        task = asyncio.create_task(self._admit(f"pod{self.pods}", wanted))
        self.under_way.add(task)

    async def _admit(self, pod, wanted):
        with suppress(PodRefused, KubeletStopped):
            await self.rig.kubelet.allocate(pod, "c", wanted)

    def remove_pod(self):
        if pods := sorted(self.rig.kubelet.pods):
            self.rig.kubelet.remove_pod(self.chance.choice(pods))

    def _streams(self):
        kubelet = self.rig.kubelet
        return [name for name in (FOO, BAR, NET, VFIO) if kubelet.streams(name)]

    # ------------------------------------------------------------ the truth

    def _held(self, name):
        """Ids that pods have; the kubelet forgets those of a pod that is gone only when it is asked something."""
        pods = {name for name, pod in self.rig.kubelet.pods.items() if pod.is_active}
        return {each for each, (pod, _) in self.rig.kubelet.get_held_ids(name).items() if pod in pods}

    def _expected(self):
        """Healthy ids of each resource: what a pod has elsewhere, or had under ids of another form, is not there."""
        holders = {}
        for name in (FOO, BAR, NET, VFIO):
            for each in self._held(name):
                holders.setdefault(base(each), set()).add((name, "::" in each))
        healthy = {entry.name: set() for entry in self.entries}
        for device, driver in {**dict.fromkeys(self._nodes()), **self._drivers()}.items():
            taker = next((entry for entry in self.entries if entry.takes(device, driver)), None)
            if taker and holders.get(device, set()) <= {(taker.name, taker.shares is not None)}:
                healthy[taker.name] |= taker.ids(device)
        return healthy

    def _wrong(self):
        """What differs from the truth in what the kubelet was told last; nothing if all is well."""
        kubelet = self.rig.kubelet
        expected = self._expected()
        there = set(self._nodes()) | set(self._drivers())
        seen = {}
        for name in (FOO, BAR, NET, VFIO):
            held = self._held(name)
            clients = kubelet._find_clients(name)
            if name in expected or held:
                if len(clients) != 1:
                    return f"{name}: {len(clients)} streams"
                if clients[0].last is None:
                    return f"{name}: no list yet"
                told = map_health(clients[0].last)
                healthy = {each for each, health in told.items() if health == HEALTHY}
                if healthy != expected.get(name, set()):
                    return f"{name}: Healthy are {sorted(healthy)}, not {sorted(expected.get(name, set()))}"
                if lost := held - set(told):
                    return f"{name}: held and not listed: {sorted(lost)}"
                devices = {base(each) for each in held}
                odd = [each for each in set(told) - healthy if base(each) in there and base(each) not in devices]
                if odd := [each for each in odd if base(each) not in self.were_out]:
                    return f"{name}: there, free and Unhealthy: {odd}"
                if clash := set(told) & set(seen):
                    return f"listed twice: {[(each, name, seen[each]) for each in clash]}"
                seen.update(dict.fromkeys(told, name))
            elif clients:
                return f"{name}: retired, and still has a stream"
            elif name in self.agent.tracker.device_lists.lists:
                return f"{name}: retired, and the agent will still register it, because a pod may hold an ID"
        return ""

    async def _rest(self):
        """Everything that can run runs, nothing else happens, and the truth comes out."""
        await self.start_kubelet()
        self.find_pod_resources()
        self.resume_reading()
        wrong = "at first"

        def right():
            nonlocal wrong
            self.resume_reading()
            wrong = self._wrong()
            return not wrong

        if self.under_way:
            await asyncio.wait(self.under_way)
            for task in self.under_way:
                task.result()
            self.under_way.clear()
        try:
            await self.rig.until(right)
        except TimeoutError as error:
            raise AssertionError(wrong) from error
        before = len(self.rig.kubelet.lists)
        await self.agent.tracker.wait_for_look()
        assert not self._wrong()
        assert len(self.rig.kubelet.lists) == before
        assert not self.agent.task.done()
        await self._pods_get_what_is_there()

    async def _pods_get_what_is_there(self):
        kubelet = self.rig.kubelet
        for entry in self.entries:
            free = [each for each, health in last(kubelet, entry.name).items() if health == HEALTHY]
            if not set(free) - self._held(entry.name):
                continue
            self.pods += 1
            pod = f"rest{self.pods}"
            options = await kubelet.allocate(pod, "c", {entry.name: 1})
            (each,) = [each for each, holder in kubelet.get_held_ids(entry.name).items() if holder[0] == pod]
            if entry.name in DRIVERS:
                assert options.envs == {"CARDS": base(each)}
            else:
                assert options.devices == {f"/dev/{base(each)}": (f"/dev/{base(each)}", "rw")}
            kubelet.remove_pod(pod)

    async def _run(self, operations):
        await self.rig.kubelet.start()
        try:
            await self._start_agent()
            await self._rest()
            for number in range(1, operations + 1):
                name = self.chance.choice(self.operations)
                self.done.append(name)
                outcome = getattr(self, name)()
                if outcome is not None:
                    await outcome
                await asyncio.sleep(self.chance.choice([0, 0, 0.001, 0.01, 0.05]))
                if number % BETWEEN_RESTS == 0:
                    self.done.append("rest")
                    await self._rest()
        finally:
            for task in self.under_way:
                task.cancel()
            await asyncio.gather(*self.under_way, return_exceptions=True)
            await self._stop_agent()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds())
async def test_whatever_happens_the_truth_comes_out(rig, at_once, monkeypatch, seed):
    monkeypatch.setattr(held_ids, "SURE_SECONDS", 0.3)
    monkeypatch.setattr(
        socket_registration, "STREAM_SECONDS", 1.0
    )  # a stream may be cancelled before the agent sees it
    monkeypatch.setattr(list_publisher, "DELIVERY_SECONDS", 1.0)  # nobody may be reading
    monkeypatch.setattr(allocation, "PUBLISH_SECONDS", 1.5)
    rig.streams_overtake = True  # a slow reader sees the lists of two resources in any order
    chaos = Chaos(rig, seed)
    try:
        await chaos._run(OPERATIONS)
    except BaseException as error:
        error.add_note(f"CHAOS_SEED={seed}: {' '.join(chaos.done)}\n{rig.etc / 'resources.d'}: {chaos.entries}")
        raise
    assert isinstance(rig.kubelet, Kubelet)
    assert rig.kubelet.crashed is None
    assert not [told for told in rig.kubelet.lists if told.duplicates]
