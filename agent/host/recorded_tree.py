"""Data of a recorded tree about its machine, in addition to the files of the tree."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from agent.core.language.value import Absent

DECLARED = "/.device-nodes"  # at the top of a prefix: the line `c 10:229 /dev/fuse` declares that plain file a node
UNREADABLE = "/.unread"  # files that were not readable when the tree was recorded, with the reasons, as JSON
KERNEL_ANSWERS = "/.told"  # answers of kernel calls, see `format_kernel_answers`

KernelAnswer: TypeAlias = tuple[str, ...] | Absent

_DECLARATION = re.compile(r"([cb])\s+([0-9]+):([0-9]+)\s+(/dev/\S.*)")


class RecordedTree:
    """The tree below a prefix.

    unreadable: files that were not read when the tree was recorded.
    kernel_answers: answers of the kernel that are in no file.
    """

    def __init__(self, prefix: str) -> None:
        self.unreadable = _read_unreadable(prefix)
        self.kernel_answers = dict(_read_kernel_answers(prefix))
        self._prefix = prefix
        self._nodes: dict[str, tuple[str, int, int]] = {}
        self._stamp: tuple[int, int, int] | None = None

    def read_nodes(self) -> Mapping[str, tuple[str, int, int]]:
        """Return the nodes that the tree declares.

        The file is read again when it changes. Real nodes would need root rights.
        """
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
    """Return the content of `KERNEL_ANSWERS` as JSON: `"/sys/devices/…/net/eth0/altnames": ["enp1s0"]`, or the reason
    for none.

    A path is that of the file that would contain the answer. A person may write such a file, too.
    """
    content = {
        path: {"absent": answer.reason, "unread": answer.unreadable} if isinstance(answer, Absent) else answer
        for path, answer in sorted(answers.items())
    }
    return json.dumps(content, indent=0)


def _read_kernel_answers(prefix: str) -> Iterator[tuple[str, KernelAnswer]]:
    """Yield the kernel answers of a tree. Malformed ones are skipped."""
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
    """Return the reasons of a recorded tree for the files that were not read."""
    try:
        with open(prefix + UNREADABLE, encoding="utf-8") as file:
            content = json.load(file)
        return {path: Absent(str(reason), unreadable=bool(unread)) for path, (reason, unread) in content.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
