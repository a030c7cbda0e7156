"""The measurements of `make bench` on the real device manager. tests/bench has the others."""

from dataclasses import replace

import pytest

from bench.__main__ import measure
from bench.size import TINY


@pytest.mark.timeout(900)
async def test_runs():
    (result,) = await measure(["real"], replace(TINY, real_resources=(1, 2)), go=False)
    assert {line.what.partition(",")[0] for line in result.lines} == {
        "process start → allocatable on the node",
        "kubelet start → all allocatable again",
        "change → the node's allocatable",
        "Allocate as the kubelet sees it",
    }
    for line in result.lines:
        assert line.values.keys() == {"agent", "bare Python"}
        assert all(value > 0 for value in line.values.values())
