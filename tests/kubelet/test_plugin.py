"""What a kubelet sees of one plugin, over a real socket."""

import asyncio
import gc
import inspect

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from agent.core.grants.grant import GrantRefusedError, RefusalCause
from agent.core.inventory.device import DeviceList, Health
from agent.kubelet.messages.v1beta1 import (
    AllocateRequest,
    ContainerAllocateRequest,
    ContainerPreferredAllocationRequest,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreStartContainerRequest,
    PreStartContainerResponse,
)
from agent.kubelet.plugin import Plugin
from agent.kubelet.wire import ListEncoder, PluginOptions
from agent.registry import Registry
from tests.kubelet.endpoint_rig import RESOURCE, WATCH, Granting, client, device, snapshot, wait_until


def ids(response):
    return [(device.id, device.health) for device in response.devices]


def make_request(*containers):
    return AllocateRequest(container_requests=[ContainerAllocateRequest(devices_ids=list(ids)) for ids in containers])


@pytest.mark.parametrize("authority", ["localhost", "%2Fvar%2Flib%2Fkubelet%2Fx.sock", "/var/lib/kubelet/x.sock", ""])
async def test_any_authority_is_accepted(kit, authority):  # 26
    kit.registry.publish(snapshot("a"))
    async with kit.serve() as endpoint, client(endpoint.path, authority) as stub:
        assert await stub.get_device_plugin_options() == DevicePluginOptions()
        async for response in stub.list_and_watch():
            assert ids(response) == [("a", "Healthy")]
            break


@pytest.mark.parametrize(
    "options", [PluginOptions(), PluginOptions(has_preference=True), PluginOptions(has_prestart=True)]
)
async def test_options_are_those_given_every_time(kit, options):  # 20, 76
    async with kit.serve(options=options) as endpoint, client(endpoint.path) as stub:
        for _ in range(3):
            assert await stub.get_device_plugin_options() == options.build_message()
    assert endpoint.options is options


async def test_the_first_message_comes_at_once_even_if_empty(kit):  # 29
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        assert await anext(stub.list_and_watch()) == ListAndWatchResponse()


async def test_each_message_is_the_whole_list_and_none_equals_the_one_before(kit):  # 30, 31
    kit.registry.publish(snapshot("a"))
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        lists = stub.list_and_watch()
        assert ids(await anext(lists)) == [("a", "Healthy")]
        # Another reason for the same health, which no kubelet sees; then a difference that it does.
        kit.registry.publish(DeviceList(RESOURCE, (device("a", location="other"),)))
        await kit.registry.wait_until_delivered([RESOURCE])
        kit.registry.publish(DeviceList(RESOURCE, (device("a", Health.UNHEALTHY), device("b"))))
        assert ids(await anext(lists)) == [("a", "Unhealthy"), ("b", "Healthy")]


class Clock:
    """Time that passes only where the plugin pauses, and what happens meanwhile."""

    def __init__(self):
        self.now = 100.0
        self.meanwhile = []

    def __call__(self):
        return self.now

    async def pause(self, seconds):
        if self.meanwhile:
            self.meanwhile.pop(0)()
        self.now += seconds


def make_plugin(registry, clock):
    return Plugin(
        RESOURCE,
        registry,
        Granting(),
        pytest.fail,
        options=PluginOptions(),
        encoder=ListEncoder(),
        clock=clock,
        pause=clock.pause,
    )


async def test_a_burst_is_coalesced_and_its_last_state_sent():  # 32
    registry, clock = Registry(), Clock()
    sent = []
    lists = make_plugin(registry, clock).list_and_watch(Empty())
    for n in range(20):
        registry.publish(snapshot(f"d{n}"))
        clock.meanwhile = [lambda n=n: registry.publish(snapshot(f"d{n}", "later"))]
        response = await anext(lists)
        sent.append((clock.now, response))
    await lists.aclose()
    times = [time for time, _ in sent]
    assert times[:2] == [100.0, 100.0]
    assert all(later - earlier > 1.0 for earlier, later in zip(times, times[5:], strict=False))
    assert "later" not in [d.id for d in ListAndWatchResponse.FromString(sent[1][1]).devices]
    for _, response in sent[2:]:
        assert b"later" in response


async def test_what_went_back_while_it_was_held_up_is_not_sent():  # 31, 32
    registry, clock = Registry(), Clock()
    lists = make_plugin(registry, clock).list_and_watch(Empty())
    for name in ("a", "b"):
        registry.publish(snapshot(name))
        await anext(lists)
    registry.publish(snapshot("c"))
    clock.meanwhile = [lambda: registry.publish(snapshot("b"))]
    following = asyncio.ensure_future(anext(lists))
    await wait_until(lambda: not clock.meanwhile)
    registry.publish(snapshot("d"))
    assert b"d" in await following
    await lists.aclose()


async def test_a_slow_reader_has_one_list_coming_and_then_the_newest(kit):  # 50
    many = [f"device-{n:05}" for n in range(8000)]
    kit.registry.publish(snapshot(*many))
    async with (
        kit.serve() as endpoint,
        client(endpoint.path, window=65535) as stub,
        stub.channel.request("/v1beta1.DevicePlugin/ListAndWatch", *WATCH) as call,
    ):
        await call.send_message(Empty(), end=True)
        await endpoint.wait_for_stream()
        for n in range(10):
            kit.registry.publish(snapshot(*many, f"extra-{n}"))
            await asyncio.sleep(0)
        assert len((await call.recv_message()).devices) in (8000, 8001)
        assert (await call.recv_message()).devices[-1].id == "extra-9"
        kit.registry.publish(snapshot("last"))
        assert [device.id for device in (await call.recv_message()).devices] == ["last"]
        await call.cancel()


async def test_streams_that_nobody_reads_cost_nobody_anything(kit):
    many = [f"device-{n:05}" for n in range(8000)]
    kit.registry.publish(snapshot(*many))
    async with kit.serve() as endpoint:
        dead = [client(endpoint.path, window=65535) for _ in range(100)]
        calls = []
        for one in dead:
            stub = await one.__aenter__()
            call = stub.channel.request("/v1beta1.DevicePlugin/ListAndWatch", *WATCH)
            calls.append(call)
            await call.__aenter__()
            await call.send_message(Empty(), end=True)
        await wait_until(lambda: endpoint.stream_count == 100)
        async with client(endpoint.path) as stub:
            lists = stub.list_and_watch()
            assert len((await anext(lists)).devices) == 8000
            kit.registry.publish(snapshot(*many, "one-more"))
            assert (await anext(lists)).devices[-1].id == "one-more"
            assert len((await stub.allocate(make_request(["a"]))).container_responses) == 1
        for one in dead:
            await one.__aexit__(None, None, None)
        await wait_until(lambda: endpoint.stream_count == 0)
        assert kit.registry.count_streams(RESOURCE) == 0


async def test_a_client_that_dies_while_a_send_is_blocked_leaves_nothing(kit):
    kit.registry.publish(snapshot(*[f"device-{n:05}" for n in range(8000)]))
    async with kit.serve() as endpoint:
        async with client(endpoint.path, window=65535) as stub:
            call = stub.channel.request("/v1beta1.DevicePlugin/ListAndWatch", *WATCH)
            await call.__aenter__()
            await call.send_message(Empty(), end=True)
            await endpoint.wait_for_stream()
            stub.channel._protocol.connection._transport.abort()
        await wait_until(lambda: endpoint.stream_count == 0)
        assert kit.registry.count_streams(RESOURCE) == 0
        gc.collect()
        assert not [
            thing
            for thing in gc.get_objects()
            if inspect.isasyncgen(thing) and thing.ag_code is Plugin.list_and_watch.__code__
        ]
    assert kit.unexpected == []


async def test_a_call_given_up_at_once_leaves_nothing(kit):
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        kit.granting.gate = asyncio.Event()
        for _ in range(3):
            call = asyncio.ensure_future(stub.allocate(make_request(["a"])))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        assert await stub.get_device_plugin_options() == DevicePluginOptions()
        await wait_until(lambda: not any(c.calls.tasks for c in endpoint._connections))
    assert kit.unexpected == []


async def test_n_requests_n_responses_in_their_order(kit):  # 53
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        answer = await stub.allocate(make_request(["b"], ["a", "c"], ["b"]))
    assert [response.envs["IDS"] for response in answer.container_responses] == ["b", "a,c", "b"]
    assert [spec.host_path for spec in answer.container_responses[1].devices] == ["/dev/a", "/dev/c"]
    assert kit.granting.asked[0] == (RESOURCE, ("b",))


@pytest.mark.parametrize("request_", [make_request(), make_request([]), make_request(["a"], [])])
async def test_an_allocate_for_nothing_is_refused_rather_than_answered_empty(kit, request_):  # 53, fact 12
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        with pytest.raises(GRPCError) as refused:
            await stub.allocate(request_)
    assert refused.value.status is Status.INVALID_ARGUMENT
    assert kit.granting.asked == []


@pytest.mark.parametrize(
    ("cause", "status"),
    [(RefusalCause.UNKNOWN_ID, Status.NOT_FOUND), (RefusalCause.UNHEALTHY, Status.FAILED_PRECONDITION)],
)
async def test_a_refusal_arrives_with_its_text(kit, cause, status):  # 58, 59
    kit.granting.error = GrantRefusedError(cause, "example.com/thing gpu-7: gone for 3 s; ü, 100 %")
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        with pytest.raises(GRPCError) as refused:
            await stub.allocate(make_request(["gpu-7"]))
    assert (refused.value.status, refused.value.message) == (status, kit.granting.error.text)
    assert kit.unexpected == []


async def test_hardware_cannot_write_the_text_of_an_error(kit):
    kit.granting.error = GrantRefusedError(RefusalCause.UNHEALTHY, "a\nb\x1b[2J\u202e" + "x" * 300)
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        with pytest.raises(GRPCError) as refused:
            await stub.allocate(make_request(["a"]))
    assert refused.value.message.startswith("a\\nb\\x1b[2J\\u202exxx")
    assert refused.value.message.isprintable()
    assert len(refused.value.message) <= 200


async def test_a_defect_is_told_in_one_line_and_reported(kit, caplog):  # 60
    kit.granting.error = ZeroDivisionError("division\nby zero")
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        with pytest.raises(GRPCError) as failed:
            await stub.allocate(make_request(["a"]))
        assert failed.value.status is Status.INTERNAL
        assert failed.value.message == "internal error: ZeroDivisionError: division\\nby zero"
        assert kit.unexpected == [kit.granting.error]
        # A preference is never worth a pod.
        ask = PreferredAllocationRequest(container_requests=[ContainerPreferredAllocationRequest(["a"], [], 1)])
        answer = await stub.get_preferred_allocation(ask)
        assert [response.device_i_ds for response in answer.container_responses] == [[]]
        assert len(kit.unexpected) == 2
    assert "Traceback" not in caplog.text


async def test_a_stuck_allocate_holds_up_nothing_else(kit):  # 52
    kit.granting.gate = asyncio.Event()
    kit.registry.publish(snapshot("a"))
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        stuck = asyncio.ensure_future(stub.allocate(make_request(["a"])))
        await wait_until(lambda: kit.granting.asked)
        assert ids(await anext(stub.list_and_watch())) == [("a", "Healthy")]
        assert await stub.get_device_plugin_options() == DevicePluginOptions()
        kit.granting.gate.set()
        assert len((await stuck).container_responses) == 1


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ((["c", "a", "b"], ["b"], 2), ["a", "b"]),
        ((["a"], [], 2), []),
        ((["a"], ["z"], 1), []),
        (([], [], 0), []),
        ((["a"], [], -1), []),
    ],
)
async def test_a_preference_is_given_or_left_open(kit, asked, answer):  # 71, 72, 73
    ask = PreferredAllocationRequest(container_requests=[ContainerPreferredAllocationRequest(*asked)])
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        got = await stub.get_preferred_allocation(ask)
        assert [response.device_i_ds for response in got.container_responses] == [answer]
        assert (await stub.get_preferred_allocation(PreferredAllocationRequest())).container_responses == []


async def test_pre_start_is_answered(kit):  # 77
    async with kit.serve() as endpoint, client(endpoint.path) as stub:
        answer = await stub.pre_start_container(PreStartContainerRequest(devices_ids=["a"]), timeout=30)
        assert answer == PreStartContainerResponse()
        assert kit.granting.asked == [(RESOURCE, ("a",))]
        kit.granting.error = GrantRefusedError(RefusalCause.HOOK_FAILED, "a: prestart.reset: it is not there")
        with pytest.raises(GRPCError) as raised:
            await stub.pre_start_container(PreStartContainerRequest(devices_ids=["a"]), timeout=30)
    assert (raised.value.status, raised.value.message) == (
        Status.FAILED_PRECONDITION,
        "a: prestart.reset: it is not there",
    )
