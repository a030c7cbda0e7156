"""Shared parts of the tests of an endpoint: a resource, an allocator, clients."""

import asyncio
import os
from contextlib import asynccontextmanager, suppress

from grpclib.client import Channel
from grpclib.config import Configuration
from grpclib.const import Cardinality

from agent.core.grants.grant import Grant, GrantedNode
from agent.core.grants.prefer import prefer
from agent.core.inventory.device import Device, DeviceList, DeviceNode, Health
from agent.kubelet.messages.v1beta1 import DevicePluginStub, Empty, ListAndWatchResponse

RESOURCE = "example.com/thing"
WATCH = (Cardinality.UNARY_STREAM, Empty, ListAndWatchResponse)  # what grpclib wants to know of ListAndWatch


def device(name, health=Health.HEALTHY, **more):
    return Device(**{"id": name, "location": name, "key": name, "health": health} | more)


def snapshot(*ids, resource=RESOURCE):
    return DeviceList(resource, tuple(map(device, ids)))


class Granting:
    """Grants one node for each ID, or raises a given error."""

    def __init__(self):
        self.error = None
        self.gate = None
        self.asked = []

    async def allocate(self, resource, ids):
        self.asked.append((resource, tuple(ids)))
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        nodes = tuple(GrantedNode(path, path, "rw", DeviceNode(path, "c", 1, 3)) for path in map("/dev/{}".format, ids))
        return Grant(resource, tuple(ids), nodes, {"IDS": ",".join(ids)})

    async def start(self, resource, ids):
        self.asked.append((resource, tuple(ids)))
        if self.error is not None:
            raise self.error

    def prefer(self, resource, available, must_include, size):
        if self.error is not None:
            raise self.error
        return prefer(available, must_include, size)


def open_sockets():
    """How many this process has."""
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the listing's own
            count += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
    return count


async def wait_until(check, seconds=60.0):
    """Run the loop until a condition without an event is true: the other side of a socket, a file."""
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110  no event tells of it
            await asyncio.sleep(0.002)


@asynccontextmanager
async def client(path, authority=None, window=None):
    channel = Channel(
        path=path, config=window and Configuration(http2_connection_window_size=window, http2_stream_window_size=window)
    )
    if authority is not None:
        channel._authority = authority
    try:
        yield DevicePluginStub(channel)
    finally:
        channel.close()
