"""docs/health.md, check by check on a tree: what makes it fail, what it says, and that all is well before."""

import re
import shutil

import pytest

from agent.config.load import load
from agent.core.entry.kernel_log import KernelLogHistory, LogRecord
from agent.core.health.evaluation import Evaluation, evaluate
from agent.core.inventory.dirty_set import ALL_DIRTY
from agent.core.inventory.inventory import Inventory
from agent.scanners.host_reader import HostView
from agent.tracker.look_thread import run_look
from tests.cli.test_docs import blocks
from tests.tree import Tree

ADDRESS = "0000:3b:00.0"
SOUND = "0000:3b:00.1"
ROOT_PORT = "0000:3a:00.0"
CARD = f"/sys/devices/pci0000:00/{ROOT_PORT}/{ADDRESS}"


class Machine:
    """One entry of the page on a tree, an hour between two looks."""

    def __init__(self, name, top):
        (text,) = (text for _, text in blocks("docs/health.md") if text.startswith(f"# /etc/device-agent/{name}\n"))
        (top / "etc/resources.d").mkdir(parents=True)
        (top / "etc" / name).write_text(text)
        self.specs = load(str(top / "etc")).resources
        self.tree = Tree(top / "m")
        self.journal = KernelLogHistory()
        self.journal.set_logs(check.log for spec in self.specs for check in spec.checks if check.log)
        self.concluded = Evaluation()
        self.now = 0.0

    def say(self, line):
        """Something in the kernel log, just now."""
        self.journal.add_record(LogRecord(self.journal.last_number + 1, self.now + 3600, line))

    def faults(self, looks=1):
        """What fails after so many looks, by the device's name."""
        for _ in range(looks):
            self.now += 3600
            look, _ = run_look(HostView(self.tree.root), self.specs, Inventory(), ALL_DIRTY)
            names = (spec.name for spec in self.specs)
            self.concluded = evaluate(
                self.concluded,
                look.get_resource_candidates(),
                names,
                self.now,
                0.05,
                log_history=self.journal,
                changed_log_keys=None,
            )
        return {
            candidate.device.name: str(candidate.unhealthy_reason)
            for found in self.concluded.candidates.values()
            for candidate in found.values()
        }


def card(vendor, **files):
    """A card behind a root port that can have sixteen lanes of the fifth generation."""

    def make(machine):
        able = {"max_link_width": "16", "max_link_speed": "32.0 GT/s PCIe", "class": "0x060400\n"}
        above = machine.tree.pci(ROOT_PORT, **able)
        machine.tree.pci(ADDRESS, below=above, vendor=f"0x{vendor}", **files)

    return make


def accelerator(subsystem, **files):
    def make(machine):
        card("1234", **files)(machine)
        machine.tree.class_device(f"{CARD}/{subsystem}/x0", subsystem, "x0", 240, 0)
        machine.tree.link(f"{CARD}/{subsystem}/x0/device", CARD)

    return make


def network(machine):
    card("8086")(machine)
    machine.tree.netdev(CARD, "eth0", operstate="up", speed="100000")


def virtual_function(machine):
    card("8086", driver="ice")(machine)
    machine.tree.virtual_functions(CARD, VF)
    machine.tree.netdev(CARD, "eth0")


def of_an_npu(machine):
    card("1ed5")(machine)
    machine.tree.virtual_functions(CARD, VF, vendor="0x1ed5\n")


def hca(machine):
    card("15b3")(machine)
    machine.tree.infiniband(CARD, "mlx5_0", ports=2)


def disk(machine):
    link = {"current_link_width": "4", "max_link_width": "4"}
    link |= {"current_link_speed": "16.0 GT/s PCIe", "max_link_speed": "16.0 GT/s PCIe"}
    card("144d", **{"class": "0x010802\n"}, **link)(machine)
    machine.tree.node("/dev/nvme0n1", "b 259:0")
    machine.tree.link(DISK, "/dev/nvme0n1")


def function(machine):
    """One that is bound to vfio, with another in its group that is bound to nothing."""
    card("10de", driver="vfio-pci")(machine)
    machine.tree.vfio(12, CARD, machine.tree.pci(SOUND, below=CARD.rpartition("/")[0]))


def module(machine):
    accelerator("habanalabs")(machine)
    machine.tree.file("/sys/module/habanalabs/initstate", "live")
    machine.tree.file("/proc/devices", "Character devices:\n  1 mem\n511 habanalabs\n")


def driver(name):
    return lambda machine: machine.tree.link(f"{CARD}/driver", f"/sys/bus/pci/drivers/{name}")


def sound(name):
    """What drives the other function of the group; nothing if it has no name."""

    def change(machine):
        link = f"{CARD.rpartition('/')[0]}/{SOUND}/driver"
        if name:
            machine.tree.link(link, f"/sys/bus/pci/drivers/{name}")
        else:
            machine.tree.at(link).unlink()

    return change


def bound(machine):
    machine.tree.at("/sys/bus/pci/drivers/vfio-pci").mkdir(parents=True)
    machine.tree.at("/sys/bus/pci/drivers/ice").mkdir(parents=True)
    card("8086", driver="ice")(machine)


def says(file, text):
    """A file below the card."""
    return lambda machine: machine.tree.file(f"{CARD}/{file}", text)


def remove_file(path):
    return lambda machine: machine.tree.at(path).unlink()


def kernel(line):
    return lambda machine: machine.say(line)


VF = "0000:3b:01.0"
DISK = f"/dev/disk/by-path/pci-{ADDRESS}-nvme-1"
PORT = "infiniband/mlx5_0/ports"
AER = {"aer_dev_fatal": "DLP 0\nTOTAL_ERR_FATAL 0\n", "aer_dev_correctable": "RxErr 0\nTOTAL_ERR_COR 7\n"}
STATE = {"state": "ready", "errors": "3", "firmware": "2.1"}

# What there is, the device, and each change with what fails after it; empty if nothing does.
ROWS = [
    ("present", card("1ed5"), ADDRESS, [(says("config", b"\xff" * 4), f"present: {ADDRESS} fell off the bus")]),
    ("present", card("1ed5", power_state="D3cold", config=b"\xff" * 4), ADDRESS, []),
    (
        "present",
        of_an_npu,
        VF,
        [
            (says("config", b"\xff" * 64), f"present: {VF} fell off the bus"),
            (says("config", b"\xd5\x1e" + bytes(62)), ""),
            (says(f"../{VF}/config", b"\xff" * 64), f"present: {VF} fell off the bus"),
        ],
    ),
    ("driver", bound, ADDRESS, [(driver("vfio-pci"), "driver: bound to vfio-pci"), (driver("ice"), "")]),
    ("driver", bound, ADDRESS, [(remove_file(f"{CARD}/driver"), "driver: bound to ? (no driver is bound)")]),
    (
        "iommu",
        function,
        ADDRESS,
        [
            (sound("snd_hda_intel"), f"vfio: IOMMU group 12 is not viable: {SOUND} (snd_hda_intel)"),
            (sound("vfio-pci"), ""),
            (sound("pci-stub"), ""),
            (sound("xhci_hcd"), f"vfio: IOMMU group 12 is not viable: {SOUND} (xhci_hcd)"),
            (sound(""), ""),
            (remove_file("/dev/vfio/12"), "node vfio.group: vfio.group: /dev/vfio/12: no such file"),
        ],
    ),
    (
        "attribute",
        accelerator("accel", **STATE),
        "x0",
        [
            (says("state", "hung"), "state: hung, with 3 errors"),
            (says("state", "busy"), ""),
            (says("errors", "10"), "state: busy, with 10 errors"),
            (says("errors", "9"), ""),
            (says("firmware", "3.0"), "state: busy, with 9 errors"),
            (says("firmware", "2.0"), ""),
            (remove_file(f"{CARD}/firmware"), "state: busy, with 9 errors (no such file)"),
        ],
    ),
    (
        "temperature",
        card("1da3", **{"hwmon/hwmon3/temp1_input": "60000"}),
        ADDRESS,
        [
            (says("hwmon/hwmon3/temp1_input", "95001"), "heat: 95001 m°C"),
            (says("hwmon/hwmon3/temp1_input", "95000"), ""),
        ],
    ),
    ("temperature", card("1da3"), ADDRESS, []),
    (
        "link",
        network,
        "eth0",
        [
            (says("net/eth0/carrier", "0"), "link: eth0 has no link"),
            (says("net/eth0/carrier", "1"), ""),
            (says("net/eth0/operstate", "dormant"), "link: eth0 has no link"),
            (says("net/eth0/operstate", "up"), ""),
            (says("net/eth0/speed", "10000"), "speed: speed = { at_least = 25000 }, here 10000"),
        ],
    ),
    ("port", virtual_function, VF, [(says("net/eth0/carrier", "0"), "port: no link of eth0")]),
    ("port", virtual_function, VF, [(remove_file("/sys/class/net/eth0"), "")]),
    (
        "rdma",
        hca,
        "mlx5_0",
        [
            (says(f"{PORT}/2/state", "1: DOWN"), ""),
            (
                says(f"{PORT}/1/state", "1: DOWN"),
                'any: ports = { any = { state = "active" } }, here 1: state is down; 2: state is down',
            ),
            (
                says(f"{PORT}/2/state", "4: ACTIVE"),
                (
                    'first: ports = { any = { number = 1, state = "active", link_layer = "InfiniBand" } }, here 1:'
                    " state is down; 2: number is 2"
                ),
            ),
            (says(f"{PORT}/1/state", "4: ACTIVE"), ""),
            (
                says(f"{PORT}/2/phys_state", "2: Polling"),
                'every: ports = { every = { phys_state = "linkup" } }, here 2: phys_state is polling',
            ),
        ],
    ),
    ("pcie", disk, ADDRESS, [(says("current_link_width", "2"), "width: 2 lanes")]),
    ("pcie", disk, ADDRESS, [(says("current_link_speed", "8.0 GT/s PCIe"), "speed: 8.0 GT/s PCIe")]),
    ("pcie", disk, ADDRESS, [(says("max_link_width", "32"), "width: 4 lanes"), (says("max_link_width", "4"), "")]),
    ("pcie", disk, ADDRESS, [(remove_file(DISK), f"{DISK}: no such file")]),
    (
        "aer",
        card("10ee", **AER),
        ADDRESS,
        [
            (says("aer_dev_correctable", "TOTAL_ERR_COR 99\n"), ""),
            (says("aer_dev_correctable", "TOTAL_ERR_COR 199\n"), "corrected: corrected grew from 99 to 199"),
            (says("aer_dev_fatal", "DLP 1\nTOTAL_ERR_FATAL 1\n"), "fatal: fatal grew from 0 to 1"),
            (says("aer_dev_fatal", "DLP 0\nTOTAL_ERR_FATAL 0\n"), "fatal: fatal grew from 0 to 1"),
        ],
    ),
    ("aer", card("10ee"), ADDRESS, []),
    (
        "module",
        module,
        "x0",
        [
            (
                lambda machine: machine.tree.file("/proc/devices", "511 other\n"),
                'module: number_of = "habanalabs", here other',
            ),
            (
                lambda machine: machine.tree.file("/proc/devices", "511 habanalabs\n"),
                "",
            ),
            (
                lambda machine: shutil.rmtree(machine.tree.at("/sys/module/habanalabs")),
                "module: /sys/module/habanalabs = { exists = true }, here absent (no such file)",
            ),
        ],
    ),
    (
        "kernel-log",
        card("1e52"),
        ADDRESS,
        [
            (kernel(f"tenstorrent {ADDRESS}: fault 5: x"), ""),
            (kernel("tenstorrent 0000:99:00.0: fault 48: x"), ""),
            (kernel(f"tenstorrent {ADDRESS}: fault 12: x"), "fault: fault 12"),
            (kernel("nothing"), ""),
            (kernel(f"tenstorrent {ADDRESS}: fault 79: x"), "fault: fault 79"),
            (kernel("nothing"), "fault: fault 79"),
        ],
    ),
    (
        "xid",
        card("10de", **{"class": "0x030200\n"}),
        ADDRESS,
        [(kernel("NVRM: Xid (PCI:0000:3b:00): 95, pid=1, x"), "xid: Xid 95")],
    ),
]


@pytest.mark.parametrize(("name", "make", "device", "changes"), ROWS, ids=[row[0] for row in ROWS])
def test_a_check_of_the_page(name, make, device, changes, tmp_path):
    machine = Machine(f"resources.d/{name}.toml", tmp_path)
    make(machine)
    if name == "xid":
        machine.tree.node("/dev/nvidia0", "c 195:0")
        machine.tree.file(f"/proc/driver/nvidia/gpus/{ADDRESS}/information", "Device Minor: \t 0\n")
    assert machine.faults(3)[device] == ""
    for change, fault in changes:
        change(machine)
        assert machine.faults(1 if name in {"kernel-log", "xid"} else 3)[device] == fault


def test_every_entry_of_the_page_is_tried():
    shown = {
        re.match(r"# /etc/device-agent/resources\.d/(.+)\.toml\n", text)[1] for _, text in blocks("docs/health.md")
    }
    # What asks others is tried with them in tests/agent, what opens a node in tests/live.
    elsewhere = {"program", "service", "exporter", "probe", "opened"}
    assert shown - elsewhere == {row[0] for row in ROWS}
