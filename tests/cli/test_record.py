"""Recording a machine, and asking the recording what the machine would have said."""

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile

import pytest

from agent.core.language.value import Absent
from agent.host import recording
from agent.host.pseudonyms import replace_identifiers
from agent.host.recorder import NOT_RECORDED, Recorder, Recording
from agent.host.recording import RecordingError, unpack_recording, write_recording
from agent.host.root import Root
from tests.cli.conftest import device_agent
from tests.namespaces import need_namespaces

UUID = "7c1e94d2-05b3-4a88-9e61-d2f0b5a3c417"


@pytest.fixture
def machine(tree):
    tree.pci("0000:3b:00.0", driver="vfio-pci", numa_node="1\n")
    pf = tree.pci("0000:5e:00.0", driver="mlx5_core")
    tree.netdev(pf, "ens1", address="9c:dc:71:0a:0b:0c\n", phys_port_name="p0\n")
    tree.virtual_functions(pf, "0000:5e:00.1", "0000:5e:00.2", driver="iavf")
    tree.iommu_group(7, "/sys/devices/pci0000:00/0000:5e:00.1")
    tree.class_device("/sys/devices/virtual/misc/kvm", "misc", "kvm", 10, 232)
    for port in ("1-1", "1-2"):
        tree.usb(f"/sys/devices/pci0000:00/usb1/{port}", "0403", "6001", serial="A50285BI", devnum=int(port[-1]) + 1)
    tree.file("/run/udev/data/c189:1", "E:ID_SERIAL_SHORT=A50285BI\nE:ID_MODEL=FT232R\n")
    tree.file("/proc/sys/kernel/hostname", "gpu-node-07\n")
    tree.file("/proc/modules", "nvidia 1 0 - Live 0x0\n")
    tree.link("/dev/serial/by-id/usb-FTDI_A50285BI", "/dev/bus/usb/001/002")
    os.mkfifo(tree.at("/dev/initctl"))
    return tree


def run_scan(root):
    done = device_agent("--root", str(root), "scan", "--all", "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_record(machine, file, *more):
    done = device_agent("--root", str(machine.top), "record", str(file), *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_recording_answers_as_the_machine_did(machine, tmp_path, config):
    said = run_record(machine, tmp_path / "a.rec")
    assert run_scan(tmp_path / "a.rec") == run_scan(machine.top)
    assert re.search(r"read \d+ attributes, 3 nodes in .* s; no device was opened", said)
    assert "try: device-agent --root" in said
    directory = config('[[resource]]\nname = "a.example/vf"\nsource = "pci"\nmatch = { pf.netdev.name = "ens1" }\n')
    asked = [
        device_agent("--config", str(directory), "--root", str(root), "scan", "5e:00.1").stdout
        for root in (machine.top, tmp_path / "a.rec")
    ]
    assert asked[0] == asked[1]
    assert "a.example/vf" in asked[0]


def test_a_recording_of_a_recording_is_equal(machine, tmp_path):
    run_record(machine, tmp_path / "a.rec")
    done = device_agent("--root", str(tmp_path / "a.rec"), "record", str(tmp_path / "b.rec"))
    assert done.returncode == 0, done.stderr
    assert run_scan(tmp_path / "b.rec") == run_scan(machine.top)


def test_what_the_machine_itself_uses_is_played_back(machine, tmp_path):
    """It stands in lists of /proc, which are read in pieces."""
    machine.device("/sys/devices/virtual/block/sda", "block", uevent="MAJOR=8\nMINOR=0\nDEVNAME=sda\n")
    machine.link("/sys/dev/block/8:0", "/sys/devices/virtual/block/sda")
    machine.file("/proc/7/mountinfo", "27 1 8:0 / / rw - ext4 /dev/sda rw\n")
    machine.file("/proc/7/net/route", "Iface\tDestination\nens1\t00000000\t0101A8C0\t3\t0\t0\t100\t00000000\n")
    machine.link("/proc/self", "/proc/7")
    machine.link("/proc/net", "/proc/7/net")
    root = Recorder(str(machine.top))
    lists = ("/proc/self/mountinfo", "/proc/net/route")
    said = {path: root.read_list(path, 1 << 20) for path in lists}
    assert all(isinstance(each, bytes) for each in said.values()), said
    write_recording(root.build_recording(), str(tmp_path / "a.rec"))
    with unpack_recording(str(tmp_path / "a.rec")) as directory:
        assert {path: Root(directory).read_list(path, 1 << 20) for path in lists} == said
    run_record(machine, tmp_path / "b.rec")
    asked = [
        device_agent("--root", str(root), "scan", *device).stdout
        for device in (("ens1",), ("sda",))
        for root in (machine.top, tmp_path / "b.rec")
    ]
    assert asked[0::2] == asked[1::2]
    assert re.search(r"mounted +yes|mounted +true", asked[2]), asked[2]


BY_NAME = '[[resource]]\nname = "a.example/pf"\nsource = "net"\nmatch = { altnames.has = "pf-of-rack-7" }\n'


def test_what_the_kernel_told_by_calls_is_played_back(machine, tmp_path, config):
    """Names and clocks that no file says, and why something was not told."""
    nic = "/sys/devices/pci0000:00/0000:5e:00.0"
    machine.netdev(nic, "ens2")
    machine.class_device("/sys/devices/virtual/ptp/ptp4", "ptp", "ptp4", 249, 4)
    told = {
        f"{nic}/net/ens1/altnames": ["enp94s0", "pf-of-rack-7"],
        f"{nic}/net/ens1/ptp": ["ptp4"],
        f"{nic}/net/ens2/altnames": {"absent": "netlink: Permission denied", "unread": True},
        f"{nic}/net/ens2/ptp": [],
    }
    machine.file("/.told", json.dumps(told))
    run_record(machine, tmp_path / "a.rec")
    for root in (machine.top, tmp_path / "a.rec"):
        one, two = (item for item in run_scan(root) if item["name"] in {"ens1", "ens2"})
        assert one["attributes"]["altnames"] == ["enp94s0", "pf-of-rack-7"]
        assert one["attributes"]["ptp.node"] == "/dev/ptp4"
        assert (two["attributes"]["altnames"], two["attributes"].get("ptp.node")) == (None, None)
        entry = ("--config", str(config(BY_NAME)), "--root", str(root))
        assert "taken by     a.example/pf" in device_agent(*entry, "explain", "ens1").stdout
        assert "here absent (netlink: Permission denied)" in device_agent(*entry, "explain", "ens2").stdout


def test_alternative_names_of_a_running_kernel_are_in_its_recording(tmp_path, config):
    need_namespaces("--net", "--mount", tools=["ip"])
    script = """
set -e
mount -t sysfs sysfs /sys
ip link add va type veth peer name vb
ip link property add dev va altname pf-of-rack-7
exec "$0" -m agent record "$1"
"""
    file = tmp_path / "a.rec"
    done = subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-c", script, sys.executable, str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    of = ("--config", str(config(BY_NAME)), "--root", str(file))
    assert "never-matches" not in device_agent(*of, "check").stdout
    assert "taken by     a.example/pf" in device_agent(*of, "explain", "va").stdout
    assert "here empty" in device_agent(*of, "explain", "vb").stdout


@pytest.mark.parametrize("text", ["", "[]", '{"/a": 3}', '{"/a": [1]}', '{"/a": {}}', "\xff", "[" * 100_000])
def test_broken_notes_of_what_was_told_are_passed_over(tree, text):
    nic = tree.pci("0000:5e:00.0")
    tree.netdev(nic, "ens1")
    tree.file("/.told", text.encode("latin-1"))
    assert tree.root.query_kernel(f"{nic}/net/ens1/altnames", lambda: ("asked",)) is None
    assert tree.root.query_kernel("/a", lambda: ("asked",)) is None


def test_what_was_not_read_says_so(machine, tmp_path):
    machine.file("/sys/devices/pci0000:00/0000:3b:00.0/secret", "x")
    root = Recorder(str(machine.top))
    root.list_names("/sys/devices/pci0000:00/0000:3b:00.0")
    root.read("/sys/devices/pci0000:00/0000:3b:00.0/vendor")
    write_recording(root.build_recording(), str(tmp_path / "a.rec"))
    with unpack_recording(str(tmp_path / "a.rec")) as directory:
        back = Root(directory)
        there = set(back.list_names("/sys/devices/pci0000:00/0000:3b:00.0"))
        assert there == set(machine.root.list_names("/sys/devices/pci0000:00/0000:3b:00.0"))
        assert back.read("/sys/devices/pci0000:00/0000:3b:00.0/vendor") == "0x15b3"
        assert back.read("/sys/devices/pci0000:00/0000:3b:00.0/secret") == NOT_RECORDED
    assert not os.path.exists(directory)


def test_a_read_error_is_played_back(machine, tmp_path, monkeypatch):
    path = "/sys/devices/pci0000:00/0000:3b:00.0/vendor"
    root = Recorder(str(machine.top))
    why = Absent("cannot be read: Input/output error", unreadable=True)
    monkeypatch.setattr(Root, "_read_bytes", lambda *_, **__: why)
    root.read(path)
    monkeypatch.undo()
    write_recording(root.build_recording(), str(tmp_path / "a.rec"))
    with unpack_recording(str(tmp_path / "a.rec")) as directory:
        assert Root(directory).read(path) == why


def test_what_identifies_the_machine_is_replaced_equal_by_equal(machine, tmp_path):
    machine.file("/proc/driver/nvidia/gpus/0000:61:00.0/information", f"GPU UUID: GPU-{UUID}\n")
    said = run_record(machine, tmp_path / "a.rec", "--pseudonymise")
    assert "1 MAC, 1 UUID, 1 host name, 1 serial (equal stays equal)" in said
    with tarfile.open(tmp_path / "a.rec") as archive:
        text = b"".join(archive.extractfile(member).read() for member in archive if member.isreg())
        names = " ".join(f"{member.name} {member.linkname}" for member in archive.getmembers())
    for secret in ("A50285BI", "9c:dc:71:0a:0b:0c", "gpu-node-07", UUID):
        assert secret.encode() not in text, secret
        assert secret not in names, secret
    before, after = run_scan(machine.top), run_scan(tmp_path / "a.rec")
    assert [item["name"] for item in before] == [item["name"] for item in after]
    serials = {item["attributes"].get("serial") or item["attributes"].get("usb.serial") for item in after} - {None}
    assert len(serials) == 1
    assert re.fullmatch(r"[A-Z]\d{5}[A-Z]{2}", serials.pop())


def test_a_machine_called_as_the_kernel_calls_a_part_of_it_stays_whole(machine, tmp_path):
    machine.file("/proc/sys/kernel/hostname", "node1\n")
    machine.file("/sys/devices/system/node/node0/x")
    machine.file("/sys/devices/system/node/node1/x")
    machine.link("/sys/bus/node/devices/node1", "/sys/devices/system/node/node1")
    machine.link("/dev/mapper/node1-root", "/dev/kvm")
    made = Recorder(str(machine.top))
    made.list_names("/sys/devices/system/node")
    made.resolve("/sys/bus/node/devices/node1")
    made.resolve("/dev/mapper/node1-root")
    made.read("/proc/sys/kernel/hostname")
    hidden, replaced = replace_identifiers(made.build_recording(), b"key")
    assert replaced == {"host name": 1}
    assert "/sys/devices/system/node/node1" in hidden.directories
    assert hidden.links["/sys/bus/node/devices/node1"].endswith("system/node/node1")
    (name,) = (path for path in hidden.links if path.startswith("/dev/mapper/"))
    said = hidden.contents["/proc/sys/kernel/hostname"].decode().strip()
    assert said != "node1"
    assert name == f"/dev/mapper/{said}-root"


def test_a_disguise_keeps_shapes_and_what_says_nothing():
    told = Recording(
        contents={
            "/sys/a/net/eth0/address": b"00:00:00:00:00:00\n",
            "/sys/a/serial": b"1\n",
            "/sys/b/uuid": UUID.encode(),
            "/sys/c/text": f"x{UUID}y".encode(),
        },
        links={f"/sys/bus/mdev/devices/{UUID}": f"../../{UUID}"},
    )
    made, counted = replace_identifiers(told, b"key")
    other = made.contents["/sys/b/uuid"].decode()
    assert other != UUID
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", other)
    assert made.contents["/sys/c/text"] == f"x{other}y".encode()
    assert made.links == {f"/sys/bus/mdev/devices/{other}": f"../../{other}"}
    assert made.contents["/sys/a/net/eth0/address"] == b"00:00:00:00:00:00\n"
    assert made.contents["/sys/a/serial"] == b"1\n"
    assert counted == {"UUID": 1}
    assert replace_identifiers(told, b"other key")[0] != made
    assert replace_identifiers(told, b"key")[0] == made


def test_a_name_that_is_made_of_an_address_is_replaced_wherever_it_stands():
    net = "/sys/devices/virtual/net"
    told = Recording(
        directories=frozenset({f"{net}/enx9cdc710a0b0c"}),
        contents={"/run/udev/data/n2": b"E:ID_NET_NAME_MAC=enx9cdc710a0b0c\n"},
        kernel_answers={
            f"{net}/enx9cdc710a0b0c/altnames": ("enx9cdc710a0b0d", "gpu0"),
            f"{net}/lo/altnames": Absent("why"),
        },
    )
    made, counted = replace_identifiers(told, b"key")
    assert counted == {"interface name": 2}
    (directory,) = made.directories
    assert re.fullmatch(rf"{net}/enx[0-9a-f]{{12}}", directory)
    assert directory != f"{net}/enx9cdc710a0b0c"
    assert made.contents["/run/udev/data/n2"].decode() == f"E:ID_NET_NAME_MAC={directory.rpartition('/')[2]}\n"
    first, second = made.kernel_answers[f"{directory}/altnames"]
    assert (first[:3], first != "enx9cdc710a0b0d", second) == ("enx", True, "gpu0")
    assert made.kernel_answers[f"{net}/lo/altnames"] == Absent("why")


def test_a_file_that_is_there_stays(machine, tmp_path):
    (tmp_path / "a.rec").write_text("mine")
    done = device_agent("--root", str(machine.top), "record", str(tmp_path / "a.rec"))
    assert (done.returncode, (tmp_path / "a.rec").read_text()) == (1, "mine")
    assert "exists already" in done.stderr
    done = device_agent("--root", str(machine.top), "record", "/nowhere/a.rec")
    assert (done.returncode, done.stderr) == (1, "device-agent record: /nowhere/a.rec: No such file or directory\n")


def archive(path, *members):
    with tarfile.open(path, "w:gz") as made:
        for name, kind, more in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            if kind == tarfile.REGTYPE:
                member.size = len(more)
                made.addfile(member, io.BytesIO(more))
            else:
                member.linkname = more
                made.addfile(member)


@pytest.mark.parametrize(
    "member",
    [
        ("../outside", tarfile.REGTYPE, b"x"),
        ("/sys/../../outside", tarfile.REGTYPE, b"x"),
        ("sys/a", tarfile.SYMTYPE, "/etc/shadow"),
        ("sys/a", tarfile.SYMTYPE, "../../../etc/shadow"),
        ("sys/a", tarfile.LNKTYPE, "/etc/shadow"),
        ("dev/a", tarfile.CHRTYPE, ""),
        ("dev/a", tarfile.FIFOTYPE, ""),
    ],
)
def test_a_recording_from_anybody_stays_in_its_directory(tmp_path, member):
    archive(tmp_path / "a.rec", ("sys", tarfile.DIRTYPE, ""), member)
    done = device_agent("--root", str(tmp_path / "a.rec"), "scan")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no recording" in done.stderr
    assert not (tmp_path / "outside").exists()


def test_links_whose_way_is_too_long_to_be_told_lead_nothing_out(tmp_path, monkeypatch):
    """As CVE-2025-4517: what `realpath` finds too long for the kernel it takes for no link, and the kernel follows."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    long, short = "d" * 247, "abcdefghijklmnop"
    deep = [("/".join([long] * depth), name) for depth, name in enumerate(short)]
    up = f"{'/'.join(short)}/{'l' * 254}"
    archive(
        tmp_path / "a.rec",
        ("sys", tarfile.DIRTYPE, ""),
        *(
            member
            for at, name in deep
            for member in ((f"{at}/{long}", tarfile.DIRTYPE, ""), (f"{at}/{name}", tarfile.SYMTYPE, long))
        ),
        (up, tarfile.SYMTYPE, "../" * len(short)),
        ("escape", tarfile.SYMTYPE, f"{up}/.."),
        ("escape/evil", tarfile.REGTYPE, b"x"),
    )
    with pytest.raises(RecordingError, match="a file and a directory"), unpack_recording(str(tmp_path / "a.rec")):
        pytest.fail("unpacked")
    assert [path.name for path in tmp_path.iterdir()] == ["a.rec"]


def test_a_link_that_another_leads_out_is_none_of_a_recording(tmp_path):
    archive(
        tmp_path / "a.rec",
        ("sys", tarfile.DIRTYPE, ""),
        ("out", tarfile.SYMTYPE, "later/.."),
        ("later", tarfile.SYMTYPE, "."),
    )
    with pytest.raises(RecordingError, match="'out' leads out of it"), unpack_recording(str(tmp_path / "a.rec")):
        pytest.fail("unpacked")


def test_a_recording_is_not_unpacked_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "SIZE_LIMIT", 1000)
    archive(tmp_path / "a.rec", ("sys", tarfile.DIRTYPE, ""), ("sys/a", tarfile.REGTYPE, bytes(1001)))
    with pytest.raises(RecordingError, match="no recording: more than"), unpack_recording(str(tmp_path / "a.rec")):
        pytest.fail("unpacked")


def headers(kind: bytes, size: int, count: int) -> bytes:
    """A tar that begins with headers that speak of what follows them, which is headers again."""
    member = tarfile.TarInfo("x")
    member.type, member.size = kind, size
    return (member.tobuf(tarfile.GNU_FORMAT) + bytes(size)) * count + bytes(1024)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (headers(tarfile.XHDTYPE, 0, 3000), "headers of headers without end"),
        (headers(tarfile.XHDTYPE, 4 << 20, 1), "a header of 4194304 bytes"),
        (headers(tarfile.GNUTYPE_LONGNAME, 4 << 20, 1), "a header of 4194304 bytes"),
    ],
)
def test_headers_neither_fill_the_memory_nor_the_stack(tmp_path, data, said):
    with gzip.open(tmp_path / "a.rec", "wb") as file:
        file.write(data)
    with pytest.raises(RecordingError, match=said), unpack_recording(str(tmp_path / "a.rec")):
        pytest.fail("unpacked")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (
            [("sys/a", tarfile.REGTYPE, b""), ("sys/a/b", tarfile.REGTYPE, b"")],
            "a name in it is a file and a directory",
        ),
        ([("sys/a", tarfile.DIRTYPE, ""), ("sys/a", tarfile.REGTYPE, b"")], "a name in it is a file and a directory"),
        ([(f"sys/{'a' * 300}", tarfile.REGTYPE, b"")], "File name too long"),
    ],
)
def test_names_that_no_directory_can_have_are_said_in_one_line(tmp_path, members, said):
    archive(tmp_path / "a.rec", ("sys", tarfile.DIRTYPE, ""), *members)
    done = device_agent("--root", str(tmp_path / "a.rec"), "scan")
    assert done.returncode == 2
    assert re.fullmatch(rf"device-agent scan: --root \S+: .*{said}\n", done.stderr)


@pytest.mark.parametrize("data", [b"", b"text", b"\x1f\x8b\x08junk", b"PK\x03\x04"])
def test_what_is_no_recording_is_said_in_one_line(tmp_path, data):
    (tmp_path / "a.rec").write_bytes(data)
    done = device_agent("--root", str(tmp_path / "a.rec"), "scan")
    assert done.returncode == 2
    assert re.fullmatch(r"device-agent scan: --root \S+: no recording: .*\n", done.stderr)


def test_broken_notes_of_what_was_unread_are_passed_over(tree):
    for text in ("", "[]", '{"/a": 3}', '{"/a": [1]}', "\xff", "[" * 100_000):
        tree.file("/.unread", text.encode("latin-1"))
        tree.file("/sys/a", "1")
        assert tree.root.read("/sys/a") == "1"
