"""The lab: an agent and a simulated kubelet in one process, with operations for the user."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from agent.app import Agent
from agent.config.load import Configuration, load
from agent.core.inventory.device import DeviceList
from agent.core.registration_phase import Phase
from agent.core.struct import Struct, replace
from agent.host.root import Root
from device_agent_lab.command import configuration as lab_configuration
from device_agent_lab.command.lab_directories import LabDirectories
from device_agent_lab.command.pseudo_terminal import PseudoTerminal
from device_agent_lab.simulated.container_options import ContainerOptions
from device_agent_lab.simulated.events import KubeletEvent
from device_agent_lab.simulated.kubelet import Kubelet

DEADLINE = 10.0  # maximum seconds for each operation of the lab


class LabPod(Struct):
    """A pod of the lab with one container, and the container options that this container got."""

    name: str
    resource: str
    ids: tuple[str, ...]
    options: ContainerOptions


class Lab:
    """A running agent with its simulated kubelet.

    Attributes:
        user_directory: the directory of the user's own configuration, or an empty string.
        entries: the entries that the lab wrote.
        terminal: the lab's own device, or None if the lab has none. `no_terminal_reason` then has the reason.
        pods: the pods with a grant, by name.
    """

    def __init__(
        self,
        directories: LabDirectories,
        root: Root,
        user_directory: str,
        listener: Callable[[KubeletEvent], None] | None,
    ) -> None:
        self.directories = directories
        self.root = root
        self.user_directory = user_directory
        self.entries: list[lab_configuration.LabEntry] = []
        self.no_terminal_reason = ""
        self.terminal = self._open_terminal()
        self.pods: dict[str, LabPod] = {}
        self.kubelet = Kubelet(
            directories.kubelet,
            watcher_directory=directories.watcher,
            pod_resources_directory=directories.pod_resources,
            listener=listener,
        )
        self._configure()
        self.agent = Agent(self.configuration, root, directories.state, runs_programs=False)

    def load(self) -> Configuration:
        """Return the configuration from the current files.

        It has the user's resources, if there are any, and the entries of the lab with other names.
        """
        lab_config = load(self.directories.configuration)
        user_config = load(self.user_directory) if self.user_directory else lab_config
        user_names = {spec.name for spec in user_config.resources}
        added_specs = tuple(spec for spec in lab_config.resources if spec.name not in user_names)
        resources = user_config.resources + added_specs if self.user_directory else lab_config.resources
        return replace(
            user_config, settings=self.directories.override_settings(user_config.settings), resources=resources
        )

    @property
    def resource_names(self) -> tuple[str, ...]:
        """The names of the resources that the agent serves."""
        return tuple(self.agent.status.resources)

    def get_list(self, resource: str) -> DeviceList:
        """Return the agent's device list of a resource."""
        return self.agent.registry.get_list(resource)

    def get_phase(self, resource: str) -> Phase:
        """Return the registration phase of a resource."""
        state = self.agent.status.resources.get(resource)
        return state.phase if state else Phase.WAITING

    def is_listed(self) -> bool:
        """Return whether the kubelet has the current list of every resource.

        Also requires that every resource is streaming, so the agent knows that its list arrived.
        """
        return all(
            self.has_list(resource) and self.get_phase(resource) is Phase.STREAMING for resource in self.resource_names
        )

    def measure_listing_time(self) -> float:
        """Return the milliseconds from the running kubelet's socket to the list of the last resource."""
        events = self.kubelet.events
        return (
            max(events.select("list", name)[-1].at for name in self.resource_names) - events.select("listening")[-1].at
        ) * 1000

    def has_list(self, resource: str) -> bool:
        """Return whether the kubelet has the agent's current list of a resource."""
        device_list = self.get_list(resource)
        healthy_ids = frozenset(
            device_id for device in device_list.devices if not device.reason for device_id in device.list_ids()
        )
        all_ids = frozenset(device_id for device in device_list.devices for device_id in device.list_ids())
        kubelet = self.kubelet
        kubelet_ids = kubelet.healthy(resource), kubelet.healthy(resource) | kubelet.unhealthy(resource)
        return kubelet.streams(resource) == 1 and kubelet_ids == (healthy_ids, all_ids)

    async def allocate(self, resource: str, count: int) -> LabPod:
        """Start a pod with one container that requests `count` devices. Return the pod.

        Raises:
            PodRefused, KubeletStopped, KubeletCrashed: the kubelet did not start the pod.
        """
        numbers = {int(name[1:]) for name in self.kubelet.pods}
        name = f"p{next(number for number in range(1, len(numbers) + 2) if number not in numbers)}"
        try:
            options = await self.kubelet.allocate(name, "main", {resource: count})
        except BaseException:
            self.kubelet.remove_pod(name)
            raise
        ids = tuple(
            sorted(
                device_id for device_id, (holder, _) in self.kubelet.get_held_ids(resource).items() if holder == name
            )
        )
        pod = LabPod(name, resource, ids, options)
        if options.without:
            self.kubelet.remove_pod(name)
        else:
            self.pods[name] = pod
        return pod

    def release(self, pod: str) -> None:
        """End a pod."""
        self.pods.pop(pod, None)
        self.kubelet.remove_pod(pod)

    async def replug(self, *, plugged: bool) -> float:
        """Plug the lab's own terminal in, or unplug it. Return the milliseconds until the kubelet has the change.

        Raises:
            TimeoutError: the kubelet does not have the change within the deadline.
            OSError: the lab has no terminal.
        """
        if self.terminal is None:
            raise OSError(self.no_terminal_reason)
        pty_ids, no_ids = frozenset({lab_configuration.PTY_ID}), frozenset[str]()
        start_time = time.monotonic()
        (self.terminal.plug if plugged else self.terminal.unplug)()
        if not self.kubelet.running:
            async with asyncio.timeout(DEADLINE):
                while any(bool(device.reason) is plugged for device in self.get_list(lab_configuration.PTY).devices):
                    await self.agent.status.wait_for_change()
            return 0.0
        healthy_ids, unhealthy_ids = (pty_ids, no_ids) if plugged else (no_ids, pty_ids)
        await self.kubelet.until(
            lambda: (
                (self.kubelet.healthy(lab_configuration.PTY), self.kubelet.unhealthy(lab_configuration.PTY))
                == (healthy_ids, unhealthy_ids)
            ),
            DEADLINE,
        )
        return (time.monotonic() - start_time) * 1000

    def _open_terminal(self) -> PseudoTerminal | None:
        if self.root.prefix:
            self.no_terminal_reason = "with --root the lab has no terminal"
            return None
        try:
            return PseudoTerminal(self.directories.links)
        except OSError as error:
            self.no_terminal_reason = f"no pseudo-terminal: {error.strerror or error}"
            return None

    def _configure(self) -> None:
        """Write the entries of the lab and load the configuration."""
        if not self.user_directory:
            self.entries += lab_configuration.build_entries(self.root)
            lab_configuration.write_entries(self.directories.configuration, "10-host.toml", self.entries)
        if self.terminal is not None:
            pty_entry = lab_configuration.build_pty_entry(self.terminal.path)
            self.entries.append(pty_entry)
            lab_configuration.write_entries(self.directories.configuration, "20-pty.toml", [pty_entry])
        self.configuration = self.load()


def format_clock(monotonic_time: float) -> str:
    """Return a reading of the monotonic clock, in seconds, as the time of day with milliseconds."""
    wall_time = time.time() - time.monotonic() + monotonic_time
    return datetime.fromtimestamp(wall_time, UTC).astimezone().time().isoformat("milliseconds")


@asynccontextmanager
async def run_lab(lab: Lab) -> AsyncIterator[Lab]:
    """Run the agent without a kubelet until it serves all resources, then yield.

    At the end, stop the agent and the kubelet. A defect of the agent ends the lab.
    """
    async with asyncio.TaskGroup() as tasks:
        agent = tasks.create_task(lab.agent.run(), name="agent")
        try:
            await lab.agent.tracker.wait_for_look()
            while len(lab.resource_names) < len(lab.configuration.resources):
                await lab.agent.status.wait_for_change()
            yield lab
        finally:
            lab.agent.stop()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({agent})
            await lab.kubelet.stop()
            if lab.terminal is not None:
                lab.terminal.unplug()
