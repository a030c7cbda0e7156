"""Programs that a configuration names: how they end, what they say, and that nothing of them is left."""

import asyncio
import os
import queue
import sys
import threading
from itertools import accumulate

import pytest
import uvloop

from agent.host import process
from agent.host.process import OUTPUT_LIMIT, run_program, start_program

SH = "/bin/sh"


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def on_loop(request):
    def execute(work):
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(work)

    return execute


async def ran(*argv, seconds=30.0):
    async with run_program(argv, seconds) as how:
        return how


@pytest.mark.parametrize(
    ("script", "code", "how", "output"),
    [
        ("exit 0", 0, "exit code 0", ""),
        ("echo bad; echo worse >&2; exit 3", 3, "exit code 3", "bad\nworse\n"),
        ("kill -SEGV $$", -11, "ended by SIGSEGV", ""),
        ("kill -9 $$", -9, "ended by SIGKILL", ""),
        (r"printf '\377x'", 0, "exit code 0", "\ufffdx"),
        ("echo $0 $HOME; pwd", 0, "exit code 0", "/bin/sh\n/\n"),
        ("cat", 0, "exit code 0", ""),
    ],
)
def test_a_program_ends(on_loop, script, code, how, output):
    found = on_loop(ran(SH, "-c", script))
    assert (found.code, found.ending, found.output) == (code, how, output)


def test_arguments_are_no_shell_s(on_loop):
    assert on_loop(ran("/bin/echo", "$HOME; a b", "*")).output == "$HOME; a b *\n"


@pytest.mark.parametrize(("program", "error"), [("/no/such", FileNotFoundError), ("/etc/passwd", PermissionError)])
def test_what_cannot_be_started_raises(on_loop, program, error):
    with pytest.raises(error):
        on_loop(ran(program))


def test_much_output_costs_no_memory_and_does_not_block_the_program(on_loop):
    found = on_loop(ran("/usr/bin/head", "-c", "100000000", "/dev/zero", seconds=120.0))
    assert found.code == 0
    assert len(found.output) == OUTPUT_LIMIT


def test_who_floods_is_read_slowly(on_loop, monkeypatch):
    reads = []

    def read(fd, size):
        data = real(fd, size)
        reads.append(len(data))
        return data

    async def work():
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with run_program(["/usr/bin/yes"], 2.0) as how:
            return how, list(reads), loop.time() - began

    real, breath = os.read, 0.05
    monkeypatch.setattr(process.os, "read", read)
    monkeypatch.setattr(process, "_PAUSE_SECONDS", breath)
    found, seen, seconds = on_loop(work())
    assert found.code is None
    assert len(found.output) == OUTPUT_LIMIT
    behind = sum(so_far > process._UNTHROTTLED_BYTES for so_far in accumulate(seen))
    assert 0 < behind <= 2 + seconds / breath


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


async def dead(pid):
    while alive(pid):  # noqa: ASYNC110  nothing tells of a process that is not ours
        await asyncio.sleep(0.01)


def test_what_hangs_is_told_and_killed_with_all_of_its_group(on_loop):
    async def work():
        async with run_program([SH, "-c", "trap '' TERM; sleep 1000 & echo $! $$; wait"], 2.0) as how:
            pids = [int(pid) for pid in how.output.split()]
            assert how.code is None
            assert len(pids) == 2
            assert all(map(alive, pids))
        async with asyncio.timeout(30):
            for pid in pids:
                await dead(pid)

    on_loop(work())


def test_a_program_that_stops_itself_is_killed(on_loop):
    found = on_loop(ran(SH, "-c", "kill -STOP $$", seconds=0.3))
    assert found.code is None


def test_what_is_left_in_the_background_is_killed_and_not_waited_for(on_loop):
    async def work():
        how = await ran(SH, "-c", "sleep 1000 & echo $!")
        assert how.code == 0
        async with asyncio.timeout(30):
            await dead(int(how.output))

    on_loop(work())


DAEMON = """
import os, sys
printed, printing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        os.close(printing)
        open(sys.argv[1]).read()
    os._exit(0)
os.close(printing)
os.read(printed, 1)
os.wait()
"""


def test_a_daemon_that_keeps_the_output_open_is_not_waited_for(on_loop, tmp_path):
    os.mkfifo(tmp_path / "fifo")

    async def work():
        how = await ran(sys.executable, "-c", DAEMON, str(tmp_path / "fifo"))
        assert how.code == 0
        os.close(os.open(tmp_path / "fifo", os.O_WRONLY))
        async with asyncio.timeout(30):
            await dead(int(how.output))

    on_loop(work())


def test_cancelled_it_is_killed(on_loop):
    async def work():
        pids = asyncio.Queue()

        async def hold():
            async with start_program([SH, "-c", "exec sleep 1000"]) as child:
                pids.put_nowait(child.pid)
                await child.wait()

        task = asyncio.create_task(hold())
        pid = await pids.get()
        task.cancel()
        await asyncio.wait([task])
        assert not alive(pid)

    on_loop(work())


@pytest.mark.parametrize("script", ["exit 0", "exec sleep 1000"])
def test_cancelled_while_it_is_killed_it_is_gone_all_the_same(on_loop, monkeypatch, script):
    kill, killed = process._kill, []

    def kill_and_cancel(one):
        kill(one)
        killed.append(one)
        asyncio.current_task().cancel()

    monkeypatch.setattr(process, "_kill", kill_and_cancel)
    monkeypatch.setattr(process, "_END_SECONDS", 30.0)

    async def work():
        task = asyncio.create_task(ran(SH, "-c", script, seconds=0.0))
        await asyncio.wait([task])
        assert task.cancelled()
        assert [one.returncode is None for one in killed] == [False]

    on_loop(work())


def test_cancelled_while_it_starts_it_is_killed(on_loop, monkeypatch):
    start, may_start, pids = process._start, threading.Event(), queue.Queue()

    def slowly(*arguments):
        may_start.wait()
        made = start(*arguments)
        pids.put(made[0].pid)
        return made

    monkeypatch.setattr(process, "_start", slowly)

    async def work():
        task = asyncio.create_task(ran(SH, "-c", "exec sleep 1000"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        may_start.set()
        async with asyncio.timeout(30):
            await dead(await asyncio.to_thread(pids.get))

    on_loop(work())


def test_many_at_once_leave_no_file_open(on_loop):
    async def work():
        await ran("/bin/true")
        before = len(os.listdir("/proc/self/fd"))
        await asyncio.gather(*(ran("/bin/true") for _ in range(50)))
        assert len(os.listdir("/proc/self/fd")) == before

    on_loop(work())
