"""The socket, its connections, and how they end."""

import asyncio
import os
import socket
import stat
from contextlib import closing, suppress

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, PingAckReceived, StreamEnded, TrailersReceived

from agent.config.settings import SOCKET_NAME_LENGTH
from agent.kubelet.connection import CONNECTION_LIMIT
from agent.kubelet.endpoint import Endpoint
from agent.kubelet.messages import pluginregistration
from agent.kubelet.messages.v1beta1 import AllocateRequest, ContainerAllocateRequest, DevicePluginOptions
from agent.kubelet.socket_file import (
    PATH_LIMIT,
    format_socket_name,
    make_generation,
    remove_stale_sockets,
)
from tests.kubelet.endpoint_rig import RESOURCE, client, snapshot, wait_until

HEADERS = [
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "localhost"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
]


class Raw:
    """A client that can say whatever it likes."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.h2 = H2Connection(H2Configuration(client_side=True))
        self.h2.initiate_connection()
        self.flush()

    @classmethod
    async def dial(cls, path):
        return cls(*await asyncio.open_unix_connection(path))

    def call(self, method, body=None):
        number = self.h2.get_next_available_stream_id()
        self.h2.send_headers(number, [(":path", f"/v1beta1.DevicePlugin/{method}"), *HEADERS])
        if body is not None:
            self.h2.send_data(number, body, end_stream=True)
        self.flush()
        return number

    def flush(self):
        self.writer.write(self.h2.data_to_send())

    async def until(self, wanted):
        """Everything that comes up to and including the first event of that kind."""
        events = []
        async with asyncio.timeout(60):
            while not any(isinstance(event, wanted) for event in events):
                data = await self.reader.read(65536)
                assert data, "closed"
                new = self.h2.receive_data(data)
                for event in new:
                    if isinstance(event, DataReceived):
                        self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self.flush()
                events += new
        return events

    async def closed(self):
        async with asyncio.timeout(60):
            with suppress(ConnectionError):
                while await self.reader.read(65536):
                    pass
        self.writer.close()


def message(body):
    return b"\0" + len(body).to_bytes(4) + body


async def test_the_socket_is_ours_alone_and_gone_at_the_end(kit):
    os.umask(os.umask(0o022))
    async with kit.serve() as endpoint:
        found = os.lstat(endpoint.path)
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o600
        assert os.listdir(kit.directory) == [endpoint.name]
        assert endpoint.is_present
        await endpoint.wait_until_ready()
    assert os.listdir(kit.directory) == []
    with pytest.raises(OSError, match=r".*"):
        await endpoint.wait_until_ready()


async def test_names_are_never_used_twice_and_short(kit):  # 16
    names = {format_socket_name(RESOURCE, make_generation()) for _ in range(1000)}
    assert len(names) == 1000
    assert all(len(os.path.join("/var/lib/kubelet/device-plugins", name)) < 80 for name in names)
    assert len(f".{names.pop()}") == SOCKET_NAME_LENGTH
    assert format_socket_name("a.com/b", "1") != format_socket_name("a.com/c", "1")


async def test_a_directory_that_is_missing_or_too_deep_is_an_error_of_its_own(kit):
    for directory in (f"{kit.directory}/missing", f"{kit.directory}/{'d' * PATH_LIMIT}"):
        with pytest.raises(OSError, match=r".*"):
            async with Endpoint.serve(
                directory, RESOURCE, "1", kit.registry, kit.granting, on_defect=kit.unexpected.append
            ):
                pass


async def test_an_exception_of_the_owner_comes_out_as_it_is(kit):
    with pytest.raises(ZeroDivisionError):
        async with kit.serve():
            raise ZeroDivisionError
    assert os.listdir(kit.directory) == []


async def test_another_file_in_its_place_is_not_removed(kit):
    async with kit.serve() as endpoint:
        other = f"{kit.directory}/other"
        with closing(socket.socket(socket.AF_UNIX)) as newer:
            newer.bind(other)
            os.rename(other, endpoint.path)
        assert not endpoint.is_present
    assert os.listdir(kit.directory) == [endpoint.name]


async def test_a_wiped_directory_ends_nothing(kit):  # 23
    kit.registry.publish(snapshot("a"))
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        lists = stub.list_and_watch()
        await anext(lists)
        os.unlink(endpoint.path)
        assert not endpoint.is_present
        kit.registry.publish(snapshot("b"))
        assert [device.id for device in (await anext(lists)).devices] == ["b"]


async def test_at_the_end_streams_end_in_good_order_and_connections_close(kit):  # 47
    kit.registry.publish(snapshot("a"))
    async with kit.serve() as endpoint:
        raw = await Raw.dial(endpoint.path)
        raw.call("ListAndWatch", message(b""))
        await raw.until(DataReceived)
        async with asyncio.TaskGroup() as both:
            ending = both.create_task(endpoint.end())
            events = await raw.until(StreamEnded)
            assert dict(next(e for e in events if isinstance(e, TrailersReceived)).headers)[b"grpc-status"] == b"0"
            assert not ending.done()  # for the kubelet closes first: that is how we know it has understood
            raw.writer.close()
        assert not endpoint._connections
        await endpoint.end()
    assert kit.unexpected == []


async def test_a_peer_that_does_not_close_is_closed(kit):  # 47
    async with kit.serve() as endpoint:
        idle, watching = await Raw.dial(endpoint.path), await Raw.dial(endpoint.path)
        watching.call("ListAndWatch", message(b""))
        await watching.until(DataReceived)
        async with asyncio.timeout(60):
            await endpoint.end(timeout_s=1000.0)
        await idle.closed()
        await watching.closed()


@pytest.mark.parametrize("steps", range(5))
async def test_a_peer_that_comes_in_at_the_very_end_is_closed(kit, steps):
    if steps == 2 and "uvloop" not in type(asyncio.get_running_loop()).__module__:
        pytest.skip("asyncio's own server leaves this one to the garbage collector (Server._attach when it is closed)")
    with socket.socket(socket.AF_UNIX) as peer:
        async with kit.serve() as endpoint:
            peer.connect(endpoint.path)
            for _ in range(steps):  # the loop accepts it, and makes a connection of it some steps later
                await asyncio.sleep(0)
        peer.setblocking(False)
        async with asyncio.timeout(60):
            with suppress(ConnectionResetError):
                while await asyncio.get_running_loop().sock_recv(peer, 1000):
                    pass


async def test_a_peer_that_reads_nothing_is_torn_down_in_time(kit):
    kit.registry.publish(snapshot(*[f"device-{n:05}" for n in range(8000)]))
    async with kit.serve() as endpoint:
        async with client(endpoint.path, window=65535) as stub:
            stuck = await Raw.dial(endpoint.path)
            stuck.h2.increment_flow_control_window(2**24)
            number = stuck.h2.get_next_available_stream_id()
            stuck.call("ListAndWatch", message(b""))
            stuck.h2.increment_flow_control_window(2**24, number)
            stuck.flush()
            stuck.writer.transport.pause_reading()
            await endpoint.wait_for_stream()
            await stub.get_device_plugin_options()
            async with asyncio.timeout(60):
                await endpoint.end(timeout_s=0.2)
        stuck.writer.close()
        assert not endpoint._connections


async def test_a_stuck_call_is_cancelled_when_time_is_up(kit):
    kit.granting.gate = asyncio.Event()
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        ask = AllocateRequest(container_requests=[ContainerAllocateRequest(devices_ids=["a"])])
        stuck = asyncio.ensure_future(stub.allocate(ask))
        await wait_until(lambda: kit.granting.asked)
        await endpoint.end(timeout_s=0.05)
        assert (await asyncio.gather(stuck, return_exceptions=True))[0] is not None
    assert kit.unexpected == []


async def test_a_call_in_progress_is_answered_before_the_end(kit):
    kit.granting.gate = asyncio.Event()
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        ask = AllocateRequest(container_requests=[ContainerAllocateRequest(devices_ids=["a"])])
        async with asyncio.TaskGroup() as both:
            answer = both.create_task(stub.allocate(ask))
            await wait_until(lambda: kit.granting.asked)
            both.create_task(endpoint.end())
            await asyncio.sleep(0)
            kit.granting.gate.set()
    assert len(answer.result().container_responses) == 1


async def test_cancelling_the_owner_ends_it_too(kit):
    serving = asyncio.Event()

    async def own():
        async with kit.serve():
            serving.set()
            await asyncio.get_running_loop().create_future()

    owner = asyncio.ensure_future(own())
    await serving.wait()
    owner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await owner
    assert os.listdir(kit.directory) == []


async def test_pings_are_answered_while_a_big_list_goes_out(kit):  # 27
    kit.registry.publish(snapshot(*[f"device-{n:05}" for n in range(10_000)]))
    async with kit.serve() as endpoint:
        raw = await Raw.dial(endpoint.path)
        raw.call("ListAndWatch", message(b""))
        raw.h2.ping(b"12345678")
        raw.flush()
        came = [event for event in await raw.until(PingAckReceived) if isinstance(event, DataReceived)]
        assert sum(len(event.data) for event in came) < 100_000  # of 10,000 devices
        raw.writer.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes(range(256)) * 64,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x4e\x20\xff\xff\xff\xff\xff\xff" + b"x" * 20_000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x05\x01\x05\x00\x00\x00\x01\x00\x01\xff\x01\xff",
    ],
)
async def test_garbage_closes_its_own_connection_and_is_no_news(kit, garbage, caplog):
    kit.registry.publish(snapshot("a"))
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        lists = stub.list_and_watch()
        await anext(lists)
        raw = await asyncio.open_unix_connection(endpoint.path)
        raw[1].write(garbage)
        with suppress(ConnectionError):
            async with asyncio.timeout(60):
                while await raw[0].read(4096):
                    pass
        raw[1].close()
        kit.registry.publish(snapshot("b"))
        await anext(lists)
    assert caplog.text == ""
    assert kit.unexpected == []


async def test_frames_of_an_unknown_kind_are_ignored(kit):
    async with kit.serve() as endpoint:
        raw = await Raw.dial(endpoint.path)
        raw.writer.write(b"\x00\x00\x03\xfa\x00\x00\x00\x00\x00abc")
        raw.call("GetDevicePluginOptions", message(b""))
        await raw.until(StreamEnded)
        raw.writer.close()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"\0\xff\xff\xff\xff", Status.RESOURCE_EXHAUSTED),
        (b"\0" + (4 * 1024 * 1024 + 1).to_bytes(4), Status.RESOURCE_EXHAUSTED),
        (b"", Status.INVALID_ARGUMENT),
        (b"\0\0", Status.INVALID_ARGUMENT),
        (b"\0\0\0\0\x09abc", Status.INVALID_ARGUMENT),
        (message(b"\x0a\xff\xff"), Status.INVALID_ARGUMENT),
        (message(b"\x0a\x03\x0a\x01\xff"), Status.INVALID_ARGUMENT),
        (b"\1\0\0\0\0", Status.UNIMPLEMENTED),
    ],
)
async def test_a_request_that_is_none_is_an_error_of_its_sender(kit, body, status, caplog):
    async with kit.serve() as endpoint:
        raw = await Raw.dial(endpoint.path)
        raw.call("Allocate", body)
        events = await raw.until(StreamEnded)
        trailers = [dict(e.headers) for e in events if hasattr(e, "headers")]
        assert trailers[-1][b"grpc-status"] == str(status.value).encode()
        raw.call("GetDevicePluginOptions", message(b""))
        await raw.until(StreamEnded)
        raw.writer.close()
    assert caplog.text == ""
    assert kit.unexpected == []


async def test_a_huge_prefix_is_refused_before_what_follows_is_kept(kit):
    async with kit.serve() as endpoint:
        raw = await Raw.dial(endpoint.path)
        number = raw.call("Allocate")
        raw.h2.send_data(number, b"\0\x7f\xff\xff\xff" + b"x" * 10_000)
        raw.flush()
        events = await raw.until(StreamEnded)
        assert {e.stream_id for e in events if isinstance(e, StreamEnded)} == {number}
        raw.writer.close()


async def test_a_call_cancelled_before_its_first_step_is_forgotten(kit):
    async with kit.serve() as endpoint:
        raw = await Raw.dial(endpoint.path)
        for _ in range(20):
            number = raw.h2.get_next_available_stream_id()
            raw.h2.send_headers(number, [(":path", "/v1beta1.DevicePlugin/ListAndWatch"), *HEADERS])
            raw.h2.reset_stream(number)
        raw.flush()
        raw.call("GetDevicePluginOptions", message(b""))
        await raw.until(StreamEnded)
        (connection,) = endpoint._connections
        await wait_until(lambda: not connection.calls.tasks and not connection.processor.streams)
        raw.writer.close()


async def test_connections_are_limited(kit, caplog):
    async with kit.serve() as endpoint:
        many = []
        for _ in range(CONNECTION_LIMIT):
            many.append(await Raw.dial(endpoint.path))
            await wait_until(lambda: len(endpoint._connections) == len(many))
        one_more = await Raw.dial(endpoint.path)
        await one_more.closed()
        many.pop().writer.close()
        await wait_until(lambda: len(endpoint._connections) == len(many))
        await endpoint.wait_until_ready()
        for raw in many:
            raw.writer.close()
    assert "more are closed at once" in caplog.text


async def test_two_streams_are_both_fed_and_the_end_is_the_end_of_the_last(kit):  # 14
    kit.registry.publish(snapshot("a"))
    async with kit.serve() as endpoint:
        ended = asyncio.ensure_future(endpoint.wait_for_streams_end(grace=0.05))
        async with client(endpoint.path) as second:
            async with client(endpoint.path) as first:
                one, two = first.list_and_watch(), second.list_and_watch()
                await anext(one)
                await anext(two)
                assert endpoint.stream_count == 2
                kit.registry.publish(snapshot("b"))
                assert [d.id for d in (await anext(one)).devices] == ["b"]
                assert [d.id for d in (await anext(two)).devices] == ["b"]
            await wait_until(lambda: endpoint.stream_count == 1)
            kit.registry.publish(snapshot("c"))
            assert [d.id for d in (await anext(two)).devices] == ["c"]
            assert not ended.done()
        async with asyncio.timeout(60):
            await ended
        await endpoint.wait_for_streams_end(grace=0.0)


async def test_waiting_for_a_stream(kit):
    async with kit.serve() as endpoint:
        opened = asyncio.ensure_future(endpoint.wait_for_stream())
        await endpoint.wait_until_ready()
        assert not opened.done()
        async with client(endpoint.path) as stub:
            await anext(stub.list_and_watch())
            await opened
            await endpoint.wait_for_stream()
    assert endpoint.stream_count == 0


async def test_a_stream_that_opens_during_the_end_ends(kit):
    kit.granting.gate = asyncio.Event()
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        ask = AllocateRequest(container_requests=[ContainerAllocateRequest(devices_ids=["a"])])
        async with asyncio.TaskGroup() as both:
            both.create_task(stub.allocate(ask))
            await wait_until(lambda: kit.granting.asked)
            both.create_task(endpoint.end())
            await asyncio.sleep(0)
            assert [each async for each in stub.list_and_watch()] == []
            kit.granting.gate.set()


async def test_registering_again_and_again_leaves_nothing(kit):  # 49
    kit.registry.publish(snapshot("a"))
    for _ in range(50):
        async with kit.serve() as endpoint:
            await endpoint.wait_until_ready()
            async with client(endpoint.path) as stub:
                await anext(stub.list_and_watch())
        assert os.listdir(kit.directory) == []
    assert kit.registry.count_streams(RESOURCE) == 0


def test_sockets_of_earlier_lives_are_removed_and_nothing_else(directory):  # 21
    ours = [format_socket_name(RESOURCE, make_generation()) for _ in range(3)]
    sockets = [*ours, f".{format_socket_name(RESOURCE, 'abc')}", "kubelet.sock", "nvidia.sock", "device-agent-x.sock"]
    for name in sockets:
        with closing(socket.socket(socket.AF_UNIX)) as made:
            made.bind(f"{directory}/{name}")
    plain = format_socket_name(RESOURCE, "plain")
    with open(f"{directory}/{plain}", "w"):
        pass
    os.symlink("kubelet.sock", f"{directory}/{format_socket_name(RESOURCE, 'link')}")
    assert sorted(remove_stale_sockets(directory, keep=ours[:1])) == sorted([*ours[1:], sockets[3]])
    left = {ours[0], "kubelet.sock", "nvidia.sock", "device-agent-x.sock", plain, format_socket_name(RESOURCE, "link")}
    assert set(os.listdir(directory)) == left
    assert remove_stale_sockets(f"{directory}/missing") == []


def test_a_socket_where_somebody_listens_is_not_removed(directory):
    """That of an agent that runs, whatever it has to do."""
    path = f"{directory}/{format_socket_name(RESOURCE, make_generation())}"
    with closing(socket.socket(socket.AF_UNIX)) as agent:
        agent.bind(path)
        agent.listen(0)
        assert remove_stale_sockets(directory) == []
        assert remove_stale_sockets(directory) == []  # its queue is full
    assert remove_stale_sockets(directory) == [os.path.basename(path)]


async def test_the_watcher_finds_a_socket_that_listens_and_learns_who_it_is(kit):  # 90, 91
    kit.registry.publish(snapshot("a"))
    async with kit.serve(is_watched=True) as endpoint, client(endpoint.path) as stub:
        assert os.listdir(kit.directory) == [endpoint.name]
        assert stat.S_IMODE(os.lstat(endpoint.path).st_mode) == 0o600
        watcher = pluginregistration.RegistrationStub(stub.channel)
        assert await watcher.get_info(timeout=60) == pluginregistration.PluginInfo(
            type="DevicePlugin", name=RESOURCE, endpoint="", supported_versions=["v1beta1"]
        )
        assert await stub.get_device_plugin_options() == DevicePluginOptions()
        verdict = asyncio.ensure_future(endpoint.wait_for_verdict())
        for registered, error in ((True, ""), (False, "no such\nthing")):
            status = pluginregistration.RegistrationStatus(plugin_registered=registered, error=error)
            answer = await watcher.notify_registration_status(status)
            assert answer == pluginregistration.RegistrationStatusResponse()
        assert (await verdict)[0] is True
        assert await endpoint.wait_for_verdict() == (False, "no such\\nthing")
    assert os.listdir(kit.directory) == []


async def test_without_the_watcher_there_is_no_such_service(kit):
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        with pytest.raises(GRPCError):
            await pluginregistration.RegistrationStub(stub.channel).get_info()
