"""`run`: what it does about garbage. All else of it is in tests/agent/test_process.py."""

from __future__ import annotations

import asyncio
import gc
from argparse import Namespace
from types import SimpleNamespace

import pytest

from agent.cli import run


@pytest.fixture(autouse=True)
def _as_before():
    yield
    gc.unfreeze()
    gc.enable()


async def test_garbage_is_collected_once_the_agent_is_ready():
    ready = asyncio.Event()
    gc.disable()
    collecting = asyncio.create_task(run._collect(SimpleNamespace(status=SimpleNamespace(told_ready=ready))))
    await asyncio.sleep(0)
    assert not gc.isenabled()
    ready.set()
    await collecting
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0  # what is there by then is not gone through again


async def test_an_agent_that_is_never_ready_has_its_garbage_collected_too(monkeypatch):
    monkeypatch.setattr(run, "START_SECONDS", 0.0)
    gc.disable()
    await run._collect(SimpleNamespace(status=SimpleNamespace(told_ready=asyncio.Event())))
    assert gc.isenabled()


def test_collecting_goes_on_when_the_agent_has_ended(monkeypatch):
    monkeypatch.setattr(run, "_run", lambda _arguments: run.UNUSABLE)
    gc.disable()
    assert run.run(Namespace()) == run.UNUSABLE
    assert gc.isenabled()
