"""Fixtures of the simulated kubelet, for the tests of any device plugin.

They need pytest-asyncio in auto mode. Elsewhere: `async with Kubelet(tmp_path) as kubelet` in the test.
Nothing is imported before a fixture is used: this file is loaded in every project of the environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path
    from typing import Any

    from device_agent_lab.simulated.kubelet import Kubelet


@pytest.fixture
async def make_kubelet(tmp_path: Path) -> AsyncIterator[Callable[..., Kubelet]]:
    """Create kubelets that are stopped at the end of the test. The arguments are those of Kubelet.

    Without a directory: one below tmp_path with a short name, because socket paths have at most 107 characters.
    """
    from device_agent_lab.simulated.kubelet import Kubelet

    kubelets: list[Kubelet] = []

    def make(directory: Path | None = None, **options: Any) -> Kubelet:  # noqa: ANN401
        kubelets.append(Kubelet(directory or tmp_path / f"dp{len(kubelets) or ''}", **options))
        return kubelets[-1]

    yield make
    for kubelet in kubelets:
        await kubelet.stop()


@pytest.fixture
async def kubelet(make_kubelet: Callable[..., Kubelet]) -> Kubelet:
    """Return a running kubelet in a directory of its own."""
    running = make_kubelet()
    await running.start()
    return running
