"""explain: a device, a resource, all that is off."""

import json
from types import SimpleNamespace

import pytest

from agent.cli.host_report.agent_data import _format_checks
from agent.cli.host_report.match_steps import find_match_hints
from agent.core.inventory.matching import Mismatch
from agent.core.language.clause import Clause, ClauseLine, Origin
from agent.core.language.operators import Equals
from agent.core.language.value import Absent, ValueType
from tests.cli.conftest import TOP, device_agent

FRESH = "read from this host: no agent is running\n"

NICS = """
[[resource]]
name = "a.example/held-back"
source = "pci"
match = { address = "3b:00.1" }

[[resource]]
name = "a.example/nic"
source = "pci"
match = { vendor = "15b3", driver = "vfio-pci" }
[resource.exclude.root]
numa = 1

[[resource]]
name = "a.example/camera"
source = { node = "/dev/video*" }
id = "{path_id}"

[[resource]]
name = "a.example/npu"
source = { subsystem = "npu" }
id = "{name}"

[[resource]]
name = "a.example/kvm"
class = "kvm"
replicas = 3
"""


@pytest.fixture
def run_explain(tree, config):
    tree.pci("0000:3b:00.0", driver="vfio-pci", numa_node="1\n")
    tree.pci("0000:3b:00.1", driver="vfio-pci")
    tree.pci("0000:5e:00.0", driver="mlx5_core")
    tree.pci("0000:00:00.0", **{"class": "0x060000\n", "vendor": "0x8086\n"})
    tree.class_device("/sys/devices/virtual/misc/kvm", "misc", "kvm", 10, 232)

    def ask(*words, text=NICS):
        done = device_agent("--root", str(tree.top), "--config", str(config(text)), "explain", *words)
        return done.returncode, done.stdout, done.stderr

    return ask


def table(text):
    """The lines between `candidates` and `devices`, cells apart."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if "candidates" in line)
    end = next(index for index, line in enumerate(lines) if line.startswith("  devices"))
    return [" ".join(line.split()) for line in lines[start + 1 : end]]


def test_a_resource_says_where_its_candidates_fell(run_explain):
    code, out, err = run_explain("a.example/nic")
    assert (code, err) == (0, "")
    assert out.startswith(f"{FRESH}a.example/nic      resources.d/a.toml:7\n")
    assert table(out) == [
        "source pci resources.d/a.toml:7 4",
        "taken by an earlier entry 3",
        "exclude.root.numa = 1 resources.d/a.toml:12 2 1 0000:3b:00.0: here 1",
        'match.vendor = "15b3" resources.d/a.toml:10 1 1 0000:00:00.0: here 8086',
        'match.driver = "vfio-pci" resources.d/a.toml:10 0 1 0000:5e:00.0: here mlx5_core',
    ]
    assert "0 listed, 0 Healthy" in out
    assert '0000:5e:00.0 fails only one line: match.driver = "vfio-pci", here mlx5_core (resources.d/a.toml:10)' in out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a.example/camera", "/dev has 1 name, and none matches /dev/video*; the agent serves a new device at once"),
        ("a.example/npu", "/sys/class/npu and /sys/bus/npu do not exist: no loaded driver makes these devices"),
    ],
)
def test_nothing_matched_has_a_next_step(run_explain, name, said):
    code, out, _ = run_explain(name)
    assert code == 0
    assert f"  next         {said}" in out


def test_a_device_says_who_takes_it_and_what_to_do_for_those_who_do_not(run_explain):
    code, out, _ = run_explain("5e:00.0")
    assert code == 0
    assert "taken by     nothing (nearest: a.example/nic)" in out
    assert "to give it to a.example/nic: allow mlx5_core in match.driver at resources.d/a.toml:10" in out
    assert "to give it to a.example/nic: driverctl set-override 0000:5e:00.0 vfio-pci" in out
    _, out, _ = run_explain("/dev/kvm")
    assert "taken by     a.example/kvm ×3 as kvm" in out
    assert "health       Healthy" in out


BY_UDEV = """
[[resource]]
name = "a.example/chosen"
source = "pci"
match = { vendor = "8086", udev.ID_TAG = "chosen" }
[[resource]]
name = "a.example/placed"
source = "pci"
match = { vendor = "8086", label = "3" }
"""


def test_of_what_is_not_said_the_next_step_is_to_have_it_said_or_to_ask_for_something_else(run_explain, tree):
    def steps():
        _, out, _ = run_explain("00:00.0", text=BY_UDEV)
        return [line.partition("to give it to a.example/")[2] for line in out.splitlines() if "to give it to" in line]

    said = "use a word that has a value (device-agent scan 0000:00:00.0) at resources.d/a.toml:"
    without = "chosen: start udevd, and mount /run/udev/data into the container of the agent"
    others = [f"chosen: {said}5, then device-agent reload", f"placed: {said}9, then device-agent reload"]
    assert steps() == [without, *others]
    tree.file("/run/udev/data/+pci:0000:00:00.0", "E:ID_OTHER=1\n")
    assert steps() == [
        "chosen: a udev rule that sets ID_TAG, then udevadm trigger",
        *others,
    ]


@pytest.mark.parametrize(
    "entry",
    [
        "match.numa.at_least = 5",
        "match = { numa = { at_least = 5 } }",
        "match = { numa.at_least = 5 }",
        "[resource.match.numa]\nat_least = 5",
    ],
)
def test_a_test_is_shown_as_one_however_it_is_written(run_explain, entry):
    _, out, _ = run_explain("a.example/far", text=f'[[resource]]\nname = "a.example/far"\nsource = "pci"\n{entry}\n')
    assert " match.numa = { at_least = 5 } " in out


ASK = "use a word that has a value (device-agent scan eth0) at a.toml:3, then device-agent reload"


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (Absent("it has no speed now"), [ASK]),
        (
            Absent("udev has not finished with it", pending=True),
            ["wait until speed has a value (udev has not finished with it)"],
        ),
        (
            Absent("permission denied", unreadable=True),
            ["make speed readable (permission denied; the next full rescan reads it)", ASK],
        ),
    ],
)
def test_why_it_is_not_said_decides_the_next_step(why, said):
    origin = Origin("a.toml", 3, 1)
    line = ClauseLine("match.speed", "speed", ValueType.INT, Equals(100), "100", origin)
    of_class = Clause("match", (line,), origin)  # which is the same of all entries of a class, and their words are not
    other, entry = (SimpleNamespace(name=f"a.example/{name}", exclude=(), match=of_class) for name in ("x", "nic"))
    inventory = SimpleNamespace(
        specs=[other, entry], get_facts=lambda spec, _: lambda _: why if spec is entry else 100, root=None
    )
    item = SimpleNamespace(host=SimpleNamespace(name="eth0"), label="net")
    refusal = Mismatch("a.example/nic", "match.speed", "100", f"absent ({why.reason})", origin)
    assert list(find_match_hints(inventory, item, refusal)) == said


def test_without_a_name_all_that_is_off(run_explain):
    code, out, _ = run_explain()
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if line.startswith("a.example")] == [
        "a.example/nic",
        "a.example/camera",
        "a.example/npu",
    ]
    assert out.endswith("2 resources have all devices Healthy, 3 not.\n")


def test_where_nothing_is_configured_there_is_a_step_to_begin_with(run_explain):
    _, out, _ = run_explain(text="")
    assert "no resource is configured in " in out
    assert "resources.d\n" in out
    assert "  classes      " in out
    assert "kvm 1" in out
    assert "next         device-agent class show " in out
    assert out.endswith("next         device-agent class list --here   (all classes that match this host)\n")


def test_where_all_that_is_configured_is_wrong_the_errors_are_the_next_step(run_explain):
    _, out, _ = run_explain(text='[[resource]]\nname = "a.example/x"\nsource = "pcie"\n')
    assert "next         device-agent check   " in out


def test_what_is_taken_and_not_listed_says_why(run_explain):
    one = '[[resource]]\nname = "a.example/{0}"\nsource = "pci"\nmatch = {{ address = "{1}" }}\nid = "{{vendor}}"\n'
    text = one.format("a", "3b:00.0") + one.format("b", "3b:00.1")
    code, out, err = run_explain("3b:00.1", text=text)
    assert (code, err) == (0, "")
    assert "taken by     a.example/b" in out
    assert "health       not listed: id 15b3 is in use by a.example/a" in out
    assert "0000:3b:00.1  not listed: id 15b3 is in use by a.example/a" in run_explain("a.example/b", text=text)[1]


TOGETHER = """
[[resource]]
name = "a.example/pair"
source = "pci"
match = { vendor = "15b3" }
group = "vendor"
[[resource]]
name = "a.example/slots"
source = "pci"
slots = 3
"""


def test_what_is_listed_is_counted_as_the_kubelet_is_told_of_it(run_explain):
    pair, slots = (run_explain(name, text=TOGETHER)[1] for name in ("a.example/pair", "a.example/slots"))
    assert "1 listed, 1 Healthy" in pair  # of three host devices
    assert "3 listed, 3 Healthy" in slots  # of no host device in particular
    assert len(json.loads(run_explain("a.example/pair", "-o", "json", text=TOGETHER)[1])["devices"]) == 1
    assert run_explain(text=TOGETHER)[1] == f"{FRESH}2 resources have all devices Healthy, 0 not.\n"


def test_what_errors_leave_out_is_said(run_explain):
    code, _, err = run_explain("3b:00.1", text="[[resource]]\nnme = 1\n")
    assert code == 0
    assert "left out: device-agent check" in err


def test_json(run_explain):
    code, out, _ = run_explain("a.example/nic", "-o", "json")
    said = json.loads(out)
    assert code == 0
    assert [step["left"] for step in said["candidates"]] == [4, 3, 2, 1, 0]
    assert said["candidates"][2]["fell"] == [{"name": "0000:3b:00.0", "here": "1"}]
    assert [each["resource"] for each in json.loads(run_explain("-o", "json")[1])] == [
        "a.example/nic",
        "a.example/camera",
        "a.example/npu",
    ]
    assert json.loads(run_explain("5e:00.0", "-o", "json")[1])["taken_by"] is None


def test_what_is_not_there(run_explain):
    code, out, err = run_explain("a.example/nick")
    assert (code, out) == (4, "")
    assert "no such resource; nearest: a.example/nic" in err
    assert run_explain("no\x1bsuch")[0] == 4
    assert "\x1b" not in run_explain("no\x1bsuch")[2]


def test_what_fails_and_what_does_not(run_explain):
    checks = """
[[resource]]
name = "a.example/nic"
source = "pci"
match = { vendor = "15b3", driver = "vfio-pci" }
[resource.health]
link  = { holds = { "./link" = "up" }, trip = "1h" }
numa  = { holds = { numa = 1 }, on_unknown = "keep", reason = "on node {numa}" }
class = { holds = { class = "02" } }
other = { holds = { numa = 7 }, when = { class = "03" } }
"""
    code, said, _ = run_explain("3b:00.1", text=checks)
    lines = [line.rstrip() for line in said.splitlines()]
    assert code == 0
    assert '  health       Unhealthy: link: ./link = "up", here absent (no such file)' in lines
    start = next(index for index, line in enumerate(lines) if line.startswith("  checks"))
    assert [line.split(maxsplit=(1 if at else 2))[-2:] for at, line in enumerate(lines[start : start + 4])] == [
        ["link", 'fails: ./link = "up", here absent (no such file)'],
        ["numa", "has no result"],
        ["class", "passes"],
        ["other", "does not apply"],
    ]
    (code, said, _) = run_explain("3b:00.0", "-o", "json", text=checks)
    assert json.loads(said)["checks"][:2] == [
        {"name": "link", "says": "bad", "reason": './link = "up", here absent (no such file)'},
        {"name": "numa", "says": "good", "reason": None},
    ]
    code, said, _ = run_explain(text=checks)
    assert "a.example/nic" in said


def test_specs_are_looked_for_where_the_agent_looks(run_explain, tree, config):
    (config() / "agent.toml").write_text('[paths]\ncdi = ["/opt/cdi"]\n')
    tree.file(
        "/opt/cdi/a.json",
        '{"cdiVersion": "0.5.0", "kind": "a.b/c", "devices": [{"name": "d", "containerEdits": {"env": ["A=1"]}}]}',
    )
    given = '[[resource]]\nname = "a.example/c"\nsource = { fixed = "x" }\ngive = { cdi = { it = "a.b/c=d" } }\n'
    assert run_explain(text=given)[1] == f"{FRESH}1 resource has all devices Healthy, 0 not.\n"
    assert "Healthy" in run_explain("x", text=given)[1]
    done = device_agent("--root", str(tree.top), "--config", str(config(given)), "record", str(tree.top / "a.rec"))
    assert done.returncode == 0, done.stderr
    again = device_agent("--root", str(tree.top / "a.rec"), "--config", str(config(given)), "explain")
    assert again.stdout == f"{FRESH}1 resource has all devices Healthy, 0 not.\n"


VFIO = """
[[resource]]
name  = "a.example/gpu"
class = "vfio-pci"
match = { class = "03" }
"""


def test_a_group_that_is_not_viable_names_what_the_host_uses_of_it(tree, run_explain):
    gpu = tree.pci("0000:81:00.0", driver="vfio-pci", **{"class": "0x030000\n"})
    tree.vfio(12, gpu, tree.pci("0000:81:00.1", driver="snd_hda_intel", **{"class": "0x040300\n"}))
    text = "IOMMU group 12 is not viable: 0000:81:00.1 (snd_hda_intel)"
    for words in (("81:00.0",), ("a.example/gpu",), ()):
        code, out, err = run_explain(*words, text=VFIO)
        assert (code, err) == (0, "")
        assert text in out, words


def test_what_came_along_with_a_group_is_counted_once(tree, run_explain):
    gpu = tree.pci("0000:81:00.0", driver="vfio-pci", **{"class": "0x030000\n"})
    tree.vfio(12, gpu, tree.pci("0000:81:00.1", driver="vfio-pci", **{"class": "0x040300\n"}))
    _, out, _ = run_explain("a.example/gpu", text=VFIO)
    shipped = (TOP / "agent/classes/vfio-pci.toml").read_text().splitlines()
    line = next(number for number, text in enumerate(shipped, 1) if text.startswith("match "))
    assert table(out) == [
        "source pci resources.d/a.toml:2 6",
        f"match.on_vfio = true classes/vfio-pci.toml:{line} 4 2 0000:00:00.0, 0000:5e:00.0: here false",
        'match.class = "03" resources.d/a.toml:5 1 3 0000:3b:00.0, 0000:3b:00.1, 0000:81:00.1',
    ]


NUMA = '[[resource]]\nname = "a.example/card"\nsource = "pci"\nmatch = { vendor = "15b3" }\n'


def test_the_nodes_of_a_resource_are_counted(tree, config, cli):
    for number, node in enumerate((0, 1, 1)):
        tree.pci(f"0000:3b:0{number}.0", numa_node=f"{node}\n")
    code, out, _ = cli("--root", tree.top, "--config", config(NUMA), "explain", "a.example/card")
    assert code == 0
    assert "  topology     NUMA 0: 1, 1: 2" in out.splitlines()


def test_a_device_without_a_node_is_named_where_it_silences_others(tree, config, cli):
    for number, node in enumerate((0, 1, -1)):
        tree.pci(f"0000:3b:0{number}.0", numa_node=f"{node}\n")
    where = ("--root", tree.top, "--config", config(NUMA))
    _, out, _ = cli(*where, "explain", "a.example/card")
    assert (
        "  topology     none: 0000:3b:02.0 has no NUMA node, so that of the 2 others is not told to the kubelet" in out
    )
    (found,) = json.loads(cli(*where, "explain", "a.example/card", "-o", "json")[1])["no_topology"]
    assert found == {"resource": "a.example/card", "lacking": ["0000:3b:02.0"], "having": 2}
    code, out, _ = cli(*where, "check", "--strict")
    assert code == 1
    assert "warning[no-topology]: on host 0000:3b:02.0 has no NUMA node" in out
    accepted = NUMA + 'accept.no-topology = "one is on a riser"\n'
    assert cli("--root", tree.top, "--config", config(accepted), "check", "--strict")[0] == 0
    (tree.at("/sys/devices/system/node/node1")).rmdir()  # one node is near to everything
    assert cli("--root", tree.top, "--config", config(NUMA), "check", "--strict")[0] == 0


def test_a_pattern_that_nothing_fits_is_said_once_and_what_is_no_device_is_said(tree, config, cli):
    tree.file("/dev/gps0", "no node")
    entry = '[[resource]]\nname = "a.example/gps"\nsource = { node = %s }\ngive = { nodes = { gps = "{node}" } }\n'
    _, out, _ = cli("--root", str(tree.top), "--config", config(entry % '["/dev/tty*", "/dev/gps0"]'), "explain")
    assert "/dev/tty*: nothing fits it" not in out
    assert "none matches /dev/tty*" in out
    _, out, _ = cli("--root", str(tree.top), "--config", config(entry % '"/dev/gps0"'), "explain")
    assert "  next         /dev/gps0: is a plain file" in out


LUMEN = """
[[resource]]
name = "a.example/lumen"
source = { subsystem = "lumen" }
id = "{name}"
match."./state" = "ready"
"""


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("ready", "taken by     a.example/lumen as lumen0"),
        ("hung", 'a.example/lumen  match../state = "ready"  here hung'),
    ],
)
def test_a_node_is_spoken_of_as_the_device_that_an_entry_judged(tree, config, cli, state, said):
    """Also where the entry's source is not of nodes, as by the kernel's class."""
    tree.class_device("/sys/devices/virtual/lumen/lumen0", "lumen", "lumen0", 240, 0)
    tree.file("/sys/devices/virtual/lumen/lumen0/state", f"{state}\n")
    _, out, _ = cli("--root", tree.top, "--config", config(LUMEN), "explain", "/dev/lumen0")
    assert out.splitlines()[1] == "lumen lumen0   /dev/lumen0"
    assert said in out


VF = """
[[resource]]
name = "a.example/vf"
source = "pci"
match = { vendor = "15b3", driver = "iavf" }
"""


def test_what_nothing_takes_says_who_has_the_device_that_carries_it(tree, config, cli):
    """The name at hand is that of the interface; what an entry takes is its function; a bridge carries nothing."""
    port = tree.pci("0000:3a:00.0", driver="iavf")
    for number, driver in enumerate(("iavf", "mlx5_core")):
        function = tree.pci(f"0000:3b:00.{number}", below=port, driver=driver)
        tree.netdev(function, f"ens{number}")
    where = ("--root", tree.top, "--config", config(VF))
    said = "  above        0000:3b:00.0 is taken by a.example/vf as 0000:3b:00.0"
    assert said in cli(*where, "explain", "ens0")[1].splitlines()
    assert said in cli(*where, "scan", "ens0")[1].splitlines()
    assert "above it" not in cli(*where, "explain", "ens1")[1]
    assert "above it" not in cli(*where, "explain", "3b:00.0")[1]


def test_a_check_is_said_with_its_evidence_and_what_heals_it():
    said = {"check": "xid", "member": None, "verdict": "failing", "latched": True, "since": None, "reason": "Xid 79"}
    said |= {"evidence": "NVRM: Xid \x1b[2J", "recovers": "after repair, by device-agent clear"}
    other = dict.fromkeys(said) | {"check": "state", "verdict": "ok"}
    assert [line.strip() for line in _format_checks([said, other], None)] == [
        "checks       xid    failing    Xid 79, latched",
        "evidence: NVRM: Xid \\x1b[2J",
        "recovers after repair, by device-agent clear",
        "state  ok",
    ]
