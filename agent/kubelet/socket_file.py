"""The socket file of an endpoint in a directory of the kubelet."""

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
    """Return a short token that was never used before, by this or an earlier process."""
    global _last_generation  # noqa: PLW0603  one counter for the whole process
    _last_generation = max(_last_generation + 1, time.time_ns() // 1000)
    digits = []
    remaining = _last_generation
    while remaining:
        remaining, digit = divmod(remaining, 36)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))


def format_socket_name(resource: str, generation: str) -> str:
    """Return the file name of a resource's socket."""
    return f"{PREFIX}{compute_digest(resource, 10)}-{generation}.sock"


class SocketFile:
    """A bound socket. Its owner listens on it."""

    def __init__(self, directory: str, name: str, *, hidden: bool) -> None:
        """Bind the socket. If `hidden`, use a dot name, which the plugin watcher ignores until `show`.

        Raises:
            OSError: the directory is missing or not writable, or the path is too long.
        """
        self.name = name
        self.path = os.path.join(directory, name)
        self._bound_path = os.path.join(directory, f".{name}") if hidden else self.path
        if len(os.fsencode(self._bound_path)) > PATH_LIMIT:
            raise OSError(f"{self._bound_path}: longer than the {PATH_LIMIT} bytes that a socket's path may have")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # On Linux the file gets the mode of the socket. A umask would apply to the whole process.
            os.fchmod(self.socket.fileno(), MODE)
            self.socket.bind(self._bound_path)
            self._identity = _identify(self._bound_path)
        except BaseException:
            self.socket.close()
            raise

    def show(self) -> None:
        """Rename the file to its visible name after the socket listens. The plugin watcher sees the rename."""
        if self._bound_path != self.path:
            os.rename(self._bound_path, self.path)
            self._bound_path = self.path

    @property
    def is_present(self) -> bool:
        """Return whether the file still exists and is still this socket."""
        return self._identity is not None and _identify(self.path) == self._identity

    def remove(self) -> None:
        """Remove the file, unless it is missing or was replaced."""
        if self._identity is not None and _identify(self._bound_path) == self._identity:
            with suppress(OSError):  # the next process removes a remaining file
                os.unlink(self._bound_path)


def remove_stale_sockets(directory: str, keep: Collection[str] = ()) -> list[str]:
    """Remove the sockets that earlier processes left in a directory. Return their names.

    Only sockets with a name of this agent and without a listener are removed, and none in `keep`.
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
    """Return whether a process listens at a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except OSError:
            return True  # the listener is busy (EAGAIN), or the state is unknown
    return True


def _identify(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
