"""Nodes with a kubelet: the same scenarios on the real device manager, of two releases, and on the simulated one."""

import os
import subprocess
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.core.grants import held_ids
from agent.kubelet.endpoint import Endpoint
from tests.agent.conftest import (  # noqa: F401  fixtures and a hook
    at_once,
    baseline,
    both_loops,
    nothing_stays,
    patient,
    pytest_asyncio_loop_factories,
)
from tests.real.kubelets import KINDS, minor
from tests.real.node import Node
from tests.simulated.tiny_plugin import TinyPlugin

BUILD = Path(__file__).parent.parent / "kubelet" / "build"


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("kubelet")


@pytest.fixture(scope="session")
def programs():
    """Paths of the Go programs by name; built already, as a rule, by `make test-kubelet`."""
    names = sorted({f"manager-{minor(kind)}" for kind in KINDS})
    built = subprocess.run([BUILD, *names], capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.exit(built.stderr.strip(), built.returncode)
    return {name: path for name, path, *_ in map(str.split, built.stdout.splitlines())}


@pytest.fixture(params=KINDS)
def kind(request):
    """Which kubelet."""
    return request.param


@pytest.fixture
async def node(kind, programs, baseline):  # noqa: F811
    """A node whose kubelet has not been started."""
    with tempfile.TemporaryDirectory(prefix="r") as top:  # short: paths of sockets are
        made = Node(top, kind, programs)
        yield made
        try:
            assert made.kubelet.crashed is None
        finally:
            await made.close()


@pytest.fixture
async def crashing_node(kind, programs, baseline):  # noqa: F811
    """A node whose kubelet is meant to crash."""
    with tempfile.TemporaryDirectory(prefix="r") as top:
        made = Node(top, kind, programs)
        yield made
        assert made.kubelet.crashed
        await made.close()


@pytest.fixture
async def plugin():
    """Makes plugins that serve and are registered, and are closed at the end."""
    made = []

    async def make(kubelet, devices, *, registered=True, **how):
        name = how.pop("name", f"p{len(made)}.sock")
        made.append(await TinyPlugin(kubelet, devices=devices, name=name, **how).start())
        if registered:
            await made[-1].register()
        return made[-1]

    yield make
    for one in made:
        await one.close()


@pytest.fixture
def fast_release(monkeypatch, at_once):  # noqa: F811
    """Two answers of PodResources that do not name an id are enough, however close."""
    monkeypatch.setattr(held_ids, "SURE_SECONDS", 0.0)


@pytest.fixture
def endpoints(monkeypatch):
    """Every endpoint that the agent makes, in order."""
    made = []
    serve = Endpoint.serve.__func__

    @asynccontextmanager
    async def noted(*args, **how):
        async with serve(Endpoint, *args, **how) as endpoint:
            made.append(endpoint)
            yield endpoint

    monkeypatch.setattr(Endpoint, "serve", noted)
    return made


@pytest.fixture
def headers(monkeypatch):
    """The headers of every call that reaches the agent. The simulated kubelet serves its own with the same class."""
    from agent.kubelet.connection import Calls

    heard = []
    accept = Calls.accept

    def noted(self, stream, headers, release_stream):
        fields = dict(headers)
        if not fields[":path"].startswith(("/v1beta1.Registration/", "/v1.PodResourcesLister/")):
            heard.append(fields)
        accept(self, stream, headers, release_stream)

    monkeypatch.setattr(Calls, "accept", noted)
    return heard


def sockets_in(directory):
    return sorted(name for name in os.listdir(directory) if name.endswith(".sock"))
