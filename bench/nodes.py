"""Device nodes to serve: real ones in a private directory below /dev if root can make them, else a tree on disk."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile

NULL = os.makedev(1, 3)
LOCAL = 240  # the first of the majors for local use (devices.txt of the kernel); nothing opens the nodes


class Nodes:
    """A directory of nodes `rRRR-DDDD` that can come and go.

    Attributes:
        root: what the agent is given as --root.
        directory: where the nodes are, as the agent sees it.
        real: whether they are device nodes of this host.
    """

    def __init__(self, top: str) -> None:
        self.real = _may_make_nodes()
        if self.real:
            self.root = "/"
            self.directory = tempfile.mkdtemp(prefix="bench-", dir="/dev")
            self._at = self.directory
        else:
            self.root = os.path.join(top, "tree")
            self.directory = "/dev/bench"
            self._at = self.root + self.directory
            os.makedirs(self._at)
        self._declared = 0

    def fill(self, resources: int, devices: int) -> None:
        """Exactly so many resources with so many devices each."""
        wanted = {name(resource, device) for resource in range(resources) for device in range(devices)}
        there = set(os.listdir(self._at))
        for gone in there - wanted:
            os.unlink(os.path.join(self._at, gone))
        if not self.real:
            with open(os.path.join(self.root, ".device-nodes"), "w", encoding="ascii") as file:
                for node in sorted(wanted):
                    major, minor = number(node)
                    file.write(f"c {major}:{minor} {self.directory}/{node}\n")
        for new in wanted - there:
            self._make(new)

    def put(self, resource: int, device: int) -> None:
        """Make the node."""
        self._make(name(resource, device))

    def take(self, resource: int, device: int) -> None:
        """Remove the node."""
        os.unlink(os.path.join(self._at, name(resource, device)))

    def close(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self._at)

    def _make(self, node: str) -> None:
        path = os.path.join(self._at, node)
        if self.real:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(*number(node)))
        else:
            with open(path, "x", encoding="ascii"):
                return


def name(resource: int, device: int) -> str:
    """Return the name of a node."""
    return f"r{resource:03}-{device:05}"


def number(node: str) -> tuple[int, int]:
    """Major and minor of a node. No other has them: two names of one number are one device."""
    resource, device = map(int, node[1:].split("-"))
    return LOCAL + resource // 64, resource % 64 << 14 | device  # a minor has 20 bits


def _may_make_nodes() -> bool:
    try:
        with tempfile.TemporaryDirectory(dir="/dev") as directory:
            path = os.path.join(directory, "null")
            os.mknod(path, 0o666 | stat.S_IFCHR, NULL)
            os.close(os.open(path, os.O_RDONLY))  # fails on a file system that is mounted nodev
    except OSError:
        return False
    return True
