"""What a tree on disk says of the machine that it stands for, besides its files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

from agent.core.language.value import Absent

DECLARED = "/.device-nodes"  # at the top of a prefix: `c 10:229 /dev/fuse` makes that plain file count as a node
UNREAD = "/.unread"  # beside it: files that could not be read where the tree was recorded, with the reason, as JSON

_DECLARATION = re.compile(r"([cb])\s+([0-9]+):([0-9]+)\s+(/dev/\S.*)")


class Tree:
    """The tree below a prefix.

    unread: what it says of files that were not read where it was recorded.
    """

    def __init__(self, prefix: str) -> None:
        self.unread = _unread(prefix)
        self._prefix = prefix
        self._nodes: dict[str, tuple[str, int, int]] = {}
        self._stamp: tuple[int, int, int] | None = None

    def nodes(self) -> Mapping[str, tuple[str, int, int]]:
        """The nodes that it declares, as making real ones takes root's rights; read again once that file changes."""
        try:
            status = os.stat(self._prefix + DECLARED)
            now = (status.st_mtime_ns, status.st_size, status.st_ino)
            if now != self._stamp:
                with open(self._prefix + DECLARED, encoding="utf-8", errors="surrogateescape") as file:
                    found = [_DECLARATION.fullmatch(line.strip()) for line in file]
                self._nodes = {m[4]: (m[1], int(m[2]), int(m[3])) for m in found if m}
                self._stamp = now
        except OSError:
            self._nodes, self._stamp = {}, None
        return self._nodes


def _unread(prefix: str) -> Mapping[str, Absent]:
    """What a recorded tree says of files that were not read where it was recorded."""
    try:
        with open(prefix + UNREAD, encoding="utf-8") as file:
            said = json.load(file)
        return {path: Absent(str(reason), unread=bool(unread)) for path, (reason, unread) in said.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
