"""The agent as a whole, against the simulated kubelet."""

import asyncio
import os
import tempfile

import pytest
import uvloop

from agent.allocation import allocation, devices_in_use
from agent.core.backoff import Backoff
from agent.registration import socket_registration, watcher_registration
from agent.specs import generated_specs
from agent.state import state_file
from agent.tracker import list_publisher
from tests.agent.rig import Rig


def pytest_asyncio_loop_factories(config, item):
    """On the agent's own loop; on the other one as well where a test asks for it."""
    loops = {"uvloop": uvloop.new_event_loop}
    return loops | {"asyncio": asyncio.new_event_loop} if "both_loops" in item.fixturenames else loops


@pytest.fixture
def both_loops():
    """A mark: see above."""


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """No host that runs the tests is so slow that a grant is refused, an error comes before its list for that, or
    lists go out before what they rest on.
    """
    for deadline in ("DEADLINE_SECONDS", "WRITE_SECONDS", "PUBLISH_SECONDS"):
        monkeypatch.setattr(allocation, deadline, 60.0)
    monkeypatch.setattr(generated_specs, "ANSWER_SECONDS", 60.0)
    monkeypatch.setattr(list_publisher, "DELIVERY_SECONDS", 60.0)
    monkeypatch.setattr(state_file, "LAST_WRITE_SECONDS", 60.0)


@pytest.fixture
def at_once(monkeypatch):
    """What waits before another try waits next to nothing; what is tested is what happens then."""
    monkeypatch.setattr(socket_registration, "REGISTER_BACKOFF", Backoff(initial_s=0.02, max_s=0.05))
    monkeypatch.setattr(watcher_registration, "OFFER_BACKOFF", Backoff(initial_s=0.02, max_s=0.05))
    monkeypatch.setattr(devices_in_use, "POLL_SECONDS", 0.02)


OF_A_LOOP = ("anon_inode:[event", "anon_inode:[io_uring", "pipe:", "/proc/", "/dev/null")


def files():
    """Sockets, watches and files that are open, but for what a loop makes for itself on its first use."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return sorted(link for link in found if not link.startswith(OF_A_LOOP))


@pytest.fixture
async def baseline():
    """A call that returns how many tasks and files there are more than at the beginning of the test."""
    await asyncio.sleep(0)
    tasks, opened = len(asyncio.all_tasks()), len(files())
    return lambda: (len(asyncio.all_tasks()) - tasks, len(files()) - opened)


@pytest.fixture(autouse=True)
async def nothing_stays(baseline):
    """At the end everything that the test began is gone."""
    yield
    more = baseline()
    for _ in range(3000):
        more = baseline()
        if max(more) <= 0:
            break
        await asyncio.sleep(0.01)
    assert max(more) <= 0, (more, asyncio.all_tasks(), "\n".join(files()))


@pytest.fixture
async def rig(baseline):
    """A node in a directory: a machine on disk, a kubelet, the agent's configuration and state."""
    with tempfile.TemporaryDirectory(prefix="a") as top:  # short: paths of sockets are
        made = Rig(top)
        yield made
        await made.close()
