"""One task for each resource: registration, change of the method, retirement and end.

The task runs from the first socket of the resource to the last. Its options can change at any time. The task reads them
after each end of an endpoint, so a resource never has two registrations at the same time.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.message_id import MessageId, build_log_extra
from agent.core.reason import Reason
from agent.core.registration_phase import Phase
from agent.core.struct import Struct
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

FAREWELL_SECONDS = 1.0  # for the last list of a retiring resource

log = logging.getLogger("agent")


class RegistrationOptions(Struct):
    """The registration of a resource with the kubelet.

    method: `socket` or `watcher`. has_preference: the kubelet asks GetPreferredAllocation. has_prestart: the kubelet
    calls PreStartContainer.
    """

    method: str
    has_preference: bool = False
    has_prestart: bool = False


def find_registration_options(entry: ResourceSpec, specs: Iterable[ResourceSpec]) -> RegistrationOptions:
    """Return the options of an entry, together with the entries that add devices to its resource."""
    starts = any(spec.prestart for spec in specs if spec.name == entry.name)
    # Without a preference the kubelet could choose two shares of one device. The refused grant is final for the pod.
    preferred = entry.limit.distinct or bool(entry.prefer)
    return RegistrationOptions(entry.registration, has_preference=preferred, has_prestart=starts)


class _ResourceTask:
    """The task of one resource, and its options.

    is_retiring: the task ends after the kubelet has the last list.
    """

    def __init__(self, options: RegistrationOptions) -> None:
        self.options = options
        self.is_retiring = False
        self.encoder = ListEncoder()
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def set_options(self, options: RegistrationOptions, *, is_retiring: bool) -> None:
        """Set the options and the end of the task. The task reads them."""
        self.options, self.is_retiring = options, is_retiring
        self.changed.set()


class ResourceTasks:
    """The tasks of all resources.

    Args:
        registry, grants: the lists and the grants of the endpoints.
        status: shows the phase of each resource.
        kubelet: the socket of the kubelet. Sockets for method `socket` are in the same directory.
        watcher: a socket in the directory of the plugin watcher, which never exists. Sockets for method `watcher` are
            in the same directory.
        kubelet_lock: the lock of the kubelet's directory. Each endpoint takes the lock again, because the directory can
            be replaced.
        on_defect: called with each defect of a call.
        on_retired: called with each retired resource.
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
        """The number of resources."""
        return len(self._resources)

    async def run(self, stopping: asyncio.Event) -> None:
        """Run the tasks until `stopping` is set. All streams and sockets have ended when this returns."""
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
        """Start a task for each new resource, unless the agent is stopping. Return whether there was a new resource."""
        previous_count = len(self._resources)
        for name, options in options_by_name.items():
            if self._tasks is not None and name not in self._resources:
                self._status.add(name)
                resource = self._resources[name] = _ResourceTask(options)
                resource.task = self._tasks.create_task(self._run_resource(name, resource), name=name)
        return len(self._resources) > previous_count

    def keep(self, options_by_name: Mapping[str, RegistrationOptions]) -> None:
        """Set the options of the existing tasks. A retiring resource stays."""
        for name in options_by_name.keys() & self._resources.keys():
            self._resources[name].set_options(options_by_name[name], is_retiring=False)

    def retire(self, name: str) -> None:
        """End a resource after the kubelet has the last list, unless `keep` is called before."""
        resource = self._resources.get(name)
        if resource is None:
            self._on_retired(name)
        else:
            resource.set_options(resource.options, is_retiring=True)

    async def _run_resource(self, name: str, resource: _ResourceTask) -> None:
        """Keep one resource registered until it has retired."""
        while not resource.is_retiring:
            await wait_for_any(self._keep_registered(name, resource), self._wait_for_change(name, resource))
        # There is no await between the check and this line, so a later `add` starts a new task.
        del self._resources[name]
        self._on_retired(name)
        self._registry.forget(name)
        self._status.remove(name)
        log.info("%s: retired", name, extra=build_log_extra(MessageId.RETIRED, resource=name))

    async def _keep_registered(self, name: str, resource: _ResourceTask) -> None:
        """Keep the resource registered with its present options, until cancelled."""

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
        """Return when the options change, or when a retiring resource has sent its last list."""
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
