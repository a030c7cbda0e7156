"""The lab's own pseudo-terminal: a device that the lab can unplug and plug in without effects on other devices."""

from __future__ import annotations

import contextlib
import os

_TRIES = 32  # number of terminals to open until one has the previous number


class PseudoTerminal:
    """A terminal that can disappear and come back at `path`.

    With a directory for links, the path is a link there, like the links of udev. The number of the terminal may change.
    Without such a directory (no /dev/shm), the path is the terminal itself. The terminal needs its old number again.
    """

    def __init__(self, links: str) -> None:
        """Open the terminal.

        Raises:
            OSError: the system has no pseudo-terminal.
        """
        self._master = -1
        self._links = links
        self.path = f"{links}/pty" if links else ""
        self.plug()

    @property
    def is_plugged(self) -> bool:
        """True if the terminal exists."""
        return self._master >= 0

    def plug(self) -> None:
        """Open the terminal, if it is unplugged.

        Raises:
            OSError: no terminal is available, or no terminal with the previous number.
        """
        if self.is_plugged:
            return
        self._master, name = self._open()
        if self._links:
            os.symlink(name, self.path)
        self.path = self.path or name

    def unplug(self) -> None:
        """Close the terminal. Programs that have it open get a hang-up."""
        if self.is_plugged:
            if self._links:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.path)
            os.close(self._master)
            self._master = -1

    def _open(self) -> tuple[int, str]:
        unused_masters: list[int] = []
        try:
            for _ in range(_TRIES):
                master, slave = os.openpty()
                name = os.ttyname(slave)
                os.close(slave)
                if self._links or not self.path or name == self.path:
                    return master, name
                unused_masters.append(master)
            raise OSError(f"{self.path} belongs to another program now")
        finally:
            for unused_master in unused_masters:
                os.close(unused_master)
