"""The lab's private directories: the kubelet's, the state, the configuration. Nothing outside of them is touched."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from agent.config.settings import SOCKET_NAME_LENGTH, SOCKET_PATH_LIMIT, Settings
from agent.core.struct import Struct, replace

_MAX_PARENT_LENGTH = (
    SOCKET_PATH_LIMIT - SOCKET_NAME_LENGTH - len("/da-4194304-12345678/registry/")
)  # bytes of the directory above ours
_SHM = "/dev/shm"  # noqa: S108  nodes are looked for below /dev only, and this is where a person may write there


class LabDirectories(Struct):
    """Where everything of one lab is.

    links: a directory below /dev for links to the lab's own nodes; empty where none can be made.
    """

    top: str
    links: str

    @property
    def kubelet(self) -> str:
        """The simulated kubelet's directory for plugins."""
        return f"{self.top}/plugins"

    @property
    def watcher(self) -> str:
        """Its plugin watcher's directory."""
        return f"{self.top}/registry"

    @property
    def pod_resources(self) -> str:
        """The directory of its PodResources socket."""
        return f"{self.top}/pods"

    @property
    def state(self) -> str:
        """The agent's state."""
        return f"{self.top}/state"

    @property
    def configuration(self) -> str:
        """The configuration made for this machine."""
        return f"{self.top}/etc"

    def override_settings(self, base: Settings) -> Settings:
        """Settings with every path that is written to, or met the kubelet at, inside of the place."""
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
            cdi=(*base.paths.cdi, f"{self.top}/cdi"),  # specs of our own go into the last
        )
        return replace(base, kubelet=kubelet, paths=paths)


@contextmanager
def open_private_directories() -> Iterator[LabDirectories]:
    """A place that is gone when this is left.

    Raises:
        OSError: no directory can be made anywhere.
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
    """A new directory of ours alone, in the first place where that can be, and where sockets have room."""
    failure = OSError("no directory with a short name can be written")
    for parent in parents:
        if not parent.startswith("/") or len(os.fsencode(parent)) > _MAX_PARENT_LENGTH:
            continue
        try:
            return tempfile.mkdtemp(prefix=f"da-{os.getpid()}-", dir=parent)
        except OSError as error:
            failure = error
    raise failure
