"""Generated CDI spec files: written whole or not at all, and never over a file of another program."""

from __future__ import annotations

import os
import stat
from collections.abc import Container
from contextlib import suppress

from agent.core.entry.generated_cdi import PREFIX, SUFFIX, make_header
from agent.core.language.value import Absent
from agent.host.root import Root

_MODE, _DIRECTORY_MODE = 0o644, 0o755  # container runtimes need not run as root
_LIMIT = 16 * 1024 * 1024  # bytes


class SpecFiles:
    """The CDI spec files of one owner in one directory. The directory is created with the first file.

    directory: the path as `agent.toml` has it.
    owner: names this agent among several on one machine.
    """

    def __init__(self, root: Root, directory: str, owner: str) -> None:
        self.directory = directory
        self.owner = owner
        self._root = root
        self._mark = make_header(owner)

    def get_path(self, name: str) -> str:
        """Return the path of a file, as `agent.toml` and messages show it."""
        return f"{self.directory}/{name}"

    def read_version(self, name: str) -> tuple[int, ...]:
        """Return a value that differs when the file may have changed. Empty if the file does not exist."""
        return self._root.read_version(self.get_path(name))

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist.

        Raises:
            OSError: the file belongs to another program, or cannot be read.
        """
        path = f"{self._find_host_directory()}/{name}"
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            raise FileExistsError(0, "is no file, and so not of this agent: move it away")
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(_LIMIT)
        if not data.startswith(self._mark):
            raise FileExistsError(0, "is there, and was not written by this agent: move it away")
        return data

    def put(self, name: str, data: bytes | None) -> None:
        """Write a file, or remove it if `data` is None. A runtime that reads at that time sees the old or the new file.

        Raises:
            OSError: the file belongs to another program, or cannot be written.
        """
        current_data = self.read(name)
        if current_data == data:
            return
        directory = self._find_host_directory()
        if data is None:
            os.unlink(f"{directory}/{name}")
            return
        if not os.path.isdir(directory):
            os.makedirs(directory, exist_ok=True)
            os.chmod(directory, _DIRECTORY_MODE)  # independent of the umask
        temporary_path = f"{directory}/.{name}.new"  # runtimes ignore such names
        with suppress(FileNotFoundError):
            os.unlink(temporary_path)  # left by a run that ended at this point
        try:
            handle = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
            with os.fdopen(handle, "wb") as file:
                os.fchmod(file.fileno(), _MODE)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary_path, f"{directory}/{name}")
        except OSError:
            with suppress(OSError):
                os.unlink(temporary_path)
            raise

    def remove_except(self, current_names: Container[str]) -> tuple[str, ...]:
        """Remove the files of this owner except `current_names`.

        Return the names of the remaining files of this owner.
        """
        remaining_names: list[str] = []
        names = self._root.list_names(self.directory)
        for name in () if isinstance(names, Absent) else names:
            if not name.startswith(PREFIX) or not name.endswith(SUFFIX):
                continue
            with suppress(OSError):
                if self.read(name) is None:
                    continue
                if name in current_names:
                    remaining_names.append(name)
                else:
                    self.put(name, None)
        return tuple(remaining_names)

    def _find_host_directory(self) -> str:
        """Return the directory as the kernel takes it. Below a prefix, links stay inside the prefix."""
        if not self._root.prefix:
            return self.directory
        real_path = self._root.resolve(self.directory)
        return f"{self._root.prefix}{self.directory if isinstance(real_path, Absent) else real_path}"
