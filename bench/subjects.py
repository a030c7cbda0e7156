"""The measured servers: the agent and the two bare servers, each a process with a kubelet of its own."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench.kubelet import Kubelet
from bench.nodes import Nodes

TOP = Path(__file__).parent.parent
GO = TOP / "bench" / "go"

SETTINGS = """\
[kubelet]
dir = "{top}/k"
watcher_dir = "{top}/w"
pod_resources = "{top}/k/pods.sock"
[paths]
state = "{top}/state"
control = "{top}/control.sock"
[look]
every = "{every}"
"""
ENTRY = """\
[[resource]]
name = "bench.example/r{number:03}"
source = {{ node = "{directory}/r{number:03}-*" }}
accept = {{ unstable-id = "it is the name of a node of the measurement's" }}
[resource.give]
nodes = {{ it = "{{node}}" }}
"""


class Subject:
    """A server as a process, and the kubelet that it registers with."""

    name = ""

    def __init__(self, top: str) -> None:
        self.top = os.path.join(top, self.name)
        os.makedirs(self.top)
        self.kubelet = Kubelet(os.path.join(self.top, "k"))
        self.spawned = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def spawn(self, resources: int, devices: int) -> None:
        """Start the process; each resource has that many devices. The kubelet is not waited for."""
        command = self.command(resources, devices)
        with open(os.path.join(self.top, "log"), "ab") as log:
            self.spawned = time.perf_counter()
            self._process = subprocess.Popen(
                command, cwd=TOP, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment()
            )

    async def serve(self, resources: int, devices: int) -> None:
        """Start kubelet and process; return when every resource has its list."""
        await self.kubelet.start()
        self.spawn(resources, devices)
        await self.kubelet.listed(resources)

    def end(self) -> None:
        """Stop both, at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process = None
        self.kubelet.stop()

    def command(self, resources: int, devices: int) -> list[str]:
        raise NotImplementedError

    def change(self, resource: int, device: int, *, healthy: bool) -> None:
        """One device goes bad, or well again."""
        raise NotImplementedError


class Agent(Subject):
    """device-agent itself, as systemd starts it; its devices are nodes that appear and vanish."""

    name = "agent"

    def __init__(self, top: str, nodes: Nodes) -> None:
        super().__init__(top)
        self.nodes = nodes
        self.more = ""
        self.every = "1h"
        os.makedirs(os.path.join(self.top, "etc", "resources.d"))

    def command(self, resources: int, devices: int) -> list[str]:
        self.nodes.fill(resources, devices)
        shutil.rmtree(os.path.join(self.top, "state"), ignore_errors=True)
        etc = Path(self.top, "etc")
        (etc / "agent.toml").write_text(SETTINGS.format(top=self.top, every=self.every), "ascii")
        entries = [ENTRY.format(number=number, directory=self.nodes.directory) for number in range(resources)]
        (etc / "resources.d" / "bench.toml").write_text("".join([*entries, self.more]), "ascii")
        return [sys.executable, "-m", "agent", "run", "--config", str(etc), "--root", self.nodes.root]

    def change(self, resource: int, device: int, *, healthy: bool) -> None:
        (self.nodes.put if healthy else self.nodes.take)(resource, device)


class Bare(Subject):
    """A server with commands over stdin."""

    program: tuple[str, ...] = ()

    def command(self, resources: int, devices: int) -> list[str]:
        return [*self.program, self.kubelet.directory, str(resources), str(devices)]

    def change(self, resource: int, device: int, *, healthy: bool) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        os.write(self._process.stdin.fileno(), f"{resource} {device} {int(healthy)}\n".encode())


class BarePython(Bare):
    """grpclib, betterproto2 and uvloop, and nothing else."""

    name = "bare Python"
    program = (sys.executable, "-m", "bench.bare")

    def __init__(self, top: str) -> None:
        super().__init__(top)


class BareGo(Bare):
    """grpc-go and the kubelet's own API package."""

    name = "bare Go"


def build_go() -> str:
    """Build the Go server if needed and return its path.

    Returns:
        Its path; or empty, after a line that says why it is left out.
    """
    go = shutil.which("go")
    if go is None:
        print("no column for Go: there is no `go` on PATH", file=sys.stderr)
        return ""
    sources = b"".join((GO / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "device-agent-bench"
    binary = cache / f"bare-{hashlib.sha256(sources).hexdigest()[:16]}"
    if not binary.exists():
        cache.mkdir(parents=True, exist_ok=True)
        print("building the Go server (once) ...", file=sys.stderr)
        built = subprocess.run(
            [go, "build", "-trimpath", "-o", str(binary), "."], cwd=GO, capture_output=True, text=True, check=False
        )
        if built.returncode:
            print(f"no column for Go: it cannot be built: {built.stderr.strip()[-300:]}", file=sys.stderr)
            return ""
    return str(binary)


def environment() -> dict[str, str]:
    """Return the environment of a service, without the variables of a shell or a service manager."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR")
    return {name: os.environ[name] for name in kept if name in os.environ}


async def quiet(seconds: float) -> None:
    """Let everything come to rest."""
    await asyncio.sleep(seconds)
