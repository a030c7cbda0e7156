"""An endpoint on a real Unix socket, and a check that nothing of it is left behind."""

import asyncio
import tempfile
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import uvloop

from agent.kubelet.endpoint import Endpoint
from agent.kubelet.socket_file import make_generation
from agent.registry import Registry
from tests.kubelet.endpoint_rig import RESOURCE, Granting, open_sockets, wait_until


def pytest_asyncio_loop_factories(config, item):
    """What is served is served on both kinds of loop."""
    loops = {"asyncio": asyncio.new_event_loop}
    return loops | {"uvloop": uvloop.new_event_loop} if "kit" in item.fixturenames else loops


@pytest.fixture
def directory():
    with tempfile.TemporaryDirectory(prefix="k") as path:
        yield path


@pytest.fixture
async def kit(directory):
    """What an endpoint needs, with `serve` and `client`. At the end tasks and files are what they were."""
    await asyncio.sleep(0)  # the loop's own files are open by now
    sockets = open_sockets()
    logged = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: logged.append(context))
    made = SimpleNamespace(registry=Registry(), granting=Granting(), unexpected=[], directory=directory, logged=logged)

    @asynccontextmanager
    async def serve(**more):
        async with Endpoint.serve(
            directory,
            RESOURCE,
            make_generation(),
            made.registry,
            made.granting,
            on_defect=made.unexpected.append,
            **more,
        ) as endpoint:
            yield endpoint

    made.serve = serve
    yield made
    await wait_until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    await wait_until(lambda: open_sockets() <= sockets)
    assert logged == []
