"""A directory that one process at a time uses: flock(2) on the directory itself.

Nothing is written there, and who may not read the directory cannot hold anybody up.
"""

from __future__ import annotations

import fcntl
import os


class DirectoryLockedError(OSError):
    """Another process has the directory."""


class DirectoryLock:
    """One directory's claim, made and kept with `take`."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Have the directory that is there now; at once done if it is had already, and if there is none to have.

        Raises:
            Taken: another process has it.
        """
        try:
            descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return  # whoever wants to use it will find out
        if self._descriptor is not None and os.path.sameopenfile(self._descriptor, descriptor):
            os.close(descriptor)
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DirectoryLockedError(f"another device-agent is running with {self._directory}") from None
        except OSError:
            os.close(descriptor)  # a file system without locks
            return
        self.close()
        self._descriptor = descriptor

    def close(self) -> None:
        """Let it go."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
