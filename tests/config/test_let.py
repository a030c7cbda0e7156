"""Derived words: the values of `let` on a host, and errors."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.core.inventory.dirty_set import ALL_DIRTY
from agent.core.inventory.facts import Facts
from agent.core.inventory.inventory import update_inventory
from agent.core.language.value import Absent
from agent.scanners import source_kinds
from agent.scanners.host_reader import HostReader, HostView
from tests.config.marks import marked_by
from tests.tree import Tree

HEAD = '[[resource]]\nname = "example.com/x"\nsource = "pci"\n'
CARD = "/sys/devices/pci0000:00/0000:00:02.0"


@pytest.fixture
def tree(tmp_path):
    made = Tree(tmp_path / "host")
    made.pci("0000:00:02.0", state="ready", heat="42", label="", broken="warm", fw_version="1.2.3", huge="0x10")
    made.file(f"{CARD}/hwmon/hwmon3/temp1_input", "42000\n")
    made.file(f"{CARD}/ports/10/state", "4: ACTIVE\n")
    made.file(f"{CARD}/ports/9/state", "1: DOWN\n")
    made.file(f"{CARD}/ports/9/rate", "\n")
    made.file(
        f"{CARD}/information",
        "Model: \t NVIDIA H100\nModel Name: x\nGPU UUID :  GPU-1\nExcluded=No\nminor 7\nNo value:\n",
    )
    made.file(f"{CARD}/odd", "*")
    made.file("/proc/acme/cards/0000:00:02.0/mode", "fast\n")
    made.file("/proc/acme/cards/other/mode", "slow\n")
    for other in ("0000:00:01.0", "0000:00:02.0", "0000:00:1a.0", "0000:00:10.0", "0000:00:01.7", "10000:00:01.0"):
        made.file(f"/proc/acme/ordered/{other}/mode", "fast\n")  # by number: 1.0, 1.7, 2.0, 10.0, 1a.0, 10000
    made.file("/proc/sys/kernel/hostname", "node-7\n")
    made.file("/sys/module/acme/version", "5\n")
    return made


def read_words(configure, tree, lines, *, device="0000:00:02.0"):
    """Return the derived words of a device by name."""
    found = configure({"resources.d/a.toml": HEAD + lines + "\n"})
    assert found.findings == ()
    (spec,) = found.resources
    listing = source_kinds.list_devices(tree.root, [spec.source], None, ALL_DIRTY)
    reader = HostReader(HostView(tree.root))
    (host,) = (host for host in listing.devices[spec.source] if host.name == device)
    facts = Facts(spec, host, reader)
    return {word: facts(word) for word in spec.derived_words}


def reason(value):
    assert isinstance(value, Absent), value
    return value.reason, value.unreadable


LETS = [
    ('a = "./state"', "ready"),
    ('a = ".//./state"', "ready"),
    ('a = "vendor"', "15b3"),
    ('a = { read = "./heat", type = "int" }', 42),
    ('a = { read = "./huge", type = "int" }', 16),
    ('a = { read = "./vendor", type = "hex" }', "15b3"),
    ('a = { read = "./hwmon/hwmon*/temp1_input", type = "int" }', 42000),
    ('a = "./subsystem"', "pci"),
    ('a = "./../0000:00:02.0/state"', "ready"),
    ('a = { read = "./none", else = "gone" }', "gone"),
    ('a = { read = "./label", else = "gone" }', "gone"),
    ('a = { read = "./broken", type = "int", else = 3 }', ("reads 'warm', which is no int", True)),
    ('a = { read = "./ports/*/state", else = "x" }', ("ambiguous: 2 fit ./ports/*/state", True)),
    ('a = { read = "./port/*/state", else = "x" }', "x"),
    ('a = "./../0000:00:0?.0/state"', "ready"),
    ('a = { read = "./ports/*/none", else = "x" }', "x"),
    ('a = "/proc/acme/cards/{address}/mode"', "fast"),
    ('a = "/proc/acme/cards/{b}/mode"\nb = "./odd"', ("nothing fits /proc/acme/cards/[*]/mode", False)),
    ('a = "/sys/module/acme/version"', "5"),
    ('a = "host.hostname"', "node-7"),
    ('a = ["./none", "./state"]', "ready"),
    ('a = ["./ports/*/state", "./state"]', ("ambiguous: 2 fit ./ports/*/state", True)),
    ('a = ["./none", "b"]\nb = "./heat"', "42"),
    ('a = { first_of = ["./none", "./heat"], type = "int" }', 42),
    ('a = { first_of = ["./none", "./no"], else = "z" }', "z"),
    ('a = { read_all = "./ports/*/state" }', ("1: DOWN", "4: ACTIVE")),
    ('a = { read_all = "./ports/*/rate" }', ()),
    ('a = { read_all = "./none/*" }', ()),
    ('a = { read_all = "./hwmon/*/temp1_input", type = "int" }', (42000,)),
    ('a = { read_all = "./hwmon/*/temp1_input", type = "bool" }', ("reads '42000', which is no bool", True)),
    ('a = { names_of = "./ports/*" }', ("9", "10")),
    ('a = { names_of = "./ports/*", type = "int" }', (9, 10)),
    ('a = { names_of = "./ports/*/rate" }', ("rate",)),
    ('a = { names_of = "./no/*" }', ()),
    ('a = { name_of = "./hwmon/hwmon*" }', "hwmon3"),
    ('a = { name_of = "./ports/*" }', ("ambiguous: 2 fit ./ports/*", True)),
    ('a = { name_of = "./state" }', "state"),
    ('a = { name_of = "./none", else = "x" }', "x"),
    ('a = { field = "Model", of = "./information" }', "NVIDIA H100"),
    ('a = { field = "GPU UUID", of = "./information" }', "GPU-1"),
    ('a = { field = "Excluded", of = "./information", type = "bool", else = true }', False),
    ('a = { field = "minor", of = "./information", type = "int" }', 7),
    ('a = { field = "GPU", of = "./information" }', "UUID :  GPU-1"),
    ('a = { field = "Name", of = "./information", else = "x" }', "x"),
    ('a = { field = "No value", of = "./information", else = "x" }', "x"),
    ('a = { field = "minor", of = "./none", type = "int", else = -1 }', -1),
    ('a = { take = "{a:text}.*", of = "b" }\nb = "./fw_version"', "1"),
    ('a = { take = "*.{a:int}", of = "./fw_version" }', 3),
    ('a = { take = "?.{a:int}", of = "./fw_version" }', ("'1.2.3' does not fit ?.{a:int}", False)),
    ('a = { take = "0000:{a:hex}:*", of = "address" }', "00"),
    ('a = { by = "./state", map = { "re*" = "r", "ready" = "exact" } }', "exact"),
    ('a = { by = "./state", map = { "r*" = "r", "rea*" = "longest", "*" = "all" } }', "longest"),
    ('a = { by = "./state", map = { "x" = "r" } }', ("the map has no 'ready'", False)),
    ('a = { by = "./state", map = { "x" = "r" }, else = "other" }', "other"),
    ('a = { by = "./none", map = { "x" = "r" }, else = "other" }', ("no such file", False)),
    ('a = { by = "./none", map = { "x" = "r" }, else = "other", if_absent = "none" }', "none"),
    ('a = { by = "./state", map = { "x" = "r" }, if_absent = "none" }', ("the map has no 'ready'", False)),
    ('a = { by = "b", map = { "042" = 1 }, type = "int" }\nb = { read = "./heat", type = "int" }', 1),
    ('a = { by = "vendor", map = { "15B3" = "nvidia" } }', "nvidia"),
    ('a = { by = "class", map = { "02" = "net" } }', "net"),
    ('a = { by = "address", map = { "00:02" = "the card" } }', "the card"),
    ('a = { text = "{state}-{heat|first:1}" }\nstate = "./state"\nheat = "./heat"', "ready-4"),
    ('a = { text = "{b}-x" }\nb = "./none"', ("b: no such file", False)),
    ('a = { text = "p{b}" }\nb = { names_of = "./ports/*" }', ("p9", "p10")),
    ('a = { text = "{b}", type = "int" }\nb = "./heat"', 42),
    ("a = { holds = { './state' = 'ready', vendor = '15b3' } }", True),
    ("a = { holds = { './state' = 'ready', b = 3 } }\nb = { read = './heat', type = 'int' }", False),
    (
        "a = { holds = { b = 3 } }\nb = { read = './broken', type = 'int' }",
        ("let.a.holds.b: absent (reads 'warm', which is no int)", True),
    ),
    ('a = { bits = ["4-7", "0-1"], of = "b" }\nb = { read = "./heat", type = "int" }', 2 << 2 | 42 & 3),
    ('a = { bits = ["0-63"], of = "b" }\nb = { read = "./heat", type = "int" }', 42),
    ('a = { base64url = ["vendor", "device"] }', "FbMQGw"),
    ('a = { base64url = ["vendor", "b"] }\nb = "./state"', ("'ready' is no row of bytes", True)),
    ('a = { place_in = "b", of = "c" }\nb = { names_of = "./ports/*" }\nc = { text = "9" }', 0),
    ('a = { place_in = "b", of = "c" }\nb = { names_of = "./ports/*" }\nc = { text = "10" }', 1),
    (
        'a = { place_in = "b", of = "c" }\nb = { names_of = "./ports/*", type = "int" }\nc.text = "10"\nc.type = "int"',
        1,
    ),
    (
        'a = { place_in = "b", of = "c" }\nb = { names_of = "./port?/*", type = "hex" }\nc.text = "9"\nc.type = "hex"',
        0,
    ),
    ('a = { place_in = "b", of = "address" }\nb = { names_of = "/sys/bus/pci/devices/*", type = "pci" }', 0),
    ('a = { place_in = "b", of = "address" }\nb = { names_of = "/proc/acme/ordered/*", type = "pci" }', 2),
    (
        'a = { place_in = "b", of = "./state" }\nb = { names_of = "./ports/*" }',
        ("'ready' is none of the 2 in the list", False),
    ),
    ('a = { place_in = "b", of = "./state", else = 7 }\nb = { names_of = "./none/*" }', 7),
    ('a = { place_in = "b", of = "./none" }\nb = { names_of = "./ports/*" }', ("no such file", False)),
    (
        'a = { place_in = "b", of = "c" }\nb = { names_of = "./v*", type = "int" }\nc = { text = "1", type = "int" }',
        ("reads 'vendor', which is no int", True),
    ),
]


@pytest.mark.parametrize(("lines", "value"), LETS, ids=[row[0] for row in LETS])
def test_what_a_word_says(configure, tree, lines, value):
    found = read_words(configure, tree, "[resource.let]\n" + lines)["a"]
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], bool):
        found = reason(found)
    assert found == value
    assert type(found) is type(value)


def test_words_of_kfd(configure, tree):
    lines = """[resource.let]
    domain = { field = "domain", of = "./properties", type = "int" }
    location = { field = "location_id", of = "./properties", type = "int" }
    at = { kfd_address = ["domain", "location"] }
    part = { bits = ["28-31", "0-2"], of = "location" }
    """
    tree.file(f"{CARD}/properties", f"cpu_cores_count 0\nlocation_id {5 << 28 | 0xC1 << 8 | 2 << 3 | 1}\ndomain 0\n")
    found = read_words(configure, tree, lines)
    assert (found["at"], found["part"]) == ("0000:c1:02.1", 5 << 3 | 1)
    tree.file(f"{CARD}/properties", "location_id 0\ndomain 0\n")
    assert reason(read_words(configure, tree, lines)["at"]) == ("says that it is no PCI function", False)


def test_what_stands_in_a_path_is_a_name_and_no_way(configure, tree):
    lines = '[resource.let]\nb = "./odd"\na = "./{b}"\nc = "./ports/{b}/state"\nd = "./ports/9{b}"'
    for odd in ("../state", "..", ".", ".hidden", "a/b", "", "/etc/passwd", "a\x07"):
        tree.file(f"{CARD}/odd", odd)
        found = read_words(configure, tree, lines)
        assert isinstance(found["a"], Absent), odd
        assert isinstance(found["c"], Absent), odd
    tree.file(f"{CARD}/odd", "*")
    found = read_words(configure, tree, lines)
    assert found["a"] == Absent("nothing fits ./[*]")
    assert isinstance(found["d"], Absent)
    tree.file(f"{CARD}/*", "a star")
    assert read_words(configure, tree, lines)["a"] == "a star"


def test_reading_stays_where_the_kernel_speaks(configure, tree):
    tree.file("/etc/secret", "s")
    tree.link(f"{CARD}/out", "/etc")
    tree.node("/dev/watchdog", "c 10:130")
    tree.file("/proc/kmsg", "x")
    lines = '[resource.let]\na = "./out/secret"\nb = "/dev/watchdog"\nc = "/proc/kmsg"\nd = "./config"\ne = "./ports"'
    found = read_words(configure, tree, lines)
    assert reason(found["a"]) == ("leads out of /sys and /proc", False)
    assert found["b"] == "watchdog"
    assert reason(found["c"]) == ("is never read: that would wait or act", True)
    assert reason(found["d"])[1]
    assert found["e"] == "ports"


def test_what_an_own_word_was_read_from_is_looked_at_again(configure, tree):
    lines = 'match.mode = "fast"\nlet.mode = "/proc/acme/cards/{address}/mode"\nlet.all = { names_of = "./hwmon/*" }\n'
    (spec,) = configure({"resources.d/a.toml": HEAD + lines + 'match.all = { has = "hwmon3" }\n'}).resources
    listing = source_kinds.list_devices(tree.root, [spec.source], None, ALL_DIRTY)
    (sighting,) = update_inventory([spec], listing, HostReader(HostView(tree.root))).match_results.values()
    assert sighting.candidate is not None
    assert {"/proc/acme/cards/0000:00:02.0", CARD, f"{CARD}/hwmon"} <= sighting.read_paths


LET = HEAD + "[resource.let]\n"
TAKES = "what a brace takes stands in source and in take; {word} puts a word here"
XYZ = 'if a file says it, let.xyz = "./xyz"'

WRONG = [
    ("a = 5", 5, "5", "type", None),
    ('a = "./b"\na-b = "./x"', 6, "a-b", "type", "write a_b"),
    ('driver = "./x"', 5, "driver", "taken", "take another name"),
    ('pci = "./x"', 5, "pci", "taken", "take another name"),
    ('has = "./x"', 5, "has", "taken", "take another name"),
    ('given = "./x"', 5, "given", "taken", "take another name"),
    ('a = "venor"', 5, "venor", "unknown-word", "nearest: vendor"),
    ('a = "xyz"', 5, "xyz", "unknown-word", XYZ),
    ('state = "./x"\nb = "stat"', 6, "stat", "unknown-word", "nearest: state"),
    ('a = "b.c"\nb = "./x"', 5, "b.c", "unknown-word", "write b"),
    ('a = "qat/cfg_services"', 5, "qat/cfg_services", "unknown-word", None),
    ('a = "/etc/passwd"', 5, "/etc/passwd", "unknown-word", None),
    ('a = "/sys/../etc"', 5, "/sys/../etc", "path", 'write for example "/sys/class/…"'),
    ('a = "./x**"', 5, "./x**", "glob", None),
    ('a = "./{xyz}"', 5, "xyz", "unknown-word", XYZ),
    (
        'a = "./{x:int}"',
        5,
        "{x:int}",
        "text",
        "what a brace takes stands in source and in take; {word} puts a word here",
    ),
    ('a = "./{nodes}"', 5, "nodes", "type", "take a word that is a name"),
    ('a = "./{node}"', 5, "node", "type", "take a word that is a name"),
    ('a = "{address}/x"', 5, "{address}/x", "path", 'write for example "./file"'),
    ('a = "{address}"', 5, "{address}", "type", 'write { text = "{address}" }'),
    ('a = { read = "./x", map = { b = "c" } }', 5, "map", "type", "map goes with by"),
    ('a = { type = "int" }', 5, "a", "missing", 'write a = "./file"'),
    ('a = { read = "./x", type = "float" }', 5, '"float"', "type", None),
    ('a = { read = "vendor", type = "int" }', 5, "vendor", "type", 'leave type out, or write "hex"'),
    ('a = { read = "./x", else = 5 }', 5, "5", "type", 'write "5", or type = "int"'),
    ('a = { read = "./x", type = "int", else = "5" }', 5, '"5"', "type", "write 5, without quotes"),
    ('a = { read_all = "./x*", else = "5" }', 5, '"5"', "type", 'write ["5"]'),
    ('a = { first_of = ["./x", "class"] }', 5, '["./x", "class"]', "type", 'add type = "…"'),
    ('a = { first_of = ["driver", "b"] }\nb = { names_of = "./*" }', 5, '["driver", "b"]', "type", ""),
    ('a = { names_of = "vendor" }', 5, '"vendor"', "type", 'write for example "./file*"'),
    ('a = { field = "x" }', 5, "a", "missing", 'write of = "…"'),
    ('a = { take = "x", of = "name" }', 5, "x", "type", "write {a:text} at its place"),
    ('a = { take = "{b:int}", of = "name" }', 5, "{b:int}", "type", "write {a:text} at its place"),
    ('a = { take = "{a:int}{b:int}", of = "name" }', 5, "{a:int}{b:int}", "type", "write {a:text} at its place"),
    ('a = { take = "{a:number}", of = "name" }', 5, "{a:number}", "glob", 'write "{a:text}"'),
    ('a = { take = "{a:int}", of = "nodes" }', 5, "nodes", "type", "take a word that says one thing"),
    ('a = { by = "driver" }', 5, "a", "missing", 'write map = { "key" = "value" }'),
    ('a = { by = "driver", map = { x = 5 } }', 5, "5", "type", 'write "5", or type = "int"'),
    ('a = { by = "numa", map = { x = "y" } }', 5, "x", "type", 'write for example "1"'),
    ('a = { by = "vendor", map = { xyz = "y" } }', 5, "xyz", "type", 'write for example "10de"'),
    ('a = { by = "driver", map = { "**" = "y" } }', 5, '"**"', "glob", None),
    ('a = { text = "{xyz}" }', 5, "xyz", "unknown-word", XYZ),
    ('a = { text = "{x" }', 5, "{x", "text", None),
    ("a = { holds = { xyz = 'y' } }", 5, "xyz", "unknown-word", XYZ),
    ('a = { kfd_address = ["vendor", "numa"] }', 5, '["vendor", "numa"]', "type", None),
    ('a = { bits = ["3-1"], of = "numa" }', 5, '["3-1"]', "type", None),
    ('a = { bits = ["0-64"], of = "numa" }', 5, '["0-64"]', "type", None),
    ('a = { bits = ["1"], of = "driver" }', 5, "driver", "type", 'make it a word with type = "int"'),
    ('a = { place_in = "b" }\nb = { names_of = "./*" }', 5, "a", "missing", 'write of = "…"'),
    (
        'a = { place_in = "driver", of = "name" }',
        5,
        "driver",
        "type",
        'write for example a word that is names_of = "PATH*"',
    ),
    ('a = { place_in = "b", of = "b" }\nb = { names_of = "./*" }', 5, "b", "type", "take a word that says one thing"),
    (
        'a = { place_in = "b", of = "address" }\nb = { names_of = "./*" }',
        5,
        "address",
        "type",
        'add type = "pci" to the list',
    ),
    ('a = { probe = "nvml", field = "f" }', 5, "nvml", "unknown-probe", 'write [probe.nvml] with run = ["/usr/bin/…"]'),
    ('a = "a"', 5, "a", "cycle", "have one of them rest on something else"),
    ('a = "./{b}"\nb = { text = "{c}" }\nc = ["./x", "a"]', 5, "a", "cycle", "have one of them rest on something else"),
]


@pytest.mark.parametrize(("lines", "line", "marked", "code", "write"), WRONG, ids=[row[0] for row in WRONG])
def test_what_is_wrong_with_a_word(configure, lines, line, marked, code, write):
    (finding,) = configure({"resources.d/a.toml": LET + lines + "\n"}).findings
    assert (finding.line, finding.code) == (line, code), finding
    assert marked_by(finding) == marked, finding
    if write is not None:
        assert finding.write == write


def test_a_cycle_is_told_whole(configure):
    text = LET + 'a = "./{b}"\nb = { text = "{c}" }\nc = ["./x", "a"]\nd = { read = "a" }\n'
    (finding,) = configure({"resources.d/a.toml": text}).findings
    assert finding.message == "a → b → c → a: each needs the other"


def test_a_word_that_an_entry_breaks_is_reported_where_it_is_written(configure):
    part = 'about = "x"\npart = true\nlet.vendor = "./x"\n'
    entry = HEAD.replace("[[resource]]\n", "[[resource]]\nuses = ['x']\n")
    (finding,) = configure({"classes/x.toml": part, "resources.d/a.toml": entry}).findings
    assert (finding.file, finding.line, finding.code) == ("classes/x.toml", 3, "taken")


def devices(configure, tree, text):
    """What an entry says of each device, by name, and the entry."""
    found = configure({"resources.d/a.toml": text})
    assert found.findings == ()
    (spec,) = found.resources
    listing = source_kinds.list_devices(tree.root, [spec.source], None, ALL_DIRTY)
    reader = HostReader(HostView(tree.root))
    hosts = listing.devices[spec.source]
    return {host.name.rpartition("/")[2]: Facts(spec, host, reader) for host in hosts}, spec


def test_what_a_directory_takes(configure, tree):
    for name in ("card0-HDMI-A-1", "card10-DP-1", "card0", "version"):
        tree.device(f"{CARD}/drm/{name}", "drm", status="connected")
    found, spec = devices(
        configure,
        tree,
        """[[resource]]
        name = "example.com/x"
        source = { dir = "/sys/class/drm/card{card:int}-{connector:text}" }
        id = "{pci.address}-{connector}"
        match = { card = 10 }
        let.status = "/sys/class/drm/card{card}-{connector}/status"
        """,
    )
    assert {name: (facts("card"), facts("connector"), facts("status")) for name, facts in found.items()} == {
        "card0-HDMI-A-1": (0, "HDMI-A-1", "connected"),
        "card10-DP-1": (10, "DP-1", "connected"),
    }
    seen = update_inventory(
        [spec], source_kinds.list_devices(tree.root, [spec.source], None, ALL_DIRTY), HostReader(HostView(tree.root))
    )
    ids = [one.candidate.ids for one in seen.match_results.values() if one.candidate]
    assert ids == [("0000:00:02.0-DP-1",)]


def test_what_a_node_takes(configure, tree):
    for number, name in enumerate(("npu0", "npu12", "npu_ctl", "acc/7")):
        tree.node(f"/dev/{name}", f"c 4:{number}")
    found, _ = devices(
        configure,
        tree,
        """[[resource]]
        name = "example.com/x"
        source = { node = ["/dev/npu{minor:int}", "/dev/acc/{other:int}"] }
        id = "{path_id}"
        give.env.MINOR = { value = "{minor}", join = "," }
        """,
    )
    assert {name: (facts("minor"), facts("other")) for name, facts in found.items()} == {
        "npu0": (0, Absent("the pattern that it fits does not take it")),
        "npu12": (12, Absent("the pattern that it fits does not take it")),
        "7": (Absent("the pattern that it fits does not take it"), 7),
    }


def test_what_is_taken_is_an_address(configure, tree):
    for name in ("0000:3b:00.0", "0000:3B:01.0", "other"):
        tree.file(f"/proc/driver/acme/gpus/{name}/information", f"Model: M {name}\n")
    found, _ = devices(
        configure,
        tree,
        """[[resource]]
        name = "example.com/x"
        source = { dir = "/proc/driver/acme/gpus/{address:pci}" }
        id = "{address}"
        let.model = { field = "Model", of = "./information" }
        """,
    )
    assert {facts("address"): facts("model") for facts in found.values()} == {
        "0000:3b:00.0": "M 0000:3b:00.0",
        "0000:3b:01.0": "M 0000:3B:01.0",
    }


def test_a_path_with_words_stands_in_a_clause(configure, tree):
    tree.file("/proc/acme/0000:00:02.0/1/state", "stuck")
    tree.file("/proc/acme/0000:00:02.0/2/state", "ok")
    lines = """match = { '/proc/acme/{address}/1/state' = "stuck" }
    exclude.a = { "/proc/acme/{address}/*/state" = { has = "lost" } }
    give.env.A = { value = "{b}", join = "," }
    let.b = "/proc/acme/{address}/{one}/state"
    let.one = "./none"
    """
    (spec,) = configure({"resources.d/a.toml": HEAD + lines}).resources
    assert set(spec.derived_words) == {"/proc/acme/{address}/1/state", "/proc/acme/{address}/*/state", "b", "one"}
    listing = source_kinds.list_devices(tree.root, [spec.source], None, ALL_DIRTY)
    (sighting,) = update_inventory([spec], listing, HostReader(HostView(tree.root))).match_results.values()
    assert sighting.candidate is not None
    tree.file("/proc/acme/0000:00:02.0/3/state", "lost")
    (sighting,) = update_inventory([spec], listing, HostReader(HostView(tree.root))).match_results.values()
    (refusal,) = sighting.mismatches
    assert (refusal.address, refusal.facts_text) == ("exclude.a./proc/acme/{address}/*/state", "stuck, ok, lost")


ODD = (
    ("read", '"./a"', '"vendor"', '"b"', '"./{b}"', '"./{vendor|first:2}*"', '"/sys/*"', '"/dev/*"', '"pci/x"', "5"),
    ("first_of", '["./a", "b"]', '["vendor", "device"]', '["./*"]', "[]", '"./a"'),
    ("read_all", '"./*"', '"pci/*"', '"/proc/*/x"', '"vendor"'),
    ("names_of", '"./*"', '"./{b}*"', '"/"', '"//"'),
    ("name_of", '"./vendor"', '"./v*"', '"/sys"'),
    ("field", '"x"', '" "', "5"),
    ("take", '"{a:int}*"', '"*{a:hex}"', '"{a:pci}"', '"["', '"{a:text}"'),
    ("by", '"vendor"', '"b"', '"numa"', '"nodes"', '"./vendor"'),
    ("text", '"{b}"', '"{vendor}{b|upper}"', '"{nodes}"', '"{"', '"{n}"'),
    ("holds", '{ vendor = "15b3" }', '{ b = { like = "*" } }', '{ "./{b}" = "x" }', "{}", '{ either.a = { b = "1" } }'),
    ("kfd_address", '["numa", "numa"]', '["./a", "b"]'),
    ("bits", '["0-3"]', '["7", "63"]', '"x"'),
    ("place_in", '"b"', '"nodes"', '"vendor"', '"./vendor"', "5"),
    ("base64url", '["vendor", "b"]', '["./vendor"]', '["nodes"]'),
    ("of", '"./vendor"', '"vendor"', '"b"', '"numa"', '"/sys/{b}"'),
    ("map", '{ "15b3" = "x" }', '{ "*" = "y", "1" = "z" }', "{ x = 1 }", "{}"),
    ("type", '"text"', '"int"', '"bool"', '"hex"', '"path"', '"pci"', '"class"'),
    ("else", '"x"', "5", "true", "[]", '["x"]'),
    ("if_absent", '"x"', "5"),
)  # fmt: skip
KEYS = st.one_of(*(st.tuples(st.just(key), st.sampled_from(values)) for key, *values in ODD))
TABLES = st.lists(KEYS, min_size=1, max_size=4, unique_by=lambda pair: pair[0])


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(TABLES, st.sampled_from(("./device", "./ports", "vendor", "./none")))
def test_whatever_a_let_says_it_loads_or_is_reported_and_never_fails(configure, tree, table, other):
    said = ", ".join(f"{key} = {value}" for key, value in table)
    found = configure({"resources.d/a.toml": f'{LET}a = {{ {said} }}\nb = "{other}"\n'})
    assert bool(found.findings) != bool(found.resources)
    for spec in found.resources:
        listing = source_kinds.list_devices(tree.root, [spec.source], None, ALL_DIRTY)
        facts = Facts(spec, listing.devices[spec.source][0], HostReader(HostView(tree.root)))
        assert all(facts(word) is not None for word in spec.derived_words)
