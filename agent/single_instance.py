"""The locks that allow only one agent per state directory and per kubelet directory."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from agent.host.directory_lock import DirectoryLock, DirectoryLockedError

log = logging.getLogger("agent")


class AlreadyRunning(RuntimeError):  # noqa: N818  a state, not an error
    """Another agent uses this state directory, or this directory of the kubelet."""


@contextmanager
def hold_instance_lock(state_directory: str, kubelet_lock: DirectoryLock) -> Iterator[None]:
    """Hold both locks for the duration of the context.

    Raises:
        AlreadyRunning: another process holds one of them.
    """
    with _lock_directory(state_directory), closing(kubelet_lock):
        try:
            kubelet_lock.acquire()
        except DirectoryLockedError as error:
            raise AlreadyRunning(str(error)) from None
        yield


@contextmanager
def _lock_directory(directory: str) -> Iterator[None]:
    """Hold the lock of the state directory. If the directory cannot be written, only log a warning."""
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        # Read and write: any file, even a FIFO, opens without waiting.
        lock = os.fdopen(os.open(os.path.join(directory, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "rb")
    except OSError as error:
        log.warning("state: %s cannot be used (%s): the agent saves no state for its next start", directory, error)
        yield
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AlreadyRunning(f"another device-agent is running with the state directory {directory}") from None
        yield
