import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from agent.cli.host_report.device_detail import build_clause
from agent.cli.host_report.device_overview import format_overview, format_summary
from agent.cli.host_report.device_search import SearchFailure, find_device
from agent.cli.host_report.device_summary import parse_pci_ids
from agent.cli.host_report.scan_host import scan_host
from agent.cli.scan import _format_skipped_paths
from agent.cli.terminal import Terminal
from agent.config.load import load
from agent.core.entry.resource_spec import Source
from agent.core.inventory.listing import SkippedPath
from agent.core.language.safe_text import count_columns
from agent.core.language.value import make_sort_key
from agent.host.root import Root
from tests.cli.conftest import device_agent

NICS = """
[[resource]]
name = "example.com/nic"
source = "pci"
match = { vendor = "15b3", device = "101b", driver = "vfio-pci" }

[[resource]]
name = "example.com/fuse"
class = "fuse"
replicas = 10
"""


@pytest.fixture
def host(tree):
    tree.pci("0000:3b:00.0", driver="vfio-pci", numa_node="0\n")
    tree.pci("0000:3b:00.1", driver="vfio-pci", numa_node="1\n")
    tree.pci("0000:5e:00.0", driver="mlx5_core")
    tree.pci("0000:00:00.0", **{"class": "0x060000\n", "vendor": "0x8086\n"})
    tree.class_device("/sys/devices/virtual/misc/fuse", "misc", "fuse", 10, 229)
    tree.class_device("/sys/devices/virtual/misc/kvm", "misc", "kvm", 10, 232)
    tree.usb("/sys/devices/pci0000:00/usb1/1-1", "0403", "6001", serial="A1\x1b[2J")
    return tree


@pytest.fixture
def look(host, config):
    def take_it(text=NICS):
        return scan_host(host.root, load(str(config(text))).resources)

    return take_it


def test_of_what_nobody_asks_for_nothing_is_seen_where_nobody_wants_it(host, config):
    specs = load(str(config(NICS))).resources
    asked = scan_host(host.root, specs, all_sources=False)
    assert {item.source for item in asked.items} == {spec.source for spec in specs}
    everything = {item.host.name: item for item in scan_host(host.root, specs).items}
    assert "/dev/kvm" in everything
    assert all(
        (item.resource, item.device) == (everything[item.host.name].resource, everything[item.host.name].device)
        for item in asked.items
    )


def test_nodes_are_seen_by_their_own_names_however_many_there_are(host):
    for number in range(250):
        host.node(f"/dev/x{number}", f"c 10:{number}")
    host.node("/dev/odd[{*name", "c 10:3")
    host.link("/dev/other", "/dev/x7")
    seen = [item.host.name for item in scan_host(host.root, ()).items if item.label == "dev"]
    assert seen == sorted(seen, key=make_sort_key)
    assert {"/dev/odd[{*name", "/dev/x7", "/dev/x249"} <= {*seen}
    assert "/dev/other" not in seen


def lines(look, width=None, *, everything=False, **how):
    return format_overview(look(**how), Terminal(width), everything=everything)


def test_a_line_each_where_nothing_is_a_screen(look):
    assert lines(look) == [
        "HOST DEVICE       WHAT                 NUMA  DRIVER     TAKEN BY",
        "pci 0000:3b:00.0  network [15b3:101b]     0  vfio-pci   example.com/nic",
        "pci 0000:3b:00.1  network [15b3:101b]     1  vfio-pci   example.com/nic",
        "pci 0000:5e:00.0  network [15b3:101b]     –  mlx5_core  –  nearest: example.com/nic",
        "dev /dev/fuse     char 10:229             –  –          example.com/fuse ×10",
    ]


def test_alike_ones_fold_on_a_screen(look):
    shown = lines(look, 100)
    assert shown[1] == "pci 0000:3b:00.0 +1  network [15b3:101b]   0 1  vfio-pci   example.com/nic"
    assert len(shown) == 4


WIDE = """
[[resource]]
name = "example.com/vf"
source = "pci"
match.is_vf = true

[[resource]]
name = "example.com/stick"
source = { subsystem = "usbmisc" }
id = "{usb.serial}"
"""


@pytest.fixture
def wide(tree, config):
    """A VF with its IOMMU group, its PF below a bridge, a stick with two nodes below a hub."""
    bridge = tree.pci("0000:00:01.0", driver="pcieport", **{"class": "0x060400\n"})
    pf = tree.pci("0000:01:00.0", below=bridge, driver="ice")
    vf = tree.virtual_function(pf, "0000:01:00.1", driver="vfio-pci")
    tree.link(f"{pf}/virtfn0", vf)
    tree.file("/sys/kernel/iommu_groups/42/type", "DMA")
    tree.link(f"{vf}/iommu_group", "/sys/kernel/iommu_groups/42")
    stick = tree.usb("/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.4", "f1a7", "0001", serial="S1")
    tree.class_device(f"{stick}/1-1.4:1.0/usbmisc/spectro0", "usbmisc", "spectro0", 180, 160)

    def shown(width=None):
        inventory = scan_host(tree.root, load(str(config(WIDE))).resources)
        return format_overview(inventory, Terminal(width), everything=True, wide=True)

    return shown


def test_wide_says_more_of_each(wide):
    titles, *rows = wide()
    words = titles.replace("HOST DEVICE", "DEVICE").replace("HANGS ON", "ON").replace("TAKEN BY", "BY").split()
    assert words == ["DEVICE", "WHAT", "NUMA", "DRIVER", "ON", "IOMMU", "NODES", "SERIAL", "ID", "BY"]
    said = {row.split()[1]: re.split(r"  +", row)[-7:] for row in rows}
    assert said["0000:01:00.1"] == ["vfio-pci", "0000:01:00.0", "42", "–", "–", "0000:01:00.1", "example.com/vf"]
    assert said["0000:01:00.0"][1:] == ["0000:00:01.0", "–", "–", "–", "–", "–"]
    assert said["1-1.4"][1:] == ["1-1", "–", "/dev/bus/usb/001/002, /dev/spectro0", "S1", "–", "–"]
    assert said["spectro0"][1:] == ["1-1.4", "–", "/dev/spectro0", "S1", "S1", "example.com/stick"]


def test_wide_fits_the_screen_and_says_what_it_left_out(wide):
    full = wide(400)
    assert "+1" in next(row for row in full if row.startswith("usb 1-1.4"))  # its nodes
    assert not full[-1].startswith("Hidden columns")
    for width in range(80, 200, 7):
        *table, last = wide(width)
        lost = (
            last.removeprefix("Hidden columns: ").partition(".")[0].split(", ")
            if last.startswith("Hidden columns")
            else []
        )
        assert lost == [title for title in ("HANGS ON", "IOMMU", "NODES", "SERIAL", "ID") if title not in table[0]]
        assert all(count_columns(line) <= width for line in table)
    assert lost == []
    assert "SERIAL" in last or "SERIAL" in table[0]


@pytest.mark.parametrize("words", [("fuse",), ("--words", "pci")])
def test_wide_is_of_the_overview(cli, host, config, words):
    code, out, err = cli("scan", *words, "-o", "wide", "--root", host.top, "--config", config())
    assert (code, out) == (2, "")
    assert "-o wide is only for the overview" in err


def test_all_shows_what_nobody_takes(look):
    shown = lines(look, everything=True)
    assert any(line.startswith("dev /dev/kvm") for line in shown)
    assert any("0000:00:00.0" in line and "bridge" in line for line in shown)


def test_hostile_text_is_escaped(look):
    shown = "\n".join(lines(look, everything=True))
    assert "\x1b" not in shown
    assert r'"A1\x1b[2J"' in shown


def test_the_last_line_counts(look):
    assert format_summary(look(), 12.3, everything=False).startswith("4 PCI, 1 USB, 2 device nodes read in 12 ms.")


def test_a_class_that_would_fit_is_said(cli, host, config):
    code, out, _ = cli("scan", "--root", host.top, "--config", config())
    assert code == 0
    assert "–  class kvm fits" in out


def test_of_a_machine_where_nothing_is_configured_that_is_shown_which_a_class_fits(cli, tree, config):
    nic = tree.pci("0000:3b:00.0")
    tree.infiniband(nic, "mlx5_0")
    tree.class_device(f"{nic}/gnss/gnss0", "gnss", "gnss0", 243, 0)
    tree.class_device("/sys/devices/virtual/mem/null", "mem", "null", 1, 3)
    code, out, _ = cli("scan", "--root", tree.top, "--config", config())
    assert code == 0
    rows = {" ".join(line.split()[:2]): line.rpartition("–  ")[2] for line in out.splitlines()[1:]}
    assert rows["gnss gnss0"] == "class gnss fits"
    assert rows["infiniband mlx5_0"] == "class rdma-exclusive fits"
    assert "dev /dev/null" not in rows


NAMES = {
    "/dev/fuse": "/dev/fuse",
    "fuse": "/dev/fuse",
    "fuse::3": "/dev/fuse",
    "3b:00.0": "0000:3b:00.0",
    "0000:3B:00.0": "0000:3b:00.0",
    "5e:00": "0000:5e:00.0",
    "0000:5e": "0000:5e:00.0",
    "/sys/bus/pci/devices/0000:5e:00.0": "0000:5e:00.0",
    "1-1": "1-1",
    "/dev/kv": None,
    "0000:3b": None,
    "3b:00": None,
    "nothing": None,
    "/": None,
    "": None,
}


@pytest.mark.parametrize(("name", "found"), NAMES.items())
def test_any_name_finds_it(look, name, found):
    answer = find_device(look(), name)
    assert (None if isinstance(answer, SearchFailure) else answer.host.name) == found


def test_a_link_finds_what_it_leads_to(look, host):
    host.link("/dev/by-id/fuse", "/dev/fuse")
    assert find_device(look(), "/dev/by-id/fuse").host.name == "/dev/fuse"


def test_detail_says_who_turned_it_down_and_where(cli, host, config):
    code, out, _ = cli("scan", "5e:00.0", "--root", host.top, "--config", config(NICS))
    assert code == 0
    assert 'match.driver = "vfio-pci"  here mlx5_core  resources.d/a.toml:5  all other lines match' in out
    assert "taken by     nothing (nearest: example.com/nic)" in out


def test_detail_says_who_takes_it(cli, host, config):
    _, out, _ = cli("scan", "fuse", "--root", host.top, "--config", config(NICS))
    assert "taken by     example.com/fuse ×10 as fuse    resources.d/a.toml:7, class fuse" in out
    assert "health       Healthy" in out


def test_what_is_not_there_is_4_with_the_nearest(cli, host, config):
    code, out, err = cli("scan", "/dev/fusee", "--root", host.top, "--config", config(NICS))
    assert (code, out) == (4, "")
    assert "no such file; nearest: /dev/fuse" in err


def test_what_is_ambiguous_is_4_with_all(cli, host, config):
    code, _, err = cli("scan", "0000:3b", "--root", host.top, "--config", config(NICS))
    assert code == 4
    assert "  0000:3b:00.0\n  0000:3b:00.1\n" in err


def test_a_device_of_another_subsystem_is_found_by_its_name(cli, host, config):
    host.class_device("/sys/devices/virtual/rtc/rtc0", "rtc", "rtc0", 250, 0)
    code, out, _ = cli("scan", "--root", host.top, "--config", config(), "rtc0")
    assert code == 0
    assert out.startswith("dev /dev/rtc0")
    host.device("/sys/devices/virtual/npu/npu7", "npu")
    _, out, _ = cli("scan", "--root", host.top, "--config", config(), "npu7")
    assert out.startswith("npu npu7")


def test_what_a_glob_matched_and_is_no_device(cli, host, config):
    host.at("/dev/video-dir").mkdir()
    host.link("/dev/video-gone", "/dev/nowhere")
    os.mkfifo(host.at("/dev/video-pipe"))
    there = config('[[resource]]\nname = "example.com/v"\nsource = { node = "/dev/video-*" }\n')
    _, out, _ = cli("scan", "--root", host.top, "--config", there)
    assert "no device: /dev/video-dir: is a directory" in out
    assert "no device: /dev/video-gone: dangling link" in out
    code, out, _ = cli("scan", "/dev/video-pipe", "--root", host.top, "--config", there)
    assert (code, out) == (0, "/dev/video-pipe: no device: is a FIFO\n")


def test_json_has_all_keys_and_no_root(cli, host, config):
    run = ("scan", "--root", host.top, "--config", config(NICS), "-o", "json")
    code, out, _ = cli(*run)
    assert code == 0
    assert str(host.top) not in out
    assert cli(*run)[1] == out
    found = {each["name"]: each for each in json.loads(out)}
    keys = "source name place key node attributes nodes taken_by device_id shares health reason together checks fits"
    keys += " refused"
    assert {" ".join(each) for each in found.values()} == {keys}
    assert found["/dev/fuse"]["taken_by"] == "example.com/fuse"
    assert found["/dev/fuse"]["shares"] == 10
    (refused,) = found["0000:5e:00.0"]["refused"]
    assert refused == {
        "resource": "example.com/nic", "clause": "match.driver", "written": '"vfio-pci"', "here": "mlx5_core",
        "file": "resources.d/a.toml", "line": 5, "only": True,
    }  # fmt: skip
    assert found["0000:3b:00.0"]["attributes"]["vendor"] == "15b3"
    assert found["1-1"]["attributes"]["serial"] == "A1\x1b[2J"


def test_a_file_with_errors_is_left_out_and_said(cli, host, config):
    config("[[resource]]\nnome = 1\n", "bad.toml")
    code, out, err = cli("scan", "--root", host.top, "--config", config(NICS))
    assert code == 0
    assert "example.com/fuse ×10" in out
    assert "left out: device-agent check" in err


@pytest.mark.parametrize("name", ["0000:3b:00.0", "0000:5e:00.0", "/dev/fuse", "1-1"])
def test_the_clause_that_is_shown_takes_the_device(look, name):
    inventory = look()
    item = next(item for item in inventory.items if item.host.name == name)
    source, match = build_clause(inventory, item)
    known = 'id = "{path_id}"' if item.source.kind == "subsystem" else ""
    text = f'[[resource]]\nname = "example.com/it"\n{known}\n{source}\n{match}\n'
    again = look(text=text)
    assert next(item for item in again.items if item.host.name == name).entry is not None


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ('"usb"', "1-1"),
        ('"net"', "ens1"),
        ('"infiniband"', "mlx5_0"),
        ('"drm"', "renderD128"),
        ('{ dir = "/proc/driver/[*]/*" }', "/proc/driver/*/a b"),
        ('{ fixed = ["a", "b"] }', "b"),
    ],
)
def test_the_clause_that_is_shown_looks_where_the_device_was_found(look, host, source, name):
    host.netdev("/sys/devices/pci0000:00/0000:5e:00.0", "ens1")
    host.infiniband("/sys/devices/pci0000:00/0000:5e:00.0", "mlx5_0")
    host.drm("/sys/devices/pci0000:00/0000:3b:00.0", None, 128)
    host.file("/proc/driver/*/a b/state", "1")
    host.file("/proc/driver/x/a b/state", "1")
    entry = '[[resource]]\nname = "example.com/it"\nid = "{name}"\n'
    inventory = look(text=f"{entry}source = {source}\n")
    item = next(item for item in inventory.items if item.host.name == name)
    shown, match = build_clause(inventory, item)
    again = look(text=f"{entry}{shown}\n{match}\n")
    assert [taken.host.name for taken in again.items if taken.entry] == [name]


def test_pci_ids():
    text = "# c\n8086  Intel\n\t1592  E810-C\n\t\t8086 0001  board\n15b3  Mellanox\n\t101b  CX-6\nC 00  Old\n\t01  x\n"
    assert parse_pci_ids(text) == {("8086", "1592"): "E810-C", ("15b3", "101b"): "CX-6"}


def test_names_of_the_host_are_used(look, host):
    host.file("/usr/share/misc/pci.ids", "15b3  Mellanox\n\t101b  CX-6\n")
    assert "CX-6 [15b3:101b]" in lines(look)[1]


def test_an_empty_machine(tree, cli, config):
    code, out, err = cli("scan", "--root", tree.top, "--config", config())
    assert code == 0
    assert out == "HOST DEVICE  WHAT  NUMA  DRIVER  TAKEN BY\n"
    assert "0 PCI" in err or "Nothing" in err


def test_this_machine():
    for arguments in (("scan",), ("scan", "--all"), ("scan", "-o", "json"), ("scan", "/dev/null")):
        done = device_agent(*arguments, "--config", "/nonexistent")
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_every_device_of_this_machine_can_be_asked_for_by_the_name_it_is_shown_under():
    inventory = scan_host(Root(), ())
    for item in inventory.items:
        found = find_device(inventory, item.host.name)
        assert not isinstance(found, SearchFailure), item
        assert build_clause(inventory, item)


def test_a_broken_pipe_is_a_quiet_end():
    command = f"{sys.executable} -m agent.cli.main scan --all | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_any_encoding(encoding):
    done = device_agent("scan", "--all", PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr


GROUPS = """
[[resource]]
name   = "example.com/vfio"
source = "pci"
match  = { driver = "vfio-pci" }
group  = { by = "iommu.group", claims = "all" }

[[resource]]
name   = "example.com/pair"
source = "pci"
group.parts = { gpu = { driver = "amdgpu" }, nic = { driver = "ice" } }
"""


def test_what_is_one_device_with_others(cli, tree, config):
    functions = [tree.pci(f"0000:3b:00.{n}", driver=driver) for n, driver in enumerate(("vfio-pci", "snd"))]
    tree.iommu_group(7, *functions)
    tree.pci("0000:5e:00.0", driver="amdgpu")
    tree.pci("0000:5e:00.1", driver="amdgpu")  # two of one part

    def said(name):
        lines = cli("scan", "--root", tree.top, "--config", config(GROUPS), name)[1].splitlines()
        starts = ("  taken by", "  group with", "  member of", "  health")
        return [" ".join(line.partition("    resources.d")[0].split()) for line in lines if line.startswith(starts)]

    assert said("3b:00.0") == [
        *("taken by example.com/vfio as 0000:3b:00.0", "group with 0000:3b:00.1", "health Healthy"),
    ]
    assert said("3b:00.1")[1] == "member of a group with 0000:3b:00.0"
    assert said("5e:00.1") == [
        "taken by example.com/pair",
        "group with 0000:5e:00.0",
        "health not listed: 0000:5e:00.0 and 0000:5e:00.1 are both gpu; say in group.by what keeps them apart",
    ]


def test_of_a_numbered_node_the_driver_s_own_files_and_the_source_of_its_like(tree, config, cli):
    tree.class_device("/sys/devices/virtual/lumen/lumen0", "lumen", "lumen0", 240, 0)
    tree.file("/sys/devices/virtual/lumen/lumen0/state", "ready\n")
    _, out, _ = cli("--root", tree.top, "--config", config(), "scan", "/dev/lumen0")
    assert '  paths        other files: "./dev" "./state"' in out.splitlines()
    alike = [
        "  or all with this name and any number",
        '    source = { subsystem = "lumen" }',
        '    match = { name = { like = "lumen[0-9]*" } }',
    ]
    assert "\n".join(alike) in out


SPECTRO = """
[[resource]]
name = "a.example/spectro"
source = { subsystem = "usbmisc" }
match = { name = { like = "spectro*" } }
id = "{usb.serial}-spectro"
"""


def test_a_serial_number_is_that_of_what_is_taken_and_a_port_says_what_is_below_it(tree, config, cli):
    usb = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-{}"
    for port, serial in ((1, "SP1"), (2, "SP2"), (3, "SP2")):
        tree.usb(usb.format(port), "f1a7", "0001", serial=serial, devnum=port + 1)
    below = f"{usb.format(1)}/1-1:1.0/usbmisc/spectro0"
    tree.class_device(below, "usbmisc", "spectro0", 180, 160)
    where = ("--root", tree.top, "--config", config(SPECTRO))
    assert cli(*where, "scan", "SP1")[1].startswith("usbmisc spectro0")
    assert cli(*where, "scan", "SP2")[0] == 4  # two say so
    said = "  below        /dev/spectro0 is taken by a.example/spectro as SP1-spectro"
    assert said in cli(*where, "scan", "1-1")[1].splitlines()
    assert said in cli(*where, "explain", "1-1")[1].splitlines()


def test_what_is_another_name_of_a_device_is_no_line_whatever_its_reason_says():
    oddities = (
        SkippedPath("/dev/a", "the same as /dev/b", is_alias=True),
        SkippedPath("/dev/c", "another name of none"),
    )
    lines = _format_skipped_paths(SimpleNamespace(skipped_paths={Source("node", ("/dev/*",)): oddities}))
    assert [line.partition("   ")[0] for line in lines] == ["no device: /dev/c: another name of none"]
