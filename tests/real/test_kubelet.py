"""The behaviour of a kubelet with plugins, bad ones too: each fact that the agent relies on, on both kubelets.

A difference found here is one to correct in lab/device_agent_lab/simulated. § and facts are of the kubelet contract.
"""

import asyncio
import os
import re

import pytest
from grpclib import GRPCError
from grpclib.const import Status

from device_agent_lab.simulated.errors import AllocationError, KubeletCrashed, KubeletStopped, PodRefused
from tests.agent.rig import BAR, FOO
from tests.real.conftest import sockets_in
from tests.real.kubelets import HEALTH_IN_STATUS, minor
from tests.simulated.tiny_plugin import device


@pytest.fixture
async def kubelet(node):
    await node.kubelet.start()
    return node.kubelet


def devices(*ids, health="Healthy"):
    return [device(id_, health) for id_ in ids]


def new(kind):
    return minor(kind) == "1.37"


# ---------------------------------------------------------------- registration


async def test_list_makes_the_resource(kubelet, plugin):
    await plugin(kubelet, [device("a"), device("b", "Unhealthy"), device("c", "healthy"), device("d", "")])
    await kubelet.sees(FOO, {"a"}, {"b", "c", "d"})
    await kubelet.until(lambda: (kubelet.capacity(FOO), kubelet.allocatable(FOO)) == (4, 1))


@pytest.mark.parametrize(
    ("version", "resource", "text"),
    [
        ("v1", FOO, 'requested API version "v1" is not supported by kubelet. Supported version is ["v1beta1"]'),
        ("v1beta1", "foo", 'the ResourceName "foo" is invalid'),
        ("v1beta1", "kubernetes.io/foo", 'the ResourceName "kubernetes.io/foo" is invalid'),
    ],
)
async def test_refusals_of_register(kubelet, plugin, version, resource, text):
    one = await plugin(kubelet, devices("a"), resource=resource, registered=False)
    with pytest.raises(GRPCError) as refused:
        await one.register(version=version)
    assert (refused.value.status, refused.value.message) == (Status.UNKNOWN, text)
    assert not one.server.headers


async def test_failing_options_end_the_registration(kubelet, plugin):
    one = await plugin(kubelet, devices("a"), registered=False)
    one.failure = GRPCError(Status.INTERNAL, "no")
    with pytest.raises(GRPCError) as refused:
        await one.register()
    assert refused.value.message == "failed to get device plugin options: rpc error: code = Internal desc = no"
    assert len(one.server.headers) == 1
    assert FOO not in await kubelet.view()
    one.failure = None
    await one.register()
    await kubelet.sees(FOO, {"a"})


async def test_14_same_socket_again_while_its_stream_lives(kind, kubelet, plugin):
    """1.34 opens another stream. 1.37 refuses, and forgets the one that lives: its end goes unnoticed, for ever."""
    one = await plugin(kubelet, devices("a"))
    await kubelet.sees(FOO, {"a"})
    if not new(kind):
        await one.register()
        await kubelet.until(lambda: kubelet.streams(FOO) == 2)
        one.set(*devices("a", "b"))
        await kubelet.sees(FOO, {"a", "b"})
        return
    for _ in range(2):
        with pytest.raises(GRPCError, match=f"device plugin already connected: {re.escape(one.path)}"):
            await one.register()
    one.set(*devices("a", "b"))
    await kubelet.sees(FOO, {"a", "b"})
    one.end_streams()
    await kubelet.until(lambda: kubelet.events.count("stream_ended"))
    await kubelet.sees(FOO, {"a", "b"})
    assert kubelet.events.count("disconnected") == 0
    with pytest.raises(GRPCError, match="already connected"):
        await one.register()
    other = await plugin(kubelet, devices("a", "b", "c"))
    await kubelet.sees(FOO, {"a", "b", "c"})
    other.end_streams()
    await kubelet.until(lambda: kubelet.events.count("stream_ended") == 2)
    await kubelet.until(lambda: kubelet.events.count("disconnected"))
    await kubelet.sees(FOO, {"a", "b", "c"})  # offered by one whose stream ended long ago
    await kubelet.admit("p", {FOO: 1})
    assert (len(one.allocated), len(other.allocated)) == (1, 0)


async def test_13_other_socket_while_the_first_lives(kind, kubelet, plugin):
    """Until 1.36 the end of the older stream takes the newer client with it (#121994)."""
    old = await plugin(kubelet, devices("a"))
    await kubelet.sees(FOO, {"a"})
    new_one = await plugin(kubelet, devices("a", "b"))
    await kubelet.sees(FOO, {"a", "b"})
    await kubelet.admit("p", {FOO: 1})
    assert (len(old.allocated), len(new_one.allocated)) == (0, 1)
    old.end_streams()
    await kubelet.until(lambda: kubelet.events.count("disconnected"))
    if new(kind):
        await kubelet.sees(FOO, {"a", "b"})
        new_one.set(*devices("a"))
        await kubelet.sees(FOO, {"a"})
    else:
        await kubelet.sees(FOO, (), {"a", "b"})
        await kubelet.until(lambda: kubelet.streams(FOO) == 0)


async def test_15_ended_then_the_same_socket(kubelet, plugin):
    """Once the kubelet has closed its connection, the socket may be used again in every release."""
    one = await plugin(kubelet, devices("a"))
    for number in range(1, 6):
        await kubelet.sees(FOO, {"a"})
        one.end_streams()
        await kubelet.until(lambda number=number: kubelet.events.count("disconnected") == number)
        await kubelet.sees(FOO, (), {"a"})
        one.ending.clear()
        await one.register()
    await kubelet.sees(FOO, {"a"})


async def test_end_of_a_stream(kubelet, plugin):
    """Allocatable decreases at once, capacity stays for the grace period, and no plugin returns."""
    one = await plugin(kubelet, devices("a", "b"))
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 2)
    one.end_streams()
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 0)
    assert kubelet.capacity(FOO) == 2
    await kubelet.sees(FOO, (), {"a", "b"})
    await kubelet.until(one.server.protocols[0].connection.is_closing)
    assert len(one.server.of("ListAndWatch")) == 1
    await kubelet.age(FOO, 299)
    await kubelet.sees(FOO, (), {"a", "b"})
    await kubelet.age(FOO, 2)
    await kubelet.until(lambda: kubelet.capacity(FOO) == 0)
    await kubelet.seen(lambda view: FOO not in view)
    assert (await kubelet.admit("p", {FOO: 1}))["c0"] == {}  # as one never heard of


async def test_empty_list(kubelet, plugin):
    one = await plugin(kubelet, devices("a"))
    await kubelet.until(lambda: kubelet.capacity(FOO) == 1)
    one.set()
    await kubelet.until(lambda: kubelet.capacity(FOO) == 0)
    with pytest.raises(PodRefused, match="no healthy devices present; cannot allocate unhealthy devices"):
        await kubelet.admit("p", {FOO: 1})


async def test_duplicate_id_counts_twice(kubelet, plugin):
    await plugin(kubelet, [device("a"), device("a", "Unhealthy")])
    await kubelet.until(lambda: (kubelet.capacity(FOO), kubelet.allocatable(FOO)) == (2, 1))
    await kubelet.sees(FOO, {"a"}, {"a"})


async def test_message_above_4_mib(kubelet, plugin):
    size = 4096
    one = await plugin(kubelet, devices(*(f"{number:0{size - 20}}" for number in range(1000))))
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1000)
    one.set(*devices(*(f"{number:0{size}}" for number in range(1024))))
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 0)
    (ended,) = kubelet.events.select("stream_ended")
    assert re.search(r"received message larger than max \(\d+ vs. 4194304\)", str(ended))


async def test_start_removes_sockets_and_nothing_else(node, plugin):
    kubelet = node.kubelet
    await kubelet.start()
    await plugin(kubelet, devices("a"))
    below = await plugin(kubelet, devices("b"), resource=BAR, name="sub/b.sock", registered=False)
    await below.register(endpoint="sub/b.sock")
    await kubelet.until(lambda: kubelet.events.select("list", FOO) and kubelet.events.select("list", BAR))
    (node.dp / "file").touch()
    await kubelet.down()
    assert "kubelet.sock" in os.listdir(node.dp)
    assert "p0.sock" in os.listdir(node.dp)
    await kubelet.up()
    assert sockets_in(node.dp) == ["kubelet.sock"]
    assert sockets_in(node.dp / "sub") == ["b.sock"]
    assert (node.dp / "file").exists()
    await kubelet.sees(FOO, ())  # known from the checkpoint, without its devices
    assert (await kubelet.view()).keys() == {FOO, BAR}


# ---------------------------------------------------------------- allocation


async def test_refused_allocate_leaves_nothing_booked(kubelet, plugin):
    one = await plugin(kubelet, devices("a", "b"))
    await kubelet.sees(FOO, {"a", "b"})
    one.failure = GRPCError(Status.FAILED_PRECONDITION, "a is broken")
    with pytest.raises(PodRefused) as refused:
        await kubelet.admit("p", {FOO: 2})
    assert refused.value.reason == "UnexpectedAdmissionError"
    assert refused.value.message == (
        "Allocate failed due to rpc error: code = FailedPrecondition desc = a is broken, which is unexpected"
    )
    assert (await kubelet.view())[FOO].allocated == set()
    one.failure = None
    await kubelet.admit("q", {FOO: 2})


async def test_53_empty_answer_leaks_the_devices(kubelet, plugin):  # fact 12
    one = await plugin(kubelet, devices("a", "b"))
    await kubelet.sees(FOO, {"a", "b"})
    one.answer = lambda _: []
    with pytest.raises(PodRefused, match="no containers return in allocation response"):
        await kubelet.admit("p", {FOO: 1})
    assert len((await kubelet.view())[FOO].allocated) == 1
    one.answer = lambda ids: [one_answer(ids)]
    with pytest.raises(PodRefused, match="requested number of devices unavailable"):
        await kubelet.admit("q", {FOO: 2})


def one_answer(ids):
    from agent.kubelet.messages import v1beta1

    return v1beta1.ContainerAllocateResponse(envs={"IDS": ",".join(sorted(ids))})


async def test_too_many(kubelet, plugin):
    await plugin(kubelet, devices("a"))
    await kubelet.sees(FOO, {"a"})
    with pytest.raises(PodRefused) as refused:
        await kubelet.admit("p", {FOO: 2})
    assert refused.value.message == (
        f"Allocate failed due to requested number of devices unavailable for {FOO}. Requested: 2, Available: 1, "
        "which is unexpected"
    )


async def test_hanging_allocate_stops_every_other_pod(kubelet, plugin):  # fact 7
    one = await plugin(kubelet, devices("a", "b"))
    await kubelet.sees(FOO, {"a", "b"})
    one.gate = asyncio.Event()
    first = asyncio.create_task(kubelet.admit("p", {FOO: 1}))
    await kubelet.until(lambda: one.allocated)
    second = asyncio.create_task(kubelet.admit("q", {}))
    third = asyncio.create_task(kubelet.admit("r", {FOO: 1}))
    await kubelet.view()  # answered all the same, after the others were asked
    assert not first.done()
    assert not second.done()
    assert len(one.allocated) == 1
    one.gate.set()
    await asyncio.gather(first, second, third)


async def test_init_containers_hand_their_devices_on(kubelet, plugin):
    one = await plugin(kubelet, devices("a", "b", "c"))
    await kubelet.sees(FOO, {"a", "b", "c"})
    given = await kubelet.admit("p", {FOO: 1}, {FOO: 2}, init=[{FOO: 2}, {FOO: 3}])
    assert given["i0"][FOO] < given["i1"][FOO] == {"a", "b", "c"}
    assert given["c0"][FOO] | given["c1"][FOO] == {"a", "b", "c"}
    assert [len(ids) for ids in one.allocated] == [2, 3, 1, 2]
    assert (await kubelet.view())[FOO].allocated == {"a", "b", "c"}


async def test_devices_are_free_at_the_next_allocation(kubelet, plugin):
    await plugin(kubelet, devices("a"))
    await kubelet.sees(FOO, {"a"})
    await kubelet.admit("p", {FOO: 1})
    await kubelet.over("p")
    assert (await kubelet.view())[FOO].allocated == {"a"}
    await kubelet.admit("q", {FOO: 1})


async def test_preference(kubelet, plugin):  # 72, §3.2
    """The calls for a preferred allocation, and the effect of answers that are too short, too long, or wrong."""
    one = await plugin(kubelet, devices("a", "b", "c", "d"), get_preferred_allocation_available=True)
    await kubelet.sees(FOO, {"a", "b", "c", "d"})
    one.prefer = lambda request: ["d", "c"]
    assert (await kubelet.admit("p", {FOO: 2}))["c0"][FOO] == {"c", "d"}
    await kubelet.over("p")
    one.prefer = lambda request: ["nowhere", "c"]  # unknown ones ignored, topped up
    given = (await kubelet.admit("q", {FOO: 2}))["c0"][FOO]
    assert "c" in given
    await kubelet.over("q")
    one.prefer = lambda request: ["a", "b", "c", "d"]  # cut
    assert len((await kubelet.admit("r", {FOO: 2}))["c0"][FOO]) == 2
    await kubelet.over("r")
    one.prefer = lambda request: []
    given = await kubelet.admit("s", {FOO: 3}, init=[{FOO: 1}])
    (first,) = given["i0"][FOO]
    assert first in given["c0"][FOO]
    asked = one.preferred[-1]
    assert (sorted(asked.available_deviceIDs), asked.must_include_deviceIDs) == (["a", "b", "c", "d"], [first])
    assert asked.allocation_size == 3
    await kubelet.over("s")
    one.failure = GRPCError(Status.INTERNAL, "no wish")
    with pytest.raises(PodRefused, match="GetPreferredAllocation rpc failed with err: rpc error: code = Internal desc"):
        await kubelet.admit("t", {FOO: 2})


async def test_preference_is_asked_for_all_that_there_is(kubelet, plugin):
    """Without topology, also when there is no choice."""
    one = await plugin(kubelet, devices("a", "b"), get_preferred_allocation_available=True)
    await kubelet.sees(FOO, {"a", "b"})
    await kubelet.admit("p", {FOO: 2})
    assert len(one.preferred) == 1


async def test_pre_start_at_each_start(kubelet, plugin):  # §3.5
    one = await plugin(kubelet, devices("a", "b"), pre_start_required=True)
    await kubelet.sees(FOO, {"a", "b"})
    await kubelet.admit("p", {FOO: 2})
    assert one.prestarted == []
    for _ in range(3):
        await kubelet.begin("p")
    assert [sorted(ids) for ids in one.prestarted] == [["a", "b"]] * 3
    one.failure = GRPCError(Status.INTERNAL, "not yet")
    with pytest.raises(AllocationError, match="not yet"):
        await kubelet.begin("p")
    one.failure = None
    await kubelet.begin("p")
    one.end_streams()
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 0)
    with pytest.raises(AllocationError, match="has been stopped"):
        await kubelet.begin("p")


async def test_hole_in_pre_start_after_a_restart(kubelet, plugin):  # §3.5
    """Before the plugin is back its options are unknown, and containers start without the call."""
    one = await plugin(kubelet, devices("a"), pre_start_required=True)
    await kubelet.sees(FOO, {"a"})
    await kubelet.admit("p", {FOO: 1})
    await kubelet.begin("p")
    await kubelet.again()
    assert await kubelet.pods_again() == {}
    assert (await kubelet.begin("p")).envs == {"IDS": "a"}
    assert len(one.prestarted) == 1


async def test_reboot_before_the_plugin_is_back(kubelet, plugin):  # §5.2
    await plugin(kubelet, devices("a"))
    await kubelet.sees(FOO, {"a"})
    await kubelet.admit("p", {FOO: 1})
    await kubelet.begin("p")
    await kubelet.again(reboot=True)
    refused = await kubelet.pods_again()
    assert refused["p"] == (
        "UnexpectedAdmissionError: Allocate failed due to no healthy devices present; cannot allocate unhealthy "
        f"devices {FOO}, which is unexpected"
    )


async def test_held_device_is_unhealthy_after_a_reboot(kubelet, plugin):
    await plugin(kubelet, devices("a", "b"))
    await kubelet.sees(FOO, {"a", "b"})
    (held,) = (await kubelet.admit("p", {FOO: 1}))["c0"][FOO]
    await kubelet.again(reboot=True)
    other = "b" if held == "a" else "a"
    await plugin(kubelet, [device(held, "Unhealthy"), device(other)])
    await kubelet.sees(FOO, {other}, {held})
    refused = await kubelet.pods_again()
    assert "previously allocated devices are no longer healthy; cannot allocate unhealthy devices" in refused["p"]


@pytest.mark.parametrize("kind", HEALTH_IN_STATUS)
async def test_health_of_a_pods_devices(kubelet, plugin):  # §4
    """An id that is not listed any more keeps "Healthy": the reason to list what is gone as Unhealthy."""
    one = await plugin(kubelet, devices("a", "b"))
    await kubelet.sees(FOO, {"a", "b"})
    await kubelet.admit("p", {FOO: 2})
    assert await kubelet.status_of("p") == {"a": "Healthy", "b": "Healthy"}
    one.set(device("a", "Unhealthy"), device("b", "strange"))
    await kubelet.sees(FOO, (), {"a", "b"})
    assert await kubelet.status_of("p") == {"a": "Unhealthy", "b": "Unhealthy"}
    one.set(device("b"))
    await kubelet.sees(FOO, {"b"})
    assert await kubelet.status_of("p") == {"a": "Healthy", "b": "Healthy"}
    one.set(device("a", "Unhealthy"), device("b"))
    await kubelet.sees(FOO, {"b"}, {"a"})
    one.end_streams()
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 0)
    assert await kubelet.status_of("p") == {"a": "Unhealthy", "b": "Healthy"}


# ---------------------------------------------------------------- crashes


async def test_43_id_that_leaves_during_allocate_crashes_the_kubelet(crashing_node, plugin):  # fact 8
    kubelet = crashing_node.kubelet
    await kubelet.start()
    one = await plugin(kubelet, devices("a", "b"))
    await kubelet.sees(FOO, {"a", "b"})
    one.gate = asyncio.Event()
    admitting = asyncio.create_task(kubelet.admit("p", {FOO: 1}))
    await kubelet.until(lambda: one.allocated)
    ((going,),) = one.allocated
    one.set(*devices(*({"a", "b"} - {going})))
    await kubelet.sees(FOO, {"a", "b"} - {going})
    one.gate.set()
    with pytest.raises(KubeletCrashed, match="nil"):
        await admitting
    with pytest.raises((KubeletCrashed, KubeletStopped)):
        await kubelet.admit("q", {FOO: 1})


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node", "best-effort"])
async def test_42_held_id_that_left_crashes_the_kubelet_in_its_hints(crashing_node, plugin, policy):  # fact 9
    kubelet = crashing_node.new_kubelet(policy=policy)
    await kubelet.start()
    one = await plugin(kubelet, [device("a", "Healthy", 0), device("b", "Healthy", 1)])
    await kubelet.sees(FOO, {"a", "b"})
    (held,) = (await kubelet.admit("p", {FOO: 1}))["c0"][FOO]
    await kubelet.begin("p")
    other, at = ("b", 1) if held == "a" else ("a", 0)
    one.set(device(other, "Healthy", at))
    await kubelet.sees(FOO, {other})
    await kubelet.again()
    await plugin(kubelet, [device(other, "Healthy", at)])
    await kubelet.sees(FOO, {other})
    with pytest.raises(KubeletCrashed, match="nil"):
        await kubelet.pods_again()


@pytest.mark.parametrize(("policy", "nodes"), [("none", (0, 1)), ("restricted", ())])
async def test_42_without_hints_it_does_not_crash(node, plugin, policy, nodes):
    """With the policy `none`, or where no device has topology."""
    kubelet = node.new_kubelet(policy=policy)
    await kubelet.start()
    one = await plugin(kubelet, [device("a", "Healthy", *nodes[:1]), device("b", "Healthy", *nodes[1:])])
    await kubelet.sees(FOO, {"a", "b"})
    (held,) = (await kubelet.admit("p", {FOO: 1}))["c0"][FOO]
    await kubelet.begin("p")
    (other,) = {"a", "b"} - {held}
    rest = [each for each in one.devices if each.id == other]
    await kubelet.again()
    await plugin(kubelet, rest)
    await kubelet.sees(FOO, {other})
    assert await kubelet.pods_again() == {}
    await kubelet.again(reboot=True)
    await plugin(kubelet, rest)
    await kubelet.sees(FOO, {other})
    refused = await kubelet.pods_again()
    assert "previously allocated devices are no longer healthy" in refused["p"]


# ---------------------------------------------------------------- hints

LAYOUTS = {
    "one-each": [(0,), (1,)],
    "two-each": [(0,), (0,), (1,), (1,)],
    "one-node": [(1,), (1,)],
    "none": [(), ()],
    "some": [(0,), (), (1,)],
    "both": [(0, 1), (0,)],
    "minus-one": [(-1,)],
    "unknown": [(0,), (7,)],
}
ALL, FIRST, SECOND = (0, 1), (0,), (1,)
# layout: for one, two, three of it: the hints, preferred ones marked by True
EXPECTED = {
    "one-each": ([(FIRST, True), (ALL, False), (SECOND, True)], [(ALL, True)], []),
    "two-each": (
        [(FIRST, True), (ALL, False), (SECOND, True)],
        [(FIRST, True), (ALL, False), (SECOND, True)],
        [(ALL, True)],
    ),
    "one-node": ([(SECOND, True)], [(SECOND, True)], []),
    "none": (None, None, None),
    "some": ([(FIRST, True), (ALL, False), (SECOND, True)], [(ALL, True)], []),
    "both": ([(FIRST, True), (ALL, False), (SECOND, True)], [(FIRST, True), (ALL, False)], []),
    "minus-one": ([], [], []),
    "unknown": ([(FIRST, True)], [], []),
}
# Until 1.35 nodes without devices are combined, too.
WIDER = {
    "one-node": ([(ALL, False), (SECOND, True)], [(ALL, False), (SECOND, True)], []),
    "unknown": ([(FIRST, True), (ALL, False)], [], []),
}


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_36_37_hints(node, plugin, layout):
    kubelet = node.new_kubelet(policy="best-effort")
    await kubelet.start()
    at = LAYOUTS[layout]
    await plugin(kubelet, [device(f"d{number}", "Healthy", *nodes) for number, nodes in enumerate(at)])
    await kubelet.sees(FOO, {f"d{number}" for number in range(len(at))})
    expected = EXPECTED[layout] if new(node.kind) else EXPECTED | WIDER
    wanted = expected if isinstance(expected, tuple) else expected[layout]
    assert tuple([await kubelet.placing(FOO, number) for number in (1, 2, 3)]) == wanted
