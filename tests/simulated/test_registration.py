"""Register: what the kubelet checks, and in which order it does what."""

import asyncio

import pytest
from grpclib import GRPCError
from grpclib.const import Status
from grpclib.exceptions import StreamTerminatedError

from agent.core.struct import replace
from device_agent_lab.simulated.registration import is_accepted
from tests.simulated.conftest import SHORT
from tests.simulated.tiny_plugin import TinyPlugin, device

FOO = "example.com/foo"
SOON = replace(SHORT, dial=0.5)  # where nobody answers


async def test_the_kubelet_dials_back_inside_register(started, plugin):
    kubelet = await started()
    foo = await plugin(kubelet, devices=[device("a"), device("b", "Unhealthy")])
    await foo.register()
    assert foo.server.of("GetDevicePluginOptions")
    await kubelet.until(lambda: kubelet.lists)
    kinds = [event.kind for event in kubelet.events if event.resource == FOO]
    assert kinds[:2] == ["register", "registered"]
    assert (kubelet.capacity(FOO), kubelet.allocatable(FOO)) == (2, 1)
    assert kubelet.unhealthy(FOO) == {"b"}


async def test_the_stream_can_open_before_the_answer_is_seen(started, plugin):
    kubelet = await started()
    kubelet.faults.answer_late(30)
    foo = await plugin(kubelet, devices=[device("a")])
    registering = asyncio.create_task(foo.register())
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)
    assert not registering.done()
    registering.cancel()
    await asyncio.wait({registering})
    await kubelet.until(lambda: kubelet.streams(FOO) == 1)


async def test_options_of_the_request_are_ignored(started, plugin):
    kubelet = await started()
    foo = await plugin(kubelet, pre_start_required=True)
    await foo.register()
    (event,) = kubelet.events.select("registered")
    assert event.detail["pre_start"] is True
    (asked,) = kubelet.events.select("register")
    assert asked.detail["pre_start"] is False


@pytest.mark.parametrize(
    ("version", "resource", "text"),
    [
        ("v1", FOO, 'requested API version "v1" is not supported by kubelet. Supported version is ["v1beta1"]'),
        ("v1beta1", "foo", 'the ResourceName "foo" is invalid'),
    ],
)
async def test_refusals_are_unknown_with_a_text(started, version, resource, text):
    kubelet = await started()
    with pytest.raises(GRPCError) as error:
        await TinyPlugin(kubelet, resource).register(version=version)
    assert (error.value.status, error.value.message) == (Status.UNKNOWN, text)
    assert kubelet.events.select("register_refused")[0].detail["text"] == text


@pytest.mark.parametrize("name", ["example.com/foo_bar.baz-1", "example.com/FOO", "nodot/x", f"{'a' * 63}.x/y"])
def test_names_that_are_accepted(name):
    assert is_accepted(name)


@pytest.mark.parametrize(
    "name",
    [
        "foo",
        "kubernetes.io/foo",
        "a.kubernetes.io/b",
        "requests.example.com/foo",
        "Example.com/foo",
        "example.com/foo/bar",
        "example.com/-x",
        "example.com/" + "x" * 64,
        "a." * 122 + "ab/x",
        "example.com/",
        "/x",
        "",
    ],
)
def test_names_that_are_refused(name):
    assert not is_accepted(name)


async def test_a_socket_that_never_listens_fails_after_the_dial_limit(started):
    kubelet = await started(limits=SOON)
    with pytest.raises(GRPCError) as error:
        await TinyPlugin(kubelet).register()
    assert error.value.message == "failed to dial device plugin: context deadline exceeded"
    assert not kubelet.is_known(FOO)


async def test_a_listener_that_does_not_speak_is_no_connection(started, tmp_path):
    kubelet = await started(limits=SOON)
    writers = []
    silent = await asyncio.start_unix_server(lambda _r, w: writers.append(w), kubelet.directory + "/p.sock")
    try:
        with pytest.raises(GRPCError, match="context deadline exceeded"):
            await TinyPlugin(kubelet).register()
    finally:
        silent.close()
        for writer in writers:
            writer.close()


async def test_a_late_server_is_found_by_the_back_off(started, plugin):
    kubelet = await started()
    registering = asyncio.create_task(TinyPlugin(kubelet).register())
    await kubelet.until(lambda: kubelet.events.select("register"))
    await plugin(kubelet, devices=[device("a")])
    await registering
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)


async def test_failing_options_are_asked_once_and_end_the_registration(started, plugin):
    kubelet = await started()
    foo = await plugin(kubelet, devices=[device("a")])
    foo.failure = GRPCError(Status.INTERNAL, "no")
    with pytest.raises(GRPCError) as error:
        await foo.register()
    assert error.value.message == "failed to get device plugin options: rpc error: code = Internal desc = no"
    assert len(foo.server.headers) == 1
    assert not kubelet.is_known(FOO)


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [("x.sock", "x.sock"), ("sub/x.sock", "sub/x.sock"), ("../x.sock", "../x.sock")],
)
async def test_an_endpoint_is_plainly_joined(started, plugin, endpoint, name):
    kubelet = await started()
    foo = await plugin(kubelet, name=name)
    await foo.register(endpoint=endpoint)


async def test_an_absolute_endpoint_is_joined_below(started, plugin):
    kubelet = await started(limits=SOON)
    foo = await plugin(kubelet)
    with pytest.raises(GRPCError, match="failed to dial"):
        await foo.register(endpoint=foo.path)


async def test_headers_are_those_of_grpc_go(started, plugin):
    kubelet = await started()
    foo = await plugin(kubelet, devices=[device("a")], pre_start_required=True)
    await foo.register()
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)
    await kubelet.allocate("p", "c", {FOO: 1})
    await kubelet.pre_start("p", "c")
    for headers in foo.server.headers:
        assert headers[":authority"] == "localhost"
        assert headers["user-agent"] == "grpc-go/1.79.3"
        assert headers["content-type"] == "application/grpc"
        assert headers["grpc-accept-encoding"] == "gzip"
        limited = headers[":path"].endswith("PreStartContainer")
        assert ("grpc-timeout" in headers) is limited
    assert foo.server.of("PreStartContainer")[0]["grpc-timeout"].endswith("u")


@pytest.mark.parametrize(("release", "sent_on"), [("1.34", False), ("1.35", True)])
async def test_the_deadline_of_register_reaches_the_options(started, plugin, release, sent_on):
    kubelet = await started(release=release)
    foo = await plugin(kubelet)
    await foo.register(timeout=12)
    assert ("grpc-timeout" in foo.server.of("GetDevicePluginOptions")[0]) is sent_on


@pytest.mark.parametrize(("release", "goes_on"), [("1.34", True), ("1.35", False)])
async def test_whether_the_dial_outlives_the_caller(started, plugin, release, goes_on):
    kubelet = await started(release=release)
    with pytest.raises(TimeoutError):
        await TinyPlugin(kubelet).register(timeout=0.05)
    await plugin(kubelet, devices=[device("a")])
    if goes_on:
        await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)
    else:
        with pytest.raises(TimeoutError):
            await kubelet.until(lambda: kubelet.is_known(FOO), timeout=0.6)


async def test_refuse_and_hang_on_demand(started, plugin):
    kubelet = await started()
    foo = await plugin(kubelet, devices=[device("a")])
    kubelet.faults.refuse("not now", times=2)
    for _ in range(2):
        with pytest.raises(GRPCError, match="not now"):
            await foo.register()
    assert not foo.server.headers
    kubelet.faults.hang(30)
    with pytest.raises(TimeoutError):
        await foo.register(timeout=0.05)
    kubelet.faults.dial_late(0.01)
    await foo.register()


async def test_a_connection_closed_inside_register(started, plugin):
    kubelet = await started()
    foo = await plugin(kubelet, devices=[device("a")])
    kubelet.faults.close()
    with pytest.raises(StreamTerminatedError):
        await foo.register()
    assert not foo.server.headers


async def test_an_answer_that_is_lost_although_the_stream_opens(started, plugin):
    kubelet = await started()
    foo = await plugin(kubelet, devices=[device("a")])
    kubelet.faults.lose_answer(resource=FOO)
    with pytest.raises(StreamTerminatedError):
        await foo.register()
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)
