"""A lock on a directory for one process at a time: flock(2) on the directory itself.

Nothing is written there. A process that may not read the directory cannot block others.
"""

from __future__ import annotations

import fcntl
import os


class DirectoryLockedError(OSError):
    """Another process has locked the directory."""


class DirectoryLock:
    """The lock on one directory. `acquire` takes and keeps it."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Lock the directory that the path leads to now. Do nothing if it is locked already or does not exist.

        Raises:
            DirectoryLockedError: another process has locked it.
        """
        try:
            descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return  # the first use of the directory reports the error
        if self._descriptor is not None and os.path.sameopenfile(self._descriptor, descriptor):
            os.close(descriptor)
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DirectoryLockedError(f"another device-agent is running with {self._directory}") from None
        except OSError:
            os.close(descriptor)  # the file system has no locks
            return
        self.close()
        self._descriptor = descriptor

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
