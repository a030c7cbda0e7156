"""Scenarios run on the rig of the agent's tests."""

from tests.agent.conftest import baseline, pytest_asyncio_loop_factories, rig  # noqa: F401  pytest finds them here
