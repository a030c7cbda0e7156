"""Calls of the agent to the kubelet: Register and PodResources."""

import asyncio
import os
import socket
from contextlib import asynccontextmanager, closing, suppress

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from hpack import Encoder

from agent.kubelet.connection import Connection
from agent.kubelet.grpc_server_call import map_calls
from agent.kubelet.messages import v1
from agent.kubelet.messages.v1beta1 import Empty, RegistrationBase
from agent.kubelet.pod_resources import Holder, PodResourcesUnavailable, list_holders
from agent.kubelet.register import KubeletUnreachable, RefusedByKubelet, register
from agent.kubelet.wire import PluginOptions


class Kubelet(RegistrationBase):
    def __init__(self):
        self.requests = []
        self.error = None
        self.gate = None

    async def register(self, message):
        self.requests.append(message)
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return Empty()


class Lister(v1.PodResourcesListerBase):
    def __init__(self, answer):
        self.answer = answer

    async def list(self, message):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@asynccontextmanager
async def serve(directory, *services):
    """Services on a socket, in the plainest way."""
    table, present = {}, set()
    for service in services:
        table.update(map_calls(service, pytest.fail))
    path = f"{directory}/kubelet.sock"
    server = await asyncio.get_running_loop().create_unix_server(
        lambda: Connection(table, present, asyncio.Event()), path
    )
    try:
        yield path
    finally:
        server.close()
        for connection in set(present):
            connection.abort()
        with suppress(FileNotFoundError):  # Python 3.13 did it
            os.unlink(path)


async def test_register_says_what_the_interface_wants(kit):  # 5
    kubelet = Kubelet()
    async with serve(kit.directory, kubelet) as path:
        await register(path, "x.sock", "example.com/a", PluginOptions(has_preference=True))
    (request,) = kubelet.requests
    assert (request.version, request.endpoint, request.resource_name) == ("v1beta1", "x.sock", "example.com/a")
    assert request.options == PluginOptions(has_preference=True).build_message()


async def test_nobody_there(kit):
    with pytest.raises(KubeletUnreachable, match="No such file"):
        await register(f"{kit.directory}/kubelet.sock", "x.sock", "example.com/a")
    with closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(f"{kit.directory}/kubelet.sock")
    with pytest.raises(KubeletUnreachable, match="refused"):
        await register(f"{kit.directory}/kubelet.sock", "x.sock", "example.com/a")


async def test_a_refusal_keeps_the_kubelets_text(kit):
    kubelet = Kubelet()
    kubelet.error = GRPCError(Status.UNKNOWN, "device plugin already connected: /x\ny")
    async with serve(kit.directory, kubelet) as path:
        with pytest.raises(RefusedByKubelet, match=r"^device plugin already connected: /x\\ny$"):
            await register(path, "x.sock", "example.com/a")


async def test_a_kubelet_that_hangs(kit):
    kubelet = Kubelet()
    kubelet.gate = asyncio.Event()
    async with serve(kit.directory, kubelet) as path:
        with pytest.raises(TimeoutError, match="within"):
            await register(path, "x.sock", "example.com/a", timeout_s=0.05)


async def test_a_kubelet_that_dies_meanwhile(kit):
    async def hang_up(reader, writer):
        await reader.read(10)
        writer.close()

    server = await asyncio.start_unix_server(hang_up, f"{kit.directory}/kubelet.sock")
    try:
        with pytest.raises(KubeletUnreachable, match="lost"):
            await register(f"{kit.directory}/kubelet.sock", "x.sock", "example.com/a")
    finally:
        server.close()


@asynccontextmanager
async def serve_bytes(path, said):
    """A server that says these bytes as the message of its answer, and ends it."""
    encoder = Encoder()
    headers = encoder.encode([(":status", "200"), ("content-type", "application/grpc")])
    trailers = encoder.encode([("grpc-status", "0")])

    async def answer(reader, writer):
        await reader.read(1)
        for kind, flags, stream, payload in ((4, 0, 0, b""), (1, 4, 1, headers), (0, 0, 1, said), (1, 5, 1, trailers)):
            writer.write(len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload)
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(answer, path)
    try:
        yield
    finally:
        server.close()
        with suppress(FileNotFoundError):  # Python 3.13 did it
            os.unlink(path)


@pytest.mark.parametrize("junk", [b"\x00\x00\x00\x00\x09abc", b"\x01\x00\x00\x00\x01x"], ids=["cut", "compressed"])
async def test_an_answer_that_is_none_ends_nothing(kit, junk):
    path = f"{kit.directory}/kubelet.sock"
    async with serve_bytes(path, junk):
        with pytest.raises(KubeletUnreachable, match="cannot be read") as unreachable:
            await register(path, "x.sock", "example.com/a")
        with pytest.raises(PodResourcesUnavailable, match="cannot be read") as unavailable:
            await list_holders(path, 5)
    assert unreachable.value.was_sent
    assert unavailable.value.can_retry


@pytest.mark.parametrize("junk", [b"\x0a\x04\x0a\x02\xff\xfe", b"\x08\x05"], ids=["a name", "a pod"])
async def test_a_part_of_another_type_ends_nothing(kit, junk):
    path = f"{kit.directory}/kubelet.sock"
    async with serve_bytes(path, len(junk).to_bytes(5) + junk):
        with pytest.raises(PodResourcesUnavailable, match="cannot be read"):
            await list_holders(path, 5)


def pods():
    def container(name, *devices):
        return v1.ContainerResources(
            name=name, devices=[v1.ContainerDevices(resource_name=r, device_ids=list(ids)) for r, *ids in devices]
        )

    return v1.ListPodResourcesResponse(
        pod_resources=[
            v1.PodResources(
                name="p1", namespace="n", containers=[container("c", ("e/a", "1", "2"), ("e/a", "1"), ("e/b", "1"))]
            ),
            v1.PodResources(name="p2", namespace="n", containers=[container("c"), container("d", ("e/a", "2"))]),
        ]
    )


async def test_each_device_counts_once_with_all_who_hold_it(kit):  # 97
    async with serve(kit.directory, Lister(pods())) as path:
        assert await list_holders(path, 5) == {
            ("e/a", "1"): (Holder("n", "p1", "c"),),
            ("e/a", "2"): (Holder("n", "p1", "c"), Holder("n", "p2", "d")),
            ("e/b", "1"): (Holder("n", "p1", "c"),),
        }


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        (GRPCError(Status.RESOURCE_EXHAUSTED, "rejected by rate limit"), True),
        (GRPCError(Status.UNAVAILABLE), True),
        (GRPCError(Status.UNIMPLEMENTED, "unknown method"), False),
    ],
)
async def test_no_answer_is_never_fatal(kit, error, retry):  # 95
    async with serve(kit.directory, Lister(error)) as path:
        with pytest.raises(PodResourcesUnavailable, match=error.status.name) as unavailable:
            await list_holders(path, 5)
    assert unavailable.value.can_retry is retry


async def test_no_socket_is_never_fatal(kit):
    with pytest.raises(PodResourcesUnavailable, match="No such file") as unavailable:
        await list_holders(f"{kit.directory}/kubelet.sock", 5)
    assert unavailable.value.can_retry
