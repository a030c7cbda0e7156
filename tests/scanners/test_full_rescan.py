"""The full rescan: after any change without an event the result is that of a first look."""

import random
import shutil

import pytest

from agent.config.load import load
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.inventory.inventory import Inventory
from agent.scanners.host_reader import HostView
from agent.tracker.look_thread import LookThread, run_look
from tests.tree import Tree, silent

BUS = "/sys/devices/pci0000:00"
PF, VF, OTHER = f"{BUS}/0000:3b:00.0", f"{BUS}/0000:3b:02.0", f"{BUS}/0000:3b:02.1"
GPU, AUDIO = f"{BUS}/0000:17:00.0", f"{BUS}/0000:17:00.1"
USER, ROLE = f"{BUS}/0000:18:00.0", f"{BUS}/0000:18:00.1"
TTY, SPARE = "/sys/devices/platform/serial/tty/ttyS0", "/sys/devices/platform/spare/tty/ttyS1"
KFD = "/sys/devices/virtual/kfd/kfd/topology/nodes"
SPEC = (
    '{"cdiVersion": "0.6.0", "kind": "example.com/gpu", '
    '"devices": [{"name": "%s", "containerEdits": {"env": ["A=1"]}}]}'
)
ENTRIES = """
[[resource]]
name = "example.com/vf"
source = "pci"
match = { device = "101e", pf.netdev.carrier = true, driver = "mlx5_core" }
accept = { unstable-id = "a test" }
prefer = [{ near = "cables" }]
id = "{address}-{pf.netdev.name}"
give.env.PORT = { value = "{pf.netdev.name}", join = "," }
[resource.links.cables]
file = "/etc/cables"
on = { end = "address" }

[[resource]]
name = "example.com/group"
source = "pci"
match = { vendor = "10de", iommu.members = { every = { driver = { not = "nouveau" } } } }
group = "iommu.group"
give.cdi.it = "example.com/gpu={address}"

[[resource]]
name = "example.com/user"
source = "pci"
match = { device = "5000", kind = "a", role.level = "1" }
let = { kind = { read = "./kind" }, seat = { read = "./seat", type = "int" } }
give.env.ROLE = { value = "{role.level}/{kfd.number}", join = "," }
[resource.join.role]
source = "pci"
on = { slot = "slot" }
match = { device = "5001" }
let = { level = { read = "./level" } }
[resource.join.kfd]
dir = "/sys/class/kfd/kfd/topology/nodes/{number:int}"
on = { location = "seat" }
let = { location = { field = "location", of = "./properties", type = "int" } }

[[resource]]
name = "example.com/tty"
source = { subsystem = "tty" }
match = { udev.ID_MODEL = "modem", ports = { count = 1 } }
exclude.used = { "./flags" = "1" }
id = "{name}"
accept = { unstable-id = "a test" }
let = { ports = { names_of = "./port*" } }
[resource.gate.modem]
"/proc/modules" = { like = "*modem*" }
[resource.give]
nodes = { it = "{node}" }
mounts = { etc = { path = "/etc/serial/{name}*", to = "/x/" } }
env.PORTS = { value = "{ports}", join = "," }
"""


@pytest.fixture
def tree(tmp_path):
    made = Tree(tmp_path / "host")
    made.netdev(made.pci("0000:3b:00.0", device="0x101d\n"), "eth0")
    made.virtual_functions(PF, "0000:3b:02.0", "0000:3b:02.1", device="0x101e\n", driver="mlx5_core")
    for address in ("0000:17:00.0", "0000:17:00.1"):
        made.pci(address, vendor="0x10de\n", driver="snd")
    made.iommu_group(7, GPU, AUDIO)
    made.pci("0000:18:00.0", device="0x5000\n", kind="a\n", seat="24\n")
    made.pci("0000:18:00.1", device="0x5001\n", level="1\n")
    made.device(f"{KFD}/1", "kfdnode", properties="location 24\n")
    made.link("/sys/class/kfd/kfd", "/sys/devices/virtual/kfd/kfd")
    for number, directory in enumerate((TTY, SPARE)):
        made.class_device(directory, "tty", f"ttyS{number}", 4, 64 + number)
        made.file(f"/run/udev/data/c4:{64 + number}", "E:ID_MODEL=modem\n")
        made.file(f"/etc/serial/ttyS{number}.conf")
        made.file(f"{directory}/port0", "")
    made.file("/proc/modules", "modem 1 0\n")
    made.file("/etc/cables", "0000:3b:02.0 0000:3b:02.1 5\n")
    made.file("/etc/cdi/gpu.json", SPEC % "0000:17:00.0")
    return made


@pytest.fixture
def specs(tmp_path):
    (tmp_path / "etc/resources.d").mkdir(parents=True)
    (tmp_path / "etc/resources.d/all.toml").write_text(ENTRIES)
    configuration = load(str(tmp_path / "etc"))
    assert [str(finding) for finding in configuration.findings] == []
    return configuration.resources


def rebind(tree, directory, driver):
    tree.at(f"{directory}/driver").unlink()
    tree.link(f"{directory}/driver", f"/sys/bus/pci/drivers/{driver}")


def replace_function(tree):
    shutil.move(tree.at(VF), tree.at("/old"))
    shutil.copytree(tree.at("/old"), tree.at(VF), symlinks=True)


CHANGES = {
    "an attribute": lambda tree: tree.file(f"{USER}/kind", "b\n"),
    "one of another entry's first line": lambda tree: tree.file(f"{GPU}/vendor", "0x1234\n"),
    "what a relation leads to": lambda tree: tree.file(f"{PF}/net/eth0/carrier", "0\n"),
    "where a relation leads": lambda tree: shutil.move(tree.at(f"{PF}/net/eth0"), tree.at(f"{PF}/net/eth9")),
    "a driver": lambda tree: rebind(tree, VF, "vfio-pci"),
    "a driver in a group": lambda tree: rebind(tree, AUDIO, "nouveau"),
    "a group": lambda tree: tree.link(f"{AUDIO}/iommu_group", "/sys/kernel/iommu_groups/8"),
    "a partner": lambda tree: tree.file(f"{ROLE}/level", "2\n"),
    "no partner": lambda tree: tree.file(f"{ROLE}/device", "0x5002\n"),
    "a partner that no source lists": lambda tree: tree.file(f"{KFD}/1/properties", "location 25\n"),
    "another partner": lambda tree: tree.file(f"{KFD}/2/properties", "location 24\n"),
    "udev's word": lambda tree: tree.file("/run/udev/data/c4:64", "E:ID_MODEL=other\n"),
    "a file that comes": lambda tree: tree.file(f"{TTY}/flags", "1\n"),
    "a name that comes": lambda tree: tree.file(f"{TTY}/port1", ""),
    "a node that goes": lambda tree: tree.at("/dev/ttyS0").unlink(),
    "a mount that goes": lambda tree: tree.at("/etc/serial/ttyS0.conf").unlink(),
    "a CDI device": lambda tree: tree.file("/etc/cdi/gpu.json", SPEC % "0000:17:00.9"),
    "a gate": lambda tree: tree.file("/proc/modules", ""),
    "a file of links": lambda tree: tree.file("/etc/cables", "0000:3b:02.0 0000:3b:02.1 6\n"),
    "one that comes": lambda tree: tree.pci("0000:3c:00.0", device="0x5000\n", kind="a\n", seat="24\n"),
    "one that goes": lambda tree: shutil.rmtree(tree.at(VF)),
    "one made anew": replace_function,
    "its entry in the list": lambda tree: tree.at("/sys/class/tty/ttyS0").unlink(),
}
FULL = {"a file of links"}  # which nothing says whom it concerns


def list_results(look):
    """Return all results of a look."""
    judged = {
        key: (
            sighting.devices,
            sighting.candidate,
            sighting.mismatches,
            sighting.taking_entry,
            sighting.slot_candidates,
        )
        for key, sighting in look.match_results.items()
    }
    return judged, look.get_resource_candidates(), look.group_candidates, look.inactive_reasons, look.listing


def swept(tree, specs, before):
    return run_look(HostView(tree.root), specs, before, ALL_DIRTY)[0]


@pytest.mark.parametrize("what", CHANGES)
def test_what_changed_without_an_event_is_seen_and_nothing_else_is_judged_again(tree, specs, what):
    first = swept(tree, specs, Inventory())
    offered = {name for name, _ in first.get_resource_candidates()}
    assert offered == {"example.com/vf", "example.com/group", "example.com/user", "example.com/tty"}
    assert [
        found.reason for of in first.get_resource_candidates().values() for found in of.values() if found.reason
    ] == []
    CHANGES[what](tree)
    now = swept(tree, specs, first)
    assert list_results(now) == list_results(swept(tree, specs, Inventory()))
    assert list_results(now) != list_results(first)
    kept = [key for key, sighting in now.match_results.items() if sighting is first.match_results.get(key)]
    assert bool(kept) is (what not in FULL)


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_missed_however_changes_events_and_sweeps_follow_each_other(tree, specs, seed):
    rng = random.Random(seed)
    files = {
        f"{USER}/kind": "ab", f"{PF}/net/eth0/carrier": "01", f"{ROLE}/level": "123", f"{TTY}/flags": "01",
        "/proc/modules": ("modem", "none"), f"{KFD}/1/properties": ("location 24", "location 25"),
        f"{ROLE}/device": ("0x5001", "0x5000"), f"{VF}/device": ("0x101e", "0x101d"),
    }  # fmt: skip
    places = (USER, PF, ROLE, TTY, VF, f"{PF}/net/eth0")
    look = swept(tree, specs, Inventory())
    for _ in range(30):
        for file in rng.sample(sorted(files), rng.randrange(3)):
            tree.file(file, f"{rng.choice(files[file])}\n")
        if rng.random() < 0.5:  # an event, of what changed or of something else
            look, _ = run_look(HostView(tree.root), specs, look, DirtySet(frozenset({rng.choice(places)})))
        else:
            look = swept(tree, specs, look)
            assert list_results(look) == list_results(swept(tree, specs, Inventory()))


def test_a_sweep_that_finds_nothing_judges_nothing_and_other_entries_have_everything_judged(tree, specs):
    first = swept(tree, specs, Inventory())
    now = swept(tree, specs, first)
    assert now is not first
    assert all(now.match_results[key] is sighting for key, sighting in first.match_results.items())
    assert all(found is first.get_resource_candidates()[name] for name, found in now.get_resource_candidates().items())
    others = swept(tree, specs[:2], now)
    assert not any(others.match_results.get(key) is sighting for key, sighting in first.match_results.items())
    assert list_results(others) == list_results(swept(tree, specs[:2], Inventory()))


def test_now_and_then_a_sweep_judges_everything_so_that_what_was_is_forgotten(tree, specs):
    look = swept(tree, specs, Inventory())
    anew = 0
    for _ in range(50):
        before, look = look, swept(tree, specs, look)
        anew += look.match_results[TTY] is not before.match_results[TTY]
    assert anew == 2


def test_what_has_the_name_of_another_is_not_taken_for_that(tree, tmp_path):
    """A port of the same number in another socket: the node's name is the same, and its directory another."""
    (tmp_path / "etc/resources.d").mkdir(parents=True)
    (tmp_path / "etc/resources.d/all.toml").write_text(
        '[[resource]]\nname = "example.com/port"\nsource = { node = "/dev/ttyS*" }\nmatch = { "./flags" = "1" }\n'
        '[resource.give]\nnodes = { it = "{node}" }\n'
    )
    specs = load(str(tmp_path / "etc")).resources
    tree.file(f"{TTY}/flags", "1\n")
    first = swept(tree, specs, Inventory())
    shutil.rmtree(tree.at(TTY))
    tree.at("/sys/class/tty/ttyS0").unlink()
    again = "/sys/devices/platform/other/tty/ttyS0"
    tree.class_device(again, "tty", "ttyS0", 4, 66)
    tree.file(f"{again}/flags", "1\n")
    look, _ = run_look(
        HostView(tree.root), specs, first, DirtySet(frozenset({"/dev/ttyS0", again, TTY}), frozenset({"tty"}))
    )
    assert look.match_results[again].devices[0].name == "/dev/ttyS0"
    assert list_results(look) == list_results(swept(tree, specs, Inventory()))
    for _ in range(3):
        look = swept(tree, specs, look)
        assert list_results(look) == list_results(swept(tree, specs, Inventory()))


async def test_nothing_is_taken_over_from_a_look_that_was_given_up(tree, specs, monkeypatch):
    """It has noted half of what became of partners, and its thread may go on with that at any time."""
    tree.file(f"{ROLE}/device", "0x5002\n")
    looking = LookThread(HostView(tree.root))
    first, _ = await looking.run(specs, Inventory(), ALL_DIRTY)
    monkeypatch.setattr("agent.tracker.look_thread.SILENT_SECONDS", 0.1)
    with silent(monkeypatch, f"{GPU}/vendor"):
        tree.file(f"{ROLE}/device", "0x5001\n")
        look, _ = await looking.run(specs, first, DirtySet(frozenset({GPU, ROLE})))
    user = "pci:0000:18:00.0"
    assert first.match_results[user].candidate is None
    assert look.match_results[user].candidate is not None
    assert look.partner_index is not first.partner_index


def test_what_is_gone_is_forgotten_although_everything_is_judged_anew_time_and_again(tree, specs):
    look = swept(tree, specs, Inventory())
    shutil.rmtree(tree.at(VF))
    look, _ = run_look(HostView(tree.root), specs, look, DirtySet(frozenset({VF}), frozenset({"pci"})))
    for number in range(30):
        tree.file("/etc/cables", f"0000:3b:02.1 0000:3b:02.2 {number}\n")  # which nothing says whom it concerns
        look = swept(tree, specs, look)
    assert not any(
        VF in reads.own_paths for look_reads in look.read_history.looks for reads in look_reads.devices.values()
    )


def test_what_is_asked_between_two_sweeps_is_remembered_up_to_an_amount(tree, specs, monkeypatch):
    monkeypatch.setattr("agent.scanners.read_history._EVENT_READS", 0)
    look = first = swept(tree, specs, Inventory())
    for number in range(1000):
        tree.file(f"{USER}/kind", f"{number}\n")
        look, _ = run_look(HostView(tree.root), specs, look, DirtySet(frozenset({USER})))
        if look.read_history is None:
            break
    assert look.read_history is None
    tree.file(f"{USER}/kind", "a\n")  # and no event says so
    now = swept(tree, specs, look)
    assert list_results(now) == list_results(first)
    assert now.read_history is not None
