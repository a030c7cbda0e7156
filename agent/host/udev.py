"""The udev database, read from its files: /run/udev/data has one for each device that udev has processed.

udev writes a file for every device with a node and for every network interface, after it applied its rules. Until then
nobody knows its content. The age of such a device is that of its node and directory. If udev has written nothing after
`PENDING_SECONDS`, it will not: the device was added while no udevd ran. The next full rescan finds that.

File format: lines `E:KEY=VALUE` are properties (systemd, src/libsystemd/sd-device/device-private.c). The file name is
`c10:229`, `b7:0`, `n3` (the index of a network interface) or `+subsystem:name`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent.core.language.value import Absent
from agent.core.struct import Struct
from agent.host.root import Root

DATABASE = "/run/udev/data"
CONTROL = "/run/udev/control"  # the socket of udevd: it exists exactly while udevd runs

PENDING_SECONDS = 10.0
PENDING_REASON = "udev has not finished with it"

_LIMIT = 65536  # bytes of one database file. DEVLINKS of a disk with many names exceeds a page


class UdevProperties(Struct):
    """The properties of one device.

    has_database: false if the machine has no udev database.
    is_pending: udev has not processed the device yet.
    is_recorded: the database has an entry of the device.
    """

    values: Mapping[str, str]
    has_database: bool
    is_pending: bool = False
    is_recorded: bool = False

    def get(self, name: str) -> str | Absent:
        """Return one property, or the reason why it has no value."""
        value = self.values.get(name)
        if value is not None:
            return value
        if self.is_pending:
            return Absent(PENDING_REASON, pending=True)
        reason = (
            "udev says no such property" if self.has_database else "no udev database here, and uevent does not say it"
        )
        return Absent(reason)


def has_database(root: Root) -> bool:
    """Return whether udev has a database on this machine."""
    return root.exists(DATABASE)


def read_properties(root: Root, directory: str) -> UdevProperties:
    """Return the properties of the device with this directory below /sys: its `uevent` and the properties that udev
    adds.
    """
    values = read_uevent(root, directory)
    if not has_database(root):
        return UdevProperties(values, has_database=False, is_pending=_is_pending(root, directory, values))
    data = root.read_head(f"{DATABASE}/{_get_file_name(root, directory, values)}", _LIMIT)
    if isinstance(data, Absent):
        pending = not data.unreadable and _is_pending(root, directory, values)
        return UdevProperties(values, has_database=True, is_pending=pending)
    lines = data.decode("utf-8", "surrogateescape").splitlines()
    values.update(_parse_pairs(line[2:] for line in lines if line.startswith("E:")))
    return UdevProperties(values, has_database=True, is_recorded=True)


def read_uevent(root: Root, directory: str) -> dict[str, str]:
    """Return the `KEY=value` lines of the `uevent` of a device, as the kernel would send them."""
    text = root.read(f"{directory}/uevent")
    return {} if isinstance(text, Absent) else _parse_pairs(text.splitlines())


def _is_pending(root: Root, directory: str, values: Mapping[str, str]) -> bool:
    """Return whether udev runs and has not yet written the file of a device that gets one."""
    if "MAJOR" not in values and "IFINDEX" not in values:
        return False
    paths = [directory, f"/dev/{values['DEVNAME'].removeprefix('/dev/')}"] if "DEVNAME" in values else [directory]
    return root.exists(CONTROL) and all(root.get_age(place) < PENDING_SECONDS for place in paths)


def _get_file_name(root: Root, directory: str, values: Mapping[str, str]) -> str:
    """Return the file name of the device in the database."""
    subsystem = root.read_link_name(f"{directory}/subsystem")
    if "MAJOR" in values and "MINOR" in values:
        return f"{'b' if subsystem == 'block' else 'c'}{values['MAJOR']}:{values['MINOR']}"
    if "IFINDEX" in values:
        return f"n{values['IFINDEX']}"
    return f"+{subsystem if isinstance(subsystem, str) else ''}:{directory.rpartition('/')[2]}"


def _parse_pairs(lines: Iterable[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for line in lines:
        key, mark, value = line.partition("=")
        if mark:
            pairs[key] = value
    return pairs
