"""A node for tests: the agent, its host tree and its kubelet."""

import asyncio
import os
import socket
import stat
from collections.abc import Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from zlib import crc32

from agent.app import Agent
from agent.config.load import load
from agent.core.registration_phase import Phase
from agent.host.root import Root
from agent.kubelet.messages import v1beta1
from device_agent_lab.simulated.events import KubeletEvent
from device_agent_lab.simulated.kubelet import Kubelet
from device_agent_lab.simulated.plugin_client import Peer
from device_agent_lab.simulated.simulated_node import Limits
from tests.tree import Tree

FOO, BAR = "example.com/foo", "example.com/bar"
FOREIGN = "foreign.sock"

# Nothing here waits for these times to pass, but for what happens after them.
SHORT = Limits(
    dial=5.0, dial_backoff=0.02, pre_start=30.0, get_info=5.0, notify=5.0, watcher_poll=0.01, watcher_backoff=0.02
)


def make_minor(name: str) -> int:
    """Return the minor number of a test's node: two nodes of one number would be one device."""
    return crc32(name.encode()) % (1 << 20)


def entry(name: str, more: str = "", *, nodes: str | None = None, give: str | None = None) -> str:
    """An entry for the nodes that begin with the last part of its name."""
    nodes = nodes or f"/dev/{name.rpartition('/')[2]}[0-9]*"
    give = give if give is not None else 'nodes = { it = "{node}" }'
    return f'[[resource]]\nname = "{name}"\nsource = {{ node = "{nodes}" }}\n{more}\n[resource.give]\n{give}\n'


class Client:
    """A stream of one's own."""

    def __init__(self, peer: Peer, reading: bool) -> None:
        self.peer = peer
        self.lists: list[v1beta1.ListAndWatchResponse] = []
        self.reading = asyncio.Event()
        if reading:
            self.reading.set()
        self.task = asyncio.create_task(
            peer.receive_lists(lambda message, _size: self.lists.append(message), self.reading)
        )

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        if not self.task.cancelled():
            self.task.exception()
        await self.peer.close()


class Rig:
    def __init__(self, top: str) -> None:
        self.top = Path(top)
        self.dp, self.watched, self.pods = (self.top / part for part in ("k/dp", "k/reg", "k/pr"))
        self.etc, self.state = self.top / "etc", self.top / "state"
        self.control = self.top / "run/control.sock"
        (self.etc / "resources.d").mkdir(parents=True)
        self.tree = Tree(self.top / "m")
        self.settings()
        self._clients: list[Client] = []
        self.kubelet = self.new_kubelet()

    def new_kubelet(self, **how) -> Kubelet:
        self.kubelet = Kubelet(
            self.dp,
            **{
                "limits": SHORT,
                "watcher_directory": self.watched,
                "pod_resources_directory": self.pods,
                **how,
            },
        )
        return self.kubelet

    # ------------------------------------------------------------ configuration and machine

    def settings(self, more: str = "", *, kubelet: str = "", look: str = 'settle = "5ms"\nevery = "1h"') -> None:
        (self.etc / "agent.toml").write_text(
            f'[kubelet]\ndir = "{self.dp}"\nwatcher_dir = "{self.watched}"\n'
            f'pod_resources = "{self.pods}/kubelet.sock"\n{kubelet}\n[paths]\nstate = "{self.state}"\n'
            f'control = "{self.control}"\n'
            f"[look]\n{look}\n{more}"
        )

    def serve(self, *entries: str, file: str = "10.toml") -> None:
        """A resources file with these entries, whole at once; a mere name is an entry for its nodes."""
        texts = [text if text.startswith("[") else entry(text) for text in entries]
        (self.top / "new.toml").write_text("\n".join(texts))
        (self.top / "new.toml").rename(self.etc / "resources.d" / file)

    def plug(self, *names: str, major: int = 240) -> None:
        for name in names:
            self.tree.node(f"/dev/{name}", f"c {major}:{make_minor(name)}")

    def unplug(self, *names: str) -> None:
        for name in names:
            self.tree.at(f"/dev/{name}").unlink()

    def replug(self, *names: str) -> None:
        for name in names:
            self.tree.file(f"/dev/{name}")

    # ------------------------------------------------------------ agent

    def make_agent(self, **how) -> Agent:
        configuration = load(str(self.etc))
        assert how.pop("invalid", False) or configuration.is_valid, configuration.findings
        root, state = how.pop("root", self.tree.root), str(how.pop("state", self.state))
        return Agent(configuration, root, state, **how)

    @asynccontextmanager
    async def agent(self, **how):
        """Yield a running agent. At the end it must stop."""
        agent = self.make_agent(**how)
        task = asyncio.create_task(agent.run(), name="agent")
        agent.task = task
        try:
            yield agent
        except BaseException:
            task.cancel()
            await asyncio.wait([task])
            raise
        if not task.done():
            agent.stop()
        async with asyncio.timeout(30):  # on a host that does much else
            await task

    async def reload(self, agent: Agent):
        configuration = load(str(self.etc), active_settings=agent.settings)
        assert configuration.is_valid, configuration.findings
        return await agent.reload(configuration)

    async def client(self, resource: str, *, reading: bool = True) -> "Client":
        """Somebody else at the socket of a resource, with a stream."""
        path = next(
            event.detail["socket"]
            for event in self.kubelet.events[::-1]
            if event.kind == "registered" and event.resource == resource
        )
        client = Client(await Peer.dial(path, authority="localhost", user_agent="test", limit=30, backoff=0.1), reading)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        await self.kubelet.stop()

    # ------------------------------------------------------------ what there is

    async def until(self, condition, seconds: float = 120.0):
        return await self.kubelet.until(condition, seconds)

    async def streaming(self, *resources: str, streams: int = 1) -> None:
        """Each of them has its streams and a list with the kubelet that runs now."""

        def there() -> bool:
            listed = {event.resource for event in self.this_life() if event.kind == "list"}
            return listed >= set(resources) and all(self.kubelet.streams(name) == streams for name in resources)

        await self.until(there)

    def this_life(self) -> list[KubeletEvent]:
        """Return the events since the start of the current or last kubelet."""
        begun = max((event.number for event in self.kubelet.events.select("bound")), default=0)
        return self.kubelet.events[begun:]

    async def allocatable(self, resource: str, number: int) -> None:
        await self.until(lambda: self.kubelet.allocatable(resource) == number)

    def registers(self, resource: str | None = None) -> int:
        """How many Register calls this life of the kubelet has seen."""
        return sum(event.kind == "register" and resource in (None, event.resource) for event in self.this_life())

    def sockets(self, directory: Path | None = None) -> list[str]:
        """Those of the agent."""
        return sorted(name for name in os.listdir(directory or self.dp) if "device-agent-" in name)

    def bystander(self, directory: Path | None = None) -> Path:
        """A socket of somebody else's."""
        path = (directory or self.dp) / FOREIGN
        path.parent.mkdir(parents=True, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
        return path

    def kinds(self) -> set[str]:
        """Return the files in the directory of the kubelet without its checkpoint and sockets."""
        return {
            path.name
            for path in self.dp.iterdir()
            if not path.name.startswith("kubelet_internal_checkpoint") and _is_other(path)
        }


def _is_other(path: Path) -> bool:
    """Return whether the path is a file and no socket. A file of the kubelet can be renamed at any time."""
    try:
        return not stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def stop_watching(agent: Agent) -> None:
    """Stop all events about the machine."""
    agent.parts.path_watch.watch(())
    agent.parts.path_watch.watch = lambda _directories: None  # it would, whenever lists are told


def phases(agent: Agent) -> dict[str, Phase]:
    return {name: state.phase for name, state in agent.status.resources.items()}


def reason(agent: Agent, resource: str) -> str:
    state = agent.status.resources.get(resource)
    return str(state.reason) if state else ""


def ids(devices: Iterable) -> set[str]:
    return {device.id for device in devices}


REAL = Root()
