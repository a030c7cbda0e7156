"""Mounts, annotations and CDI devices, from the files of the host to the kubelet."""

import json

import pytest

from device_agent_lab.simulated.errors import PodRefused
from tests.agent.rig import FOO, entry, stop_watching

ETC = "/opt/cdi/etc"
RUN = "/opt/cdi/run"
GIVE = """
nodes       = { it = "{node}" }
mounts      = { lib = { path = "/opt/foo/*.so", to = "/usr/lib/", read_only = true }, own = "/run/{name}.sock" }
annotations = { ids = { name = "example.com/ids", value = "{id}", join = "," } }
cdi         = { card = "example.com/card={name}", note = { name = "example.com/card=all", via = "annotation" } }
"""
NAMES = ("foo0", "foo1", "all")


def spec(*names):
    devices = [{"name": name, "containerEdits": {"env": ["A=1"]}} for name in names]
    return json.dumps({"cdiVersion": "0.6.0", "kind": "example.com/card", "devices": devices})


@pytest.fixture
async def node(rig):
    rig.plug("foo0", "foo1")
    rig.tree.file("/opt/foo/a.so")
    for name in ("foo0", "foo1"):
        rig.tree.file(f"/run/{name}.sock")
    rig.tree.file(f"{ETC}/card.json", spec(*NAMES))
    rig.settings(look='settle = "5ms"\nevery = "1h"')
    text = (rig.etc / "agent.toml").read_text()
    (rig.etc / "agent.toml").write_text(text.replace("[paths]\n", f'[paths]\ncdi = ["{ETC}", "{RUN}"]\n'))
    rig.serve(entry(FOO, give=GIVE))
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO)
        rig.running = agent
        yield rig


def reasons(node):
    return {device.id: str(device.reason) for device in node.running.registry.get_list(FOO).devices if device.reason}


async def test_what_a_container_gets(node):
    await node.allocatable(FOO, 2)
    options = await node.kubelet.allocate("pod", "c", {FOO: 2})
    assert options.mounts == {
        "/usr/lib/a.so": ("/opt/foo/a.so", True),
        "/run/foo0.sock": ("/run/foo0.sock", False),
        "/run/foo1.sock": ("/run/foo1.sock", False),
    }
    assert options.annotations == {
        "example.com/ids": "foo0,foo1",
        "cdi.k8s.io/device-agent_example.com_foo": "example.com/card=all",
    }
    assert options.cdi_devices == ["example.com/card=foo0", "example.com/card=foo1"]
    assert options.conflicts == []


async def test_a_name_that_leaves_the_specs_makes_its_device_unhealthy_until_it_is_back(node):
    await node.allocatable(FOO, 2)
    node.tree.file(f"{ETC}/card.json", spec("foo0", "all"))
    await node.until(lambda: node.kubelet.unhealthy(FOO) == {"foo1"})
    assert reasons(node) == {"foo1": f"example.com/card=foo1 is in no CDI spec in {ETC} or {RUN}"}
    node.tree.file(f"{RUN}/more.json", spec("foo1"))  # a directory that was not there before
    await node.until(lambda: not node.kubelet.unhealthy(FOO))
    node.tree.at(f"{ETC}/card.json").unlink()
    await node.until(lambda: node.kubelet.unhealthy(FOO) == {"foo0", "foo1"})


async def test_a_spec_that_is_no_spec_says_so(node):
    await node.allocatable(FOO, 2)
    node.tree.file(f"{ETC}/card.json", "{")
    await node.until(lambda: node.kubelet.unhealthy(FOO) == {"foo0", "foo1"})
    assert f"not read: {ETC}/card.json: is no JSON: " in reasons(node)["foo0"]


async def test_yaml(node):
    await node.allocatable(FOO, 2)
    node.tree.at(f"{ETC}/card.json").rename(node.tree.at(f"{ETC}/card.yaml"))  # JSON is YAML
    await node.until(lambda: "foo0" not in reasons(node))
    await node.allocatable(FOO, 2)


async def test_two_files_that_have_one_name_are_a_conflict(node):
    await node.allocatable(FOO, 2)
    node.tree.file(f"{ETC}/other.json", spec("foo0"))
    await node.until(lambda: node.kubelet.unhealthy(FOO) == {"foo0"})
    assert f"is in both {ETC}/card.json and {ETC}/other.json" in reasons(node)["foo0"]


async def test_a_mount_that_goes_makes_its_device_unhealthy_until_it_is_back(node):
    await node.allocatable(FOO, 2)
    node.tree.at("/run/foo1.sock").unlink()
    await node.until(lambda: node.kubelet.unhealthy(FOO) == {"foo1"})
    assert reasons(node) == {"foo1": "/run/foo1.sock: no such file"}
    node.tree.file("/run/foo1.sock")
    await node.until(lambda: not node.kubelet.unhealthy(FOO))
    node.tree.at("/opt/foo").rename(node.tree.at("/opt/elsewhere"))
    await node.until(lambda: node.kubelet.unhealthy(FOO) == {"foo0", "foo1"})


@pytest.mark.parametrize(
    ("path", "text"), [(f"{ETC}/card.json", "is in no CDI spec in"), ("/run/foo0.sock", "/run/foo0.sock: no such file")]
)
async def test_what_goes_just_before_a_grant_is_refused_and_told_first(node, monkeypatch, path, text):
    await node.allocatable(FOO, 2)
    stop_watching(node.running)  # nobody tells of it
    node.tree.at(path).unlink()
    with pytest.raises(PodRefused, match=text):
        await node.kubelet.allocate("pod", "c", {FOO: 2})
    assert "foo0" in node.kubelet.unhealthy(FOO)


CONDITIONS = """
nodes = { it = "{node}", none = { path = "/dev/none", when = { name = "bar" } } }
mounts = { own = { path = "/run/{name}.sock", when = { name = "foo0" } } }
cdi = { card = { name = "example.com/card={name}", when."/sys/module/card" = { exists = true } } }
also.some = { when.all_given = false, env.SOME = "yes" }
also.mode = { when."/sys/module/mode" = "on", env.MODE = "on" }

[resource.give.env.INFO]
key  = "{id}"
json = { mount = "{given.it}", nothing = { none = "{given.none}" } }
"""


@pytest.fixture
async def conditional(rig):
    rig.plug("foo0", "foo1")
    rig.tree.file("/run/foo0.sock")
    rig.serve(entry(FOO, give=CONDITIONS))
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.streaming(FOO)
        rig.running = agent
        yield rig


async def test_what_is_given_only_where_a_clause_holds(conditional):
    await conditional.allocatable(FOO, 2)
    both = await conditional.kubelet.allocate("pod", "c", {FOO: 2})
    assert list(both.mounts) == ["/run/foo0.sock"]
    assert both.cdi_devices == []
    assert both.envs == {"INFO": '{"foo0":{"mount":"/dev/foo0"},"foo1":{"mount":"/dev/foo1"}}'}


async def test_a_clause_is_asked_again_when_a_container_comes(conditional):
    await conditional.allocatable(FOO, 2)
    conditional.tree.file("/sys/module/mode", "on\n")  # nobody tells of it
    one = await conditional.kubelet.allocate("pod", "c", {FOO: 1})
    assert (one.envs["SOME"], one.envs["MODE"]) == ("yes", "on")


async def test_what_has_to_be_given_since_a_moment_ago_and_is_not_there_is_refused_and_told_first(conditional):
    await conditional.allocatable(FOO, 2)
    conditional.tree.file("/sys/module/card", "1\n")
    with pytest.raises(PodRefused, match="card=foo0 is in no CDI spec"):
        await conditional.kubelet.allocate("pod", "c", {FOO: 2})
    assert "foo0" in conditional.kubelet.unhealthy(FOO)
