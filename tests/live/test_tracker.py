"""The tracker by itself, on a tree: the sweep, entries put in force, hardware that does not answer."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import DeviceList
from agent.core.inventory.dirty_set import DirtySet
from agent.core.inventory.inventory import Inventory
from agent.core.language.template import parse
from agent.core.language.value import ValueType
from agent.tracker import look_thread as module
from tests.core.builders import clause, line, spec
from tests.live.trackers import make_list_publisher, make_tracker
from tests.tree import Tree, silent

NICS = spec(
    "example.com/nic",
    source=Source("pci"),
    id=(parse("{address}"),),
    match=clause(line("vendor", "15b3", ValueType.HEX)),
)
DISKS = spec("example.com/nic", source=Source("pci"), id=(parse("{address}-disk"),))
ADDRESSES = ("0000:3b:00.0", "0000:5e:00.0")


@asynccontextmanager
async def run_tracker(tree, specs=(NICS,), every=3600.0):
    published = asyncio.Event()
    tracker = make_tracker(tree.root, specs, lambda _: published.set(), every=every)

    def ids():
        return [device.id for device in tracker.device_lists.lists["example.com/nic"].devices]

    async def until(condition):
        async with asyncio.timeout(60):
            while not condition():
                published.clear()
                await published.wait()

    tracker.ids, tracker.until = ids, until
    running = asyncio.create_task(tracker.run())
    try:
        yield tracker
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_a_source_that_sends_no_events_is_looked_at_when_its_time_has_come(tree):
    tree.file("/proc/driver/acme/0/state", "1")
    cards = spec("example.com/nic", source=Source("dir", ("/proc/driver/acme/*",)), id=(parse("{name}"),), interval=0.1)
    async with run_tracker(tree, [cards]) as tracker:
        await tracker.wait_for_look()
        assert tracker.ids() == ["0"]
        tree.file("/proc/driver/acme/1/state", "1")  # and no event says so
        await tracker.until(lambda: tracker.ids() == ["0", "1"])


async def test_the_sweep_comes_however_many_events_there_are(tree):
    tree.pci(ADDRESSES[0])
    async with run_tracker(tree, every=0.2) as tracker:
        await tracker.wait_for_look()
        tree.pci(ADDRESSES[1])  # and no event says so
        noise = asyncio.create_task(_noise(tracker))
        await tracker.until(lambda: tracker.ids() == list(ADDRESSES))
        noise.cancel()


async def _noise(tracker):
    while True:
        tracker.request_look(DirtySet(frozenset({"/sys/devices/virtual/net/veth0"}), frozenset({"net"})))
        await asyncio.sleep(0.02)


async def test_what_concerns_nothing_is_no_reason_to_assemble(tree):
    tree.pci(ADDRESSES[0])
    async with run_tracker(tree) as tracker:
        await tracker.wait_for_look()
        seen, assembly = tracker.inventory, tracker.device_lists
        tracker.request_look(DirtySet(frozenset({"/sys/devices/virtual/net/veth0"}), frozenset({"net"})))
        await tracker.wait_for_look()
        assert (tracker.inventory, tracker.device_lists) == (seen, assembly)
        assert tracker.inventory is seen
        assert tracker.device_lists is assembly


async def test_entries_and_what_they_see_change_together(tree):
    tree.pci(ADDRESSES[0])
    async with run_tracker(tree) as tracker:
        await tracker.wait_for_look()
        seen = tracker.inventory
        tracker.configure((DISKS,))
        assert (tracker.specs, tracker.inventory is seen) == ((NICS,), True)
        await tracker.wait_for_look()
        assert tracker.specs == (DISKS,)
        assert tracker.ids() == [f"{ADDRESSES[0]}-disk"]


async def test_a_file_that_never_answers_costs_its_own_device(tree, monkeypatch, caplog):
    for address in ADDRESSES:
        tree.pci(address)
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.5)
    async with run_tracker(tree) as tracker:
        with silent(monkeypatch, f"{ADDRESSES[0]}/vendor"):
            await tracker.wait_for_look()
            assert tracker.ids() == [ADDRESSES[1]]
            assert f"{ADDRESSES[0]}/vendor: a read does not return" in caplog.text
            tree.pci("0000:af:00.0")
            tracker.request_look()
            await tracker.until(lambda: tracker.ids() == [ADDRESSES[1], "0000:af:00.0"])
            assert caplog.text.count("does not return") == 1

        async def sees_all():
            while len(tracker.ids()) < 3:  # the thread that hung has first to come back
                tracker.request_look()
                await tracker.wait_for_look()

        async with asyncio.timeout(60):
            await sees_all()


async def test_what_is_forgotten_while_the_lists_are_made_stays_forgotten():
    class Specs:
        retry_at = None

        async def refresh(self, *_):
            for name in [name for name in lists.device_lists.lists if name == "example.com/old"]:
                lists.drop_list(name)
            return {}

    told = {name: DeviceList(name) for name in ("example.com/old", "example.com/nic")}
    seen = []
    lists = make_list_publisher(
        [NICS], lambda publication: seen.append(publication.lists), lists=told, generated_specs=Specs()
    )
    await lists.publish(Inventory(), [NICS], {}, None)
    assert [sorted(one.lists) for one in (*seen, lists.device_lists)] == [["example.com/nic"]] * 2


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "tree")
