"""The files of a configuration: read once, under the names people know, with a digest over all of them."""

from __future__ import annotations

import errno
import hashlib
import os
import stat

from agent.config.toml.document import Document, DocumentError, decode, parse
from agent.config.toml.finding import UNREADABLE, Finding, Severity

SIZE_LIMIT = 1024 * 1024  # bytes; the parser's work grows with the text
DEPTH_LIMIT = 32  # what is read recursively here stays far from Python's own limit


class ConfigFiles:
    """Reads files below one directory. What cannot be read is a finding, never an exception.

    `names` are those of all files read, in order; a name is relative to the directory where the file is below it.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.names: list[str] = []
        self.findings: list[Finding] = []
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        """Six hexadecimal digits that change with any name or text."""
        return self._digest.hexdigest()[:6]

    def make_name(self, path: str) -> str:
        """How people know a path."""
        below = self.directory.rstrip("/") + "/"
        return path.removeprefix(below) if path.startswith(below) else path

    def list_files(self, directory: str) -> list[str]:
        """The names of the TOML files in a directory, in name order; none if it is not there."""
        try:
            entries = os.listdir(directory)
        except FileNotFoundError:
            return []
        except OSError as error:
            self.findings.append(_make_read_finding(self.make_name(directory), error))
            return []
        return sorted(entry for entry in entries if entry.endswith(".toml") and not entry.startswith("."))

    def read_document(self, path: str, name: str = "") -> Document | None:
        """The document in a file; none, and a finding, if it cannot be read or is no TOML."""
        name = name or self.make_name(path)
        self.names.append(name)
        try:
            content = _read_content(path)
        except OSError as error:
            self.findings.append(_make_read_finding(name, error))
            return None
        for part in (os.fsencode(name), content):
            self._digest.update(len(part).to_bytes(8, "big") + part)
        try:
            document = parse(name, decode(name, content))
        except DocumentError as error:
            self.findings.append(error.finding)
            return None
        if _measure_depth(document.data) > DEPTH_LIMIT:
            message = f"tables and lists stand in each other more than {DEPTH_LIMIT} deep"
            self.findings.append(Finding(name, 1, 1, 1, Severity.ERROR, "type", message))
            return None
        return document


def _measure_depth(data: object) -> int:
    """How deep tables and lists stand in each other, counted as far as it matters; dotted keys nest without end."""
    depth, level = 0, [data]
    while level and depth <= DEPTH_LIMIT:
        tables = [list(item.values()) if isinstance(item, dict) else item for item in level]
        level = [item for items in tables if isinstance(items, list) for item in items]
        depth += 1
    return depth


def make_unreadable_finding(name: str, message: str, severity: Severity = Severity.ERROR) -> Finding:
    """That a file or directory could not be used as a whole."""
    return Finding(name, 1, 1, 1, severity, UNREADABLE, message)


def _read_content(path: str) -> bytes:
    # A pipe or a device would block, or never end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", path)
        content = file.read(SIZE_LIMIT + 1)
    if content is None:  # some of what calls itself a regular file in /proc waits for more all the same
        raise BlockingIOError(errno.EAGAIN, "It would have to be waited for", path)
    if len(content) > SIZE_LIMIT:
        raise OSError(errno.EFBIG, "More than 1 MiB", path)
    return content


def _make_read_finding(name: str, error: OSError) -> Finding:
    reason = error.strerror or str(error)
    reason = reason[:1].lower() + reason[1:]
    return make_unreadable_finding(name, f"could not be read: {reason}")
