"""What a tree on disk says of the machine that it stands for, besides its files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from agent.core.language.value import Absent

DECLARED = "/.device-nodes"  # at the top of a prefix: `c 10:229 /dev/fuse` makes that plain file count as a node
UNREADABLE = "/.unread"  # beside it: files that could not be read where the tree was recorded, with the reason, as JSON
KERNEL_ANSWERS = "/.told"  # beside it: what the kernel said by calls, not in files; see `told_text`

KernelAnswer: TypeAlias = tuple[str, ...] | Absent

_DECLARATION = re.compile(r"([cb])\s+([0-9]+):([0-9]+)\s+(/dev/\S.*)")


class RecordedTree:
    """The tree below a prefix.

    unread: what it says of files that were not read where it was recorded. told: what it says that the kernel told.
    """

    def __init__(self, prefix: str) -> None:
        self.unreadable = _read_unreadable(prefix)
        self.kernel_answers = dict(_read_kernel_answers(prefix))
        self._prefix = prefix
        self._nodes: dict[str, tuple[str, int, int]] = {}
        self._stamp: tuple[int, int, int] | None = None

    def read_nodes(self) -> Mapping[str, tuple[str, int, int]]:
        """The nodes that it declares, as making real ones takes root's rights; read again once that file changes."""
        try:
            status = os.stat(self._prefix + DECLARED)
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp != self._stamp:
                with open(self._prefix + DECLARED, encoding="utf-8", errors="surrogateescape") as file:
                    matches = [_DECLARATION.fullmatch(line.strip()) for line in file]
                self._nodes = {match[4]: (match[1], int(match[2]), int(match[3])) for match in matches if match}
                self._stamp = stamp
        except OSError:
            self._nodes, self._stamp = {}, None
        return self._nodes


def format_kernel_answers(answers: Mapping[str, KernelAnswer]) -> str:
    """What `TOLD` holds, as JSON: `"/sys/devices/…/net/eth0/altnames": ["enp1s0"]`, or why it was not told.

    A path is that of the file that would say it if there were one. A person may write such a file, too.
    """
    content = {
        path: {"absent": answer.reason, "unread": answer.unreadable} if isinstance(answer, Absent) else answer
        for path, answer in sorted(answers.items())
    }
    return json.dumps(content, indent=0)


def _read_kernel_answers(prefix: str) -> Iterator[tuple[str, KernelAnswer]]:
    """What a tree says that the kernel told; what is written otherwise is passed over."""
    try:
        with open(prefix + KERNEL_ANSWERS, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError, RecursionError):
        return
    for path, answer in content.items() if isinstance(content, dict) else ():
        if isinstance(answer, list) and all(isinstance(text, str) for text in answer):
            yield path, tuple(answer)
        elif isinstance(answer, dict) and isinstance(reason := answer.get("absent"), str):
            yield path, Absent(reason, unreadable=bool(answer.get("unread")))


def _read_unreadable(prefix: str) -> Mapping[str, Absent]:
    """What a recorded tree says of files that were not read where it was recorded."""
    try:
        with open(prefix + UNREADABLE, encoding="utf-8") as file:
            content = json.load(file)
        return {path: Absent(str(reason), unreadable=bool(unread)) for path, (reason, unread) in content.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
