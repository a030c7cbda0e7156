"""The reference: a device plugin server without an agent, as a developer writes it in an afternoon with grpclib.

No configuration, no discovery, no state, nothing checked: each resource has a number of devices that stdin makes
Unhealthy and Healthy (`RESOURCE DEVICE 0|1` a line). Whatever the agent needs more than this is what it is for.

    python -m bench.bare DIRECTORY RESOURCES DEVICES
"""

from __future__ import annotations

import asyncio
import os
import sys

import inotify_simple
import uvloop
from grpclib.client import Channel
from grpclib.server import Server

from agent.kubelet.messages.v1beta1 import (
    AllocateResponse,
    ContainerAllocateResponse,
    Device,
    DevicePluginBase,
    DevicePluginOptions,
    DeviceSpec,
    ListAndWatchResponse,
    RegisterRequest,
    RegistrationStub,
)


class Plugin(DevicePluginBase):
    """One resource."""

    def __init__(self, number: int, devices: int) -> None:
        self.devices = [Device(id=f"r{number:03}-{device:05}", health="Healthy") for device in range(devices)]
        self.changed = asyncio.Event()

    def set(self, device: int, healthy: bool) -> None:  # noqa: FBT001
        self.devices[device].health = "Healthy" if healthy else "Unhealthy"
        self.changed.set()

    async def get_device_plugin_options(self, message):
        del message
        return DevicePluginOptions()

    async def list_and_watch(self, message):
        del message
        while True:
            self.changed.clear()
            yield ListAndWatchResponse(devices=self.devices)
            await self.changed.wait()

    async def allocate(self, message):
        return AllocateResponse(
            container_responses=[
                ContainerAllocateResponse(
                    devices=[
                        DeviceSpec(container_path=f"/dev/{id}", host_path=f"/dev/{id}", permissions="rw")
                        for id in request.devices_ids  # noqa: A001
                    ]
                )
                for request in message.container_requests
            ]
        )


async def register(directory: str, number: int, plugin: Plugin) -> None:
    """Serve on a fresh socket and register it."""
    name = f"bare-{number}.sock"
    server = Server([plugin])
    await server.start(path=os.path.join(directory, name))
    while True:
        channel = Channel(path=os.path.join(directory, "kubelet.sock"))
        try:
            await RegistrationStub(channel).register(
                RegisterRequest(version="v1beta1", endpoint=name, resource_name=f"bench.example/r{number:03}")
            )
        except OSError:
            await asyncio.sleep(0.01)
        else:
            return
        finally:
            channel.close()


async def main(directory: str, resources: int, devices: int) -> None:
    plugins = [Plugin(number, devices) for number in range(resources)]
    loop = asyncio.get_running_loop()
    watch = inotify_simple.INotify(nonblocking=True)
    watch.add_watch(directory, inotify_simple.flags.CREATE)
    tasks = set()

    def register_all() -> None:
        for number, plugin in enumerate(plugins):
            task = loop.create_task(register(directory, number, plugin))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def watched() -> None:
        if any(event.name == "kubelet.sock" for event in watch.read(timeout=0)):
            register_all()

    def commanded() -> None:
        data = os.read(0, 65536)
        if not data:
            loop.remove_reader(0)
        for line in data.decode().splitlines():
            resource, device, healthy = map(int, line.split())
            plugins[resource].set(device, bool(healthy))

    loop.add_reader(watch.fileno(), watched)
    loop.add_reader(0, commanded)
    register_all()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
