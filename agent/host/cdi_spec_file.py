"""CDI specs of our own as files: put where runtimes look, whole or not at all, and never over what is another's."""

from __future__ import annotations

import os
import stat
from collections.abc import Container
from contextlib import suppress

from agent.core.entry.generated_cdi import PREFIX, SUFFIX, make_header
from agent.core.language.value import Absent
from agent.host.root import Root

_MODE, _DIRECTORY_MODE = 0o644, 0o755  # runtimes need not be root's
_LIMIT = 16 * 1024 * 1024  # bytes


class SpecFiles:
    """The files of one owner in one directory, which is made as soon as there is one.

    directory: as it is said in agent.toml. owner: who of several agents on one machine.
    """

    def __init__(self, root: Root, directory: str, owner: str) -> None:
        self.directory = directory
        self.owner = owner
        self._root = root
        self._mark = make_header(owner)

    def get_path(self, name: str) -> str:
        """Where a file is, as people know it."""
        return f"{self.directory}/{name}"

    def read_version(self, name: str) -> tuple[int, ...]:
        """A mark that differs once a file may have changed; empty if it is not there."""
        return self._root.read_version(self.get_path(name))

    def read(self, name: str) -> bytes | None:
        """What is in a file; None if there is none.

        Raises:
            OSError: it is another's, or cannot be read.
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
        """Have that in a file, or no such file. A runtime that reads meanwhile reads the old one or the new one.

        Raises:
            OSError: it is another's, or cannot be written.
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
            os.chmod(directory, _DIRECTORY_MODE)  # whatever the umask
        temporary_path = f"{directory}/.{name}.new"  # no runtime takes that for a spec
        with suppress(FileNotFoundError):
            os.unlink(temporary_path)  # of a life that ended here
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
        """Remove those of ours that are none of `kept`, and give the names of those of ours that are there then."""
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
        """The directory as the kernel knows it; below a prefix, links stay in it."""
        if not self._root.prefix:
            return self.directory
        real_path = self._root.resolve(self.directory)
        return f"{self._root.prefix}{self.directory if isinstance(real_path, Absent) else real_path}"
