"""The real and the simulated kubelet with one interface, so that a scenario runs on both.

Words are those of the simulated kubelet (`until`, `capacity`, `allocatable`, `streams`, `events`); what has to be
asked of a real one is asked with `await`. Containers are given by what they want; they are named c0, c1, ... and
init containers i0, i1, ...
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agent.core.struct import replace
from device_agent_lab.simulated.container_options import ContainerOptions
from device_agent_lab.simulated.errors import AllocationError, KubeletCrashed, PodRefused
from device_agent_lab.simulated.events import KubeletEvents
from device_agent_lab.simulated.kubelet import Kubelet
from device_agent_lab.simulated.simulated_node import SOCKET
from tests.real.manager import Manager

Wants = Mapping[str, int]  # resource: number
Given = dict[str, dict[str, set[str]]]  # container: resource: ids
Hints = list[tuple[tuple[int, ...], bool]] | None

KINDS = ("simulated-1.34", "real-1.34", "simulated-1.37", "real-1.37")
REAL = tuple(kind for kind in KINDS if kind.startswith("real"))
HEAVY = (*REAL, "simulated-1.37")  # where one minor of the simulated one is enough
HEALTH_IN_STATUS = tuple(kind for kind in KINDS if kind.endswith("1.37"))  # it came with 1.36
SECONDS = 120.0  # until something that does not come is taken for missing


@dataclass(frozen=True)
class Seen:
    """The state of one resource in a kubelet."""

    healthy: frozenset[str] = frozenset()
    unhealthy: frozenset[str] = frozenset()
    allocated: frozenset[str] = frozenset()


View = dict[str, Seen]
NOTHING = Seen()


def name_pods(letter: str, wants: Sequence[Wants]) -> list[dict[str, Any]]:
    return [{"name": f"{letter}{number}", "resources": dict(each)} for number, each in enumerate(wants)]


class Looking:
    """The common part of both kubelets."""

    events: KubeletEvents

    async def view(self) -> View:
        raise NotImplementedError

    async def seen(self, condition: Callable[[View], object], seconds: float = SECONDS) -> View:
        """The first view that fulfils a condition; looked at after every event."""
        view: View = {}
        try:
            async with asyncio.timeout(seconds):
                while True:
                    number = len(self.events)
                    view = await self.view()
                    if condition(view):
                        return view
                    with suppress(TimeoutError):
                        await self.events.until(lambda number=number: len(self.events) > number, 0.2)
        except TimeoutError:
            last = "\n  ".join(map(str, self.events[-10:]))
            raise TimeoutError(f"not within {seconds} s; seen last: {view}; the last events:\n  {last}") from None

    async def sees(self, resource: str, healthy: object, unhealthy: object = ()) -> None:
        """Wait for exactly these ids."""
        wanted = (frozenset(healthy), frozenset(unhealthy))  # type: ignore[arg-type]

        def there(view: View) -> bool:
            seen = view.get(resource, NOTHING)
            return (seen.healthy, seen.unhealthy) == wanted

        await self.seen(there)


class Simulated(Kubelet, Looking):
    """The one of lab/device_agent_lab/simulated."""

    real = False

    def __init__(self, directory: object, **how: Any) -> None:
        self._later = 0.0
        self._reboot = False
        super().__init__(directory, clock=lambda: time.monotonic() + self._later, **how)

    async def until(self, condition, timeout=SECONDS):  # noqa: ASYNC109
        return await super().until(condition, timeout)

    async def close(self) -> None:
        await self.stop()

    async def again(self, *, kill: bool = False, reboot: bool = False) -> None:
        """Stop, and start in the same directory; `readmit` follows."""
        await self.down(kill=kill)
        await self.up(reboot=reboot)

    async def down(self, *, kill: bool = False) -> None:
        await self.stop("kill" if kill else "term")

    async def up(self, *, reboot: bool = False) -> None:
        self._reboot = reboot
        await self.start()

    async def pods_again(self) -> dict[str, str]:
        """Admission of the pods that are left, as after a start; returns {pod: why it was refused}."""
        return await self.readmit(reboot=self._reboot)

    @property
    def open_streams(self) -> int:
        clients = self._process.clients if self._process else None
        return sum(client.is_streaming for client in clients.open) if clients else 0

    async def view(self) -> View:
        if self._process is None:
            return {}
        table, taken = self._process.table, self._process.admission.pod_devices.allocated
        return {
            name: Seen(
                frozenset(table.healthy.get(name, ())),
                frozenset(table.unhealthy.get(name, ())),
                frozenset(taken.get(name, ())),
            )
            for name in table.healthy.keys() | table.unhealthy.keys() | taken.keys()
        }

    async def admit(self, pod: str, *wants: Wants, init: Sequence[Wants] = ()) -> Given:
        """A pod with these containers, or PodRefused."""
        for container in name_pods("i", init):
            await self.allocate(pod, container["name"], container["resources"], init=True)
        for container in name_pods("c", wants):
            await self.allocate(pod, container["name"], container["resources"])
        holdings = self._process.admission.pod_devices
        return {
            name: {held.resource: set(held.ids) for held in holdings.find_entries(pod, name)}
            for name in self.pods[pod].containers
        }

    async def begin(self, pod: str, container: str = "c0") -> ContainerOptions:
        """Start a container, as often as one likes."""
        return await self.start_container(pod, container)

    async def over(self, pod: str) -> None:
        self.remove_pod(pod)

    async def status_of(self, pod: str) -> dict[str, str]:
        """Return allocatedResourcesStatus of each device of a pod."""
        return self.device_health(pod)

    async def placing(self, resource: str, wanted: int) -> Hints:
        """The hints for a container to come."""
        hints = self.hints(resource, wanted)
        return None if hints is None else sorted((tuple(sorted(h.nodes or ())), h.preferred) for h in hints)

    async def age(self, resource: str, seconds: float) -> None:
        self._later += seconds


class Real(Looking):
    """A process with the device manager of one release. Its reports get the words of the simulated kubelet."""

    real = True

    def __init__(self, program: str, directory: object, *options: str) -> None:
        self.directory = str(directory)
        self.socket = os.path.join(self.directory, SOCKET)
        self.events = KubeletEvents()
        self.status: dict[str, dict[str, int]] = {}
        self._program = program
        self._options = options
        self._manager: Manager | None = None
        self._streams: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()  # Register that has no outcome yet
        self._old_streams: Counter[str] = Counter()
        self._old_asked: Counter[str] = Counter()
        self._pods: dict[str, dict[str, Any]] = {}

    @property
    def manager(self) -> Manager:
        assert self._manager is not None
        return self._manager

    @property
    def crashed(self) -> str | None:
        return None if self._manager is None else self._manager.crashed

    # ------------------------------------------------------------ lives

    async def start(self) -> None:
        if self._manager is not None:
            await self.manager.do("begin", readmit=False)
            return
        self._manager = await Manager(
            self._program,
            self.directory,
            *self._options,
            f"-sources-ready={str(not self._pods).lower()}",
            heard=self._heard,
            ended=self.events.wake,
        ).__aenter__()
        begun = self.events.count("started")
        await self.until(lambda: self.events.count("started") > begun)

    async def stop(self, kind: str = "term") -> None:
        await self.down(kill=kind == "kill")

    async def close(self) -> None:
        if self._manager is not None:
            await self._manager.close()

    async def again(self, *, kill: bool = False, reboot: bool = False) -> None:
        await self.down(kill=kill)
        await self.up(reboot=reboot)

    async def down(self, *, kill: bool = False) -> None:
        if not kill:
            await self._ask("stop")
            return
        await self.manager.kill()
        self._manager = None
        self._end_life()
        self._old_streams, self._old_asked = Counter(), Counter()  # nothing is said any more

    async def up(self, *, reboot: bool = False) -> None:
        if self._manager is not None:
            await self._ask("begin", readmit=False, running=not reboot)
            return
        await self.start()  # knows no pods; handed over again, they are as after a reboot

    async def pods_again(self) -> dict[str, str]:
        refused = {}
        await self._ask("sources", ready=False)
        for pod, spec in list(self._pods.items()):
            answer = await self.manager.do("admit", pod=pod, **spec)
            if not answer["ok"]:
                refused[pod] = f"{answer['reason']}: {answer['error']}"
                del self._pods[pod]
        await self._ask("sources", ready=True)
        return refused

    # ------------------------------------------------------------ looking

    async def until(self, condition, timeout: float = SECONDS):  # noqa: ASYNC109
        def look():
            if (crashed := self.crashed) is not None:
                raise KubeletCrashed(crashed)
            return condition()

        return await self.events.until(look, timeout)

    def capacity(self, resource: str) -> int:
        return self.status.get(resource, {}).get("capacity", 0)

    def allocatable(self, resource: str) -> int:
        return self.status.get(resource, {}).get("allocatable", 0)

    @property
    def open_streams(self) -> int:
        return sum(self._streams.values())

    def streams(self, resource: str) -> int:
        return self._streams[resource]

    async def view(self) -> View:
        resources = (await self._ask("view"))["resources"]
        return {
            name: Seen(*(frozenset(seen[word] or ()) for word in ("healthy", "unhealthy", "allocated")))
            for name, seen in resources.items()
        }

    async def clients(self, resource: str) -> int:
        """How many the registry knows."""
        return (await self._ask("view"))["clients"].get(resource, 0)

    # ------------------------------------------------------------ pods

    async def admit(self, pod: str, *wants: Wants, init: Sequence[Wants] = ()) -> Given:
        spec = self._pods[pod] = {"containers": name_pods("c", wants), "init": name_pods("i", init)}
        answer = await self.manager.do("admit", pod=pod, **spec)
        if not answer["ok"]:
            del self._pods[pod]
            raise PodRefused(answer["reason"], answer["error"])
        return {
            container: {resource: set(ids) for resource, ids in held.items()}
            for container, held in answer["devices"].items()
        }

    async def begin(self, pod: str, container: str = "c0") -> ContainerOptions:
        answer = await self.manager.do("start", pod=pod, container=container)
        if not answer["ok"]:
            raise AllocationError(answer["error"])
        given = answer["options"]
        return ContainerOptions(
            envs=given["envs"],
            devices={d["container_path"]: (d["host_path"], d["permissions"]) for d in given["devices"]},
            mounts={m["container_path"]: (m["host_path"], m["read_only"]) for m in given["mounts"]},
            annotations=given["annotations"],
            cdi_devices=given["cdi_devices"],
        )

    async def over(self, pod: str) -> None:
        del self._pods[pod]
        await self._ask("remove", pod=pod)

    async def status_of(self, pod: str) -> dict[str, str]:
        health = (await self._ask("status", pod=pod))["health"]
        return {i: h for resources in health.values() for ids in resources.values() for i, h in ids.items()}

    async def placing(self, resource: str, wanted: int) -> Hints:
        hints = (await self._ask("hints", containers=name_pods("c", [{resource: wanted}])))["hints"]["c0"].get(resource)
        return None if hints is None else sorted((tuple(h["nodes"] or ()), h["preferred"]) for h in hints)

    async def age(self, resource: str, seconds: float) -> None:
        await self._ask("age", resource=resource, seconds=seconds)

    async def _ask(self, do: str, **fields: Any) -> dict[str, Any]:
        answer = await self.manager.do(do, **fields)
        assert answer["ok"], answer
        return answer

    # ------------------------------------------------------------ events

    def _heard(self, said: dict[str, Any]) -> None:
        event, resource = said["event"], str(said.get("resource") or "")
        detail = {key: value for key, value in said.items() if key not in ("event", "resource", "t", "level")}
        if event == "resources":
            for name in said["gone"]:
                self.status.pop(name, None)
            self.status |= said["changed"]
        elif event == "ended-life":
            self._end_life()
        elif event == "register":
            self._asked[resource] += 1
        elif event == "connected":
            self._asked[resource] -= 1
            self._streams[resource] += 1
        elif event == "refused" and self._old_asked[resource]:
            self._old_asked[resource] -= 1
            event = "refused-late"
        elif event == "ended":
            if self._old_streams[resource]:
                self._old_streams[resource] -= 1
                event = "ended-late"
            else:
                self._streams[resource] -= 1
        kind = "watched" if event == "register" and "endpoint" in said else SAID_HERE.get(event, event)
        self.events.add(kind, resource, **detail)

    def _end_life(self) -> None:
        # The ends of its streams may be said later, among the events of a life to come, and so may the refusal of a
        # Register that came when the kubelet was stopping: streams end before its socket is closed.
        self._old_streams += self._streams
        self._old_asked = self._asked
        self._streams, self._asked, self.status = Counter(), Counter(), {}
        self.events.add("bound")


SAID_HERE = {
    "program": "bound",
    "refused": "register_refused",
    "connected": "registered",
    "devices": "list",
    "ended": "stream_ended",
    "prestart": "pre_start",
}


def minor(kind: str) -> str:
    return kind.partition("-")[2]


def options_equal(one: ContainerOptions, other: ContainerOptions) -> bool:
    """Without the events that only the simulated kubelet reports."""
    return replace(one, conflicts=[], without=()) == replace(other, conflicts=[], without=())
