import asyncio

import pytest
import uvloop

from tests.tree import Tree

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "machine")


@pytest.fixture(params=LOOPS)
def play(request):
    """Runs a coroutine, on each of the loops."""

    def run(coroutine):
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(coroutine)

    return run
