"""The files of a configuration, read once, with display names and one digest of all files."""

from __future__ import annotations

import errno
import hashlib
import os
import stat

from agent.config.toml.document import Document, DocumentError, decode, parse
from agent.config.toml.finding import UNREADABLE, Finding, Severity

SIZE_LIMIT = 1024 * 1024  # bytes; the parser needs more time for a longer text
DEPTH_LIMIT = 32  # keeps recursive code far below the limit of Python


class ConfigFiles:
    """Reader of the files below one directory. An unreadable file is a finding, never an exception.

    `names` are the display names of all files read, in order. A file below the directory has a relative name.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.names: list[str] = []
        self.findings: list[Finding] = []
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        """Return six hexadecimal digits that change with every name and text."""
        return self._digest.hexdigest()[:6]

    def make_name(self, path: str) -> str:
        """Return the display name of a path."""
        below = self.directory.rstrip("/") + "/"
        return path.removeprefix(below) if path.startswith(below) else path

    def list_files(self, directory: str) -> list[str]:
        """Return the names of the TOML files in a directory, sorted. Return no name if the directory does not exist."""
        try:
            entries = os.listdir(directory)
        except FileNotFoundError:
            return []
        except OSError as error:
            self.findings.append(_make_read_finding(self.make_name(directory), error))
            return []
        return sorted(entry for entry in entries if entry.endswith(".toml") and not entry.startswith("."))

    def read_document(self, path: str, name: str = "") -> Document | None:
        """Return the document of a file. If the file is unreadable or not TOML, add a finding and return None."""
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
    """Return the nesting depth of tables and lists, at most 1 above the limit. Dotted keys can nest without end."""
    depth, level = 0, [data]
    while level and depth <= DEPTH_LIMIT:
        tables = [list(item.values()) if isinstance(item, dict) else item for item in level]
        level = [item for items in tables if isinstance(items, list) for item in items]
        depth += 1
    return depth


def make_unreadable_finding(name: str, message: str, severity: Severity = Severity.ERROR) -> Finding:
    """Return the finding that a file or directory is unusable as a whole."""
    return Finding(name, 1, 1, 1, severity, UNREADABLE, message)


def _read_content(path: str) -> bytes:
    # A pipe or a device can block, or can have no end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", path)
        content = file.read(SIZE_LIMIT + 1)
    if content is None:  # some regular files in /proc block all the same
        raise BlockingIOError(errno.EAGAIN, "It would have to be waited for", path)
    if len(content) > SIZE_LIMIT:
        raise OSError(errno.EFBIG, "More than 1 MiB", path)
    return content


def _make_read_finding(name: str, error: OSError) -> Finding:
    reason = error.strerror or str(error)
    reason = reason[:1].lower() + reason[1:]
    return make_unreadable_finding(name, f"could not be read: {reason}")
