"""check: what it makes of a host, of several, and what an entry accepts."""

import json

import pytest

from tests.cli.conftest import device_agent
from tests.tree import Tree

TWO = """
[[resource]]
name = "a.example/first"
source = "pci"
match = { vendor = "15b3", driver = "vfio-pci" }

[[resource]]
name = "a.example/second"
source = "pci"
match = { vendor = "15b3" }

[[resource]]
name = "a.example/third"
source = "pci"
match = { vendor = "10de" }

[[resource]]
name = "a.example/npu"
source = { subsystem = "npu" }
id = "{path_id}"
"""


@pytest.fixture
def host(tree):
    tree.pci("0000:3b:00.0", driver="vfio-pci")
    tree.pci("0000:5e:00.0", driver="mlx5_core")
    return tree


def check(config, *words):
    done = device_agent("check", "--config", str(config), *words)
    return done.returncode, done.stdout


def test_devices_that_an_earlier_entry_has_and_entries_that_find_nothing(host, config):
    code, out = check(config(TWO), "--root", str(host.top))
    assert code == 0
    overlap = "1 device of host matches an earlier entry too, a.example/first (resources.d/a.toml:2), which takes them"
    assert f"resources.d/a.toml:10:1: warning[overlap]: {overlap}" in out
    taken = "earlier entries take all 2 devices of the source on host: 0 devices"
    assert f"resources.d/a.toml:14:1: warning[never-matches]: {taken}" in out
    assert "resources.d/a.toml:19:1: warning[never-matches]: the source has no device on host: 0 devices" in out
    assert "3 warnings in 1 file; 4 resources, 2 devices on host." in out
    assert check(config(TWO), "--root", str(host.top), "--strict")[0] == 1


def test_what_an_entry_accepts_is_not_said(host, config):
    accepted = TWO.replace('id = "{path_id}"', 'id = "{path_id}"\naccept = { never-matches = "not on every node" }')
    accepted = accepted.replace('"15b3" }', '"15b3" }\naccept = { overlap = "as it should be" }')
    accepted = accepted.replace('"10de" }', '"10de" }\naccept = { never-matches = "not on every node" }')
    assert check(config(accepted), "--root", str(host.top)) == (
        0,
        "No errors in 1 file; 4 resources, 2 devices on host.\n",
    )


def test_a_warning_at_a_line_of_a_class_names_the_entry(host, config):
    code, out = check(config('[[resource]]\nname = "a.example/serial"\nclass = "tty"\n'), "--root", str(host.top))
    assert code == 0
    assert "classes/tty.toml:" in out
    assert "warning[never-matches]: a.example/serial: the source has no device on host: 0 devices" in out
    assert "device-agent explain a.example/serial shows the next step" in out


def test_what_is_so_on_any_host_is_not_said_of_each_again(host, config):
    code, out = check(config(TWO.replace(', driver = "vfio-pci"', "")), "--root", str(host.top))
    assert code == 0
    assert "resources.d/a.toml:10:1: warning[nothing-left]: nothing can be left for it" in out
    assert "warning[overlap]" not in out


def test_several_kinds_of_node_are_judged_at_once(host, config, tmp_path):
    other = Tree(tmp_path / "gpu")
    other.pci("0000:61:00.0", vendor="0x10de\n")
    recording = tmp_path / "h100.rec"
    assert device_agent("--root", str(other.top), "record", str(recording)).returncode == 0
    code, out = check(config(TWO), "--root", str(host.top), "--root", str(recording))
    assert code == 0
    assert "0 devices on host" not in out
    assert "2 devices on host, 1 device on h100.rec." in out
    assert "earlier entries take all 2 devices of the source on host" in out
    assert "the last excluded device on h100.rec is 0000:61:00.0, here 10de: 0 devices" in out
    code, out = check(config(TWO), "--root", str(host.top), "--root", str(recording), "-o", "json")
    said = json.loads(out)
    assert {each["code"] for each in said} == {"overlap", "never-matches"}
    assert len([each for each in said if "h100.rec" in each["message"]]) == 3


def test_errors_come_first_and_the_rest_is_judged_all_the_same(host, config):
    directory = config(TWO)
    (directory / "resources.d/b.toml").write_text("[[resource]]\nnme = 1\n")
    code, out = check(directory, "--root", str(host.top))
    assert code == 1
    assert "error[unknown-key]" in out
    assert "warning[overlap]" in out


def test_only_check_takes_several_hosts(host, tmp_path):
    done = device_agent("--root", str(host.top), "scan", "--root", str(host.top))
    assert (done.returncode, done.stderr) == (2, "device-agent scan: this command accepts only one --root\n")


TWICE = """
[[resource]]
name = "a.example/by-class"
source = { subsystem = "dvb" }
id = "{name}"
accept = { unstable-id = "one" }
give = { nodes = { own = "{node}", beside = "/dev/null" } }

[[resource]]
name = "a.example/by-node"
source = { node = "/dev/dvb0" }
id = "node-{name}"
accept = { unstable-id = "one" }
give = { nodes = { own = "{node}", beside = "/dev/null" } }
"""


def test_one_thing_that_two_kinds_of_source_see_is_the_first_entry_s(tree, config):
    tree.class_device("/sys/devices/pci0000:00/0000:00:01.0/dvb/dvb0", "dvb", "dvb0", 212, 0)
    tree.node("/dev/null", "c 1:3")
    code, out = check(config(TWICE), "--root", str(tree.top))
    assert code == 0
    said = "1 device of host matches an earlier entry too, a.example/by-class (resources.d/a.toml:2), which takes them"
    assert f"warning[overlap]: {said}" in out
    one = TWICE.replace('source = { node = "/dev/dvb0" }', 'source = { node = "/dev/null" }')
    one = one.replace('own = "{node}", beside', "beside")
    assert "overlap" not in check(config(one), "--root", str(tree.top))[1]


def test_slots_claim_nothing_and_find_nothing_of_their_own(host, config):
    text = '[[resource]]\nname = "a.example/s"\nsource = "pci"\nslots = 4\ngive = { env = { A = "1" } }\n'
    assert check(config(text), "--root", str(host.top))[1].startswith("No errors in 1 file")


FACES = """
[[resource]]
name = "a.example/nic"
source = "pci"
match = { class = "02" }

[[resource]]
name = "a.example/port"
source = "net"
id = "{name}-port"

[[resource]]
name = "a.example/stick"
source = "usb"
id = "{serial}-stick"

[[resource]]
name = "a.example/serial"
source = { subsystem = "tty" }
id = "{usb.serial}-tty"
"""


def test_one_thing_that_two_kinds_of_source_see_is_warned_of(tree, config):
    function = tree.pci("0000:3b:00.0", **{"class": "0x020000\n"})
    tree.netdev(function, "ens1")
    tree.netdev("/sys/devices/virtual", "dummy0")
    stick = tree.usb("/sys/devices/pci0000:00/usb1/1-1", "0403", "6001", serial="A1")
    tree.class_device(f"{stick}/1-1:1.0/ttyUSB0/tty/ttyUSB0", "tty", "ttyUSB0", 188, 0)
    _, out = check(config(FACES), "--root", str(tree.top))
    net = (
        "net ens1 and pci 0000:3b:00.0 of host are one device, and a.example/nic has the second (resources.d/a.toml:2)"
    )
    tty = "tty ttyUSB0 and usb 1-1 of host are one device, and a.example/stick has the second (resources.d/a.toml:12)"
    assert f"resources.d/a.toml:9:1: warning[overlap]: {net}" in out
    assert f"resources.d/a.toml:19:1: warning[overlap]: {tty}" in out
    assert out.count("warning[overlap]") == 2
    apart = FACES.replace('source = "net"', 'source = "net"\nexclude = { nic = { pci.class = "02" } }')
    assert check(config(apart), "--root", str(tree.top))[1].count("warning[overlap]") == 1
    meant = FACES.replace(
        'id = "{usb.serial}-tty"', 'id = "{usb.serial}-tty"\naccept = { overlap = "one pod at most asks" }'
    )
    assert check(config(meant), "--root", str(tree.top))[1].count("warning[overlap]") == 1


def test_two_things_that_one_function_carries_are_two(tree, config):
    function = tree.pci("0000:3b:00.0")
    tree.netdev(function, "ens1")
    tree.infiniband(function, "mlx5_0")
    both = """
[[resource]]
name = "a.example/port"
source = "net"

[[resource]]
name = "a.example/hca"
source = "infiniband"
"""
    assert "warning[overlap]" not in check(config(both), "--root", str(tree.top))[1]
