"""What programs that our classes stand in for are known to do wrong, done right; each with where it was reported."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from agent.core.grants.grant import GrantRefusedError
from agent.kubelet.messages import v1beta1
from tests.agent.test_drop_in import UUIDS, amd, gcp, intel, kubevirt, nvidia, onload, qat, rdma_shared, squat, sriov

T4 = "nvidia.com/TU104GL_Tesla_T4"


@asynccontextmanager
async def serve(rig, text, resource, healthy=2):
    (rig.etc / "resources.d/10.toml").write_text(text)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.until(lambda: rig.kubelet.allocatable(resource) >= healthy)
        yield agent


async def look(agent):
    agent.tracker.request_look()
    await agent.tracker.wait_for_look()


def list_reasons(agent, resource):
    """Return the unhealthy reasons in the list by ID, empty for Healthy devices."""
    return {device.id: str(device.reason) for device in agent.tracker.device_lists.lists[resource].devices}


async def request_preferred(rig, resource, available, must, size):
    client = await rig.client(resource)
    ask = v1beta1.ContainerPreferredAllocationRequest(available, must, size)
    request = v1beta1.PreferredAllocationRequest(container_requests=[ask])
    (answer,) = (await client.peer.plugin.get_preferred_allocation(request)).container_responses
    return list(answer.device_i_ds)


async def test_one_gpu_off_the_bus_does_not_fail_the_choice_among_the_others(rig):
    """NVIDIA/k8s-device-plugin#2038, #231: every pod failed."""
    gpus = [f"GPU-{uuid}" for uuid in UUIDS]
    async with serve(rig, nvidia(rig), "nvidia.com/gpu") as agent:
        rig.tree.at("/sys/bus/pci/devices/0000:af:00.0").unlink()
        await look(agent)
        assert await request_preferred(rig, "nvidia.com/gpu", gpus[:1], [], 1) == gpus[:1]
        grant = await agent.allocation.allocate("nvidia.com/gpu", gpus[:1])
        assert [node.host for node in grant.nodes][:1] == ["/dev/nvidia0"]


async def test_a_file_that_is_called_nvidia_is_no_gpu(rig):
    """Google's counts it, and a node without a number."""
    rig.tree.node("/dev/nvidia", "c 195:9")
    rig.tree.file("/dev/nvidia7")
    async with serve(rig, gcp(rig), "nvidia.com/gpu") as agent:
        assert set(list_reasons(agent, "nvidia.com/gpu")) == {"nvidia0", "nvidia3"}


async def test_a_gpu_that_comes_after_the_start_is_added(rig):
    """kubernetes#77035, container-engine-accelerators#110."""
    async with serve(rig, gcp(rig), "nvidia.com/gpu") as agent:
        said = "GPU UUID: \t GPU-late\nDevice Minor: \t 5\n"
        rig.tree.pci("0000:d8:00.0", vendor="0x10de\n", device="0x2330\n", config=b"\xde\x10\x30\x23")
        rig.tree.node("/dev/nvidia5", "c 195:5")
        rig.tree.file("/proc/driver/nvidia/gpus/0000:d8:00.0/information", said)
        await look(agent)
        assert list_reasons(agent, "nvidia.com/gpu")["nvidia5"] == ""


async def test_a_card_without_a_numa_node_is_served_without_one(rig):
    """ROCm's plugin tells the kubelet node -1 (read in its code)."""
    text = amd(rig)
    rig.tree.file("/sys/bus/pci/devices/0000:8c:00.0/numa_node", "-1\n")
    async with serve(rig, text, "amd.com/gpu") as agent:
        devices = agent.tracker.device_lists.lists["amd.com/gpu"].devices
        assert {device.id: device.numa for device in devices}["0000:8c:00.0"] == ()


async def test_what_cannot_be_read_of_one_card_takes_away_no_other(rig):
    """intel-device-plugins-for-kubernetes: an error of the scan emptied all resources (read in its code)."""
    async with serve(rig, intel(rig), "gpu.intel.com/i915") as agent:
        rig.tree.at("/sys/bus/pci/devices/0000:83:00.0/vendor").unlink()
        rig.tree.file("/sys/class/drm/card77", "no directory")
        await look(agent)
        assert list_reasons(agent, "gpu.intel.com/i915")["0000:03:00.0-gpu"] == ""


async def test_a_choice_has_what_it_must_have(rig):
    """All three policies of Intel's plugin leave it out (read in its code)."""
    cards = ["0000:03:00.0-gpu", "0000:83:00.0-gpu"]
    async with serve(rig, intel(rig), "gpu.intel.com/i915"):
        for card in cards:
            assert await request_preferred(rig, "gpu.intel.com/i915", cards, [card], 1) == [card]


async def test_what_is_asked_for_and_is_not_there_is_refused(rig):
    """The SR-IOV plugin starts the container without the node (read in its code), and takes ids that nothing has."""
    async with serve(rig, sriov(rig), "example.com/dpdk") as agent:
        rig.tree.at("/dev/vfio/72").unlink()
        with pytest.raises(GrantRefusedError, match="/dev/vfio/72"):
            await agent.allocation.allocate("example.com/dpdk", ["0000:86:01.1"])
        with pytest.raises(GrantRefusedError):
            await agent.allocation.allocate("example.com/dpdk", ["0000:99:01.1"])
        assert await agent.allocation.allocate("example.com/dpdk", ["0000:86:01.0"])


async def test_a_function_without_a_driver_is_nothing_special(rig):
    """sriov-network-device-plugin#310, #314: an error, and the function gone without a word."""
    text = sriov(rig)
    rig.tree.at("/sys/bus/pci/devices/0000:86:01.1/driver").unlink()
    async with serve(rig, text, "example.com/dpdk", healthy=1) as agent:
        assert set(list_reasons(agent, "example.com/dpdk")) == {"0000:86:01.0"}
        (said,) = (
            refusal.facts_text
            for sighting in agent.tracker.inventory.match_results.values()
            for refusal in sighting.mismatches
            if sighting.devices[0].name == "0000:86:01.1" and refusal.resource == "example.com/dpdk"
        )
        assert said.startswith("vfio: on_vfio is false")


async def test_an_adapter_whose_nodes_come_later_heals(rig):
    """k8s-rdma-shared-dev-plugin#23: a pool without it until the next start; #94 and others: no issm, no resource."""
    text = rdma_shared(rig)
    rig.tree.at("/dev/infiniband/issm1").unlink()
    umad = rig.tree.at("/dev/infiniband/umad9")
    umad.rename(umad.with_name("away"))
    async with serve(rig, text, "rdma/hca_shared", healthy=3) as agent:
        share = min(list_reasons(agent, "rdma/hca_shared"))
        grant = await agent.allocation.allocate("rdma/hca_shared", [share])
        assert "/dev/infiniband/issm1" not in {node.host for node in grant.nodes}
        umad.with_name("away").rename(umad)
        await look(agent)
        grant = await agent.allocation.allocate("rdma/hca_shared", [share])
        assert "/dev/infiniband/umad9" in {node.host for node in grant.nodes}


async def test_what_was_bound_away_and_back_is_served_again(rig):
    """kubevirt#8607, #16602: allocatable stays lower for ever."""
    async with serve(rig, kubevirt(rig), T4) as agent:
        node = rig.tree.at("/dev/vfio/12")
        node.rename(node.with_name("away"))
        await look(agent)
        assert "no such file" in list_reasons(agent, T4)["0000:86:00.0"]
        node.with_name("away").rename(node)
        await look(agent)
        assert list_reasons(agent, T4)["0000:86:00.0"] == ""


async def test_only_functions_that_were_asked_for_are_named(rig):
    """kubevirt-gpu-device-plugin#191: a card's sound function was taken for a second card."""
    async with serve(rig, kubevirt(rig), T4):
        options = await rig.kubelet.allocate("pod", "c", {T4: 1})
        assert options.envs["PCI_RESOURCE_NVIDIA_COM_TU104GL_TESLA_T4"] in {"0000:3b:00.0", "0000:86:00.0"}


async def test_services_that_nobody_has_heard_of_are_no_illegal_name(rig):
    """intel-device-plugins-for-kubernetes#2168: no resource name has a `;`."""
    text = qat(rig)
    rig.tree.file("/sys/bus/pci/devices/0000:6b:00.0/qat/cfg_services", "sym;asym;decomp\n")
    async with serve(rig, text, "qat.intel.com/generic") as agent:
        assert set(list_reasons(agent, "qat.intel.com/generic")) == {"0000:6b:00.1", "0000:6b:00.2"}


async def test_functions_are_numbered_in_the_order_of_the_list(rig):
    """Intel's numbers them in no order (read in its code)."""
    async with serve(rig, qat(rig), "qat.intel.com/cy") as agent:
        grant = await agent.allocation.allocate("qat.intel.com/cy", ["0000:6b:00.2", "0000:6b:00.1"])
        assert dict(grant.env) == {"QAT0": "0000:6b:00.1", "QAT1": "0000:6b:00.2"}


async def test_another_port_is_no_reason_to_end(rig):
    """kubernetes-onload: a port that comes or goes is fatal; names with upper case or dots are not seen (its code)."""
    async with serve(rig, onload(rig), "amd.com/onload") as agent:
        port = rig.tree.pci("0000:86:00.0", driver="sfc", vendor="0x1924\n", device="0x0b03\n")
        rig.tree.netdev(port, "Trade_1.100", carrier="1\n")
        await look(agent)
        rig.tree.file("/sys/class/net/ens1f0np0/carrier", "0\n")
        await look(agent)
        assert list_reasons(agent, "amd.com/onload") == {"sfc-0": "", "sfc-1": ""}


async def test_what_only_looks_like_a_device_is_none(rig):
    """generic-device-plugin: dangling links, directories, files and links to what is taken are Healthy (its code)."""
    text = squat(rig)
    rig.tree.link("/dev/ttyUSB7", "/dev/nothing")
    rig.tree.link("/dev/ttyUSB8", "/dev/ttyUSB1")
    rig.tree.file("/dev/ttyUSB9")
    rig.tree.file("/dev/ttyUSB10/file")
    async with serve(rig, text, "edge.example/serial") as agent:
        assert len(list_reasons(agent, "edge.example/serial")) == 2


async def test_the_same_is_given_as_often_as_it_is_asked_for(rig):
    """kubernetes#138446, akri#843: of a pod's second container, or after a restart, the same id was refused."""
    async with serve(rig, nvidia(rig), "nvidia.com/gpu") as agent:
        gpu = [f"GPU-{UUIDS[0]}"]
        grants = await asyncio.gather(*(agent.allocation.allocate("nvidia.com/gpu", gpu) for _ in range(3)))
        assert grants[0] == grants[1] == grants[2]
