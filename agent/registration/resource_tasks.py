"""Offering: the lives of the resources that the kubelet is offered; how each begins, moves, retires, returns, ends.

Each resource has one task, from its first socket to its last. What is wanted of it may change at any moment; the task
looks at it again whenever something has ended, so two registrations of one resource are never there together.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.message_id import MessageId, fields
from agent.core.reason import Reason
from agent.core.registration_phase import Phase
from agent.host.directory_lock import DirectoryLock
from agent.host.socket_watch import SocketWatch
from agent.kubelet.endpoint import Endpoint
from agent.kubelet.grpc_server_call import DefectHandler
from agent.kubelet.plugin import GrantProvider
from agent.kubelet.socket_file import make_generation
from agent.kubelet.wire import ListEncoder, PluginOptions
from agent.registration.socket_registration import keep_registered
from agent.registration.wait_for_any import wait_for_any
from agent.registration.watcher_registration import keep_offered
from agent.registry import Registry
from agent.status.agent_status import Status

FAREWELL_SECONDS = 1.0  # how long a retired resource's last list may take

log = logging.getLogger("agent")


class RegistrationOptions(NamedTuple):
    """How a resource is with the kubelet: how it registers, whether it is to be asked which ids are preferred, and
    whether before each start of a container.
    """

    method: str
    has_preference: bool = False
    has_prestart: bool = False


def find_registration_options(entry: ResourceSpec, specs: Iterable[ResourceSpec]) -> RegistrationOptions:
    """The way that an entry wants, and those that add devices to it."""
    starts = any(spec.prestart for spec in specs if spec.name == entry.name)
    # The kubelet would choose two shares of one device, and the grant that is refused then is final for the pod.
    preferred = entry.limit.distinct or bool(entry.prefer)
    return RegistrationOptions(entry.registration, has_preference=preferred, has_prestart=starts)


class _ResourceTask:
    """What is wanted of one resource.

    way: how it is there. leaving: it is to end, when the kubelet has its last list.
    """

    def __init__(self, way: RegistrationOptions) -> None:
        self.options = way
        self.is_retiring = False
        self.encoder = ListEncoder()
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def set_options(self, way: RegistrationOptions, *, leaving: bool) -> None:
        """Want something of it; its life goes on from there."""
        self.options, self.is_retiring = way, leaving
        self.changed.set()


class ResourceTasks:
    """Offers resources to the kubelet.

    Args:
        registry, granting: what the endpoints serve.
        status: told what becomes of each.
        kubelet: the kubelet's socket; ours for `socket` are made beside it.
        watcher: a socket in the plugin watcher's directory that is never there; ours for `watcher` are made beside it.
        claim: on the kubelet's directory, made again for each endpoint: the directory may be another by then.
        unexpected: told of every defect that came up in a call.
        forget: called with a resource that has ended because it retired.
    """

    def __init__(
        self,
        registry: Registry,
        grants: GrantProvider,
        status: Status,
        *,
        kubelet: SocketWatch,
        watcher: SocketWatch,
        kubelet_lock: DirectoryLock,
        on_defect: DefectHandler,
        on_retired: Callable[[str], None],
    ) -> None:
        self._registry = registry
        self._grants = grants
        self._status = status
        self._kubelet = kubelet
        self._watcher = watcher
        self._kubelet_lock = kubelet_lock
        self._on_defect = on_defect
        self._on_retired = on_retired
        self._resources: dict[str, _ResourceTask] = {}
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def count(self) -> int:
        """How many resources are offered."""
        return len(self._resources)

    async def run(self, stopping: asyncio.Event) -> None:
        """Offer what is added, until that event; every stream and socket is gone when this returns."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await stopping.wait()
            finally:
                self._tasks = None
            for resource in self._resources.values():
                if resource.task is not None:
                    resource.task.cancel()

    def add(self, options_by_name: Mapping[str, RegistrationOptions]) -> bool:
        """Offer those resources that are not offered yet, each in its way; none any more once all is to end.

        Whether there was one.
        """
        previous_count = len(self._resources)
        for name, options in options_by_name.items():
            if self._tasks is not None and name not in self._resources:
                self._status.add(name)
                resource = self._resources[name] = _ResourceTask(options)
                resource.task = self._tasks.create_task(self._run_resource(name, resource), name=name)
        return len(self._resources) > previous_count

    def keep(self, options_by_name: Mapping[str, RegistrationOptions]) -> None:
        """Let those that are offered already stay, in these ways, even if they were about to end."""
        for name in options_by_name.keys() & self._resources.keys():
            self._resources[name].set_options(options_by_name[name], leaving=False)

    def retire(self, name: str) -> None:
        """End a resource when the kubelet has its last list, unless it is kept after all."""
        resource = self._resources.get(name)
        if resource is None:
            self._on_retired(name)
        else:
            resource.set_options(resource.options, leaving=True)

    async def _run_resource(self, name: str, resource: _ResourceTask) -> None:
        """One resource with the kubelet, until it has left."""
        while not resource.is_retiring:
            await wait_for_any(self._keep_registered(name, resource), self._wait_for_change(name, resource))
        # Nothing waits between the question and this: whoever wants it back now begins anew.
        del self._resources[name]
        self._on_retired(name)
        self._registry.forget(name)
        self._status.remove(name)
        log.info("%s: retired", name, extra=fields(MessageId.RETIRED, resource=name))

    async def _keep_registered(self, name: str, resource: _ResourceTask) -> None:
        """Keep it with the kubelet in its present way, until cancelled."""

        def report(phase: Phase, reason: Reason) -> None:
            self._status.set_phase(name, phase, reason)

        def serve() -> AbstractAsyncContextManager[Endpoint]:
            self._kubelet_lock.acquire()
            return Endpoint.serve(
                os.path.dirname(self._watcher.path if watcher else self._kubelet.path),
                name,
                make_generation(),
                self._registry,
                self._grants,
                options=options,
                on_defect=self._on_defect,
                encoder=resource.encoder,
                is_watched=watcher,
            )

        options = PluginOptions(
            has_prestart=resource.options.has_prestart, has_preference=resource.options.has_preference
        )
        watcher = resource.options.method == "watcher"
        if watcher:
            await keep_offered(serve, self._watcher.wait_for_event, report)
        else:
            await keep_registered(name, serve, self._kubelet, report)

    async def _wait_for_change(self, name: str, resource: _ResourceTask) -> None:
        """Return when it is to be registered in another way, or when it leaves and the kubelet has its last list."""
        options = resource.options
        while True:
            resource.changed.clear()
            if resource.options != options:
                return
            if not resource.is_retiring:
                await resource.changed.wait()
                continue
            try:
                async with asyncio.timeout(FAREWELL_SECONDS):
                    await self._registry.wait_until_delivered([name])
            except TimeoutError:
                log.debug("%s: the kubelet did not take its last list", name)
            if resource.is_retiring:
                return
