"""Recordings as files: one compressed tar of the tree, written and unpacked.

A recording may come from anybody. So unpacked files stay inside their directory and within limits.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from agent.host.recorded_tree import DECLARED, KERNEL_ANSWERS, UNREADABLE, format_kernel_answers
from agent.host.recorder import Recording

SIZE_LIMIT = 512 * 1024 * 1024  # bytes after unpacking
MEMBER_LIMIT = 2_000_000  # members: a machine with a thousand functions has about 100,000
_PIECE = 1024 * 1024  # bytes of one read: contents are read in smaller pieces, so a larger one is a header

_TOP = ("sys", "proc", "dev", "run")


class RecordingError(ValueError):
    """A file that is no recording. The message gives the reason."""


def write_recording(recording: Recording, path: str) -> None:
    """Write a recording to a file that must not exist yet.

    Raises:
        OSError: the file exists, or cannot be written.
    """
    with open(path, "xb") as file, tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for directory in sorted({*recording.directories, *(f"/{name}" for name in _TOP)}):
            archive.addfile(_make_member(directory, tarfile.DIRTYPE))
        for link, target in sorted(recording.links.items()):
            member = _make_member(link, tarfile.SYMTYPE)
            member.linkname = target
            archive.addfile(member)
        contents = {**recording.contents, **dict.fromkeys((*recording.nodes, *recording.absent), b"")}
        contents[DECLARED] = "".join(f"{number} {node}\n" for node, number in sorted(recording.nodes.items())).encode(
            "utf-8", "surrogateescape"
        )
        unreadable = {name: [absence.reason, absence.unreadable] for name, absence in sorted(recording.absent.items())}
        contents[UNREADABLE] = json.dumps(unreadable, indent=0).encode()
        contents[KERNEL_ANSWERS] = format_kernel_answers(recording.kernel_answers).encode()
        for name, data in sorted(contents.items()):
            member = _make_member(name, tarfile.REGTYPE)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


@contextmanager
def unpack_recording(path: str) -> Iterator[str]:
    """Yield a directory with the tree of a recording. The directory is removed when the context ends.

    Raises:
        RecordingError: the file is no recording.
        OSError: it cannot be read, or there is no room for it.
    """
    with tempfile.TemporaryDirectory(prefix="device-agent-recording-") as directory:
        try:
            with _Archive.open(path, "r:*") as archive:
                _unpack(archive, os.path.realpath(directory))
        except RecordingError:
            raise
        except RecursionError:
            raise RecordingError("no recording: headers of headers without end") from None
        except (NotADirectoryError, IsADirectoryError, FileExistsError):
            raise RecordingError("no recording: a name in it is a file and a directory") from None
        except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
            raise RecordingError(f"no recording: {str(error).splitlines()[0].rstrip(':')}") from None
        if not os.path.isdir(f"{directory}/sys"):
            raise RecordingError("no recording: there is no sys in it")
        yield directory


class _Archive(tarfile.TarFile):
    """A tar file whose headers are read in pieces, so that no large header fills the memory."""

    @classmethod
    def taropen(cls, name: Any, mode: Any = "r", fileobj: Any = None, **options: Any) -> _Archive:  # noqa: ANN401  the signature of the base class
        """See `TarFile.taropen`. It is called with the decompressed file."""
        return super().taropen(name, mode, _PieceReader(fileobj or open(name, "rb")), **options)


class _PieceReader:
    """A file that is read in pieces only."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        """Read `size` bytes.

        Raises:
            RecordingError: a piece of this size can only be a header that fills the memory.
        """
        if size > _PIECE:
            raise RecordingError(f"no recording: a header of {size} bytes")
        return self._file.read(size)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  any attribute of the file
        return getattr(self._file, name)


def _iterate_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    size = 0
    for count, member in enumerate(archive):
        size += member.size
        if size > SIZE_LIMIT or count > MEMBER_LIMIT:
            raise RecordingError(f"no recording: more than {SIZE_LIMIT >> 20} MiB or {MEMBER_LIMIT} files in it")
        if not (member.isreg() or member.isdir() or member.issym()):
            raise RecordingError(f"no recording: {member.name!r} is neither file, directory nor link")
        yield member


def _unpack(archive: tarfile.TarFile, top: str) -> None:
    """Create the members of an archive below `top`, whatever owner, mode and time they have.

    The filters that tarfile has for this came with Python 3.11.4, and distributions are at 3.11.2. Links are created
    last, in directories that exist by then, so that nothing is ever written through a link. Where a link leads cannot
    be checked safely before (CVE-2025-4517). A `Root` of the tree follows no link that leads out of it.
    """
    links: dict[str, str] = {}
    for member in _iterate_members(archive):
        path = os.path.normpath(f"{top}/{member.name}")
        if not path.startswith(f"{top}/") and path != top:
            raise _make_escape_error(member.name)
        os.makedirs(path if member.isdir() else os.path.dirname(path), exist_ok=True)
        if member.issym():
            links[path] = member.linkname
        elif (content := archive.extractfile(member)) is not None:
            with content, open(path, "wb") as file:
                shutil.copyfileobj(content, file)
    for path, target in links.items():
        os.symlink(target, path)
    for path in links:
        if os.path.commonpath([top, os.path.realpath(path)]) != top:
            raise _make_escape_error(os.path.relpath(path, top))


def _make_escape_error(name: str) -> RecordingError:
    return RecordingError(f"no recording: {name!r} leads out of it")


def _make_member(path: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.type = kind
    member.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
    return member
