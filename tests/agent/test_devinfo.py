"""Device-information files, from the entry to what a CNI plugin finds, and their end."""

import asyncio
import json
import threading
from unittest.mock import Mock

import pytest

from agent.allocation import allocation, devinfo_files
from agent.core.entry.devinfo import DevInfo
from agent.core.grants import held_ids
from agent.host.daemon_thread import run_in_thread
from agent.host.devinfo_directory import DevInfoDirectory
from device_agent_lab.simulated.errors import PodRefused
from tests.agent.rig import FOO, entry

DIRECTORY = "/var/run/k8s.cni.cncf.io/devinfo/dp"
GIVE = """
nodes   = { it = "{node}" }
devinfo = { type = "pci", version = "1.1.0", pci = { pci-address = "{name}", rdma-device = "{pci.rdma.name}" } }
"""


def files(rig):
    at = rig.tree.at(DIRECTORY)
    return {path.name: path.read_text() for path in sorted(at.iterdir())} if at.is_dir() else {}


def name(id_):
    return f"example.com-foo-{id_}-device.json"


def text(device):
    return f'{{"type":"pci","version":"1.1.0","pci":{{"pci-address":"{device}"}}}}'


@pytest.fixture
async def node(rig, at_once, monkeypatch):
    monkeypatch.setattr(held_ids, "SURE_SECONDS", 0.3)  # longer than a grant takes to be named
    rig.plug("foo0", "foo1")
    rig.serve(entry(FOO, give=GIVE))
    await rig.kubelet.start()
    return rig


async def test_a_file_is_there_with_the_answer_and_goes_when_the_pod_has_ended(node):
    async with node.agent():
        await node.allocatable(FOO, 2)
        assert files(node) == {}
        await node.kubelet.allocate("pod", "c", {FOO: 2})
        assert files(node) == {name("foo0"): text("foo0"), name("foo1"): text("foo1")}
        node.kubelet.remove_pod("pod")
        await node.until(lambda: files(node) == {})


async def test_a_share_has_a_file_of_its_own(node):
    node.serve(entry(FOO, "replicas = 2", give=GIVE))
    async with node.agent():
        await node.allocatable(FOO, 4)
        await node.kubelet.allocate("pod", "c", {FOO: 4})
        assert files(node) == {
            name(f"{device}::{share}"): text(device) for device in ("foo0", "foo1") for share in (0, 1)
        }


async def test_files_of_what_pods_hold_outlast_the_agent(node):
    async with node.agent():
        await node.allocatable(FOO, 2)
        (device,) = (await node.kubelet.allocate("pod", "c", {FOO: 1})).devices
        await node.kubelet.allocate("other", "c", {FOO: 1})
    assert len(files(node)) == 2
    node.kubelet.remove_pod("other")
    async with node.agent():
        await node.until(lambda: len(files(node)) == 1)
        id_ = device.rpartition("/")[2]
        assert files(node) == {name(id_): text(id_)}


async def test_a_file_of_another_program_in_the_way_refuses_the_container(node):
    node.tree.file(f"{DIRECTORY}/{name('foo0')}", "{}")
    async with node.agent():
        await node.allocatable(FOO, 2)
        with pytest.raises(PodRefused) as refused:
            await node.kubelet.allocate("pod", "c", {FOO: 2})
        assert "is another program's, and says something else: remove it" in str(refused.value)
    assert files(node)[name("foo0")] == "{}"


async def test_a_directory_that_cannot_be_made_refuses_the_container(node):
    node.tree.file("/var/run/k8s.cni.cncf.io")
    async with node.agent():
        await node.allocatable(FOO, 2)
        with pytest.raises(PodRefused) as refused:
            await node.kubelet.allocate("pod", "c", {FOO: 1})
        assert "device-information file: " in str(refused.value)


async def test_a_disk_that_does_not_answer_is_not_waited_for_and_what_it_has_late_goes(node, monkeypatch):
    stuck, go, written = asyncio.Event(), asyncio.Event(), []
    monkeypatch.setattr(allocation, "WRITE_SECONDS", 0.1)

    def begin(call, *arguments):
        async def wait():
            stuck.set()
            await go.wait()
            done = call(*arguments)
            written.append(files(node))
            return done

        return asyncio.ensure_future(wait())

    async with node.agent() as agent:
        await node.allocatable(FOO, 2)
        monkeypatch.setattr(devinfo_files, "start_in_thread", begin)
        with pytest.raises(PodRefused) as refused:
            await node.kubelet.allocate("pod", "c", {FOO: 1})
        assert "not written within 0.1 s" in str(refused.value)
        assert stuck.is_set()
        go.set()
        await node.until(lambda: not agent.parts.devinfo_files.has_files)  # nobody got it
        assert written[0]
        assert files(node) == {}


async def test_the_directory_is_where_agent_toml_says(node):
    text_ = (node.etc / "agent.toml").read_text()
    (node.etc / "agent.toml").write_text(text_.replace("[paths]\n", '[paths]\ndevinfo = "/opt/info"\n'))
    async with node.agent():
        await node.allocatable(FOO, 2)
        await node.kubelet.allocate("pod", "c", {FOO: 1})
        (path,) = node.tree.at("/opt/info").iterdir()
        assert json.loads(path.read_text())["type"] == "pci"


async def test_a_file_that_is_written_right_after_others_were_removed_goes_too(tmp_path):
    removing, go, gone = threading.Event(), threading.Event(), asyncio.Event()

    class Slow(DevInfoDirectory):
        def remove_unused(self, held):
            removing.set()
            go.wait()
            return super().remove_unused(held)

    def changed():
        if not files.has_files:
            gone.set()

    held = {"id"}
    there = tmp_path / "there"
    files = devinfo_files.DevInfoFiles(Slow(str(there), str(tmp_path / "state")), lambda: frozenset(held), changed)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(files.run())
        await run_in_thread(removing.wait)
        writing = tasks.create_task(files.write([DevInfo("id", "file", "{}")]))
        await asyncio.sleep(0)  # it waits for the lock by now
        go.set()
        await writing
        assert files.has_files
        assert (there / "file").exists()
        held.clear()
        files.request_cleanup()
        await gone.wait()
        assert not (there / "file").exists()
        running.cancel()


async def test_where_no_thread_is_to_be_had_the_next_file_is_written_all_the_same(tmp_path, monkeypatch):
    directory = DevInfoDirectory(str(tmp_path), str(tmp_path / "state"))
    files = devinfo_files.DevInfoFiles(directory, frozenset, lambda: None)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(RuntimeError):
            await files.write([DevInfo("id", "file", "{}")])
    await files.write([DevInfo("id", "file", "{}")])
    assert (tmp_path / "file").read_text() == "{}"
