import asyncio
import os

import pytest

from device_agent_lab.simulated.simulated_node import Limits
from tests.simulated.tiny_plugin import TinyPlugin

# Nothing here waits for these times to pass, but for what happens after them.
SHORT = Limits(
    dial=5.0, dial_backoff=0.02, pre_start=5.0, get_info=5.0, notify=5.0, watcher_poll=0.01, watcher_backoff=0.02
)


def open_files():
    return len(os.listdir("/proc/self/fd"))


def tasks():
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


@pytest.fixture(autouse=True)
async def nothing_stays():
    """Tasks and open files are what they were, when everything else of the test has been closed."""
    files, before = open_files(), tasks()
    yield
    for _ in range(3000):
        if open_files() <= files and tasks() <= before:
            break
        await asyncio.sleep(0.01)
    assert open_files() <= files
    assert tasks() <= before


@pytest.fixture
async def plugin():
    """Makes plugins that serve, and are closed at the end."""
    made = []

    async def make(kubelet, *args, **kwargs):
        made.append(TinyPlugin(kubelet, *args, **kwargs))
        return await made[-1].start()

    yield make
    for one in made:
        await one.close()


@pytest.fixture
async def started(make_kubelet):
    """Makes kubelets that run, with short times."""

    async def make(**how):
        kubelet = make_kubelet(**{"limits": SHORT, **how})
        await kubelet.start()
        return kubelet

    return make


@pytest.fixture
def serving(started, plugin):
    """A kubelet and a plugin with these devices, listed."""

    async def make(*devices, how=None, **options):
        kubelet = await started(**(how or {}))
        foo = await plugin(kubelet, devices=devices, **options)
        await foo.register()
        await kubelet.until(lambda: kubelet.lists)
        return kubelet, foo

    return make
