"""Scenarios run on the rig of the agent's tests."""

from tests.agent.conftest import (  # noqa: F401  fixtures and a hook
    baseline,
    patient,
    pytest_asyncio_loop_factories,
    rig,
)
