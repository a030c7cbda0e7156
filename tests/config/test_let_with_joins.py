"""Derived words and joins together, as GPUs need them."""

from __future__ import annotations

from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.inventory.inventory import Inventory
from agent.scanners.host_reader import HostView
from agent.tracker.look_thread import run_look
from tests.tree import Tree

AMD = """[[resource]]
name="amd.com/gpu"
source="drm"
id=["{pci.address}"]
match={ driver="amdgpu", compute="CPX", kfd.part = 8 }
let = { compute = { read = "board/current_compute_partition", else = "spx" } }
[resource.join.kfd]
dir = "/sys/class/kfd/kfd/topology/nodes/{number:int}"
on = { drm_render_minor = "render_minor" }
[resource.join.kfd.let]
drm_render_minor = { field = "drm_render_minor", of = "./properties", type = "int" }
domain = { field = "domain", of = "./properties", type = "int" }
location_id = { field = "location_id", of = "./properties", type = "int" }
address = { kfd_address = ["domain", "location_id"] }
part = { bits = ["28-31", "0-2"], of = "location_id" }
[resource.join.board]
source = "pci"
on = { address = "kfd.address" }
[resource.give.env]
X = { value = "{kfd.number}-{board.driver}", join = "," }
"""

NVIDIA = """[[resource]]
name="nvidia.com/gpu"
source = { dir = "/proc/driver/nvidia/gpus/{address:pci}" }
id = "{uuid}"
match = { product = "h100", pci.driver = "nvidia" }
exclude.cut_up = { mig = { exists = true } }
exclude.by_driver = { excluded = true }
[resource.let]
uuid     = { field = "GPU UUID",     of = "./information" }
minor    = { field = "Device Minor", of = "./information", type = "int" }
model    = { field = "Model",        of = "./information" }
excluded = { field = "GPU Excluded", of = "./information", type = "bool", else = false }
mig      = { names_of = "/proc/driver/nvidia/capabilities/gpu{minor}/mig/gi*" }
product  = { by = "model", map = { "*H100*" = "h100", "*A100*" = "a100" }, else = "gpu" }
[resource.join.pci]
source = "pci"
on     = { address = "address" }
[resource.give.nodes]
x = { path = "/dev/nvidia{minor}", optional = true }
"""


def test_a_partition_of_a_card_by_its_compute_node(configure, tmp_path):
    tree = Tree(tmp_path / "host")
    card = tree.pci("0000:3b:00.0", driver="amdgpu", current_compute_partition="CPX")
    for name, node, minor in (("card0", "dri/card0", 0), ("renderD128", "dri/renderD128", 128)):
        tree.class_device(f"{card}/drm/{name}", "drm", node, 226, minor)
        tree.link(f"{card}/drm/{name}/device", card)
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    tree.file(f"{nodes}/0/properties", "drm_render_minor 0\nlocation_id 0\ndomain 0\n")
    tree.file(f"{nodes}/1/properties", f"drm_render_minor 128\nlocation_id {1 << 28 | 0x3B00}\ndomain 0\n")
    found = configure({"resources.d/a.toml": AMD})
    assert found.findings == ()
    now, _ = run_look(HostView(tree.root), found.resources, Inventory(), ALL_DIRTY)
    (candidate,) = (one.candidate for one in now.match_results.values() if one.candidate)
    assert candidate.ids == ("0000:3b:00.0",)
    tree.file(f"{card}/current_compute_partition", "SPX")
    now, _ = run_look(HostView(tree.root), found.resources, now, DirtySet(frozenset({card})))
    sighting = now.match_results[candidate.device.key]
    assert [(refusal.address, refusal.facts_text) for refusal in sighting.mismatches] == [("match.compute", "SPX")]


def test_a_card_that_only_its_driver_knows(configure, tmp_path):
    tree = Tree(tmp_path / "host")
    tree.pci("0000:3c:00.0", driver="nvidia")
    gpu = "/proc/driver/nvidia/gpus/0000:3c:00.0"
    lines = ("Model: NVIDIA H100 80GB", "GPU UUID: GPU-x", "Device Minor: 3", "GPU Excluded: No")
    tree.file(f"{gpu}/information", "\n".join(lines))
    tree.file("/proc/driver/nvidia/capabilities/gpu3/mig/config")
    found = configure({"resources.d/a.toml": NVIDIA})
    assert found.findings == ()

    def refusal():
        now, _ = run_look(HostView(tree.root), found.resources, Inventory(), ALL_DIRTY)
        sighting = now.match_results[gpu]
        return (
            sighting.candidate.ids
            if sighting.candidate
            else [(one.address, one.facts_text) for one in sighting.mismatches]
        )

    assert refusal() == ("GPU-x",)
    tree.file("/proc/driver/nvidia/capabilities/gpu3/mig/gi1/access")
    assert refusal() == [("exclude.cut_up.mig", "gi1")]
    tree.at("/proc/driver/nvidia/capabilities/gpu3/mig/gi1").rename(tree.top / "away")
    tree.file(f"{gpu}/information", "\n".join(lines[:3]) + "\nGPU Excluded: Perhaps\n")
    ((address, here),) = refusal()
    assert address == "exclude.by_driver.excluded"
    assert "which is no bool" in here
