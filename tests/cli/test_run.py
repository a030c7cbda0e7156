"""`run`: what it does about garbage. All else of it is in tests/agent/test_process.py."""

from __future__ import annotations

import asyncio
import gc
from argparse import Namespace
from types import SimpleNamespace

import pytest

from agent.cli import run
from agent.core.reason import NO_REASON
from agent.core.registration_phase import Phase
from agent.status.agent_status import Status


@pytest.fixture(autouse=True)
def restore_collector():
    yield
    gc.unfreeze()
    gc.enable()


async def test_garbage_is_collected_once_the_kubelet_has_the_lists():
    status = Status()
    status.add("example.com/foo")
    gc.disable()
    collecting = asyncio.create_task(run._collect_garbage(SimpleNamespace(status=status)))
    await asyncio.sleep(0)
    assert not gc.isenabled()
    status.ready_sent.set()
    await asyncio.sleep(0)
    assert not gc.isenabled()
    status.set_phase("example.com/foo", Phase.STREAMING, NO_REASON)
    await collecting
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0  # what is there by then is not gone through again


@pytest.mark.parametrize("ready", [False, True])
async def test_an_agent_that_does_not_get_so_far_has_its_garbage_collected_too(monkeypatch, ready):
    monkeypatch.setattr(run, "START_SECONDS", 0.0)
    status = Status()
    status.add("example.com/foo")
    if ready:
        status.ready_sent.set()
    gc.disable()
    await run._collect_garbage(SimpleNamespace(status=status))
    assert gc.isenabled()


def test_collecting_goes_on_when_the_agent_has_ended(monkeypatch):
    monkeypatch.setattr(run, "_run_agent", lambda _arguments: run.UNUSABLE)
    gc.disable()
    assert run.run(Namespace()) == run.UNUSABLE
    assert gc.isenabled()
