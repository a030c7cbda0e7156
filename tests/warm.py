"""Commands of `device-agent` as processes that do not start Python and import the agent first.

Both take longer than most commands do. So one process for each process of pytest has imported the agent, and a command
is a fork of it: with arguments, environment and standard files of its own, as if it had been started.
"""

import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).parents[1]
MESSAGE = 1 << 20  # bytes; arguments and environment of a command are some thousands


class Warm:
    """The process that commands are forks of. It ends with the process that made it."""

    def __init__(self) -> None:
        self._channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from tests.warm import serve; serve()"],
                stdin=other,
                stdout=subprocess.DEVNULL,
                cwd=TOP,
                env={**os.environ, "LC_ALL": "C.UTF-8", "PYTHONPATH": str(TOP)},
            )

    def run(self, arguments: list[str], given: str, environ: dict[str, str], timeout: float):
        """Run a command to its end, as `subprocess.run` does."""
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            stdin.write(given.encode())
            stdin.seek(0)
            code = self._code(arguments, environ, [stdin.fileno(), out.fileno(), err.fileno()], timeout)
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode())
        return subprocess.CompletedProcess(arguments, code, *texts)

    def _code(self, arguments: list[str], environ: dict[str, str], files: list[int], timeout: float) -> int:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with here:
            with there:
                message = json.dumps([list(map(os.fspath, arguments)), environ]).encode("utf-8", "surrogateescape")
                socket.send_fds(self._channel, [message], [there.fileno(), *files])
            pid = int(here.recv(64))
            if not select.select([here], [], [], timeout)[0]:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(arguments, timeout)
            return int(here.recv(64))


def serve() -> None:
    """Fork for each command that comes through standard input, until that is closed."""
    import agent.cli
    from agent.cli import main as program

    for module in pkgutil.walk_packages(agent.cli.__path__, "agent.cli."):
        importlib.import_module(module.name)
    gc.freeze()
    channel = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who waits for a command is a fork of its own
    while True:
        message, files, _, _ = socket.recv_fds(channel, MESSAGE, 4)
        if not message:
            return
        if os.fork() == 0:
            break
        for file in files:
            os.close(file)
    channel.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid:
        with socket.socket(fileno=files[0]) as asking:
            asking.send(b"%d" % pid)
            asking.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        os._exit(0)
    os.close(files[0])
    for number, file in enumerate(files[1:]):
        os.dup2(file, number)
        os.close(file)
    arguments, environ = json.loads(message.decode("utf-8", "surrogateescape"))
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    sys.argv = [program.__file__, *arguments]
    sys.exit(program.main())
