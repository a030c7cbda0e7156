"""Trees from the device dumps that umockdev-record writes, and that people attach to bug reports.

One paragraph for each device: `P:` its path below /sys, `N:` its node, `S:` a link below /dev, `E:` a property, `A:`
and `H:` an attribute as text (with \\n) and in hexadecimal, `L:` an attribute that is a link; an IOMMU group lists
those that lead to it.

    python -m tests.scenarios.dump FILE DIRECTORY

makes of such a file a directory for `--root`.
"""

import os
import re
import sys
from pathlib import Path

from tests.tree import Tree

MACHINES = Path(__file__).parent / "machines"

# Of these the kernel lists devices under /sys/bus; of the others under /sys/class.
BUSES = {
    "acpi",
    "auxiliary",
    "cxl",
    "dax",
    "dsa",
    "gpio",
    "hid",
    "i2c",
    "mdev",
    "mei",
    "pci",
    "platform",
    "scsi",
    "serio",
}
BUSES |= {"spi", "usb", "usb-serial", "vdpa", "virtio", "vmbus", "wmi"}
OF_UDEV = re.compile(r"ID_|DEVLINKS$|TAGS$|CURRENT_TAGS$|USEC_INITIALIZED$|SYSTEMD_")


def plug(tree: Tree, text: str) -> list[tuple[str, str]]:
    """Put the devices of a dump into a tree; their directories, with the subsystems that list them."""
    return [_device(tree, part.splitlines()) for part in _parts(text)]


def machine(name: str) -> str:
    """The dump of a machine that scenarios share."""
    return (MACHINES / f"{name}.dump").read_text()


def without(text: str, paths: list[str]) -> str:
    """A dump without some devices, each with what is below it; a path that it does not have fails."""
    gone = _parts(below(text, paths))
    return "\n\n".join(part for part in _parts(text) if part not in gone)


def below(text: str, paths: list[str]) -> str:
    """Of a dump some devices, each with what is below it; a path that it does not have fails."""
    found = {path: [part for part in _parts(text) if f"{_path(part)}/".startswith(f"{path}/")] for path in paths}
    assert all(found.values()), f"no such device: {[path for path, parts in found.items() if not parts]}"
    return "\n\n".join(part for parts in found.values() for part in parts)


def upon(text: str, other: str) -> str:
    """A dump with what another says instead or besides: in a paragraph of the same path only the lines that differ.

    A line takes the place of the one that says the same property, attribute or link; one that changes nothing fails.
    """
    devices = {_path(part): _lines(part) for part in _parts(text)}
    for part in _parts(other):
        known = devices.setdefault(_path(part), {})
        again = known.items() & _lines(part).items() - {("P", f"P: {_path(part)}")}
        assert not again, f"the machine says so: {_path(part)}: {again}"
        known |= _lines(part)
    return "\n\n".join("\n".join(lines.values()) for lines in devices.values())


def unplug(tree: Tree, path: str) -> list[tuple[str, str]]:
    """Take a device out, everything below it first, with its nodes and links; directories and subsystems.

    It is moved aside and stays: a disk would give its inode numbers to what comes next, which sysfs and /dev never do.
    """
    top = f"/sys{path}" if path.startswith("/devices/") else path
    gone: list[tuple[str, str]] = []
    for here, _, files in os.walk(tree.at(top), topdown=False):
        directory = f"/{os.path.relpath(here, tree.top)}"
        subsystem = os.path.join(here, "subsystem")
        if os.path.islink(subsystem):
            gone.append((directory, os.path.basename(os.readlink(subsystem))))
        if "uevent" in files:
            _forget_node(tree, directory)
    _move_away(tree, top)
    for listed in ("/sys/bus", "/sys/class", "/sys/dev", "/dev", "/sys/kernel/iommu_groups"):
        _drop_dangling(tree, listed)
    return gone


def _parts(text: str) -> list[str]:
    return [part for part in re.split(r"\n\s*\n", text.strip()) if part]


def _path(part: str) -> str:
    (path,) = re.findall(r"^P: (.+)$", part, re.MULTILINE)
    return path


def _lines(part: str) -> dict[str, str]:
    """The lines of a paragraph by what they are about; links below /dev stand side by side."""
    lines = {}
    for line in part.splitlines():
        kind, _, value = line.partition(": ")
        name = value if kind == "S" else "" if kind in "PN" else value.partition("=")[0]
        lines[f"{kind.replace('H', 'A')} {name}".strip()] = line
    return lines


def _device(tree: Tree, lines: list[str]) -> tuple[str, str]:
    values: dict[str, list[str]] = {}
    for line in (line.strip() for line in lines if line.strip() and not line.startswith("#")):
        kind, _, value = line.partition(": ")
        values.setdefault(kind, []).append(value)
    assert set(values) <= set("PNSEAHL"), f"no such lines in a dump: {set(values) - set('PNSEAHL')}"
    (path,) = values["P"]
    directory = f"/sys{path}"
    properties = dict(value.split("=", 1) for value in values.get("E", ()))
    subsystem = properties.pop("SUBSYSTEM")
    tree.device(directory, subsystem, bus=subsystem in BUSES)
    if values.get("N"):
        properties.setdefault("DEVNAME", values["N"][0])
        number = f"{properties['MAJOR']}:{properties['MINOR']}"
        kind = "b" if subsystem == "block" else "c"
        tree.file(f"{directory}/dev", f"{number}\n")
        tree.link(f"/sys/dev/{'char' if kind == 'c' else 'block'}/{number}", directory)
        tree.node(f"/dev/{values['N'][0]}", f"{kind} {number}")
        if any(OF_UDEV.match(name) for name in properties):
            tree.file(f"/run/udev/data/{kind}{number}", "".join(f"E:{k}={v}\n" for k, v in properties.items()))
    tree.file(f"{directory}/uevent", "".join(f"{k}={v}\n" for k, v in properties.items() if not OF_UDEV.match(k)))
    for link in values.get("S", ()):
        tree.link(f"/dev/{link}", f"/dev/{values['N'][0]}")
    for name, value in (each.split("=", 1) for each in values.get("A", ())):
        tree.file(f"{directory}/{name}", value.replace("\\n", "\n"))
    for name, value in (each.split("=", 1) for each in values.get("H", ())):
        tree.file(f"{directory}/{name}", bytes.fromhex(value))
    if subsystem == "pci":
        _as_the_kernel(tree, directory, virtual=any(each.startswith("physfn=") for each in values.get("L", ())))
    for name, target in (each.split("=", 1) for each in values.get("L", ())):
        tree.link(f"{directory}/{name}", target)
        here = os.path.dirname(f"{directory}/{name}")
        led = os.path.normpath(f"{here}/{target}")
        tree.at(led).mkdir(parents=True, exist_ok=True)
        if name == "iommu_group":
            tree.link(f"{led}/devices/{os.path.basename(path)}", directory)
    return directory, subsystem


def _as_the_kernel(tree: Tree, directory: str, *, virtual: bool) -> None:
    """Assert that config space says what the files say, or is all ones (a dead function).

    The vendor and device registers of a virtual function are all ones, and the rest is not (SR-IOV 9.3.4.1).
    """
    config, vendor, device = (tree.at(f"{directory}/{name}") for name in ("config", "vendor", "device"))
    assert config.exists() or not virtual, f"{directory}: a virtual function has config space"
    if not (config.exists() and vendor.exists() and device.exists()):
        return
    said = config.read_bytes()
    files = b"".join(int(file.read_text(), 16).to_bytes(2, "little") for file in (vendor, device))
    right = len(said) > 4 and said[:4] == b"\xff" * 4 if virtual else said[:4] == files
    assert right or not said.strip(b"\xff"), f"{directory}: config space is not that of {files.hex()}"


def _forget_node(tree: Tree, directory: str) -> None:
    name = re.search(r"^DEVNAME=(?:/dev/)?(.+)$", tree.at(f"{directory}/uevent").read_text(), re.MULTILINE)
    if name:
        _move_away(tree, f"/dev/{name[1]}")


def _move_away(tree: Tree, path: str) -> None:
    gone = tree.top.with_name(f"{tree.top.name}.gone")
    gone.mkdir(exist_ok=True)
    if os.path.lexists(tree.at(path)):
        tree.at(path).rename(gone / str(len(os.listdir(gone))))


def _drop_dangling(tree: Tree, top: str) -> None:
    for here, directories, files in os.walk(tree.at(top)):
        for name in (*directories, *files):
            entry = os.path.join(here, name)
            if os.path.islink(entry) and not os.path.exists(entry):
                os.unlink(entry)


if __name__ == "__main__":
    plug(Tree(Path(sys.argv[2])), Path(sys.argv[1]).read_text())
