"""From a container that wants devices to what it gets."""

import asyncio

import pytest
from grpclib import GRPCError
from grpclib.const import Status

from agent.kubelet.messages import v1beta1
from device_agent_lab.simulated.errors import AllocationError, KubeletCrashed, PodRefused
from tests.simulated.tiny_plugin import device

FOO, BAR = "example.com/foo", "example.com/bar"


async def test_a_resource_never_heard_of_is_run_without(started):
    kubelet = await started()
    options = await kubelet.allocate("p", "c", {FOO: 1})
    assert options.without == (FOO,)
    assert options.envs == {}


async def test_one_call_with_one_container_request(serving):
    kubelet, foo = await serving(device("a"), device("b"), device("c"))
    options = await kubelet.allocate("p", "c", {FOO: 2})
    (ids,) = foo.allocated
    assert len(ids) == 2
    assert options.envs == {"IDS": ",".join(sorted(ids))}
    assert kubelet.get_held_ids(FOO) == dict.fromkeys(ids, ("p", "c"))


async def test_the_order_of_ids_is_chance_and_the_same_for_a_seed(started, plugin):
    orders = []
    for seed in (1, 1, 2):
        kubelet = await started(seed=seed)
        foo = await plugin(kubelet, devices=[device(f"d{i:02}") for i in range(30)])
        await foo.register()
        await kubelet.until(lambda kubelet=kubelet: kubelet.lists)
        await kubelet.allocate("p", "c", {FOO: 30})
        orders += foo.allocated
    assert orders[0] == orders[1] != orders[2]
    assert orders[0] != sorted(orders[0])


async def test_unhealthy_devices_are_not_given(serving):
    kubelet, foo = await serving(device("a", "Unhealthy"), device("b"))
    await kubelet.allocate("p", "c", {FOO: 1})
    assert foo.allocated == [["b"]]
    with pytest.raises(PodRefused) as refused:
        await kubelet.allocate("q", "c", {FOO: 1})
    assert refused.value.reason == "UnexpectedAdmissionError"
    assert refused.value.message == (
        "Allocate failed due to requested number of devices unavailable for example.com/foo. "
        "Requested: 1, Available: 0, which is unexpected"
    )


async def test_no_healthy_device(serving):
    kubelet, foo = await serving(device("a"))
    foo.set(device("a", "Unhealthy"))
    await kubelet.until(lambda: not kubelet.healthy(FOO))
    with pytest.raises(PodRefused, match="no healthy devices present"):
        await kubelet.allocate("p", "c", {FOO: 1})
    assert kubelet.pods["p"].phase == "Failed"


async def test_a_plugins_error_is_in_the_message_and_final(serving):
    kubelet, foo = await serving(device("a"))
    foo.failure = GRPCError(Status.FAILED_PRECONDITION, "a: unplugged")
    with pytest.raises(PodRefused, match="rpc error: code = FailedPrecondition desc = a: unplugged"):
        await kubelet.allocate("p", "c", {FOO: 1})
    foo.failure = None
    assert kubelet.get_allocated_ids(FOO) == set()
    await kubelet.allocate("q", "c", {FOO: 1})


async def test_an_empty_answer_leaks_until_a_pod_is_collected(serving):
    kubelet, foo = await serving(device("a"), device("b"))
    good, foo.answer = foo.answer, lambda ids: []
    with pytest.raises(PodRefused, match="no containers return in allocation response"):
        await kubelet.allocate("p", "c", {FOO: 1})
    assert len(kubelet.get_allocated_ids(FOO)) == 1
    assert not kubelet.get_held_ids(FOO)
    foo.answer = good
    await kubelet.allocate("q", "c", {FOO: 1})
    with pytest.raises(PodRefused, match="Available: 0"):
        await kubelet.allocate("r", "c", {FOO: 1})
    kubelet.remove_pod("q")
    await kubelet.allocate("s", "c", {FOO: 2})


async def test_devices_of_init_containers_are_used_again(serving):
    kubelet, foo = await serving(device("a"), device("b"))
    await kubelet.allocate("p", "init", {FOO: 1}, init=True)
    await kubelet.allocate("p", "app", {FOO: 1})
    assert foo.allocated[0] == foo.allocated[1]


async def test_devices_of_sidecars_are_not(serving):
    kubelet, foo = await serving(device("a"), device("b"))
    await kubelet.allocate("p", "side", {FOO: 1}, init=True, restartable=True)
    await kubelet.allocate("p", "app", {FOO: 1})
    assert foo.allocated[0] != foo.allocated[1]


async def test_there_is_no_deallocate(serving):
    kubelet, foo = await serving(device("a"))
    await kubelet.allocate("p", "c", {FOO: 1})
    calls = len(foo.server.headers)
    kubelet.remove_pod("p")
    await kubelet.allocate("q", "c", {FOO: 1})
    assert len(foo.server.headers) == calls + 1


async def test_a_container_restart_replays_the_answer(serving):
    kubelet, foo = await serving(device("a"))
    first = await kubelet.allocate("p", "c", {FOO: 1})
    foo.set(device("a", "Unhealthy"))
    await kubelet.until(lambda: not kubelet.healthy(FOO))
    assert await kubelet.start_container("p", "c") == first
    await kubelet.restart()
    assert await kubelet.start_container("p", "c") == first
    assert len(foo.allocated) == 1


async def test_after_the_grace_a_container_restart_fails(started, plugin):
    now = [0.0]
    kubelet = await started(clock=lambda: now[0])
    foo = await plugin(kubelet, devices=[device("a")])
    await foo.register()
    await kubelet.until(lambda: kubelet.lists)
    await kubelet.allocate("p", "c", {FOO: 1})
    foo.end_streams()
    await kubelet.until(lambda: kubelet.events.select("disconnected"))
    now[0] = 290
    await kubelet.start_container("p", "c")
    now[0] = 305
    kubelet.status()
    with pytest.raises(AllocationError, match="endpoint not found in cache for a registered resource"):
        await kubelet.start_container("p", "c")
    with pytest.raises(PodRefused, match="cannot allocate unregistered device"):
        await kubelet.allocate("q", "c", {FOO: 1})


async def test_several_resources_are_merged_and_the_first_wins(started, plugin):
    values = set()
    for seed in range(8):
        kubelet = await started(seed=seed)
        for name, resource in (("foo.sock", FOO), ("bar.sock", BAR)):
            one = await plugin(kubelet, resource, [device(resource[-3:])], name)
            one.answer = lambda ids: [
                v1beta1.ContainerAllocateResponse(
                    envs={"SAME": ids[0], ids[0]: "1"},
                    devices=[v1beta1.DeviceSpec(container_path="/dev/x", host_path=f"/dev/{ids[0]}")],
                    mounts=[v1beta1.Mount(container_path="/m", host_path="/same", read_only=True)],
                    cdi_devices=[v1beta1.CdiDevice(name="v/c=n")],
                )
            ]
            await one.register()
        await kubelet.until(lambda kubelet=kubelet: kubelet.streams(FOO) and len(kubelet.lists) == 2)
        options = await kubelet.allocate("p", "c", {FOO: 1, BAR: 1})
        assert options.conflicts == ["env SAME", "device /dev/x"]
        assert options.devices["/dev/x"][0] == f"/dev/{options.envs['SAME']}"
        assert options.cdi_devices == ["v/c=n"]
        assert {"foo", "bar"} < options.envs.keys()
        values.add(options.envs["SAME"])
    assert values == {"foo", "bar"}


async def test_preference_is_asked_for_only_with_the_option(serving):
    kubelet, foo = await serving(device("a"), device("b"))
    await kubelet.allocate("p", "c", {FOO: 1})
    assert foo.preferred == []


async def test_preference_is_intersected_topped_up_and_cut(serving):
    kubelet, foo = await serving(*(device(i) for i in "abcd"), get_preferred_allocation_available=True)
    foo.prefer = lambda request: ["c", "nonsense"]
    await kubelet.allocate("p", "c", {FOO: 2})
    (request,) = foo.preferred
    assert set(request.available_deviceIDs) == set("abcd")
    assert (request.must_include_deviceIDs, request.allocation_size) == ([], 2)
    assert "c" in foo.allocated[0]
    assert len(foo.allocated[0]) == 2
    foo.prefer = lambda request: request.available_deviceIDs
    await kubelet.allocate("q", "c", {FOO: 1})
    assert len(foo.allocated[1]) == 1


async def test_preference_is_asked_without_a_choice_too_but_not_for_reuse(serving):
    kubelet, foo = await serving(device("a"), get_preferred_allocation_available=True)
    await kubelet.allocate("p", "init", {FOO: 1}, init=True)
    assert len(foo.preferred) == 1
    await kubelet.allocate("p", "app", {FOO: 1})
    assert len(foo.preferred) == 1


async def test_what_init_containers_held_must_be_included(serving):
    kubelet, foo = await serving(device("a"), device("b"), device("c"), get_preferred_allocation_available=True)
    foo.prefer = lambda request: ["b"]
    await kubelet.allocate("p", "init", {FOO: 1}, init=True)
    await kubelet.allocate("p", "app", {FOO: 2})
    assert foo.preferred[1].must_include_deviceIDs == ["b"]
    assert foo.preferred[1].allocation_size == 2
    assert "b" in foo.preferred[1].available_deviceIDs


async def test_an_error_of_preference_fails_the_pod(serving):
    kubelet, foo = await serving(device("a"), get_preferred_allocation_available=True)
    foo.failure = GRPCError(Status.INTERNAL, "no")
    with pytest.raises(PodRefused, match="GetPreferredAllocation rpc failed"):
        await kubelet.allocate("p", "c", {FOO: 1})


async def test_pre_start_runs_at_each_start_with_30_seconds(serving):
    kubelet, foo = await serving(device("a"), pre_start_required=True)
    await kubelet.allocate("p", "c", {FOO: 1})
    assert foo.prestarted == []
    await kubelet.start_container("p", "c")
    await kubelet.start_container("p", "c")
    assert foo.prestarted == [["a"], ["a"]]
    foo.failure = GRPCError(Status.INTERNAL, "no")
    with pytest.raises(AllocationError, match="PreStartContainer rpc failed"):
        await kubelet.start_container("p", "c")
    assert kubelet.pods["p"].is_active


async def test_after_a_kubelet_restart_pre_start_is_not_known(serving):
    kubelet, foo = await serving(device("a"), pre_start_required=True)
    await kubelet.allocate("p", "c", {FOO: 1})
    await kubelet.restart()
    await kubelet.start_container("p", "c")
    assert foo.prestarted == []


async def test_while_one_allocate_hangs_no_pod_is_admitted(serving, plugin):
    kubelet, foo = await serving(device("a"))
    bar = await plugin(kubelet, BAR, [device("b")], "bar.sock")
    await bar.register()
    await kubelet.until(lambda: kubelet.allocatable(BAR) == 1)
    foo.gate = asyncio.Event()
    first = asyncio.create_task(kubelet.allocate("p", "c", {FOO: 1}))
    second = asyncio.create_task(kubelet.allocate("q", "c", {BAR: 1}))
    await kubelet.until(lambda: foo.allocated)
    assert bar.allocated == []
    foo.gate.set()
    await first
    await second
    assert bar.allocated == [["b"]]


async def test_an_id_that_vanishes_during_allocate_crashes_the_kubelet(serving):
    kubelet, foo = await serving(device("a"), device("b"))
    foo.gate = asyncio.Event()
    allocating = asyncio.create_task(kubelet.allocate("p", "c", {FOO: 2}))
    await kubelet.until(lambda: foo.allocated)
    foo.set(device("b"))
    await kubelet.until(lambda: kubelet.healthy(FOO) == {"b"})
    foo.gate.set()
    with pytest.raises(KubeletCrashed, match=r"a of example\.com/foo is no longer listed"):
        await allocating
    assert not kubelet.running
    with pytest.raises(KubeletCrashed):
        await kubelet.until(lambda: False)
    await kubelet.start()
    assert kubelet.crashed is None


async def test_before_1_34_it_does_not(serving):
    kubelet, foo = await serving(device("a"), how={"release": "1.33"})
    foo.gate = asyncio.Event()
    allocating = asyncio.create_task(kubelet.allocate("p", "c", {FOO: 1}))
    await kubelet.until(lambda: foo.allocated)
    foo.set()
    await kubelet.until(lambda: kubelet.capacity(FOO) == 0)
    foo.gate.set()
    await allocating


async def test_unhealthy_during_allocate_is_no_crash(serving):
    kubelet, foo = await serving(device("a"))
    foo.gate = asyncio.Event()
    allocating = asyncio.create_task(kubelet.allocate("p", "c", {FOO: 1}))
    await kubelet.until(lambda: foo.allocated)
    foo.set(device("a", "Unhealthy"))
    await kubelet.until(lambda: kubelet.unhealthy(FOO))
    foo.gate.set()
    await allocating


async def test_running_containers_pass_a_restart_without_a_call_and_fail_a_reboot(serving):
    kubelet, foo = await serving(device("a"))
    await kubelet.allocate("p", "c", {FOO: 1})
    await kubelet.restart()
    assert await kubelet.readmit() == {}
    refused = await kubelet.readmit(reboot=True)
    assert "no healthy devices present" in refused["p"]
    assert len(foo.allocated) == 1


async def test_a_reboot_with_the_plugin_in_time(serving, plugin):
    kubelet, foo = await serving(device("a"))
    await kubelet.allocate("p", "c", {FOO: 1})
    await foo.close()
    await kubelet.restart()
    again = await plugin(kubelet, devices=[device("a")])
    await again.register()
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)
    assert await kubelet.readmit(reboot=True) == {}
    assert again.allocated == []


async def test_health_of_a_pods_devices(serving):
    """As the status of the pod has it: what is not listed any more is Healthy."""
    kubelet, foo = await serving(device("a"), device("b"))
    await kubelet.allocate("p", "c", {FOO: 2})
    assert kubelet.device_health("p") == {"a": "Healthy", "b": "Healthy"}
    foo.set(device("a", "strange"), device("b"))
    await kubelet.until(lambda: kubelet.unhealthy(FOO) == {"a"})
    assert kubelet.device_health("p") == {"a": "Unhealthy", "b": "Healthy"}
    foo.set(device("b"))
    await kubelet.until(lambda: kubelet.capacity(FOO) == 1)
    assert kubelet.device_health("p") == {"a": "Healthy", "b": "Healthy"}


async def test_before_1_36_a_pods_status_says_nothing_of_devices(serving):
    kubelet, _ = await serving(device("a"), how={"release": "1.35"})
    await kubelet.allocate("p", "c", {FOO: 1})
    assert kubelet.device_health("p") == {}
