"""What a container has of the devices of its pod, and what it has not."""

import os

import pytest

from tests.node.loop import Loop
from tests.node.node import CONTAINERD_2, NO_DRIVER, entry

DENIED = "Operation not permitted"
BOTH = pytest.mark.runtimes(None, CONTAINERD_2)
EXPERIMENTAL = 240  # a major number for local use


@pytest.fixture
def loop():
    """A loop device with something on it."""
    with Loop(b"here is a loop device\n") as made:
        yield made


@BOTH
def test_a_container_sees_exactly_the_nodes_of_its_devices(node):
    for n in range(3):
        node.plug(f"lab/card{n}", "c", EXPERIMENTAL, 10 + n)
        node.plug(f"lab/disk{n}", "b", EXPERIMENTAL, 20 + n)
    node.serve(
        entry("seen-card", "/dev/lab/card[01]", to="/dev/cards/{n}", env='CARDS = { value = "{id}", join = "," }'),
        entry("seen-disk", "/dev/lab/disk*"),
    )
    node.start_agent()
    node.offers("seen-card", "lab_card0", "lab_card1")
    node.offers("seen-disk", "lab_disk0", "lab_disk1", "lab_disk2")
    node.apply("sees-two", **{"seen-card": 2, "seen-disk": 1})
    node.apply("sees-none")
    node.running("sees-two", "sees-none")

    assert node.nodes("sees-none") == {}
    seen = node.nodes("sees-two")
    assert seen.pop("/dev/cards/0") == f"c {EXPERIMENTAL}:10"
    assert seen.pop("/dev/cards/1") == f"c {EXPERIMENTAL}:11"
    ((disk, number),) = seen.items()
    assert number == f"b {EXPERIMENTAL}:2{disk.removeprefix('/dev/lab/disk')}"


@BOTH
def test_env_arrives(node):
    for n in range(2):
        node.plug(f"lab/env{n}", "c", EXPERIMENTAL, 30 + n)
    variables = 'IDS = { value = "{id}", join = "," }\nPATHS = { value = "{given.it}", join = ":" }'
    node.serve(entry("env", "/dev/lab/env*", to="/dev/e{n}", env=variables))
    node.start_agent()
    node.offers("env", "lab_env0", "lab_env1")
    node.apply("has-env", env=2)
    node.running("has-env")
    assert node.inside("has-env", "echo $IDS $PATHS") == "lab_env0,lab_env1 /dev/e0:/dev/e1"


@BOTH
def test_a_container_uses_its_device_and_no_other(node, loop):
    node.plug("lab/loop", "b", 7, loop.number)
    node.serve(entry("used", "/dev/lab/loop", to="/dev/disk"))
    node.start_agent()
    node.offers("used", "lab_loop")
    node.apply("uses", used=1)
    node.apply("uses-none")
    node.running("uses", "uses-none")

    assert node.inside("uses", "head -n 1 /dev/disk") == "here is a loop device"
    assert node.inside("uses", "echo 'written inside' > /dev/disk && sync && head -n 1 /dev/disk") == "written inside"
    assert loop.content().startswith(b"written inside\n")
    others = (("b", 7, loop.number + 1), ("c", 10, 229), ("c", EXPERIMENTAL, 1), ("c", 1, 11), ("b", 8, 0))
    for kind, major, minor in others:
        assert DENIED in node.inside("uses", make_open_command(kind, major, minor)), (kind, major, minor)
    assert DENIED in node.inside("uses-none", make_open_command("b", 7, loop.number))


@BOTH
def test_permission_r_is_read_only(node, loop):
    node.plug("lab/ro", "b", 7, loop.number)
    node.serve(entry("readable", "/dev/lab/ro", to="/dev/disk", permissions="r"))
    node.start_agent()
    node.offers("readable", "lab_ro")
    node.apply("reads", readable=1)
    node.running("reads")
    assert node.inside("reads", "head -n 1 /dev/disk") == "here is a loop device"
    assert DENIED in node.inside("reads", "echo no > /dev/disk")
    assert loop.content().startswith(b"here is a loop device\n")


def test_permission_w_is_write_only(node, loop):
    node.plug("lab/wo", "b", 7, loop.number)
    node.serve(entry("writable", "/dev/lab/wo", to="/dev/disk", permissions="w"))
    node.start_agent()
    node.offers("writable", "lab_wo")
    node.apply("writes", writable=1)
    node.running("writes")
    assert DENIED in node.inside("writes", "head -n 1 /dev/disk")
    assert node.inside("writes", "echo 'written only' > /dev/disk; sync") == ""
    assert loop.content().startswith(b"written only\n")


@pytest.mark.parametrize(("device", "number"), [("fuse", (10, 229)), ("kvm", (10, 232)), ("tun", (10, 200))])
def test_shipped_classes_open_their_node(node, device, number):
    name = {"tun": "net/tun"}.get(device, device)
    if not os.path.exists(f"/sys/dev/char/{number[0]}:{number[1]}"):
        pytest.skip(f"this kernel has no /dev/{name}")
    node.plug(name, "c", *number)
    node.serve(f'[[resource]]\nname = "node.test/{device}"\nclass = "{device}"\nreplicas = 1\n')
    node.start_agent()
    node.offers(device, name.replace("/", "_"))
    node.apply(f"opens-{device}", **{device: 1})
    node.running(f"opens-{device}")
    assert node.nodes(f"opens-{device}") == {f"/dev/{name}": f"c {number[0]}:{number[1]}"}
    assert node.inside(f"opens-{device}", f"exec 3<>/dev/{name} && echo opened") == "opened"


def test_a_container_that_is_not_root_cannot_open_a_node_of_root(node):
    """The node is there as it is on the host; see docs/operations.md for what helps."""
    node.plug("lab/mine", "c", EXPERIMENTAL, 40)
    node.serve(entry("unowned", "/dev/lab/mine"))
    node.start_agent()
    node.offers("unowned", "lab_mine")
    node.deploy("not-root", {"node.test/unowned": "1"}, security={"runAsUser": 1000})
    node.running("not-root")
    assert "Permission denied" in node.inside("not-root", "head -c 1 /dev/lab/mine", user="1000:1000")
    assert NO_DRIVER in node.inside("not-root", "head -c 1 /dev/lab/mine", user="1000:0")


def make_open_command(kind: str, major: int, minor: int) -> str:
    """Make a node, which every container may, and try to read it, which the device cgroup decides."""
    return f"rm -f /tmp/n; mknod /tmp/n {kind} {major} {minor} && head -c 1 /tmp/n"
