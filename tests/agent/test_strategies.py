"""The strategies of NVIDIA's device plugin, as class nvidia-gpu expresses them (golden)."""

import json

import pytest

from agent.core.inventory.dirty_set import ALL_DIRTY
from tests.agent.rig import entry

GPU = "nvidia.com/gpu"
ONE = {"address": "0000:3b:00.0", "uuid": "GPU-0a1b2c3d-0000-1111-2222-333344445555", "minor": 0}
TWO = {"address": "0000:af:00.0", "uuid": "GPU-ffeeddcc-0000-1111-2222-333344445555", "minor": 3}  # not contiguous
BOTH = f"{ONE['uuid']},{TWO['uuid']}"
INFORMATION = (
    "Model: \t\t NVIDIA H100\nIRQ:   \t\t 16\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n"
)
NODES = {
    "/dev/nvidia0": ("/dev/nvidia0", "rw"),
    "/dev/nvidia3": ("/dev/nvidia3", "rw"),
    "/dev/nvidiactl": ("/dev/nvidiactl", "rw"),
    "/dev/nvidia-uvm": ("/dev/nvidia-uvm", "rw"),
}
NOTHING = {"devices": {}, "mounts": {}, "envs": {}, "annotations": {}, "cdi_devices": []}
VOLUMES = "/var/run/nvidia-container-devices"
NAMES = [f"nvidia.com/gpu={gpu['uuid']}" for gpu in (ONE, TWO)]
WAYS = {
    "nodes": {"devices": NODES},
    "env": {"envs": {"NVIDIA_VISIBLE_DEVICES": BOTH}},
    "volumes": {
        "envs": {"NVIDIA_VISIBLE_DEVICES": VOLUMES},
        "mounts": {f"{VOLUMES}/{gpu['uuid']}": ("/dev/null", False) for gpu in (ONE, TWO)},
    },
    "cdi": {"cdi_devices": NAMES},
    "cdi-annotation": {"annotations": {"cdi.k8s.io/device-agent_nvidia.com_gpu": ",".join(NAMES)}},
}


@pytest.fixture
async def node(rig):
    for gpu in (ONE, TWO):
        rig.tree.pci(gpu["address"], vendor="0x10de\n", config=b"\xde\x10\x00\x23", numa_node="0\n")
        rig.tree.file(f"/proc/driver/nvidia/gpus/{gpu['address']}/information", INFORMATION.format(**gpu))
        rig.plug(f"nvidia{gpu['minor']}")
    rig.plug("nvidiactl", "nvidia-uvm")
    rig.tree.file("/dev/null")
    specs = [{"name": gpu["uuid"], "containerEdits": {"env": ["A=1"]}} for gpu in (ONE, TWO)]
    rig.tree.file("/etc/cdi/nvidia.json", json.dumps({"cdiVersion": "0.5.0", "kind": GPU, "devices": specs}))
    await rig.kubelet.start()
    return rig


async def allocate_one(node, more):
    node.serve(f'[[resource]]\nclass = "nvidia-gpu"\nhealth.xid = false\n{more}')
    async with node.agent(runs_programs=False):
        await node.allocatable(GPU, 2)
        options = await node.kubelet.allocate("pod", "c", {GPU: 2})
        return {part: getattr(options, part) for part in NOTHING}


@pytest.mark.parametrize("ways", [*([way] for way in WAYS), ["nodes", "env"], ["volumes", "cdi", "nodes"]])
async def test_each_way_and_several_together(node, ways):
    golden = dict(NOTHING)
    for way in ways:
        golden |= {
            part: {**golden[part], **what} if isinstance(what, dict) else what for part, what in WAYS[way].items()
        }
    assert await allocate_one(node, f"options.strategy = {json.dumps(ways)}") == golden


CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
WITH_CHANNEL = [NAMES[0], "nvidia.com/imex-channel=0", NAMES[1]]  # once, with the first that asks for it
IMEX = {
    "nodes": {"devices": {CHANNEL: (CHANNEL, "rw")}},
    "env": {"envs": {"NVIDIA_IMEX_CHANNELS": "0"}},
    "volumes": {"mounts": {f"{VOLUMES}/imex/0": ("/dev/null", False)}},
    "cdi": {"cdi_devices": WITH_CHANNEL},
    "cdi-annotation": {"annotations": {"cdi.k8s.io/device-agent_nvidia.com_gpu": ",".join(WITH_CHANNEL)}},
}


@pytest.mark.parametrize("way", IMEX)
async def test_an_imex_channel_comes_in_the_way_that_the_gpu_does(node, way):
    node.tree.node(CHANNEL, "c 234:0")
    channel = {"name": "0", "containerEdits": {"env": ["A=1"]}}
    kind = {"cdiVersion": "0.5.0", "kind": "nvidia.com/imex-channel", "devices": [channel]}
    node.tree.file("/etc/cdi/imex.json", json.dumps(kind))
    with_channel = await allocate_one(node, f'options = {{ strategy = ["{way}"], imex = "required" }}')
    golden = dict(NOTHING)
    for said in (WAYS[way], IMEX[way]):
        for part, what in said.items():
            golden[part] = golden[part] | what if isinstance(what, dict) else what
    assert with_channel == golden


@pytest.mark.parametrize("way", IMEX)
async def test_an_optional_imex_channel_that_is_not_there_is_not_asked_for(node, way):
    got = await allocate_one(node, f'options = {{ strategy = ["{way}"], imex = "optional" }}')
    assert got == NOTHING | WAYS[way]


BY_INDEX = {
    "env": {"envs": {"NVIDIA_VISIBLE_DEVICES": "0,1"}},
    "volumes": {
        "envs": {"NVIDIA_VISIBLE_DEVICES": VOLUMES},
        "mounts": {f"{VOLUMES}/{index}": ("/dev/null", False) for index in (0, 1)},
    },
    "cdi": {"cdi_devices": [f"{GPU}={index}" for index in (0, 1)]},
    "cdi-annotation": {"annotations": {"cdi.k8s.io/device-agent_nvidia.com_gpu": f"{GPU}=0,{GPU}=1"}},
}


@pytest.mark.parametrize("way", BY_INDEX)
async def test_by_index(node, way):
    """In the order of PCI addresses, whatever the numbers of nodes and the order of UUIDs."""
    specs = [{"name": str(index), "containerEdits": {"env": ["A=1"]}} for index in (0, 1)]
    node.tree.file("/etc/cdi/nvidia.json", json.dumps({"cdiVersion": "0.5.0", "kind": GPU, "devices": specs}))
    for gpu, minor in ((ONE, 3), (TWO, 0)):
        said = INFORMATION.format(uuid=gpu["uuid"], minor=minor)
        node.tree.file(f"/proc/driver/nvidia/gpus/{gpu['address']}/information", said)
    more = f'options.strategy = ["{way}"]\noptions.device_id = "index"'
    assert await allocate_one(node, more) == NOTHING | BY_INDEX[way]


async def test_one_that_the_driver_leaves_out_makes_the_count_uncertain(node):
    """NVML does not count it: none is listed that would be called by another one's number. By UUID all are."""
    first = INFORMATION.format(uuid="GPU-0", minor=7).replace("Excluded:\t No", "Excluded:\t Yes")
    node.tree.pci("0000:01:00.0", vendor="0x10de\n", config=b"\xde\x10\x00\x23", numa_node="0\n")
    node.tree.file("/proc/driver/nvidia/gpus/0000:01:00.0/information", first)
    by_env = '[[resource]]\nclass = "nvidia-gpu"\nhealth.xid = false\noptions.strategy = ["env"]\n'
    node.serve(by_env)
    async with node.agent(runs_programs=False) as agent:
        await node.allocatable(GPU, 2)
        node.serve(f'{by_env}options.device_id = "index"')
        await node.reload(agent)
        await node.allocatable(GPU, 0)
        node.tree.file("/proc/driver/nvidia/gpus/0000:01:00.0/information", first.replace("Yes", "No"))
        agent.tracker.request_look(ALL_DIRTY)
        await node.allocatable(GPU, 3)


DIRECT = {"NVIDIA_GDRCOPY": "enabled", "NVIDIA_GDS": "enabled", "NVIDIA_MOFED": "enabled"}


async def test_what_passes_by_the_processor(node):
    """RDMA nodes are of the classes that have them; the runtime finds its own."""
    nodes = ["/dev/gdrdrv", "/dev/nvidia-fs0", "/dev/nvidia-fs1"]
    for number, path in enumerate(nodes):
        node.tree.node(path, f"c 236:{number}")
    got = await allocate_one(node, 'options = { strategy = ["nodes"], direct = ["gdrcopy", "gds", "mofed"] }')
    assert got == NOTHING | {"devices": NODES | {path: (path, "rw") for path in nodes}, "envs": DIRECT}


async def test_what_passes_by_the_processor_as_cdi_has_it(node):
    for kind in ("gds", "mofed"):
        spec = {"name": "all", "containerEdits": {"env": ["A=1"]}}
        said = {"cdiVersion": "0.5.0", "kind": f"nvidia.com/{kind}", "devices": [spec]}
        node.tree.file(f"/etc/cdi/{kind}.json", json.dumps(said))
    got = await allocate_one(node, 'options = { strategy = ["cdi"], direct = ["gds", "mofed"] }')
    assert set(got["cdi_devices"]) == {*NAMES, "nvidia.com/gds=all", "nvidia.com/mofed=all"}
    assert got["devices"] == {}


async def test_env_by_minor(node):
    """By the number of the node."""
    more = 'options.strategy = ["env"]\n[resource.give.also.runtime.env]\nNVIDIA_VISIBLE_DEVICES.value = "{minor}"'
    assert await allocate_one(node, more) == NOTHING | {"envs": {"NVIDIA_VISIBLE_DEVICES": "0,3"}}


async def test_by_a_spec_of_our_own(node):
    got = await allocate_one(node, 'give.via = "cdi"')
    kind = "device-agent.nvidia.com/gpu"
    assert got == NOTHING | {"cdi_devices": [f"{kind}={gpu['uuid']}" for gpu in (ONE, TWO)]}
    spec = json.loads(node.tree.at("/var/run/cdi/device-agent_nvidia.com_gpu.yaml").read_text().partition("\n")[2])
    control = [{"path": f"/dev/{name}", "permissions": "rw"} for name in ("nvidiactl", "nvidia-uvm")]
    assert spec == {
        "cdiVersion": "0.3.0",
        "kind": kind,
        "containerEdits": {"deviceNodes": control},
        "devices": [
            {
                "name": gpu["uuid"],
                "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{gpu['minor']}", "permissions": "rw"}]},
            }
            for gpu in (ONE, TWO)
        ],
    }


async def test_a_name_as_others_write_it_and_one_for_every_shell(rig):
    """SR-IOV and KubeVirt keep `-` in names; a shell cannot read such a variable, so it is said under both."""
    resource = "example.com/foo-bar"
    rig.plug("foo0", "foo1")
    give = """
nodes.it = "{node}"
[resource.give.env]
AS_OTHERS = { name = "PCIDEVICE_{resource|env:-}", value = "{id}", join = "," }
FOR_SHELLS = { name = "PCIDEVICE_{resource|env}", value = "{id}", join = "," }
"""
    rig.serve(entry(resource, nodes="/dev/foo[0-9]", give=give))
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(resource, 2)
        options = await rig.kubelet.allocate("pod", "c", {resource: 2})
        assert options.envs == {
            "PCIDEVICE_EXAMPLE_COM_FOO-BAR": "foo0,foo1",
            "PCIDEVICE_EXAMPLE_COM_FOO_BAR": "foo0,foo1",
        }
