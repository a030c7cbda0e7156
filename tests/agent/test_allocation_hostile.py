"""Allocate with what nobody should ask, and of hardware that lies: refused by name, and nothing else is worse off."""

import os

import pytest

from agent.core.grants.grant import GrantRefusedError
from tests.agent.rig import BAR, FOO, entry, stop_watching
from tests.agent.test_allocation import ask

MANY = 1000


@pytest.fixture
async def node(rig):
    rig.plug("foo0", "foo1", "bar0")
    rig.serve(FOO, entry(BAR, "replicas = 1000"))
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.allocatable(FOO, 2)
        await rig.allocatable(BAR, MANY)
        rig.running = agent
        yield rig


@pytest.mark.parametrize(
    ("ids", "status", "said"),
    [
        (["bar0::0"], "NOT_FOUND", "no device 'bar0::0' is listed"),  # another resource's
        (["foo0", "bar0"], "NOT_FOUND", "no device 'bar0' is listed"),
        (["foo0::0"], "NOT_FOUND", "no device 'foo0::0' is listed"),
        ([""], "NOT_FOUND", "no device '' is listed"),
        (["foo0\nfoo1"], "NOT_FOUND", r"no device 'foo0\\nfoo1' is listed"),
        (["../foo0"], "NOT_FOUND", "no device '../foo0' is listed"),
        (["x" * 5000], "NOT_FOUND", "no device 'xxx"),
    ],
)
async def test_what_is_no_id_of_it_is_named(node, ids, status, said):
    with pytest.raises(Exception, match=r"is listed|xxx") as raised:
        await ask(node, ids)
    assert raised.value.status.name == status
    assert said.replace("\\\\", "\\") in raised.value.message
    assert len(raised.value.message) <= 200
    (answer,) = await ask(node, ["foo0"])
    assert [device.host_path for device in answer.devices] == ["/dev/foo0"]


async def test_a_thousand_ids_in_one_call(node):
    """Shares of one device: its node is given once. Any that is unknown is one too many."""
    ids = [f"bar0::{share}" for share in range(MANY)]
    (answer,) = await ask(node, ids, resource=BAR)
    assert [device.host_path for device in answer.devices] == ["/dev/bar0"]
    with pytest.raises(Exception, match="'bar0::1000' is listed"):
        await ask(node, [*ids, f"bar0::{MANY}"], resource=BAR)
    answers = await ask(node, *([one] for one in ids), resource=BAR)
    assert len(answers) == MANY


async def test_repeated_ids_are_one(node):
    one, other = await ask(node, ["foo1", "foo0", "foo1"], ["foo0", "foo1"])
    assert bytes(one) == bytes(other)


def a_regular_file(tree, path):
    tree.at(path).unlink()
    tree.file(path, "not a node")
    _undeclare(tree, path)


def a_link_to_a_secret(tree, path):
    tree.file("/etc/shadow", "root:x")
    tree.link(path, "/etc/shadow")


def a_link_out_of_dev(tree, path):
    tree.file("/sys/kernel/notes", "x")
    tree.link(path, "../sys/kernel/notes")


def a_link_to_itself(tree, path):
    tree.link(path, path.rpartition("/")[2])


def a_directory(tree, path):
    tree.at(path).unlink()
    tree.at(path).mkdir()


def a_pipe(tree, path):
    tree.at(path).unlink()
    os.mkfifo(tree.at(path))
    _undeclare(tree, path)


def _undeclare(tree, path):
    declared = tree.at("/.device-nodes")
    declared.write_text(
        "".join(line for line in declared.read_text().splitlines(True) if not line.endswith(f" {path}\n"))
    )


@pytest.mark.parametrize(
    "become", [a_regular_file, a_link_to_a_secret, a_link_out_of_dev, a_link_to_itself, a_directory, a_pipe]
)
async def test_what_stands_in_the_place_of_a_node_is_not_given(node, become):
    """Between the list and the Allocate, with nobody seeing it: told to the kubelet first, then refused."""
    stop_watching(node.running)
    become(node.tree, "/dev/foo0")
    before = len(node.kubelet.lists)
    with pytest.raises(Exception, match="foo0: ") as raised:
        await ask(node, ["foo0"])
    assert raised.value.status.name == "FAILED_PRECONDITION"
    assert [told.healthy for told in node.kubelet.lists[before:] if told.resource == FOO][-1:] == [{"foo1"}]
    (answer,) = await ask(node, ["foo1"])
    assert [device.host_path for device in answer.devices] == ["/dev/foo1"]


CARD = """[[resource]]
name = "example.com/foo"
source = "pci"
id = "{address}"
[resource.give]
"""
PATHS = {"nodes": 'nodes.it = "/dev/card-{label}"', "mounts": 'mounts.it = "/opt/{label}"'}
LABELS = {
    "a slash": "a/b",
    "a way up": "../../etc/shadow",
    "dots": "..",
    "a newline": "a\nb",
    "a nul": "a\0b",
    "a pattern": "*",
    "a page": "x" * 4096,
    "no text": b"\xff\xfe",
}


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("give", PATHS.values(), ids=PATHS)
async def test_text_of_a_device_leads_nowhere(rig, give, label):
    """In a path it is one name, or the device is Unhealthy: another beside it is given all the same."""
    rig.tree.file("/etc/shadow", "root:x")
    rig.tree.file("/opt/good/a")
    rig.plug("card-good")
    rig.tree.pci("0000:3b:00.0", label=label)
    rig.tree.pci("0000:3b:01.0", label="good")
    rig.serve(f"{CARD}{give}\n")
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.allocatable(FOO, 1)
        assert rig.kubelet.unhealthy(FOO) == {"0000:3b:00.0"}
        with pytest.raises(GrantRefusedError, match=r"0000:3b:00\.0") as refused:
            await agent.allocation.allocate(FOO, ["0000:3b:00.0"])
        assert refused.value.text.isprintable()
        grant = await agent.allocation.allocate(FOO, ["0000:3b:01.0"])
        given = [node.host for node in grant.nodes] + [mount.host for mount in grant.mounts]
        assert given in (["/dev/card-good"], ["/opt/good"])


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("a/b", "a/b"),
        ("../../etc/shadow", "../../etc/shadow"),
        ("$(reboot) `x` 'y", "$(reboot) `x` 'y"),
        ("x" * 4096, "x" * 4096),
        ("a\nb", None),
        ("a\0b", None),
        ("a\x1b[31mb", None),
        (b"\xff\xfe", None),
    ],
)
async def test_text_of_a_device_is_a_value_or_refused(rig, label, value):
    rig.tree.pci("0000:3b:00.0", label=label)
    rig.tree.pci("0000:3b:01.0", label="good")
    rig.serve(f'{CARD}env.LABEL = {{ value = "{{label}}", join = "," }}\n')
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(FOO, 2)
        if value is None:
            with pytest.raises(Exception, match=r"0000:3b:00\.0|LABEL|UTF-8") as raised:
                await ask(rig, ["0000:3b:00.0"])
            assert raised.value.message.isprintable()
        else:
            (answer,) = await ask(rig, ["0000:3b:00.0"])
            assert dict(answer.envs) == {"LABEL": value}
        (answer,) = await ask(rig, ["0000:3b:01.0"])
        assert dict(answer.envs) == {"LABEL": "good"}


async def test_two_resources_that_give_one_path_are_each_right(rig):
    """The kubelet takes the first and drops the other; check warns of it, and each answer is as its entry says."""
    rig.plug("foo0", "bar0")
    give = 'nodes.it = { path = "{node}", to = "/dev/it{n}" }'
    rig.serve(*(entry(name, 'accept.collides = "meant"', give=give) for name in (FOO, BAR)))
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(FOO, 1)
        await rig.allocatable(BAR, 1)
        options = await rig.kubelet.allocate("pod", "c", {FOO: 1, BAR: 1})
        assert options.devices["/dev/it0"][0] in {"/dev/foo0", "/dev/bar0"}
        assert options.conflicts
