"""The machine changes while the agent serves it; nodes, agents and kubelets are those of tests/agent."""

import pytest

from agent.core.grants import held_ids
from tests.agent.conftest import (  # noqa: F401  fixtures and a hook
    at_once,
    baseline,
    both_loops,
    nothing_stays,
    patient,
    pytest_asyncio_loop_factories,
    rig,
)
from tests.live.received_lists import never_twice


@pytest.fixture(autouse=True)
def sound(request):
    """Whatever a test does: the kubelet lives, no list says nothing new, and no id is in two lists at once."""
    node = request.getfixturevalue("rig") if "rig" in request.fixturenames else None
    yield
    if node is not None:
        assert node.kubelet.crashed is None
        assert node.kubelet.lists.repeated() == 0
        if not getattr(node, "streams_overtake", False):
            never_twice(node.kubelet)


@pytest.fixture
def soon(monkeypatch, at_once):  # noqa: F811  the fixture
    """What pods no longer hold is known to be free as soon as PodResources has said so twice."""
    monkeypatch.setattr(held_ids, "SURE_SECONDS", 0.0)
