"""Reasons why something on the host cannot be read, in the words that people and programs read."""

from __future__ import annotations

import errno
import os
import stat

from agent.core.language.value import Absent

NO_SUCH_FILE = Absent("no such file")

_ORDINARY = {
    errno.ENOENT: NO_SUCH_FILE,
    errno.ENOTDIR: NO_SUCH_FILE,
    errno.EISDIR: Absent("is a directory"),
    errno.ELOOP: Absent("a loop of links"),
    errno.ENAMETOOLONG: Absent("the name is too long"),
    errno.ENXIO: Absent("no such device"),
    errno.ENODEV: Absent("no such device"),
    errno.EOPNOTSUPP: Absent("not supported by the device"),  # the answer of network drivers for phys_port_name
}


_BY_TYPE = {
    stat.S_IFDIR: Absent("is a directory"),
    stat.S_IFIFO: Absent("is a FIFO"),
    stat.S_IFSOCK: Absent("is a socket"),
    stat.S_IFREG: Absent("is a plain file"),
}
_NODE = Absent("is a device node")
TYPE_REASONS = frozenset((*_BY_TYPE.values(), _NODE))  # the path exists, but has another file type


def get_type_reason(mode: int) -> Absent:
    """Return the reason that another type of file has this path, by its mode: one of `TYPE_REASONS`."""
    return _BY_TYPE.get(stat.S_IFMT(mode), _NODE)


def make_absent(error: OSError | ValueError) -> Absent:
    """Return the reason for an error. It is `unreadable` unless the file does not exist."""
    if not isinstance(error, OSError):
        return Absent("no file has such a name")
    ordinary = _ORDINARY.get(error.errno or 0)
    return ordinary or Absent(f"cannot be read: {os.strerror(error.errno or errno.EIO)}", unreadable=True)
