"""USB serial sticks on a tree."""

import itertools

_GONE = itertools.count()


def stick(tree, port, tty, minor, serial="S1", bus="1"):
    """A USB serial stick in a port of a PCI controller, with its tty."""
    base = f"/sys/devices/pci0000:00/0000:00:14.0/usb{bus}/{bus}-{port}"
    if not tree.at("/sys/devices/pci0000:00/0000:00:14.0").exists():
        tree.pci("0000:00:14.0")
    tree.usb(base, "0403", "6001", serial=serial, devnum=10 + minor)
    tree.device(f"{base}/{bus}-{port}:1.0", "usb", bus=True)
    directory = f"{base}/{bus}-{port}:1.0/{tty}/tty/{tty}"
    tree.device(f"{base}/{bus}-{port}:1.0/{tty}", "usb-serial", bus=True)
    tree.class_device(directory, "tty", tty, 188, minor)
    return directory


def unstick(tree, directory, tty, minor):
    """Nothing is deleted, for a disk may deal the number of an inode again, and devtmpfs does not."""
    for path in (directory, f"/dev/{tty}", f"/sys/class/tty/{tty}", f"/sys/dev/char/188:{minor}"):
        tree.at(path).rename(tree.top / f"gone{next(_GONE)}")
