"""Publishers: each module of the package has the signature, and a new file is found without another change."""

import inspect
from importlib import import_module
from pkgutil import iter_modules

import pytest

from agent import publishers
from agent.publishers import find_publishers
from tests.agent.rig import FOO

TOY = """
seen = []

def publish(parts, publication):
    lists = publication.lists
    seen.append((publication.is_first, sorted(lists.lists), parts.tracker.device_lists is lists))
"""


def test_every_publisher_has_the_signature():
    names = [module.name for module in iter_modules(publishers.__path__)]
    assert len(find_publishers()) == len(names)
    for name in names:
        publish = import_module(f"agent.publishers.{name}").publish
        assert inspect.get_annotations(publish) == {
            "parts": "AgentParts",
            "publication": "Publication",
            "return": "None",
        }, name


@pytest.fixture
async def add_publisher(rig, tmp_path, monkeypatch):
    """Return a function that adds a publisher as one file, before an agent with one device starts."""

    async def add(name, text):
        (tmp_path / "toys").mkdir()
        (tmp_path / "toys" / f"{name}.py").write_text(text)
        monkeypatch.setattr(publishers, "__path__", [*publishers.__path__, str(tmp_path / "toys")])
        rig.serve(FOO)
        rig.plug("foo0")
        await rig.kubelet.start()

    return add


async def test_a_new_file_is_a_new_publisher(rig, add_publisher):
    await add_publisher("toy", TOY)
    async with rig.agent() as agent:
        await rig.allocatable(FOO, 1)
        rig.plug("foo1")
        agent.tracker.request_look()
        await rig.allocatable(FOO, 2)
    seen = import_module("agent.publishers.toy").seen
    assert seen[0] == (True, [FOO], True)
    assert len(seen) > 1
    assert all(item == (False, [FOO], True) for item in seen[1:])


FAULTY = """
def publish(parts, publication):
    raise ValueError("a faulty publisher")
"""


async def test_a_publisher_that_raises_ends_the_agent_and_is_not_silent(rig, add_publisher):
    await add_publisher("faulty", FAULTY)
    with pytest.raises(ExceptionGroup) as caught:
        async with rig.agent() as agent:
            await agent.task
    assert caught.group_contains(ValueError, match="a faulty publisher")
