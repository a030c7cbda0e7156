"""The private directories of the lab: for the kubelet, the state and the configuration. The lab writes only there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from agent.config.settings import SOCKET_NAME_LENGTH, SOCKET_PATH_LIMIT, Settings
from agent.core.struct import replace

# Maximum bytes of the parent directory's path, so that the paths of all sockets below it are short enough.
_MAX_PARENT_LENGTH = SOCKET_PATH_LIMIT - SOCKET_NAME_LENGTH - len("/da-4194304-12345678/registry/")
_SHM = "/dev/shm"  # noqa: S108  the agent finds nodes only below /dev, and every user may write here


class LabDirectories:
    """The directories of one lab.

    links: a directory below /dev for links to the lab's own nodes, or an empty string if none can be created.
    """

    def __init__(self, top: str, links: str) -> None:
        self.links = links
        self.kubelet = f"{top}/plugins"
        self.watcher = f"{top}/registry"
        self.pod_resources = f"{top}/pods"
        self.state = f"{top}/state"
        self.configuration = f"{top}/etc"
        self.top = top

    def override_settings(self, base: Settings) -> Settings:
        """Return settings in which all output paths and all kubelet paths are in the private directories."""
        kubelet = replace(
            base.kubelet,
            dir=self.kubelet,
            watcher_dir=self.watcher,
            pod_resources=f"{self.pod_resources}/kubelet.sock",
        )
        paths = replace(
            base.paths,
            state=self.state,
            control=f"{self.top}/control.sock",
            devinfo=f"{self.top}/devinfo",
            cdi=(*base.paths.cdi, f"{self.top}/cdi"),  # the agent writes its CDI specs to the last directory
        )
        return replace(base, kubelet=kubelet, paths=paths)


@contextmanager
def open_private_directories() -> Iterator[LabDirectories]:
    """Create private directories and delete them at the end.

    Raises:
        OSError: no directory can be created anywhere.
    """
    top = _make_directory((os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"))  # noqa: S108
    try:
        links = _make_directory((_SHM,))
    except OSError:
        links = ""
    try:
        for name in ("plugins", "registry", "pods", "state", "etc/resources.d"):
            os.makedirs(f"{top}/{name}", mode=0o700)
        yield LabDirectories(top, links)
    finally:
        shutil.rmtree(top, ignore_errors=True)
        if links:
            shutil.rmtree(links, ignore_errors=True)


def _make_directory(parents: tuple[str, ...]) -> str:
    """Create a private directory and return its path.

    Its parent is the first one that is writable and leaves room for socket paths. Raises OSError if there is none.
    """
    failure = OSError("no directory with a short name can be written")
    for parent in parents:
        if not parent.startswith("/") or len(os.fsencode(parent)) > _MAX_PARENT_LENGTH:
            continue
        try:
            return tempfile.mkdtemp(prefix=f"da-{os.getpid()}-", dir=parent)
        except OSError as error:
            failure = error
    raise failure
