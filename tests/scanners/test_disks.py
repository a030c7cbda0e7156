"""What disks hold and who uses them, as udev and the kernel say it; and which of them class disk lists."""

import os

import pytest

from agent.config.load import load
from agent.core.entry.resource_spec import Source
from agent.core.inventory.dirty_set import ALL_DIRTY
from agent.core.inventory.inventory import Inventory
from agent.host import udev
from agent.scanners import source_kinds
from agent.scanners.host_reader import HostReader, HostView
from agent.tracker.look_thread import run_look
from tests.scanners.test_mounts import disk

SUBSYSTEM = "/sys/devices/virtual/nvme-subsystem/nvme-subsys0"
KINDS = {
    "filesystem": {"ID_FS_TYPE": "xfs", "ID_FS_USAGE": "filesystem"},
    "partitions": {"ID_PART_TABLE_TYPE": "gpt"},
    "swap": {"ID_FS_TYPE": "swap", "ID_FS_USAGE": "other"},
    "lvm": {"ID_FS_TYPE": "LVM2_member", "ID_FS_USAGE": "raid"},
    "raid": {"ID_FS_TYPE": "linux_raid_member", "ID_FS_USAGE": "raid"},
    "zfs": {"ID_FS_TYPE": "zfs_member", "ID_FS_USAGE": "raid"},
    "ceph": {"ID_FS_TYPE": "ceph_bluestore", "ID_FS_USAGE": "other"},
    "encryption": {"ID_FS_TYPE": "crypto_LUKS", "ID_FS_USAGE": "crypto"},
    "other": {"ID_FS_TYPE": "bcache", "ID_FS_USAGE": "other"},
    "multipath": {"DM_MULTIPATH_DEVICE_PATH": "1"},
}


def add_udev_entry(tree, number, **properties):
    """The entry of a block device in udev's database."""
    lines = "".join(f"E:{name}={value}\n" for name, value in properties.items())
    tree.file(f"/run/udev/data/b{number}", f"I:1234\n{lines}")


def sd(tree, name="sda", minor=0, *partitions):
    """A disk of SCSI, with its generic node."""
    host = tree.pci("0000:00:17.0", **{"class": "0x010601\n"})
    target = tree.device(f"{host}/ata1/host0/target0:0:{minor}/0:0:{minor}:0", "scsi", bus=True, wwid=f"naa.{minor}")
    made = disk(tree, f"{target}/block/{name}", (8, minor), *partitions)
    tree.file(f"{made}/size", "1000\n")
    tree.link(f"{made}/device", target)
    tree.class_device(f"{target}/scsi_generic/sg{minor}", "scsi_generic", f"sg{minor}", 21, minor)
    return made


def data(tree, kind, *arguments):
    """The data of each device of a source, by name."""
    source = Source(kind, arguments)
    reader = HostReader(HostView(tree.root))
    devices = source_kinds.list_devices(tree.root, [source], None, ALL_DIRTY).devices[source]
    return {device.name: reader.read_fact(device, "data") for device in devices}


@pytest.mark.parametrize("kind", KINDS)
def test_what_udev_has_found_on_a_disk(tree, kind):
    sd(tree)
    add_udev_entry(tree, "8:0", **KINDS[kind])
    assert data(tree, "subsystem", "block") == {"sda": (kind,)}


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({"ID_FS_TYPE": "zfs_member"}, "zfs"),
        ({"ID_FS_TYPE": "ext4"}, "filesystem"),
        ({"ID_FS_TYPE": "ddf_raid_member"}, "raid"),
        ({"ID_FS_TYPE": "crypto_LUKS"}, "encryption"),
        ({"ID_FS_TYPE": "BitLocker", "ID_FS_USAGE": "crypto"}, "encryption"),
        ({"ID_FS_TYPE": "of_tomorrow"}, "filesystem"),
        ({"ID_FS_UUID": "f00d"}, "filesystem"),
        ({"ID_FS_TYPE": "LVM1_member"}, "lvm"),
        ({"ID_FS_TYPE": "swsuspend", "ID_FS_USAGE": "other"}, "swap"),
    ],
)
def test_a_name_or_a_use_that_udev_does_not_say(tree, properties, kind):
    sd(tree)
    add_udev_entry(tree, "8:0", **properties)
    assert data(tree, "subsystem", "block") == {"sda": (kind,)}


def test_a_disk_holds_what_its_partitions_hold(tree):
    sd(tree, "sda", 0, 1, 9)
    add_udev_entry(tree, "8:0")
    add_udev_entry(tree, "8:1", ID_FS_TYPE="zfs_member")
    add_udev_entry(tree, "8:9")
    assert data(tree, "subsystem", "block")["sda"] == ("partitions", "zfs")
    assert data(tree, "subsystem", "block")["sda9"] == ()


def test_a_disk_is_held_through_its_partition_too(tree):
    made = sd(tree, "sda", 0, 1)
    add_udev_entry(tree, "8:0")
    add_udev_entry(tree, "8:1")
    tree.file(f"{made}/sda1/holders/dm-0")
    assert data(tree, "subsystem", "block")["sda"] == ("held", "partitions")


def test_a_disk_without_an_entry_in_udevs_database_is_not_proven_blank(tree):
    sd(tree, "sda", 0, 1)
    assert data(tree, "subsystem", "block")["sda"] == ("partitions", "unprobed")
    add_udev_entry(tree, "8:0")
    assert data(tree, "subsystem", "block")["sda"] == ("partitions", "unprobed")
    add_udev_entry(tree, "8:1")
    assert data(tree, "subsystem", "block")["sda"] == ("partitions",)


def test_a_disk_that_udev_is_still_to_probe_is_not_decided(tree):
    made = sd(tree)
    tree.file(udev.CONTROL)
    add_udev_entry(tree, "8:16")  # of another one: the database is there
    assert data(tree, "subsystem", "block")["sda"].pending
    os.utime(tree.at(made))
    add_udev_entry(tree, "8:0")
    assert data(tree, "subsystem", "block")["sda"] == ()


def test_other_nodes_of_a_disk_and_what_is_above_it_hold_the_same(tree):
    sd(tree)
    add_udev_entry(tree, "8:0", ID_FS_TYPE="xfs")
    nic = tree.pci("0000:3b:00.0")
    assert data(tree, "subsystem", "scsi_generic") == {"sg0": ("filesystem",)}
    assert data(tree, "pci") == {"0000:00:17.0": ("filesystem",), nic.rpartition("/")[2]: ()}


def namespace(tree, above, number, minor, **properties):
    made = disk(tree, f"{above}/nvme0n{number}", (259, minor))
    tree.class_device(f"{above}/ng0n{number}", "nvme-generic", f"ng0n{number}", 241, minor)
    add_udev_entry(tree, f"259:{minor}", **properties)
    return made


def controller(tree, index, *, subsystem=True):
    function = tree.pci(f"0000:1{index}:00.0", **{"class": "0x010802\n"})
    made = tree.class_device(f"{function}/nvme/nvme{index}", "nvme", f"nvme{index}", 240, index)
    if subsystem:
        tree.device(SUBSYSTEM, "nvme-subsystem")
        tree.link(f"{SUBSYSTEM}/nvme{index}", made)
    return made


def test_namespaces_below_their_controller(tree):
    namespace(tree, controller(tree, 0, subsystem=False), 1, 0, ID_FS_TYPE="xfs")
    assert data(tree, "subsystem", "nvme") == {"nvme0": ("filesystem",)}
    assert data(tree, "subsystem", "nvme-generic") == {"ng0n1": ("filesystem",)}
    assert data(tree, "pci") == {"0000:10:00.0": ("filesystem",)}


def test_namespaces_below_their_subsystem_are_their_controllers(tree):
    one = controller(tree, 0)
    tree.device(f"{one}/nvme0c0n1", "block", hidden="1\n")
    made = namespace(tree, SUBSYSTEM, 1, 0)
    namespace(tree, SUBSYSTEM, 2, 8, ID_PART_TABLE_TYPE="gpt")
    tree.file(f"{made}/holders/dm-0")
    assert data(tree, "subsystem", "nvme") == {"nvme0": ("held", "partitions")}
    assert data(tree, "pci") == {"0000:10:00.0": ("held", "partitions")}
    assert data(tree, "subsystem", "nvme-generic") == {"ng0n1": ("held",), "ng0n2": ("partitions",)}
    assert data(tree, "subsystem", "block") == {"nvme0c0n1": (), "nvme0n1": ("held",), "nvme0n2": ("partitions",)}
    controller(tree, 1)
    assert data(tree, "subsystem", "nvme") == dict.fromkeys(("nvme0", "nvme1"), ("held", "partitions", "shared"))


def test_the_nodes_of_a_controller_are_those_of_its_subsystem_too(tree):
    controller(tree, 0)
    made = namespace(tree, SUBSYSTEM, 1, 0)
    disk(tree, made, (259, 0), 1)
    source = Source("subsystem", ("nvme",))
    (device,) = source_kinds.list_devices(tree.root, [source], None, ALL_DIRTY).devices[source]
    reader = HostReader(HostView(tree.root))
    assert set(reader.read_fact(device, "nodes")) == {"/dev/nvme0", "/dev/ng0n1", "/dev/nvme0n1", "/dev/nvme0n1p1"}
    reader.read_fact(device, "data")
    assert {SUBSYSTEM, made} <= reader.get_read_paths(device)


@pytest.mark.parametrize("driver", ["ext4", "xfs", "f2fs", "btrfs"])
def test_a_disk_that_is_mounted_in_another_mount_namespace_is_mounted(tree, driver):
    made = sd(tree)
    tree.file("/sys/fs/ext4/features/lazy_itable_init")
    tree.file("/sys/fs/xfs/stats/stats")
    if driver == "btrfs":
        tree.link("/sys/fs/btrfs/f00d/devices/sda", made)
    else:
        tree.file(f"/sys/fs/{driver}/sda/x")
    source = Source("subsystem", ("block",))
    (device,) = source_kinds.list_devices(tree.root, [source], None, ALL_DIRTY).devices[source]
    assert HostReader(HostView(tree.root)).read_fact(device, "mounted") is True


@pytest.mark.parametrize("allowed", [None, *sorted(KINDS.keys() - {"multipath"}), "unprobed"])
def test_an_entry_of_class_disk_allows_what_it_names_and_nothing_else(tree, tmp_path, allowed):
    for minor, kind in enumerate([*KINDS, "blank", "unprobed"]):
        sd(tree, f"sd{chr(97 + minor)}", 16 * minor)
        if kind != "unprobed":
            add_udev_entry(tree, f"8:{16 * minor}", **KINDS.get(kind, {}))
    options = f'options.data = ["{allowed}"]\n' if allowed else ""
    (tmp_path / "etc/resources.d").mkdir(parents=True)
    (tmp_path / "etc/resources.d/a.toml").write_text(
        f'[[resource]]\nname = "a.example/disk"\nclass = "disk"\n{options}id = "{{name}}"\n'
    )
    look, _ = run_look(HostView(tree.root), load(str(tmp_path / "etc")).resources, Inventory(), ALL_DIRTY)
    listed = {
        candidate.device.name for found in look.get_resource_candidates().values() for candidate in found.values()
    }
    names = [*KINDS, "blank", "unprobed"]
    assert {names[ord(name[2]) - 97] for name in listed} == {"blank", *([allowed] if allowed else [])}
