"""The directory of device-information files: the files of this agent in it, how they are written and removed.

Other programs write there too. A file belongs to this agent only if its content is in the agent's records. The record
is written first, in a subdirectory of the state directory: one file for each, with its ID and its texts. Neither must
survive a reboot, because `/run` does not.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from agent.core.entry.devinfo import DevInfo
from agent.core.language.template import compute_digest
from agent.core.struct import Struct

LIMIT = 16 * 1024 * 1024  # bytes of the record of a file
_MEMORY_NAME = "devinfo"  # a subdirectory of the state directory
_MODE, _DIRECTORY_MODE = 0o644, 0o755  # CNI plugins need not run as root


class DevInfoError(Exception):
    """A device-information file cannot be written. The text gives the reason."""


class _Memory(Struct):
    """The record of one own file: its ID and the texts that it may contain, newest first."""

    id: str
    texts: tuple[str, ...]


class DevInfoDirectory:
    """Writer of the own files. Each call may wait for a disk. Two calls must not run at the same time.

    Args:
        directory: where CNI plugins read.
        state: the state directory. It contains the records.
    """

    def __init__(self, directory: str, state: str) -> None:
        self._directory = directory
        self._memory_directory = os.path.join(state, _MEMORY_NAME)

    def write(self, infos: Iterable[DevInfo]) -> None:
        """Write these files. Each one is complete or unchanged.

        Raises:
            DevInfoError: the disk is full or cannot be written, or a file of another program has the same path.
        """
        for info in infos:
            path = os.path.join(self._directory, info.name)
            try:
                self._write(path, info)
            except OSError as error:
                raise DevInfoError(f"{error.filename or path}: {os.strerror(error.errno or errno.EIO)}") from None

    def remove_unused(self, is_held: Callable[[str], bool]) -> tuple[bool, list[str]]:
        """Remove the own files whose IDs are not held.

        A file whose content differs from the record belongs to another program by now. It stays.

        Returns:
            Whether own files remain, and the reasons why files could not be removed.
        """
        has_remaining, faults = False, []
        for name, memory in self._read_memories():
            if memory is not None and is_held(memory.id):
                has_remaining = True
                continue
            path = os.path.join(self._directory, name)
            try:
                if memory is not None and _read(path, _get_max_size(*memory.texts)) in memory.texts:
                    os.unlink(path)
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(self._memory_directory, name))
            except OSError as error:
                has_remaining = True
                faults.append(f"{error.filename or path}: {os.strerror(error.errno or errno.EIO)}")
        return has_remaining, faults

    def _write(self, path: str, info: DevInfo) -> None:
        memory = self._read_memory(info.name)
        own_texts = memory.texts if memory is not None and memory.id == info.id else ()
        current_text = _read(path, _get_max_size(info.text, *own_texts))
        if current_text == info.text:
            return
        is_own = current_text in own_texts
        if current_text is not None and not is_own:
            raise DevInfoError(f"{path} is another program's, and says something else: remove it")
        texts = [info.text, *([current_text] if is_own and current_text is not None else [])]
        os.makedirs(self._memory_directory, mode=0o700, exist_ok=True)
        _replace(os.path.join(self._memory_directory, info.name), json.dumps({"id": info.id, "texts": texts}))
        _make_directories(self._directory)
        _replace(path, info.text)

    def _read_memories(self) -> Iterator[tuple[str, _Memory | None]]:
        try:
            names = sorted(os.listdir(self._memory_directory))
        except OSError:
            return
        for name in names:
            yield name, self._read_memory(name)

    def _read_memory(self, name: str) -> _Memory | None:
        """Return the record of a file, or None if it does not exist or is damaged."""
        text = _read(os.path.join(self._memory_directory, name), LIMIT)
        try:
            content = json.loads(text or "")
            return _Memory(str(content["id"]), tuple(map(str, content["texts"])))
        except (ValueError, KeyError, TypeError):
            return None


def _get_max_size(*texts: str) -> int:
    """Return the size in bytes of the longest of these texts."""
    return max((len(text.encode()) for text in texts), default=0)


def _read(path: str, size: int) -> str | None:
    """Return the text of a plain file, or None if no file exists.

    Return "" for a file that is not plain, cannot be read, or has more than `size` bytes. No own file has this text.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(size + 1) if plain else b""
            return data.decode("utf-8", "replace") if len(data) <= size else ""
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return ""


def _replace(path: str, text: str) -> None:
    """Replace a file with a complete new one.

    The temporary name is always the same and is no name of a device-information file.
    """
    directory, name = os.path.split(path)
    new = os.path.join(directory, f".device-agent-{compute_digest(name, 16)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(new, flags, _MODE), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), _MODE)
            file.write(text)
        os.replace(new, path)
    except OSError:
        with suppress(OSError):
            os.unlink(new)
        raise


def _make_directories(directory: str) -> None:
    """Create a directory and its parents, readable for others whatever the umask is."""
    if not os.path.isdir(directory):
        above = os.path.dirname(directory)
        if above != directory:
            _make_directories(above)
        with suppress(FileExistsError):
            os.mkdir(directory, _DIRECTORY_MODE)
            os.chmod(directory, _DIRECTORY_MODE)
