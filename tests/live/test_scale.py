"""Many of everything: what comes out is right, and how much is read does not grow with the number of resources."""

from collections import Counter

import pytest

from agent.config.load import load
from agent.core.inventory.dirty_set import ALL_DIRTY
from agent.core.inventory.inventory import Inventory
from agent.host.recorded_tree import DECLARED
from agent.host.root import Root
from agent.scanners.host_reader import HostView
from agent.tracker.look_thread import run_look
from tests.agent.rig import FOO, entry
from tests.live.received_lists import HEALTHY, UNHEALTHY, last, story

LIMIT = 4_194_304  # bytes of a message that the kubelet takes


class CountingRoot(Root):
    """Counts every look at the host, by what is done and where."""

    def __init__(self, prefix):
        super().__init__(prefix)
        self.count = Counter()

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name not in {"read", "read_head", "read_link_name", "resolve", "resolve_device", "list_names"} | {
            "list_directories",
            "exists",
            "is_directory",
            "read_instance_id",
            "find_node",
            "find_entry",
        }:
            return found

        def counted(path, *arguments, **more):
            self.count[name, path] += 1
            return found(path, *arguments, **more)

        return counted


def plug_many(rig, names):
    """Nodes, made faster than one by one."""
    rig.tree.file(DECLARED, "".join(f"c 240:{number} /dev/{name}\n" for number, name in enumerate(names)))
    directory = rig.tree.at("/dev")
    for name in names:
        (directory / name).touch()


async def test_64_resources_of_16_devices(rig):
    names = [f"example.com/r{number:02}x" for number in range(64)]
    plug_many(rig, [f"r{number:02}x{device}" for number in range(64) for device in range(16)])
    rig.serve(*names)
    async with rig.kubelet, rig.agent():
        await rig.streaming(*names)
        assert all(len(last(rig.kubelet, name)) == 16 for name in names)
        rig.unplug(*(f"r{number:02}x3" for number in range(64)))
        await rig.until(lambda: all(list(last(rig.kubelet, name).values()).count(UNHEALTHY) == 1 for name in names))
        rig.replug(*(f"r{number:02}x3" for number in range(64)))
        await rig.until(lambda: all(set(last(rig.kubelet, name).values()) == {HEALTHY} for name in names))
    assert {len(story(rig.kubelet, name)) for name in names} == {3}


async def test_5000_nodes_in_one_resource(rig):
    plug_many(rig, [f"foo{number}" for number in range(5000)])
    rig.serve(FOO)
    async with rig.kubelet, rig.agent():
        await rig.streaming(FOO)
        assert len(last(rig.kubelet, FOO)) == 5000
        rig.unplug("foo1234")
        await rig.until(lambda: last(rig.kubelet, FOO)["foo1234"] == UNHEALTHY)
        assert (await rig.kubelet.allocate("p", "c", {FOO: 1})).devices
    assert len(story(rig.kubelet, FOO)) == 2


async def test_too_many_replicas_are_refused_at_load(rig):
    rig.serve(entry(FOO, "replicas = 100_000"))
    (finding,) = load(str(rig.etc)).findings
    assert finding.key_path_text.startswith("resource[1].replicas")
    assert "4 MiB" in finding.message


async def test_60000_replicas_are_one_message_that_the_kubelet_takes(rig):
    rig.serve(entry(FOO, "replicas = 60_000"))
    rig.plug("foo0")
    async with rig.kubelet, rig.agent():
        await rig.streaming(FOO)
        (only,) = rig.kubelet.lists.select(FOO)
        assert len(only.ids) == 60_000
        assert only.size < LIMIT
        rig.unplug("foo0")
        await rig.until(lambda: len(rig.kubelet.unhealthy(FOO)) == 60_000)
        assert rig.kubelet.lists.select(FOO)[-1].size < LIMIT  # Unhealthy is the longer word


async def test_a_list_that_outgrows_the_message_is_cut_and_the_rest_says_why(rig):
    rig.serve(entry(FOO, "replicas = 60_000"))
    rig.plug("foo0", f"foo1{'x' * 50}")  # 60,000 ids as long as these are 5 MB
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(FOO)
        (only,) = rig.kubelet.lists.select(FOO)
        assert only.size < LIMIT
        assert len(only.ids) == 60_000
        (unlisted,) = agent.tracker.device_lists.unlisted
        assert "4 MiB" in unlisted.reason


@pytest.mark.parametrize("functions", [500])
def test_what_a_sweep_reads_does_not_depend_on_the_number_of_resources(rig, functions):
    models = 50
    for number in range(functions):
        address = f"{number // 256:04x}:{number % 256 // 8 + 1:02x}:00.{number % 8}"
        rig.tree.pci(address, driver="mlx5_core", device=f"0x{number % models:04x}\n")

    def sweep(*entries):
        rig.serve(*entries)
        configuration = load(str(rig.etc))
        assert configuration.is_valid, configuration.findings
        root = CountingRoot(str(rig.tree.top))
        look, _ = run_look(HostView(root), configuration.resources, Inventory(), ALL_DIRTY)
        assert sum(sighting.candidate is not None for sighting in look.match_results.values()) == functions
        return root.count

    def take(name, match):
        return (
            f'[[resource]]\nname = "example.com/{name}"\nsource = "pci"\n'
            f'match = {{ vendor = "15b3", {match} }}\n[resource.give.env]\n'
            f'A = {{ value = "{{address}}", join = "," }}\n'
        )

    one = sweep(take("all", 'device = { not = "ffff" }'))
    many = sweep(*(take(f"m{model}", f'device = "{model:04x}"') for model in range(models)))
    assert many == one
    assert sum(one.values()) < 60 * functions  # and is no walk through everything
    assert max(one.values()) < 4 * functions
