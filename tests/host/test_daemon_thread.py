"""A call in a thread that no task waits for."""

import asyncio
import subprocess
import sys
import threading

import pytest

from agent.host.daemon_thread import DaemonThreads, start_in_thread


async def test_result_and_error():
    assert await start_in_thread(lambda left, right: left + right, 1, 2) == 3
    with pytest.raises(ZeroDivisionError):
        await start_in_thread(lambda: 1 / 0)


async def test_many_at_once_wait_for_nobody():
    together = threading.Barrier(40)
    await asyncio.gather(*(start_in_thread(together.wait, 60) for _ in range(40)))


async def test_a_stuck_one_is_left_behind():
    release = threading.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await start_in_thread(release.wait, 20)
    release.set()
    await asyncio.sleep(0.05)  # what comes back late disturbs nobody


@pytest.fixture
async def to_thread():
    """Calls in threads of the loop's executor."""
    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    return asyncio.to_thread


async def test_as_a_loop_s_executor_it_does_the_same(to_thread):
    assert await to_thread(lambda left, right: left + right, 1, 2) == 3
    with pytest.raises(ZeroDivisionError):
        await to_thread(lambda: 1 / 0)
    together = threading.Barrier(40)
    await asyncio.gather(*(to_thread(together.wait, 60) for _ in range(40)))


@pytest.mark.parametrize("how", ["start_in_thread(wait)", "asyncio.to_thread(wait)"])
def test_the_process_ends_all_the_same(how):
    code = (
        "import asyncio, threading\n"
        "from agent.host.daemon_thread import DaemonThreads, start_in_thread\n"
        "wait = threading.Event().wait\n"
        "async def main():\n"
        "    asyncio.get_running_loop().set_default_executor(DaemonThreads())\n"
        "    try:\n"
        "        async with asyncio.timeout(0.05):\n"
        f"            await {how}\n"
        "    except TimeoutError:\n"
        "        print('left', flush=True)\n"
        "asyncio.run(main())\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "left\n", "")
