"""A device plugin of forty lines, written against the interface and not with the agent."""

import asyncio
import contextlib
import os

from grpclib.client import Channel
from grpclib.server import Server

from agent.kubelet.messages import pluginregistration, v1beta1


def device(device_id, health="Healthy", *nodes):
    topology = v1beta1.TopologyInfo(nodes=[v1beta1.NumaNode(id=n) for n in nodes]) if nodes else None
    return v1beta1.Device(id=device_id, health=health, topology=topology)


class Listening(Server):
    """Notes the headers of every call, and can end its connections."""

    def __init__(self, services):
        super().__init__(services)
        self.headers = []
        self.protocols = []

    def _protocol_factory(self):
        protocol = super()._protocol_factory()
        accept = protocol.handler.accept

        def noted(stream, headers, release):
            self.headers.append(dict(headers))
            accept(stream, headers, release)

        protocol.handler.accept = noted
        self.protocols.append(protocol)
        return protocol

    def of(self, method):
        return [h for h in self.headers if h[":path"].endswith("/" + method)]


class TinyPlugin(v1beta1.DevicePluginBase, pluginregistration.RegistrationBase):
    def __init__(self, kubelet, resource="example.com/foo", devices=(), name="p.sock", **options):
        self.kubelet = kubelet
        self.resource = resource
        self.devices = list(devices)
        self.path = os.path.join(kubelet.directory, name)
        self.options = v1beta1.DevicePluginOptions(**options)
        self.changed = asyncio.Event()
        self.sent = []
        self.ending = asyncio.Event()
        self.allocated = []
        self.preferred = []
        self.prestarted = []
        self.notified = []
        self.failure = None  # raised by the next call that may fail
        self.answer = lambda ids: [v1beta1.ContainerAllocateResponse(envs={"IDS": ",".join(sorted(ids))})]
        self.prefer = lambda request: []
        self.gate = None  # an event that Allocate waits for
        self.info = pluginregistration.PluginInfo(type="DevicePlugin", name=resource, supported_versions=["v1beta1"])
        self.server = None

    # ---- serving

    async def start(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        plugin = {**v1beta1.DevicePluginBase.__mapping__(self), **pluginregistration.RegistrationBase.__mapping__(self)}
        self.ending.clear()
        self.server = Listening([type("Both", (), {"__mapping__": lambda _: plugin})()])
        await self.server.start(path=self.path)
        return self

    async def close(self):
        if self.server is None:
            return
        self.ending.set()
        self.server.close()
        for protocol in self.server.protocols:
            if hasattr(protocol, "processor"):
                protocol.processor.close("over")
        await self.server.wait_closed()
        self.server = None

    async def register(self, *, version="v1beta1", endpoint=None, timeout=None):  # noqa: ASYNC109
        """GRPCError or StreamTerminatedError as the kubelet wants it."""
        async with Channel(path=self.kubelet.socket) as channel:
            request = v1beta1.RegisterRequest(
                version=version, endpoint=endpoint or os.path.basename(self.path), resource_name=self.resource
            )
            await v1beta1.RegistrationStub(channel).register(request, timeout=timeout)

    def set(self, *devices):
        self.devices = list(devices)
        self.send()

    def send(self):
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def end_streams(self):
        self.ending.set()
        self.send()

    # ---- the interface

    async def get_device_plugin_options(self, message):
        if self.failure:
            raise self.failure
        return self.options

    async def list_and_watch(self, message):
        while not self.ending.is_set():
            self.sent.append(list(self.devices))
            changed = self.changed
            yield v1beta1.ListAndWatchResponse(devices=self.devices)
            await changed.wait()

    async def get_preferred_allocation(self, message):
        (request,) = message.container_requests
        self.preferred.append(request)
        if self.failure:
            raise self.failure
        answer = v1beta1.ContainerPreferredAllocationResponse(device_i_ds=self.prefer(request))
        return v1beta1.PreferredAllocationResponse(container_responses=[answer])

    async def allocate(self, message):
        (request,) = message.container_requests
        self.allocated.append(request.devices_ids)
        if self.gate:
            await self.gate.wait()
        if self.failure:
            raise self.failure
        return v1beta1.AllocateResponse(container_responses=self.answer(request.devices_ids))

    async def pre_start_container(self, message):
        self.prestarted.append(message.devices_ids)
        if self.failure:
            raise self.failure
        return v1beta1.PreStartContainerResponse()

    async def get_info(self, message):
        return self.info

    async def notify_registration_status(self, message):
        self.notified.append(message)
        return pluginregistration.RegistrationStatusResponse()
