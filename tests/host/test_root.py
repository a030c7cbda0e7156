import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.core.inventory.device import DeviceNode
from agent.core.language.value import Absent
from agent.host import numa, udev
from agent.host.root import Root


def test_a_file_is_its_text_without_outer_white_space(tree):
    tree.file("/sys/f", "  0x15b3 \n\0")
    assert tree.root.read("/sys/f") == "0x15b3"


def test_bytes_that_are_no_utf8_survive(tree):
    tree.file("/sys/f", b"ab\xff\xfe\n")
    assert tree.root.read("/sys/f").encode("utf-8", "surrogateescape") == b"ab\xff\xfe"


def test_at_most_a_page_is_read(tree):
    tree.file("/sys/f", "x" * 10000)
    assert len(tree.root.read("/sys/f")) == 4096


def test_what_is_no_plain_file_is_not_opened(tree):
    os.mkfifo(tree.at("/sys/fifo"))
    assert tree.root.read("/sys/fifo") == Absent("is a FIFO")
    assert tree.root.read("/sys") == Absent("is a directory")
    assert tree.root.read("/sys/none") == Absent("no such file")
    assert tree.root.read("/sys/\0") == Absent("no file has such a name")
    assert Root().read("/dev/null") == Absent("is a device node")


@pytest.mark.parametrize(
    "path",
    [
        "/proc/kmsg",
        "/proc/kcore",
        "/proc/1/mem",
        "/sys/kernel/debug/tracing/trace_pipe",
        "/sys/devices/x/resource0",
        "/sys/devices/x/vpd",
        "/sys/devices/x/rom",
        "/sys/devices/pci0000:00/0000:00:00.0/config",
    ],
)
def test_what_would_wait_or_act_is_never_read(tree, path):
    tree.file(path, "x")
    found = tree.root.read(path)
    assert isinstance(found, Absent)
    assert found.unreadable


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_what_may_not_be_read_says_so(tree):
    tree.file("/sys/secret", "x")
    tree.at("/sys/secret").chmod(0)
    tree.at("/sys/closed").mkdir(mode=0)
    for parent in [tree.top, *tree.top.parents]:
        if parent.stat().st_uid == 0 and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    code = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from agent.host.root import Root
os.setegid(65534); os.seteuid(65534)
root = Root({str(tree.top)!r})
print(root.read("/sys/secret")); print(root.list_names("/sys/closed")); print(root.read("/sys/closed/x"))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert (
        said.splitlines() == ["Absent(reason='cannot be read: Permission denied', unreadable=True, pending=False)"] * 3
    )


def test_a_real_attribute_that_answers_with_an_error_is_absent():
    found = Root().read("/sys/class/net/lo/speed")
    assert isinstance(found, Absent)
    assert found.unreadable  # EINVAL


def test_links_stay_inside_the_prefix(tree):
    tree.file("/sys/real/f", "inside")
    tree.at("/sys/absolute").symlink_to("/sys/real")
    tree.at("/sys/out").symlink_to("../../../../../../../../../../etc/hostname")
    assert tree.root.resolve("/sys/absolute/f") == "/sys/real/f"
    assert tree.root.read("/sys/absolute/f") == "inside"
    assert tree.root.resolve("/sys/out") == Absent("leads out of the root")
    assert tree.root.read("/sys/out") == Absent("leads out of the root")


def test_loops_and_dangling_links_end(tree):
    tree.at("/sys/a").symlink_to("b")
    tree.at("/sys/b").symlink_to("a")
    tree.at("/sys/c").symlink_to("nowhere")
    assert tree.root.resolve("/sys/a") == Absent("a loop of links")
    assert tree.root.read("/sys/a") == Absent("a loop of links")
    assert tree.root.resolve("/sys/c") == Absent("dangling link")


def test_dot_dot_is_physical(tree):
    tree.file("/sys/devices/up/f")
    tree.file("/sys/devices/up/down/g")
    tree.link("/sys/class/down", "/sys/devices/up/down")
    assert tree.root.resolve("/sys/class/down/../f") == "/sys/devices/up/f"


def test_names_are_in_natural_order(tree):
    for number in (10, 9, 1):
        tree.file(f"/sys/n/tty{number}")
    assert tree.root.list_names("/sys/n") == ("tty1", "tty9", "tty10")
    assert tree.root.list_names("/sys/none") == Absent("no such file")


def test_a_link_is_the_name_of_what_it_leads_to(tree):
    tree.link("/sys/d/driver", "/sys/bus/pci/drivers/vfio-pci")
    tree.file("/sys/d/f")
    assert tree.root.read_link_name("/sys/d/driver") == "vfio-pci"
    assert tree.root.read_link_name("/sys/d/f") == Absent("is no link")
    assert tree.root.read_link_name("/sys/d/none") == Absent("no such file")


def test_nodes_are_what_the_tree_declares(tree):
    tree.node("/dev/fuse", "c 10:229")
    tree.at("/dev/by-name").mkdir()
    tree.link("/dev/by-name/x", "/dev/fuse")
    tree.file("/dev/plain")
    tree.link("/dev/gone", "/dev/nothing")
    tree.file("/etc/passwd")
    tree.link("/dev/outside", "/etc/passwd")
    os.mkfifo(tree.at("/dev/fifo"))
    root = tree.root
    fuse = DeviceNode("/dev/fuse", "c", 10, 229)
    assert root.find_node("/dev/fuse") == fuse
    assert root.find_node("/dev/by-name/x") == fuse
    assert root.find_node("/dev/by-name") == Absent("is a directory")
    assert root.find_node("/dev/plain") == Absent("is a plain file")
    assert root.find_node("/dev/fifo") == Absent("is a FIFO")
    assert root.find_node("/dev/gone") == Absent("dangling link")
    assert root.find_node("/dev/none") == Absent("no such file")
    assert root.find_node("/dev/outside") == Absent("leads out of /dev")
    tree.at("/dev/fuse").unlink()
    assert root.find_node("/dev/fuse") == Absent("no such file")
    tree.node("/dev/kvm", "c 10:232")
    assert root.find_node("/dev/kvm") == DeviceNode("/dev/kvm", "c", 10, 232)


def test_real_nodes():
    root = Root()
    assert root.find_node("/dev/null") == DeviceNode("/dev/null", "c", 1, 3)
    assert root.resolve_device("/sys/dev/char/1:3") == "/sys/devices/virtual/mem/null"
    assert root.resolve("/sys/dev/char/1:3") == "/sys/devices/virtual/mem/null"


@pytest.mark.skipif(not os.path.islink("/dev/stdin"), reason="no /dev/stdin here")
def test_our_own_standard_input_is_no_device():
    assert Root().find_node("/dev/stdin") == Absent("leads into /proc, which differs for each process")


def test_known_numa_nodes(tree):
    tree.file("/sys/devices/system/node/online", "0-1")
    assert numa.list_numa_nodes(tree.root) == {0, 1}


def test_udev_properties_come_from_the_database(tree):
    tty = tree.class_device("/sys/devices/virtual/tty/ttyS0", "tty", "ttyS0", 4, 64)
    eth = tree.device("/sys/devices/virtual/net/eth0", "net")
    tree.file(f"{eth}/uevent", "INTERFACE=eth0\nIFINDEX=4\n")
    pci = tree.pci("0000:00:01.0")
    tree.file("/run/udev/data/c4:64", "S:serial/by-id/x\nE:ID_SERIAL=abc\nE:ID_X=a=b\nG:systemd\n")
    tree.file("/run/udev/data/n4", "E:ID_NET_NAME_PATH=enp0s1\n")
    tree.file("/run/udev/data/+pci:0000:00:01.0", "E:ID_MODEL=thing\n")
    found = udev.read_properties(tree.root, tty)
    assert found.has_database
    assert (found.get("ID_SERIAL"), found.get("ID_X"), found.get("DEVNAME")) == ("abc", "a=b", "ttyS0")
    assert udev.read_properties(tree.root, eth).get("ID_NET_NAME_PATH") == "enp0s1"
    assert udev.read_properties(tree.root, pci).get("ID_MODEL") == "thing"
    assert found.get("NONE") == Absent("udev says no such property")


def test_without_a_database_uevent_speaks_and_that_is_said(tree):
    tty = tree.class_device("/sys/devices/virtual/tty/ttyS0", "tty", "ttyS0", 4, 64)
    found = udev.read_properties(tree.root, tty)
    assert not found.has_database
    assert found.get("DEVNAME") == "ttyS0"
    assert found.get("ID_SERIAL") == Absent("no udev database here, and uevent does not say it")
