"""A small machine of namespaces: a program that ends with its standard input and leaves nothing behind.

    python keeper.py

There are two processes. The keeper makes a cgroup in each hierarchy, waits and removes them again. Its child is the
machine's PID 1, with namespaces of its own for mounts, processes, network, cgroups, host name and IPC. In there
nothing of the host's file systems can be written to; /dev, /run, /var/lib and /var/log are empty ones. The child
starts processes as it is told, one JSON object a line, and answers each request with one. When it ends, the kernel
ends all processes of the machine, and with the last of them its mounts.
"""

import ctypes
import json
import os
import select
import signal
import ssl
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG = 1
MNT_DETACH = 2
GROUP = "device-agent-node-"  # and the keeper's pid
GROUPS_SECONDS = 10.0  # how long cgroups may be busy after the last process

EMPTY = ("/run", "/var/lib", "/var/log")
# Settings of the whole machine that a kubelet writes (setupKernelTunables): it gets files in their place.
SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
NODES = {  # what is in every /dev
    "null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "kmsg": (1, 11), "tty": (5, 0),
}  # fmt: skip
LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}

libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    if libc.unshare(flags):
        error = ctypes.get_errno()
        raise OSError(error, f"unshare: {os.strerror(error)}")


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def unmount(path: str) -> None:
    """With all that is mounted below it."""
    if libc.umount2(path.encode(), MNT_DETACH):
        error = ctypes.get_errno()
        raise OSError(error, f"umount {path}: {os.strerror(error)}")


class Hierarchies:
    """The cgroup hierarchies of the host, and the group in each of them that is the machine's root."""

    def __init__(self) -> None:
        self.name = f"{GROUP}{os.getpid()}"
        self.mounts: list[tuple[str, str, str]] = []  # mount point, type, what distinguishes it from others
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            where, (kind, _source, options) = before.split()[4], after.split()
            if kind == "cgroup2":
                self.mounts.append((where, kind, ""))
            elif kind == "cgroup":
                known = {row.split()[0] for row in Path("/proc/cgroups").read_text().splitlines()[1:]}
                chosen = [o for o in options.split(",") if o in known or o.startswith("name=")]
                self.mounts.append((where, kind, ",".join(chosen)))
        self.turned_on: list[str] = []

    @property
    def unified(self) -> bool:
        return all(kind == "cgroup2" for _, kind, _ in self.mounts)

    def make(self) -> None:
        for where, _, _ in self.mounts:
            self._forget_dead(where)
            group = Path(where, self.name)
            group.mkdir()
            for file in ("cpuset.mems", "cpuset.cpus"):
                if (group / file).exists() and not self.unified:
                    (group / file).write_text(Path(where, file).read_text())
            if self.unified:
                (group / "init").mkdir()  # processes are only in leaves
                there = Path(where, "cgroup.subtree_control").read_text().split()
                self.turned_on = [c for c in ("cpuset", "cpu", "io", "memory", "pids") if c not in there]
                for control in (Path(where, "cgroup.subtree_control"), group / "cgroup.subtree_control"):
                    control.write_text(" ".join(f"+{c}" for c in self.turned_on + there))

    def join(self) -> None:
        for where, _, _ in self.mounts:
            Path(where, self.name, "init" if self.unified else "", "cgroup.procs").write_text("0")

    def appear(self) -> None:
        """Mount them inside, after the cgroup namespace was made."""
        if not self.unified:
            mount("-t", "tmpfs", "-o", "mode=755", "cgroup", "/sys/fs/cgroup")
        for where, kind, options in self.mounts:
            os.makedirs(where, exist_ok=True)
            mount("-t", kind, *(["-o", options] if options else []), "cgroup", where)

    def remove(self) -> None:
        deadline = time.monotonic() + GROUPS_SECONDS
        for where, _, _ in self.mounts:
            while not remove_group(Path(where, self.name)) and time.monotonic() < deadline:
                time.sleep(0.02)
            if self.turned_on:
                Path(where, "cgroup.subtree_control").write_text(" ".join(f"-{c}" for c in self.turned_on))

    @staticmethod
    def _forget_dead(where: str) -> None:
        """Remove what keepers left that were killed."""
        for group in Path(where).glob(f"{GROUP}*"):
            if not os.path.exists(f"/proc/{group.name.removeprefix(GROUP)}"):
                remove_group(group)


def remove_group(group: Path) -> bool:
    """Remove a cgroup and its children. Return whether this worked: a cgroup with processes is busy."""
    for directory, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):
            os.rmdir(directory)
    return not group.exists()


def main() -> None:
    hierarchies = Hierarchies()
    try:
        hierarchies.make()
        unshare(NEWPID)
        child = os.fork()
        if not child:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            host_pid = int(os.readlink("/proc/self"))
            hierarchies.join()
            build(hierarchies)
            serve(host_pid)
            os._exit(0)
        os.close(0)
        os.close(1)
        os.waitpid(child, 0)
    finally:
        if os.getpid() != 1:
            hierarchies.remove()


# ---------------------------------------------------------------- inside


def build(hierarchies: Hierarchies) -> None:
    """What the machine sees."""
    unshare(NEWNS | NEWNET | NEWCGROUP | NEWUTS | NEWIPC)
    mount("--make-rprivate", "/")
    mount("-o", "remount,bind,ro", "/")
    for where in ("/dev", "/sys", "/proc"):
        unmount(where)
    mount("-t", "proc", "proc", "/proc")
    mount("-t", "sysfs", "-o", "ro", "sysfs", "/sys")
    hierarchies.appear()
    for where in EMPTY:
        mount("-t", "tmpfs", "-o", "mode=755", "node", where)
    settings()
    nodes()
    subprocess.run(["busybox", "ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["busybox", "hostname", "node"], check=True)
    os.mkdir("/run/tmp")
    os.chdir("/run")


def settings() -> None:
    mount("--bind", "/proc/sys", "/proc/sys")
    for name in SYSCTLS:
        path = f"/proc/sys/{name}"
        stand_in = f"/run/sysctl-{name.replace('/', '-')}"
        Path(stand_in).write_text(Path(path).read_text())
        mount("--bind", stand_in, path)
    mount("-o", "remount,bind,ro", "/proc/sys")


def nodes() -> None:
    mount("-t", "tmpfs", "-o", "mode=755", "dev", "/dev")
    for directory in ("pts", "shm", "mqueue"):
        os.mkdir(f"/dev/{directory}")
    mount("-t", "devpts", "-o", "newinstance,ptmxmode=666,mode=620", "devpts", "/dev/pts")
    mount("-t", "tmpfs", "shm", "/dev/shm")
    os.umask(0)
    for name, numbers in NODES.items():
        os.mknod(f"/dev/{name}", stat.S_IFCHR | 0o666, os.makedev(*numbers))
    os.umask(0o022)
    for name, target in LINKS.items():
        os.symlink(target, f"/dev/{name}")


class Processes:
    """What runs in the machine, as its PID 1 sees it."""

    def __init__(self) -> None:
        self.ended: dict[int, int] = {}
        self.woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, self._reap)

    def _reap(self, *_: object) -> None:
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                self.ended[found[0]] = os.waitstatus_to_exitcode(found[1])

    def start(self, argv: list[str], log: str, env: dict[str, str]) -> int:
        """The pid of a process whose output goes to a file."""
        files = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        return os.posix_spawnp(argv[0], argv, env, file_actions=files, setsid=True, setsigdef=[signal.SIGPIPE])

    def send(self, pid: int, number: int) -> None:
        """Does nothing to what has ended."""
        if pid not in self.ended:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill_all(self) -> None:
        """Everything but this process."""
        os.kill(-1, signal.SIGKILL)

    def wait(self, pid: int, seconds: float) -> int | None:
        """The exit code, negative for a signal; nothing if it runs on."""
        deadline = time.monotonic() + seconds
        while pid not in self.ended and (left := deadline - time.monotonic()) > 0:
            if select.select([self.woken], [], [], left)[0]:
                os.read(self.woken, 4096)
        return self.ended.get(pid)

    def fetch(
        self, url: str, method: str, body: str | None, headers: dict[str, str], trusted: str | None
    ) -> tuple[int, str] | None:
        """Status and text that a server inside answers; nothing if it does not listen."""
        context = None
        if trusted:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(trusted)
        data = None if body is None else body.encode()
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return None


def serve(host_pid: int) -> None:
    processes = Processes()
    print(json.dumps({"pid": host_pid}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"is": getattr(processes, request.pop("do"))(**request)}
        except OSError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
