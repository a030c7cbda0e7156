"""Why something of the machine could not be had, in the words that people and programs read."""

from __future__ import annotations

import errno
import os
import stat

from agent.core.language.value import Absent

_ORDINARY = {
    errno.ENOENT: Absent("no such file"),
    errno.ENOTDIR: Absent("no such file"),
    errno.EISDIR: Absent("is a directory"),
    errno.ELOOP: Absent("a loop of links"),
    errno.ENAMETOOLONG: Absent("the name is too long"),
    errno.ENXIO: Absent("no such device"),
    errno.ENODEV: Absent("no such device"),
    errno.EOPNOTSUPP: Absent("not supported by the device"),  # what a net driver says of phys_port_name
}


def kind_of(mode: int) -> str:
    """What stands there, by its mode, in place of what was wanted."""
    if stat.S_ISDIR(mode):
        return "is a directory"
    if stat.S_ISFIFO(mode):
        return "is a FIFO"
    if stat.S_ISSOCK(mode):
        return "is a socket"
    return "is a plain file" if stat.S_ISREG(mode) else "is a device node"


def absent(error: OSError | ValueError) -> Absent:
    """Why something could not be had; `unread` unless it is simply not there."""
    if not isinstance(error, OSError):
        return Absent("no file has such a name")
    ordinary = _ORDINARY.get(error.errno or 0)
    return ordinary or Absent(f"cannot be read: {os.strerror(error.errno or errno.EIO)}", unreadable=True)
