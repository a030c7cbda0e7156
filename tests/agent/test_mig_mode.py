"""A GPU in MIG mode without an instance: no file tells, NVIDIA's library does; class nvidia-gpu, as its notes say."""

from tests.agent.test_drop_in import UUIDS, nvidia
from tests.agent.test_probes import node, say  # noqa: F401  pytest finds it here

GPU = "nvidia.com/gpu"
FIRST, SECOND = "0000:3b:00.0", "0000:af:00.0"


def mode(place, value):
    return f'{{"place": "{place}", "field": "mig", "value": {value}}}'


async def test_it_is_left_out_and_it_is_said_why(node):  # noqa: F811
    entry = 'class = "nvidia-gpu"\nhealth.xid = false\nlet.mig_mode = { probe = "nvml", field = "mig", type = "int" }\n'
    entry += f'exclude.mig_mode = {{ mig_mode = 1 }}\nprobe.nvml = {{ run = ["{node.program}"] }}\n'
    node.serve(nvidia(node, entry))
    async with node.agent() as agent:
        say(node, mode(FIRST, 0), mode(SECOND, 1), '{"complete": true}')
        await node.allocatable(GPU, 1)
        assert set(node.kubelet.healthy(GPU)) == {f"GPU-{UUIDS[0]}"}
        sightings = agent.tracker.inventory.match_results.values()
        (refusal,) = (
            said for sighting in sightings for said in sighting.mismatches if SECOND in sighting.devices[0].name
        )
        assert (refusal.address, refusal.facts_text) == ("exclude.mig_mode.mig_mode", "1")
        say(node, mode(SECOND, 0), '{"complete": true}')
        await node.allocatable(GPU, 2)
