"""A node: containerd, the whole kubelet and the agent in a machine of their own."""

import asyncio
import compileall
import json
import os
import re
import shutil
import signal
import socket
import stat
import sys
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import agent
from agent.kubelet.grpc_channel import dial
from agent.kubelet.messages.v1 import AllocatableResourcesRequest, PodResourcesListerStub
from agent.kubelet.pod_resources import Holder, list_holders
from tests.node import image
from tests.node.keeper import remove_group
from tests.node.machine import PATH, Machine, Process, until

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
PLUGINS = "/var/lib/kubelet/device-plugins"
POD_RESOURCES = "/var/lib/kubelet/pod-resources/kubelet.sock"
MANIFESTS, STAGED = "/var/lib/kubelet/manifests", "/var/lib/kubelet/staged"
ETC, STATE = "/run/device-agent/etc", "/var/lib/device-agent"
PROGRAM = "/run/program"
SHIMS = "/run/shims"
CDI = "/var/run/cdi"
READ_ONLY_PORT = 10255
NAME = "node"
OK = 200

NODE = re.compile(r"^([bc])\S+ .*?(\d+), *(\d+) .* (/dev/\S+)$", re.MULTILINE)
# To open a node of a number that no driver has, where nothing else forbids it.
NO_DRIVER = "No such device or address"
EVERYWHERE = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "console")}

CONTAINERD = f"""
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image.NAME}"
restrict_oom_score_adj = true
disable_apparmor = true
device_ownership_from_security_context = {{hands_over}}
tolerate_missing_hugetlb_controller = true
disable_hugetlb_controller = true
[plugins."io.containerd.grpc.v1.cri".cni]
conf_dir = "/var/lib/cni/conf"
bin_dir = "/var/lib/cni/bin"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
container_annotations = ["node.test/*", "cdi.k8s.io/*"]
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""

KUBELET = {
    "kind": "KubeletConfiguration",
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "staticPodPath": MANIFESTS,
    "fileCheckFrequency": "1s",
    "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
    "cgroupDriver": "cgroupfs",
    "failCgroupV1": False,
    "failSwapOn": False,
    "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
    "localStorageCapacityIsolation": False,
    "makeIPTablesUtilChains": False,
    "address": "127.0.0.1",
    "readOnlyPort": READ_ONLY_PORT,
    "healthzPort": 0,
    "enableServer": True,
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
}


IDS = 'IDS = { value = "{id}", join = "," }'


def entry(name: str, nodes: str, *, more: str = "", to: str = "", permissions: str = "rw", env: str = IDS) -> str:
    """An entry for resources.d; the name is what follows node.test/."""
    to = f', to = "{to}"' if to else ""
    return (
        f'[[resource]]\nname = "node.test/{name}"\nsource = {{ node = "{nodes}" }}\n{more}\n'
        f'[resource.give.nodes]\nit = {{ path = "{{node}}"{to}, permissions = "{permissions}" }}\n'
        f"[resource.give.env]\n{env}\n"
    )


def unit_setting(name: str) -> str:
    """What the systemd unit says."""
    unit = Path(agent.__file__).parent.parent / "systemd/device-agent.service"
    return re.search(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)[1]


def manifest(pod: str, limits: dict[str, str], security: dict[str, int] | None = None) -> dict:
    """A pod of one container."""
    container = {
        "name": "main",
        "image": image.NAME,
        "imagePullPolicy": "Never",
        "resources": {"limits": limits},
        "securityContext": security or {},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod, "namespace": "default"},
        "spec": {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container]},
    }


@dataclass(frozen=True)
class Runtime:
    """A containerd, and the shim it starts containers by, which it finds by name; if none is said, those in PATH."""

    containerd: str = "containerd"
    shim: str = ""

    def env(self, node: "Node") -> dict[str, str]:
        """What containerd has to be told."""
        if not self.shim:
            return {}
        link = node.machine.path(f"{SHIMS}/containerd-shim-runc-v2")
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(self.shim)
        return {"PATH": f"{SHIMS}:{PATH}"}


DISTRIBUTION = Runtime()
CONTAINERD_2 = "2.3"  # built by tests/kubelet/build; knows CDI


class Node:
    """Its pods are static ones. Attributes: containerd, kubelet, agent: the processes that run, or ran last."""

    kubelet_flags: tuple[str, ...] = ("--register-node=false",)
    hands_over = False  # whether containerd gives nodes to the user of the container

    def __init__(self, machine: Machine, kubelet: Path, runtime: Runtime = DISTRIBUTION) -> None:
        self.machine = machine
        self._runtime = runtime
        self._kubelet_program = kubelet
        self.containerd: Process
        self.kubelet: Process
        self.agent: Process | None = None
        self._pods: set[str] = set()
        self._plugged: list[Path] = []
        self._execs = 0
        self._before_cut: set[str] = set()
        for directory in (MANIFESTS, STAGED, PLUGINS, f"{ETC}/resources.d", "/run/etc", "/var/lib/cni"):
            machine.path(directory).mkdir(parents=True, exist_ok=True)

    # ------------------------------------------------------------ containerd and kubelet

    def start_containerd(self) -> None:
        self.machine.path("/run/etc/containerd.toml").write_text(
            CONTAINERD.format(hands_over=str(self.hands_over).lower())
        )
        self.containerd = self.machine.start(
            "containerd", self._runtime.containerd, "--config", "/run/etc/containerd.toml", env=self._runtime.env(self)
        )
        self.containerd.says("Start streaming server", 30)  # the CRI is the last to be there

    def import_image(self) -> None:
        busybox = shutil.which("busybox")
        applets = [name for name in self.machine.must("busybox", "--list").split() if name != "busybox"]
        self.machine.path("/run/image.tar").write_bytes(image.archive(busybox, applets))
        self.ctr("images", "import", "/run/image.tar")
        self.machine.path("/run/image.tar").unlink()

    def start_kubelet(self) -> None:
        self.machine.path("/run/etc/kubelet.json").write_text(json.dumps(KUBELET))
        self.kubelet = self.machine.start(
            "kubelet", str(self._kubelet_program),
            "--config=/run/etc/kubelet.json", f"--hostname-override={NAME}", "--v=2", *self.kubelet_flags,
        )  # fmt: skip
        until(self._kubelet_serves, 60, "the kubelet serves")

    def _kubelet_serves(self) -> bool:
        if self.pods() is not None and self.listens(f"{PLUGINS}/kubelet.sock"):
            return True
        assert self.kubelet.runs, "the kubelet ended"
        return False

    def restart_kubelet(self) -> None:
        self.kubelet.end()
        self.start_kubelet()

    def ctr(self, *command: str) -> str:
        return self.machine.must("ctr", "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io", *command)

    def listens(self, path: str) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(self.machine.path(path)))
            except OSError:
                return False
        return True

    def boot_times(self) -> tuple[float, float]:
        """Milliseconds from the kubelet's registry to its first pod, and to our list in it."""
        begun = self._at("Starting device plugin registration server")
        return self._at('"SyncLoop ADD"') - begun, self._at("Processed device updates for resource") - begun

    def _at(self, text: str) -> float:
        """When this kubelet first logged it, in milliseconds of its day."""
        pattern = rf"^[IWE]\d{{4}} (\d+):(\d+):([\d.]+) .*{re.escape(text)}"
        found = until(lambda: re.search(pattern, self.kubelet.said, re.MULTILINE), 20, f"the kubelet logs {text}")
        return ((int(found[1]) * 60 + int(found[2])) * 60 + float(found[3])) * 1000

    def cut_power(self) -> None:
        """Every process is gone at once, and what a boot has anew: mounts, cgroups and /run/containerd."""
        self._before_cut = set(self.ctr("containers", "list", "--quiet").split())
        self.machine.ask("kill_all")
        for process in (self.agent, self.kubelet, self.containerd):
            process.wait()
        mounts = [line.split()[4] for line in self.machine.path("/proc/1/mountinfo").read_text().splitlines()]
        for path in sorted((path for path in mounts if path.startswith("/run/")), reverse=True):
            self.machine.must("umount", "--lazy", path)
        shutil.rmtree(self.machine.path("/run/containerd"))
        for group in self.machine.path("/sys/fs/cgroup").glob("**/kubepods"):
            until(lambda group=group: remove_group(group), 10, f"{group} is removed")

    def begin(self) -> None:
        """For the first time, with the image that pods are made of."""
        self.start_containerd()
        self.import_image()
        self.start_kubelet()

    def boot(self) -> None:
        self.start_containerd()
        self.start_kubelet()

    # ------------------------------------------------------------ the agent

    def serve(self, *entries: str, settle: str = "50ms") -> None:
        """The configuration from now on; a running agent is not told."""
        self.machine.path(f"{ETC}/agent.toml").write_text(f'[look]\nsettle = "{settle}"\n')
        self.machine.path(f"{ETC}/resources.d/node.toml").write_text("\n".join(entries))

    def install(self, version: str) -> None:
        """Put the agent's files there, in place of those that are."""
        program = self.machine.path(PROGRAM)
        shutil.rmtree(program, ignore_errors=True)
        shutil.copytree(Path(agent.__file__).parent, program / "agent", ignore=shutil.ignore_patterns("__pycache__"))
        (program / "agent/__init__.py").write_text(f'__version__ = "{version}"\n')
        compileall.compile_dir(program, quiet=1, stripdir=self.machine.root, prependdir="/")

    def uninstall(self) -> None:
        shutil.rmtree(self.machine.path(PROGRAM))

    def version(self) -> str:
        """Of the files that are there, as they tell."""
        env = {"PYTHONPATH": PROGRAM, "PYTHONDONTWRITEBYTECODE": "1"}
        process = self.machine.start("version", sys.executable, "-m", "agent.cli.main", "--version", env=env)
        assert process.wait() == 0, process.said
        return process.said.split()[1]

    def start_agent(self, *, wait: bool = True, root: str = "/") -> None:
        """`root`: a tree that it looks at in place of the machine; containers get the machine's nodes all the same."""
        self.agent = self.machine.start(
            "agent", "nice", "-n", unit_setting("Nice"),
            sys.executable, "-m", "agent.cli.main", "--root", root, "run", "--config", ETC, "--state", STATE,
            env={"PYTHONPATH": PROGRAM, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        if wait:
            self.agent.says("starting → ready")
            assert "error[" not in self.agent.said, self.agent.said

    def restart_agent(self, number: int = signal.SIGKILL) -> None:
        self.agent.end(number)
        self.start_agent()

    def reload_agent(self) -> None:
        self.agent.forget_said()
        self.agent.send(signal.SIGHUP)
        self.agent.says("configuration: ")

    def held(self) -> set[str]:
        """Ids that the agent takes for held by pods, as its state file says."""
        return set(json.loads(self.machine.path(f"{STATE}/state.json").read_text())["held"])

    def holders(self) -> dict[tuple[str, str], tuple[Holder, ...]]:
        """What the kubelet's PodResources says of the same."""
        return dict(asyncio.run(list_holders(str(self.machine.path(POD_RESOURCES)), 10)))

    def allocatable(self) -> dict[str, set[str]]:
        """The healthy ids of each resource, as the kubelet's PodResources says."""

        async def ask():
            async with dial(str(self.machine.path(POD_RESOURCES))) as channel:
                return await PodResourcesListerStub(channel).get_allocatable_resources(AllocatableResourcesRequest())

        found: dict[str, set[str]] = {}
        for devices in asyncio.run(ask()).devices:
            found.setdefault(devices.resource_name, set()).update(devices.device_ids)
        return found

    def offers(self, name: str, *ids: str, seconds: float = 20) -> None:
        """The kubelet has these ids of a resource to give, and no others."""
        full = f"node.test/{name}"
        until(lambda: self.allocatable().get(full, set()) == set(ids), seconds, f"{name} has {ids}")

    def logs(self) -> list[Path]:
        return [
            self.machine.path(f"/run/log/{name}")
            for name in ("agent", "kubelet", "containerd")
            if self.machine.path(f"/run/log/{name}").exists()
        ]

    # ------------------------------------------------------------ devices

    def plug(self, name: str, kind: str, major: int, minor: int) -> None:
        path = self.machine.path(f"/dev/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(path, {"b": stat.S_IFBLK, "c": stat.S_IFCHR}[kind] | 0o660, os.makedev(major, minor))
        self._plugged.append(path)

    def unplug(self, name: str) -> None:
        self.machine.path(f"/dev/{name}").unlink()

    # ------------------------------------------------------------ pods

    def apply(self, pod: str, **limits: int) -> None:
        """Have a pod of one container; the limits are by the last part of the resource's name."""
        self.deploy(pod, {f"node.test/{name}": str(count) for name, count in limits.items()})

    def deploy(self, pod: str, limits: dict[str, str], security: dict[str, int] | None = None) -> None:
        staged = self.machine.path(f"{STAGED}/{pod}.json")
        staged.write_text(json.dumps(manifest(pod, limits, security)))
        staged.rename(self.machine.path(f"{MANIFESTS}/{pod}.json"))
        self._pods.add(pod)

    def pods(self) -> dict[str, dict] | None:
        """All pods by name, as the kubelet tells; nothing while it does not answer."""
        answer = self.machine.fetch(f"http://127.0.0.1:{READ_ONLY_PORT}/pods")
        if answer is None or answer[0] != OK:
            return None
        items = json.loads(answer[1])["items"] or []
        return {item["metadata"]["name"].removesuffix(f"-{NAME}"): item for item in items}

    def status(self, pod: str) -> dict:
        return ((self.pods() or {}).get(pod) or {}).get("status", {})

    def running(self, *pods: str, seconds: float = 40) -> None:
        for pod in pods:
            until(lambda pod=pod: self._runs(pod), seconds, f"{pod} runs: {self.status(pod)}")

    def _runs(self, pod: str) -> bool:
        status = self.status(pod)
        assert status.get("phase") != "Failed", status
        return any("running" in c["state"] for c in status.get("containerStatuses", []))

    def refused(self, pod: str, seconds: float = 40) -> tuple[str, str]:
        """It has failed: reason and message."""
        status = until(
            lambda: (s := self.status(pod)).get("phase") in ("Failed", "Running") and s, seconds, f"{pod} ends"
        )
        assert status["phase"] == "Failed", status
        return status["reason"], status["message"]

    def life(self, *pods: str) -> list[tuple[str, str, int, dict]]:
        """What tells whether these pods were touched: phase, container, restarts, state."""
        lives = []
        for pod in pods:
            status = self.status(pod)
            main = status["containerStatuses"][0]
            lives.append((status["phase"], main["containerID"], main["restartCount"], main["state"]))
        return lives

    def nodes(self, pod: str) -> dict[str, str]:
        """The device nodes in a container besides those that every one has: path to `c 1:3`."""
        listing = self.inside(pod, "find /dev -type c -o -type b | grep -v ^/dev/pts | xargs ls -l")
        found = {m[4]: f"{m[1]} {m[2]}:{m[3]}" for m in NODE.finditer(listing)}
        return {path: node for path, node in found.items() if path not in EVERYWHERE}

    def kill(self, pod: str) -> None:
        """Its container, as if it had crashed."""
        self.ctr("tasks", "kill", "--signal", "SIGKILL", self.container(pod))

    def runs_again(self, pod: str, before: str) -> None:
        """In another container than before."""
        until(lambda: self._runs(pod) and self.container(pod) != before, 40, f"{pod} runs again")

    def outcome(self, pod: str, seconds: float = 40) -> str:
        """Why a pod failed; empty if it runs, in a container that was started since the power was cut."""

        def ended():
            status = self.status(pod)
            if status.get("phase") == "Failed":
                return status["message"]
            mains = status.get("containerStatuses", [])
            ids = {main["containerID"].removeprefix("containerd://") for main in mains if "running" in main["state"]}
            return bool(ids - self._before_cut)

        found = until(ended, seconds, f"{pod} runs or fails")
        return "" if found is True else found

    def container(self, pod: str) -> str:
        """The id of its container."""
        return self.status(pod)["containerStatuses"][0]["containerID"].removeprefix("containerd://")

    def health(self, pod: str) -> dict[str, str]:
        """`allocatedResourcesStatus`: id to health."""
        kinds = (main.get("allocatedResourcesStatus", []) for main in self.status(pod).get("containerStatuses", []))
        return {device["resourceID"]: device["health"] for kind in chain(*kinds) for device in kind["resources"]}

    def inside(self, pod: str, script: str, user: str = "0:0") -> str:
        """What a shell in the pod's container prints, errors too."""
        self._execs += 1
        _, said = self.machine.run(
            "ctr", "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io",
            "tasks", "exec", "--exec-id", f"e{self._execs}", "--user", user, self.container(pod), "sh", "-c", script,
        )  # fmt: skip
        return said.strip()

    def remove(self, *pods: str) -> None:
        """They are over and the kubelet has forgotten them."""
        for pod in pods:
            self.machine.path(f"{MANIFESTS}/{pod}.json").unlink(missing_ok=True)
        until(lambda: (now := self.pods()) is not None and not now.keys() & set(pods), 40, f"{pods} are gone")
        self._pods -= set(pods)

    def clean(self) -> None:
        """No pod, no agent, no device, and a kubelet; whatever a test left."""
        if self.agent is not None:
            self.agent.end()
            self.agent = None
        for path in self._plugged:
            path.unlink(missing_ok=True)
        self._plugged.clear()
        if not self.containerd.runs:
            self.start_containerd()
        if not self.kubelet.runs:
            self.start_kubelet()
        self.remove(*self._pods)
        shutil.rmtree(self.machine.path(STATE), ignore_errors=True)
