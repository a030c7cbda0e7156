"""CDI specs of our own: what is in them, when they are written, and whose files are left alone."""

import json
import os
from pathlib import Path

import pytest

from agent.core.grants import held_ids
from agent.core.struct import replace
from agent.host.cdi_specs import SpecDirectories
from device_agent_lab.simulated.errors import PodRefused
from tests.agent.rig import BAR, FOO, SHORT, entry
from tests.agent.test_moves_into_pod import ENTRIES, Node

ETC, RUN = "/opt/cdi/etc", "/opt/cdi/run"
FILE = f"{RUN}/device-agent_example.com_foo.yaml"
KIND = "device-agent.example.com/foo"
GIVE = """
via    = "cdi"
nodes  = { it = { path = "{node}", to = "/dev/card" }, ctl = "/dev/ctl" }
mounts = { lib = { path = "/opt/foo/*.so", to = "/usr/lib/", read_only = true } }
env    = { ALL = { value = "{id}", join = "," }, SAME = "1" }
annotations = { ids = { name = "example.com/ids", value = "{id}", join = "," } }
"""
ONE = "limit.per_container = 1"


@pytest.fixture
async def node(rig):
    rig.plug("foo0", "foo1", "bar0", "ctl")
    rig.tree.file("/opt/foo/a.so")
    rig.settings(look='settle = "5ms"\nevery = "1h"')
    text = (rig.etc / "agent.toml").read_text()
    (rig.etc / "agent.toml").write_text(text.replace("[paths]\n", f'[paths]\ncdi = ["{ETC}", "{RUN}"]\n'))
    rig.serve(entry(FOO, ONE, give=GIVE), BAR)
    rig.new_kubelet(limits=replace(SHORT, pre_start=30.0))
    await rig.kubelet.start()
    return rig


def read_spec(rig, path=FILE):
    """Return the content of a spec without its first line; empty if it does not exist."""
    try:
        return json.loads(rig.tree.at(path).read_text().partition("\n")[2])
    except FileNotFoundError:
        return None


def names(rig):
    return [device["name"] for device in read_spec(rig)["devices"]]


def reasons(agent, resource=FOO):
    return {device.id: str(device.reason) for device in agent.registry.get_list(resource).devices if device.reason}


async def test_what_is_in_a_spec_and_what_a_container_gets(node):
    async with node.agent():
        await node.allocatable(FOO, 2)
        assert read_spec(node) == {
            "cdiVersion": "0.5.0",
            "kind": KIND,
            "containerEdits": {
                "env": ["SAME=1"],
                "deviceNodes": [{"path": "/dev/ctl", "permissions": "rw"}],
                "mounts": [
                    {
                        "hostPath": "/opt/foo/a.so",
                        "containerPath": "/usr/lib/a.so",
                        "options": ["rbind", "rprivate", "ro"],
                    }
                ],
            },
            "devices": [
                {
                    "name": name,
                    "containerEdits": {
                        "deviceNodes": [{"path": "/dev/card", "hostPath": f"/dev/{name}", "permissions": "rw"}]
                    },
                }
                for name in ("foo0", "foo1")
            ],
        }
        options = await node.kubelet.allocate("pod", "c", {FOO: 1})
        (id_,) = node.kubelet.get_held_ids(FOO)
        assert (options.devices, options.mounts) == ({}, {})
        assert options.envs == {"ALL": id_}
        assert options.annotations == {"example.com/ids": id_}
        assert options.cdi_devices == [f"{KIND}={id_}"]
        mode = node.tree.at(FILE).stat().st_mode
        assert (oct(mode & 0o777), os.listdir(node.tree.at(RUN))) == ("0o644", [Path(FILE).name])


async def test_by_annotation(node):
    node.serve(entry(FOO, ONE, give=GIVE.replace('"cdi"', '"cdi-annotation"')))
    async with node.agent():
        await node.allocatable(FOO, 2)
        options = await node.kubelet.allocate("pod", "c", {FOO: 1})
        (id_,) = node.kubelet.get_held_ids(FOO)
        assert options.cdi_devices == []
        assert options.annotations["cdi.k8s.io/device-agent_example.com_foo"] == f"{KIND}={id_}"


async def test_shares_of_one_device_name_it_once(node):
    node.serve(entry(FOO, "replicas = 4", nodes="/dev/foo0", give='via = "cdi"\nnodes.it = "{node}"'))
    async with node.agent():
        await node.allocatable(FOO, 4)
        options = await node.kubelet.allocate("pod", "c", {FOO: 3})
        assert options.cdi_devices == [f"{KIND}=foo0"]
        assert read_spec(node)["cdiVersion"] == "0.3.0"


async def test_slots_name_everything(node):
    node.serve(entry(FOO, "slots = 2", give='via = "cdi"\nnodes.it = "{node}"'))
    async with node.agent():
        await node.allocatable(FOO, 2)
        options = await node.kubelet.allocate("pod", "c", {FOO: 1})
        assert options.cdi_devices == [f"{KIND}={name}" for name in names(node)]
        assert [name.partition("-")[0] for name in names(node)] == ["dev_foo0", "dev_foo1"]


async def test_it_is_written_before_the_list_is_sent(node):
    async with node.agent() as agent:
        await node.allocatable(FOO, 2)
        told = []
        publish = agent.registry.publish
        agent.registry.publish = lambda snapshot, *more: (
            (told.append((len(snapshot.devices), len(names(node)))) if snapshot.resource == FOO else None)
            or publish(snapshot)
        )
        node.plug("foo2")
        agent.tracker.request_look()
        await node.allocatable(FOO, 3)
        assert told[-1] == (3, 3)
        assert all(listed <= in_spec for listed, in_spec in told)


async def test_what_is_unplugged_keeps_its_name_until_it_leaves_the_list(node):
    async with node.agent() as agent:
        await node.allocatable(FOO, 2)
        before = read_spec(node)
        await node.kubelet.allocate("pod", "c", {FOO: 1})
        (id_,) = node.kubelet.get_held_ids(FOO)
        node.unplug(id_)
        agent.tracker.request_look()
        await node.until(lambda: node.kubelet.unhealthy(FOO) == {id_})
        assert read_spec(node) == before  # the kubelet will name it when the container starts again
    async with node.agent() as agent:
        await node.streaming(FOO)
        await agent.tracker.wait_for_look()
        assert read_spec(node) == before  # and over a restart of the agent


async def test_what_a_pod_has_taken_along_keeps_what_it_had(rig, monkeypatch):
    monkeypatch.setattr(held_ids, "SURE_SECONDS", 0.3)  # longer than a grant takes to be named
    more = ENTRIES["net"].replace("give.env", 'give.via = "cdi"\ngive.env')
    rig.serve(f'[[resource]]\nname = "{FOO}"\nmoves_into_pod = true\n{more}')
    await rig.kubelet.start()
    moving, path = Node(rig), "/var/run/cdi/device-agent_example.com_foo.yaml"
    async with rig.agent() as agent:
        await rig.allocatable(FOO, 1)
        before = read_spec(rig, path)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
        moving.go()
        await moving.looked(agent)
        assert agent.tracker.inventory.in_pod_keys
        assert (read_spec(rig, path), reasons(agent)) == (before, {})
    async with rig.agent() as agent:
        await rig.streaming(FOO)
        await moving.looked(agent)
        assert agent.tracker.inventory.in_pod_keys
        assert (read_spec(rig, path), reasons(agent)) == (before, {})


async def test_an_entry_that_goes_takes_its_spec_along(node):
    foreign = node.tree.file(f"{RUN}/device-agent_other.yaml", "# of somebody else\n")
    async with node.agent() as agent:
        await node.allocatable(FOO, 2)
        node.serve(BAR)
        await node.reload(agent)
        await node.until(lambda: read_spec(node) is None)
        node.serve(entry(FOO, ONE, give=GIVE))
        await node.reload(agent)
        await node.allocatable(FOO, 2)
        assert names(node) == ["foo0", "foo1"]
    node.serve(BAR)
    async with node.agent():
        await node.allocatable(BAR, 1)
        await node.until(lambda: read_spec(node) is None)  # as soon as it is known that no pod has any
    assert foreign is None or node.tree.at(f"{RUN}/device-agent_other.yaml").exists()


async def test_an_entry_without_via_keeps_what_pods_may_start_again_with(node):
    async with node.agent() as agent:
        await node.allocatable(FOO, 2)
        await node.kubelet.allocate("pod", "c", {FOO: 1})
        (id_,) = node.kubelet.get_held_ids(FOO)
        node.serve(entry(FOO, ONE, give=GIVE.replace('via    = "cdi"', "")))
        await node.reload(agent)
        await node.until(lambda: names(node) == [id_])
        options = await node.kubelet.allocate("other", "c", {FOO: 1})
        assert options.cdi_devices == []
        assert len(options.devices) == 2


async def test_what_somebody_changes_or_removes_is_written_again(node):
    async with node.agent() as agent:
        await node.allocatable(FOO, 2)
        before = read_spec(node)
        for change in (lambda at: at.unlink(), lambda at: at.write_text(at.read_text().partition("\n")[0] + "\n{}")):
            change(node.tree.at(FILE))
            agent.tracker.request_look()
            await node.until(lambda: read_spec(node) == before)
        assert reasons(agent) == {}


@pytest.mark.parametrize("what", ["file", "directory", "link", "other agent"])
async def test_what_is_there_under_our_name_and_not_ours_is_left_alone(node, what):
    at = node.tree.at(FILE)
    at.parent.mkdir(parents=True)
    if what == "file":
        at.write_text('{"cdiVersion": "0.6.0"}')
    elif what == "other agent":
        at.write_text('# Written by device-agent ("/other/state"), which overwrites and removes it.\n{}')
    elif what == "link":
        (at.parent / "elsewhere").write_text("precious")
        at.symlink_to("elsewhere")
    else:
        at.mkdir()
    before = at.read_text() if what != "directory" else None
    async with node.agent() as agent:
        await node.allocatable(BAR, 1)
        await node.until(lambda: set(reasons(agent)) == {"foo0", "foo1"})
        how = "is there, and was not written by this agent" if what in {"file", "other agent"} else "is no file"
        assert reasons(agent)["foo0"].startswith(f"its CDI spec {FILE}: {how}")
        assert at.is_dir() or at.read_text() == before
        assert node.kubelet.allocatable(FOO) == 0
        at.rmdir() if what == "directory" else at.unlink()
        agent.tracker.request_look()
        await node.allocatable(FOO, 2)
        assert names(node) == ["foo0", "foo1"]


@pytest.mark.parametrize(
    ("error", "said_"), [(28, "No space left on device"), (30, "Read-only file system"), (13, "Permission denied")]
)
async def test_a_directory_that_cannot_be_written(node, monkeypatch, error, said_):
    from agent.host import cdi_spec_file
    from agent.specs import generated_specs

    monkeypatch.setattr(generated_specs, "AGAIN_SECONDS", 0.02)
    fails = True
    fsync = os.fsync

    def full(handle):
        if fails:
            raise OSError(error, os.strerror(error))
        fsync(handle)

    monkeypatch.setattr(cdi_spec_file.os, "fsync", full)
    async with node.agent() as agent:
        await node.allocatable(BAR, 1)
        await node.until(lambda: set(reasons(agent)) == {"foo0", "foo1"})
        assert reasons(agent)["foo0"] == f"its CDI spec {FILE}: {said_}"
        await node.until(lambda: os.listdir(node.tree.at(RUN)) == [])  # it is tried again and again all the while
        fails = False
        await node.allocatable(FOO, 2)  # without anything that happens
        assert names(node) == ["foo0", "foo1"]


async def test_a_name_that_another_spec_has_too_is_said(node):
    other = {"cdiVersion": "0.6.0", "kind": KIND, "devices": [{"name": "foo0", "containerEdits": {"env": ["A=1"]}}]}
    node.tree.file(f"{RUN}/other.json", json.dumps(other))
    async with node.agent() as agent:
        await node.allocatable(FOO, 1)
        assert list(reasons(agent)) == ["foo0"]
        assert f"{KIND}=foo0 is in both" in reasons(agent)["foo0"]


async def test_where_there_is_no_directory_for_specs(node):
    text = (node.etc / "agent.toml").read_text()
    (node.etc / "agent.toml").write_text(text.replace(f'["{ETC}", "{RUN}"]', "[]"))
    async with node.agent() as agent:
        await node.allocatable(BAR, 1)
        await node.until(lambda: set(reasons(agent)) == {"foo0", "foo1"})
        assert reasons(agent)["foo0"] == "its CDI spec: paths.cdi names no directory for it"


async def test_a_container_gets_none_whose_spec_is_of_something_else(node):
    node.tree.file("/proc/acme", "1")
    node.serve(
        entry(FOO, 'let.it = "/proc/acme"', give='via = "cdi"\nnodes.it = "{node}"\nenv.IT = "{it}"'),
    )
    async with node.agent() as agent:
        await node.allocatable(FOO, 2)
        node.tree.file("/proc/acme", "2")
        with pytest.raises(PodRefused, match="its CDI spec is of something that has changed since"):
            await node.kubelet.allocate("pod", "c", {FOO: 1})
        await node.until(lambda: "IT=2" in json.dumps(read_spec(node)))
        await node.kubelet.allocate("other", "c", {FOO: 1})
        assert reasons(agent) == {}


async def test_ours_are_read_without_a_library_for_yaml(node, monkeypatch):
    async with node.agent():
        await node.allocatable(FOO, 2)
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    found = SpecDirectories((ETC, RUN)).read(node.tree.root)
    assert found.faults == {}
    assert set(found.paths) == {f"{KIND}=foo0", f"{KIND}=foo1"}
