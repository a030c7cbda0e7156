"""Allocate calls of the device manager. Numbers: see CONTRIBUTING.md."""

import asyncio
import json

import pytest

from agent.allocation import allocation
from device_agent_lab.simulated.errors import PodRefused
from tests.agent.rig import BAR, FOO, entry, stop_watching
from tests.real.kubelets import HEALTH_IN_STATUS, NOTHING, options_equal
from tests.real.node import CARD, OTHER, TREE, cards

GIVE = """
[resource.give.nodes]
it  = { path = "{node}", to = "/dev/it{n}", permissions = "rwm" }
[resource.give.env]
IDS = { value = "{id}", join = "," }
"""


@pytest.fixture
async def served_node(node):
    node.plug(*(f"foo{number}" for number in range(6)), "bar0", "bar1")
    node.serve(entry(FOO, give="").replace("[resource.give]\n", GIVE), BAR)
    await node.kubelet.start()
    async with node.agent() as agent:
        await node.allocatable(FOO, 6)
        await node.allocatable(BAR, 2)
        node.running = agent
        yield node


async def test_what_a_container_gets(served_node):  # 54, 61, 63, 66
    given = (await served_node.kubelet.admit("p", {FOO: 2, BAR: 1}))["c0"]
    options = await served_node.kubelet.begin("p")
    first, second = sorted(given[FOO])
    (bar,) = given[BAR]
    assert options.devices == {
        "/dev/it0": (f"/dev/{first}", "rwm"),
        "/dev/it1": (f"/dev/{second}", "rwm"),
        f"/dev/{bar}": (f"/dev/{bar}", "rw"),
    }
    assert options.envs == {"IDS": f"{first},{second}"}
    assert (options.mounts, options.annotations, options.cdi_devices) == ({}, {}, [])


async def test_mounts_annotations_and_cdi_devices_arrive(node):
    """The kubelet keeps these parts for the container runtime."""
    node.plug("foo0", "foo1")
    node.tree.file("/opt/foo/a.so")
    devices = [{"name": name, "containerEdits": {"env": ["A=1"]}} for name in ("foo0", "foo1")]
    spec = {"cdiVersion": "0.6.0", "kind": "example.com/card", "devices": devices}
    node.tree.file("/etc/cdi/card.json", json.dumps(spec))
    give = (
        'nodes = { it = "{node}" }\nmounts = { lib = { path = "/opt/foo/*", to = "/lib/", read_only = true } }\n'
        'annotations = { ids = { name = "example.com/ids", value = "{id}", join = "," } }\n'
        'cdi = { it = "example.com/card={name}", note = { name = "example.com/card=foo0", via = "annotation" } }'
    )
    node.serve(entry(FOO, give=give))
    await node.kubelet.start()
    async with node.agent():
        await node.allocatable(FOO, 2)
        await node.kubelet.admit("p", {FOO: 2})
        options = await node.kubelet.begin("p")
        assert options.mounts == {"/lib/a.so": ("/opt/foo/a.so", True)}
        assert options.annotations == {
            "example.com/ids": "foo0,foo1",
            "cdi.k8s.io/device-agent_example.com_foo": "example.com/card=foo0",
        }
        assert sorted(options.cdi_devices) == ["example.com/card=foo0", "example.com/card=foo1"]


async def test_containers_of_a_pod_share_nothing(served_node):
    given = await served_node.kubelet.admit("p", {FOO: 1}, {FOO: 2}, {BAR: 1}, {})
    assert not given["c0"][FOO] & given["c1"][FOO]
    for number, container in enumerate(("c0", "c1", "c2")):
        assert len((await served_node.kubelet.begin("p", container)).devices) == (1, 2, 1)[number]
    assert (await served_node.kubelet.begin("p", "c3")).devices == {}


async def test_55_init_and_app_containers_take_the_same_devices(served_node):
    given = await served_node.kubelet.admit("p", {FOO: 6, BAR: 1}, init=[{FOO: 6}, {FOO: 2, BAR: 2}])
    assert given["i0"][FOO] == given["c0"][FOO]
    assert given["i1"][FOO] < given["c0"][FOO]
    assert given["c0"][BAR] < given["i1"][BAR]
    both = [await served_node.kubelet.begin("p", container) for container in ("i0", "c0")]
    assert both[0].envs == both[1].envs
    assert both[0].devices.items() < both[1].devices.items()
    asked = list(served_node.kubelet.events.select("allocate", FOO))
    assert len(asked) == 3


async def test_containers_start_again_without_us(served_node):  # 67
    await served_node.kubelet.admit("p", {FOO: 2})
    first = await served_node.kubelet.begin("p")
    served_node.unplug("foo0", "foo1", "foo2", "foo3", "foo4", "foo5")
    await served_node.allocatable(FOO, 0)
    assert options_equal(await served_node.kubelet.begin("p"), first)
    served_node.running.stop()
    await served_node.running.task
    assert options_equal(await served_node.kubelet.begin("p"), first)
    assert served_node.kubelet.events.count("allocate") == 1


async def test_pods_one_after_the_other_get_all(served_node):
    seen = set()
    for number in range(6):
        seen |= (await served_node.kubelet.admit(f"p{number}", {FOO: 1}))["c0"][FOO]
    assert len(seen) == 6
    with pytest.raises(PodRefused, match="requested number of devices unavailable") as refused:
        await served_node.kubelet.admit("one-too-many", {FOO: 1})
    assert refused.value.reason == "UnexpectedAdmissionError"
    await served_node.kubelet.over("p3")
    assert len((await served_node.kubelet.admit("next", {FOO: 1}))["c0"][FOO]) == 1


async def test_58_60_reason_of_a_refusal_reaches_the_pod(served_node):
    stop_watching(served_node.running)  # nobody sees them go, so the kubelet still believes in them
    served_node.unplug("bar0", "bar1")
    with pytest.raises(PodRefused) as refused:
        await served_node.kubelet.admit("p", {BAR: 1})
    assert refused.value.reason == "UnexpectedAdmissionError"
    assert "Allocate failed due to rpc error: code = FailedPrecondition desc = " in refused.value.message
    assert "/dev/bar" in refused.value.message
    assert "Traceback" not in refused.value.message


async def test_57_59_refused_pod_leaves_nothing_booked(served_node):
    """The list with the absent device comes before the error, and the kubelet gets every device again."""
    stop_watching(served_node.running)
    served_node.unplug("bar0", "bar1")
    with pytest.raises(PodRefused):
        await served_node.kubelet.admit("p", {FOO: 1}, {FOO: 1, BAR: 2})
    await served_node.kubelet.sees(BAR, (), {"bar0", "bar1"})
    assert (await served_node.kubelet.view()).get(BAR, NOTHING).allocated == set()
    served_node.replug("bar0", "bar1")
    served_node.running.tracker.request_look()
    await served_node.allocatable(BAR, 2)
    given = await served_node.kubelet.admit("q", {FOO: 6, BAR: 2})
    assert len(given["c0"][FOO]) == 6


@pytest.mark.parametrize("policy", ["none", "restricted"])
async def test_43_unplugged_during_allocate(node, monkeypatch, policy):  # fact 8
    """The kubelet would crash if the id left the list; it is Unhealthy instead."""
    node.new_kubelet(policy=policy)
    read_anew = allocation.reread_devices
    addresses = [node.card(number, number % 2) for number in range(4)]
    node.serve(cards())
    await node.kubelet.start()
    async with node.agent() as agent:
        await node.allocatable(CARD, 4)

        asked = []

        def unplugs(*what, **named):
            chosen = read_anew(*what, **named)
            agent_loop.call_soon_threadsafe(node.uncard, agent, *asked)
            return chosen

        agent_loop = asyncio.get_running_loop()
        monkeypatch.setattr(allocation, "reread_devices", unplugs)
        answer = agent.allocation.allocate

        async def late(resource, ids):
            """The list is with the kubelet before the answer is."""
            asked[:] = ids
            grant = await answer(resource, ids)
            await node.kubelet.seen(lambda view: view[CARD].unhealthy >= set(ids))
            return grant

        monkeypatch.setattr(agent.allocation, "allocate", late)
        held = (await node.kubelet.admit("p", {CARD: 2}))["c0"][CARD]
        await node.kubelet.sees(CARD, set(addresses) - held, held)
        monkeypatch.undo()
        assert len((await node.kubelet.admit("q", {CARD: 2}))["c0"][CARD]) == 2
        await node.kubelet.placing(CARD, 1)
        assert node.kubelet.crashed is None


async def test_71_72_77_no_preference_no_pre_start(served_node):
    """Both options are off, so the kubelet makes neither call."""
    await served_node.kubelet.admit("p", {FOO: 2}, init=[{FOO: 1}])
    await served_node.kubelet.begin("p")
    await served_node.kubelet.admit("q", {FOO: 4})
    assert served_node.kubelet.events.count("preferred") == 0
    assert served_node.kubelet.events.count("pre_start") == 0
    assert served_node.kubelet.events.count("allocate") == 3


async def test_71_72_with_a_limit_the_kubelet_asks_what_to_take(node):
    """It would take any shares; what the init container had must be among them. Too many are refused."""
    node.plug("foo0", "foo1", "foo2")
    node.serve(entry(FOO, "replicas = 3\nlimit.distinct = true"))
    await node.kubelet.start()
    async with node.agent():
        await node.allocatable(FOO, 9)
        for number, pod in enumerate(("p", "q", "r")):
            given = await node.kubelet.admit(pod, {FOO: 3}, init=[{FOO: 1}])
            assert given["i0"][FOO] < given["c0"][FOO]
            assert {share.partition("::")[0] for share in given["c0"][FOO]} == {"foo0", "foo1", "foo2"}
            assert node.kubelet.events.count("preferred") == 2 * number + 2
            await node.kubelet.begin(pod, "i0")
            assert len((await node.kubelet.begin(pod)).devices) == 3
        assert len((await node.kubelet.view())[FOO].allocated) == 9
        await node.kubelet.over("q")
        await node.kubelet.over("r")
        with pytest.raises(PodRefused, match=r"one share of a device \(limit\.distinct\), not 2"):
            await node.kubelet.admit("s", {FOO: 4})
        assert len((await node.kubelet.admit("t", {FOO: 3}))["c0"][FOO]) == 3


async def test_71_72_preferred_devices_are_what_a_container_gets(node):
    """Where most are free; what an init container had is among them; a request that spans both is satisfied as well."""
    addresses = [node.card(number, int(number >= 2)) for number in range(5)]
    node.serve(cards(more='prefer = [{ same = "numa" }, { balanced = "slot" }]\ntopology = "none"'))
    await node.kubelet.start()
    async with node.agent():
        await node.allocatable(CARD, 5)
        given = await node.kubelet.admit("p", {CARD: 2}, init=[{CARD: 1}])
        assert given["i0"][CARD] < given["c0"][CARD] == set(addresses[2:4])
        assert (await node.kubelet.admit("q", {CARD: 3}))["c0"][CARD] == {*addresses[:2], addresses[4]}
        assert node.kubelet.events.count("preferred") >= 2


async def test_unknown_resource_is_no_reason_to_refuse(served_node):  # fact 6
    given = await served_node.kubelet.admit("p", {FOO: 1, "example.com/never-heard-of": 3})
    assert given["c0"].keys() == {FOO}


async def test_names_of_two_resources_do_not_meet(node):  # 61
    node.card(0, 0)
    node.card(1, 0, vendor="0x8086\n")
    node.serve(cards(), cards(OTHER, "0x8086"))
    await node.kubelet.start()
    async with node.agent():
        await node.allocatable(CARD, 1)
        await node.allocatable(OTHER, 1)
        await node.kubelet.admit("p", {CARD: 1, OTHER: 1})
        options = await node.kubelet.begin("p")
        assert options.envs == {"CARD": "0000:3b:00.0", "OTHER": "0000:3b:01.0"}
        assert node.tree.at(TREE).is_dir()


@pytest.mark.parametrize("kind", HEALTH_IN_STATUS)
async def test_85_status_of_a_pod_says_unhealthy(served_node):
    held = (await served_node.kubelet.admit("p", {FOO: 2}))["c0"][FOO]
    await served_node.kubelet.begin("p")
    gone, other = sorted(held)
    served_node.unplug(gone)
    await served_node.allocatable(FOO, 5)
    assert await served_node.kubelet.status_of("p") == {gone: "Unhealthy", other: "Healthy"}
    served_node.replug(gone)
    await served_node.allocatable(FOO, 6)
    assert await served_node.kubelet.status_of("p") == {gone: "Healthy", other: "Healthy"}
