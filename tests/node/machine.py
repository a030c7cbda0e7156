"""The test side of the machine that keeper.py makes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

KEEPER = Path(__file__).with_name("keeper.py")
# Debian's packages for what is needed on the host.
PROGRAMS = {"containerd": "containerd", "ctr": "containerd", "runc": "runc", "busybox": "busybox-static"}
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
CAP_SYS_ADMIN = 21
END_SECONDS = 120
PATIENCE = 4  # so much longer may all take on a host that does much else


def unfit() -> str:
    """Why there can be no node on this host; empty if there can."""
    if os.geteuid() != 0:
        return "not root: make test-kubelet as root has nodes"
    status = Path("/proc/self/status").read_text()
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    if not effective >> CAP_SYS_ADMIN & 1:
        return "root without CAP_SYS_ADMIN: no namespaces and no mounts"
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)})
    return f"missing Debian packages: apt-get install {' '.join(missing)}" if missing else ""


def until(condition: Callable, seconds: float, what: str):
    """The first true value of a condition that can only be asked again and again.

    seconds: within which it comes on a host that does nothing else.
    """
    deadline = time.monotonic() + seconds * PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds * PATIENCE:g} s: {what}"
        time.sleep(0.02)
    return value


class Process:
    """A process in the machine."""

    def __init__(self, machine: "Machine", pid: int, log: Path, mark: int) -> None:
        self._machine, self.pid, self.log, self._mark = machine, pid, log, mark

    def send(self, number: int) -> None:
        self._machine.ask("send", pid=self.pid, number=number)

    def wait(self, seconds: float = 20) -> int:
        seconds *= PATIENCE
        code = self._machine.ask("wait", pid=self.pid, seconds=seconds)
        assert code is not None, f"still running after {seconds:g} s: {self.log.name}"
        return code

    @property
    def runs(self) -> bool:
        return self._machine.ask("wait", pid=self.pid, seconds=0) is None

    def end(self, number: int = signal.SIGKILL) -> int:
        """Signal it and see it gone."""
        self.send(number)
        return self.wait()

    @property
    def said(self) -> str:
        """Its output, since it was forgotten last."""
        with self.log.open("rb") as file:
            file.seek(self._mark)
            return file.read().decode(errors="replace")

    def forget_said(self) -> None:
        self._mark = self.log.stat().st_size

    def says(self, text: str, seconds: float = 20) -> None:
        """Wait for it."""

        def said():
            ended = not self.runs
            assert text in self.said or not ended, f"{self.log.name} ended: {self.said}"
            return text in self.said

        until(said, seconds, f"{self.log.name} says {text!r}")


class Machine:
    """Attributes: root: the machine's file system, as this process can reach it (mind its absolute links)."""

    def __init__(self) -> None:
        self.keeper = subprocess.Popen(
            [sys.executable, str(KEEPER)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        first = self.keeper.stdout.readline()
        if not first:
            _, errors = self.keeper.communicate(timeout=END_SECONDS)
            raise OSError(errors.strip().splitlines()[-1] if errors.strip() else "the keeper ended")
        self.pid = json.loads(first)["pid"]
        self.root = Path(f"/proc/{self.pid}/root")
        self._count = 0

    def path(self, inside: str) -> Path:
        return self.root / inside.lstrip("/")

    def ask(self, do: str, **what):
        self.keeper.stdin.write(json.dumps({"do": do, **what}) + "\n")
        self.keeper.stdin.flush()
        line = self.keeper.stdout.readline()
        assert line, "the machine has ended"
        answer = json.loads(line)
        if "error" in answer:
            raise OSError(answer["error"])
        return answer["is"]

    def start(self, name: str, *argv: str, env: dict[str, str] | None = None) -> Process:
        """Have a process; its output is in /run/log/NAME, after that of others of the name."""
        log = self.path(f"/run/log/{name}")
        log.parent.mkdir(exist_ok=True)
        log.touch()
        plain = {"PATH": PATH, "HOME": "/run", "TMPDIR": "/run/tmp", "LC_ALL": "C.UTF-8"}
        before = log.stat().st_size
        pid = self.ask("start", argv=list(argv), log=f"/run/log/{name}", env={**plain, **(env or {})})
        return Process(self, pid, log, before)

    def run(self, *argv: str, seconds: float = 30) -> tuple[int, str]:
        """The exit code and all output of a command."""
        self._count += 1
        process = self.start(f"command-{self._count}", *argv)
        code = process.wait(seconds)
        said = process.said
        process.log.unlink()
        return code, said

    def must(self, *argv: str, seconds: float = 30) -> str:
        code, said = self.run(*argv, seconds=seconds)
        assert code == 0, f"{' '.join(argv)}: {code}: {said}"
        return said

    def hurry(self) -> None:
        """What is started from now on goes before what else runs on this host."""
        os.setpriority(os.PRIO_PROCESS, self.pid, -10)

    def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        body: str | None = None,
        headers: dict[str, str] | None = None,
        trusted: str | None = None,
    ) -> tuple[int, str] | None:
        """Status and text that a server in it answers; nothing if it does not listen. `trusted`: a file in it."""
        answer = self.ask("fetch", url=url, method=method, body=body, headers=headers or {}, trusted=trusted)
        return answer and tuple(answer)

    def close(self) -> None:
        """End everything in it; the keeper then takes away what it made on the host."""
        try:
            self.keeper.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self.keeper.kill()
            self.keeper.communicate()
            raise
