"""The udev database, read as the files it is: /run/udev/data, one for each device that udev has dealt with.

udev writes one for every device with a node and for every network interface, when it has applied its rules to it; until
then nobody can tell what it will say. Such a device has been there since its node and its directory were made, and if
udev has said nothing after `NEW_SECONDS`, it will not: it came while no udevd ran. The next sweep finds that out.

Layout of a file: lines `E:KEY=VALUE` are properties (systemd, src/libsystemd/sd-device/device-private.c); its name
is `c10:229`, `b7:0`, `n3` (a network interface's index) or `+subsystem:name`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent.core.language.value import Absent
from agent.core.struct import Struct
from agent.host.root import Root

DATABASE = "/run/udev/data"
CONTROL = "/run/udev/control"  # udevd listens here: it is there exactly while udevd runs

PENDING_SECONDS = 10.0
PENDING_REASON = "udev has not finished with it"

_LIMIT = 65536  # bytes of one database file; DEVLINKS of a disk with many names outgrows a page


class UdevProperties(Struct):
    """The properties of one device.

    from_udev: false where the machine has no udev database. pending: udev has yet to say what it knows.
    recorded: the database has an entry of the device.
    """

    values: Mapping[str, str]
    has_database: bool
    is_pending: bool = False
    is_recorded: bool = False

    def get(self, name: str) -> str | Absent:
        """One property, or why there is none."""
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
    """Whether udev keeps a database on this machine."""
    return root.exists(DATABASE)


def read_properties(root: Root, directory: str) -> UdevProperties:
    """The properties of the device with that directory below /sys: its `uevent`, and what udev adds to it."""
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
    """The lines `KEY=value` of a device's `uevent`, as the kernel would send them."""
    text = root.read(f"{directory}/uevent")
    return {} if isinstance(text, Absent) else _parse_pairs(text.splitlines())


def _is_pending(root: Root, directory: str, values: Mapping[str, str]) -> bool:
    """Whether udev is there and has yet to write the file of a device that gets one."""
    if "MAJOR" not in values and "IFINDEX" not in values:
        return False
    paths = [directory, f"/dev/{values['DEVNAME'].removeprefix('/dev/')}"] if "DEVNAME" in values else [directory]
    return root.exists(CONTROL) and all(root.get_age(place) < PENDING_SECONDS for place in paths)


def _get_file_name(root: Root, directory: str, values: Mapping[str, str]) -> str:
    """The name of the device's file in the database."""
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
