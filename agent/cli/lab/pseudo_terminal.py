"""A pseudo-terminal of the lab's own: a device that can be unplugged and plugged in without touching anybody's."""

from __future__ import annotations

import contextlib
import os

_TRIES = 32  # terminals opened until one has the number of before


class PseudoTerminal:
    """A terminal that can be taken away and come back at `path`.

    With a directory for links the path is a link there, as udev makes them, and the number behind it may change. In
    one without (no /dev/shm) the path is the terminal itself, so it has to get its number again.
    """

    def __init__(self, links: str) -> None:
        """Plugged in from the start.

        Raises:
            OSError: there are no pseudo-terminals here.
        """
        self._master = -1
        self._links = links
        self.path = f"{links}/pty" if links else ""
        self.plug()

    @property
    def is_plugged(self) -> bool:
        """Whether it is there."""
        return self._master >= 0

    def plug(self) -> None:
        """Make it be there.

        Raises:
            OSError: no terminal, or none with the number of before, can be had.
        """
        if self.is_plugged:
            return
        self._master, name = self._open()
        if self._links:
            os.symlink(name, self.path)
        self.path = self.path or name

    def unplug(self) -> None:
        """Make it be gone; the last user's files of it see a hang-up."""
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
            raise OSError(f"{self.path} is somebody else's now")
        finally:
            for unused_master in unused_masters:
                os.close(unused_master)
