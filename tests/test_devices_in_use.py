"""The devices in use, from the answers of PodResources and their times."""

import asyncio
from unittest.mock import AsyncMock

from agent.allocation import devices_in_use


class Replaced:
    """A kubelet that another one has come after, once."""

    def __init__(self):
        self.kubelets = iter(["one", "other"])

    async def wait_for_socket(self):
        return "one"

    async def wait_for_other(self, _):
        if next(self.kubelets, None) != "one":
            await asyncio.Event().wait()


async def test_whoever_asks_in_between_and_gives_up_takes_no_question_from_the_agent(monkeypatch):
    holding = devices_in_use.DevicesInUse("pod-resources.sock", (), tuple, dict, lambda: None)
    monkeypatch.setattr(devices_in_use, "list_holders", AsyncMock(return_value={}))
    await holding.refresh(0.0, 10.0)
    assert holding.is_answering
    asked, answered = asyncio.Event(), asyncio.Event()

    async def silent(*_):
        asked.set()
        await asyncio.Event().wait()

    async def answers(*_):
        answered.set()
        return {}

    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(holding._follow(Replaced()))
        monkeypatch.setattr(devices_in_use, "list_holders", silent)
        giving_up = tasks.create_task(holding.refresh(0.0, 10.0))
        await asked.wait()
        giving_up.cancel()
        await asyncio.wait([giving_up])
        monkeypatch.setattr(devices_in_use, "list_holders", answers)
        polling = tasks.create_task(holding._poll())
        await answered.wait()
        polling.cancel()
        following.cancel()


async def test_an_answer_that_the_kubelet_gave_before_it_noted_a_grant_is_not_shown_later(monkeypatch):
    holding = devices_in_use.DevicesInUse("pod-resources.sock", (), lambda: {"a.example/foo"}, dict, lambda: None)
    noted = {("a.example/foo", "one"): (devices_in_use.Holder("default", "pod", "c"),)}
    holding.add_grant(["one"])
    monkeypatch.setattr(devices_in_use, "list_holders", AsyncMock(return_value={}))
    await holding.refresh(3600.0, 60.0)
    assert holding.holders == {}
    monkeypatch.setattr(devices_in_use, "list_holders", AsyncMock(return_value=noted))
    await holding.refresh(3600.0, 60.0)
    assert holding.holders == noted


def test_a_grant_is_held_at_once_and_told_once():
    told = []
    known = devices_in_use.DevicesInUse("pod-resources.sock", ["old"], tuple, dict, lambda: told.append(1))
    assert [name in known for name in ("old", "new", "other")] == [True, False, False]
    known.add_grant(["new", "old"])
    assert "new" in known
    assert told == [1]
    known.add_grant(["new"])
    assert told == [1]
    assert known.confirmed_ids == {"old", "new"} == known.ids
    assert "new" in known
