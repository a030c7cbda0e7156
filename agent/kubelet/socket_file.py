"""The socket file of an endpoint in a directory of the kubelet's: its name, its making, its end."""

from __future__ import annotations

import os
import re
import socket
import stat
import time
from collections.abc import Collection
from contextlib import suppress

from agent.core.language.template import compute_digest

PREFIX = "device-agent-"
PATH_LIMIT = 107  # bytes of a Unix socket's path (sun_path, with its closing zero, has 108)
MODE = 0o600

_OWN_NAME = re.compile(rf"\.?{PREFIX}[0-9a-f]{{10}}-[0-9a-z]+\.sock")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_last_generation = 0


def make_generation() -> str:
    """A short token never given before, in this life or an earlier one."""
    global _last_generation  # noqa: PLW0603  the whole process shares one count
    _last_generation = max(_last_generation + 1, time.time_ns() // 1000)
    digits = []
    remaining = _last_generation
    while remaining:
        remaining, digit = divmod(remaining, 36)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))


def format_socket_name(resource: str, generation: str) -> str:
    """The base name of a resource's socket."""
    return f"{PREFIX}{compute_digest(resource, 10)}-{generation}.sock"


def compute_path_length(directory: str) -> int:
    """Bytes that the path of a socket in that directory will have; more than PATH_LIMIT cannot be bound."""
    return len(os.fsencode(directory)) + len(f"/.{PREFIX}0123456789-{make_generation()}.sock")


class SocketFile:
    """A socket of ours, bound, to be listened on by its owner."""

    def __init__(self, directory: str, name: str, *, hidden: bool) -> None:
        """Bind it. With `hidden` under a dot name that the plugin watcher passes over, until `show`.

        Raises:
            OSError: the directory is not there or cannot be written, or the path is too long.
        """
        self.name = name
        self.path = os.path.join(directory, name)
        self._bound_path = os.path.join(directory, f".{name}") if hidden else self.path
        if len(os.fsencode(self._bound_path)) > PATH_LIMIT:
            raise OSError(f"{self._bound_path}: longer than the {PATH_LIMIT} bytes that a socket's path may have")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # On Linux the file gets the mode of the socket; a umask would be the whole process's.
            os.fchmod(self.socket.fileno(), MODE)
            self.socket.bind(self._bound_path)
            self._identity = _identify(self._bound_path)
        except BaseException:
            self.socket.close()
            raise

    def show(self) -> None:
        """Give it its name, now that it listens: the rename is what the watcher sees."""
        if self._bound_path != self.path:
            os.rename(self._bound_path, self.path)
            self._bound_path = self.path

    @property
    def is_present(self) -> bool:
        """Whether the file is still there, and still this one."""
        return self._identity is not None and _identify(self.path) == self._identity

    def remove(self) -> None:
        """Unlink the file, unless it is gone or another's by now."""
        if self._identity is not None and _identify(self._bound_path) == self._identity:
            with suppress(OSError):  # what stays is removed as stale by the next life
                os.unlink(self._bound_path)


def remove_stale_sockets(directory: str, keep: Collection[str] = ()) -> list[str]:
    """Remove the sockets that earlier lives left in a directory; the names of those removed.

    Only sockets whose name is of our making and where nobody listens, and none named in `keep`; never another's file.
    """
    removed = []
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    for name in names:
        path = os.path.join(directory, name)
        if name in keep or not _OWN_NAME.fullmatch(name):
            continue
        with suppress(OSError):
            if stat.S_ISSOCK(os.lstat(path).st_mode) and not _is_listening(path):
                os.unlink(path)
                removed.append(name)
    return removed


def _is_listening(path: str) -> bool:
    """Whether somebody listens at a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except OSError:
            return True  # it has more to do than it can (EAGAIN), or is not for us to judge
    return True


def _identify(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
