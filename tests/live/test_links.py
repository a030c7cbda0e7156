"""Events of real network interfaces, in a network namespace of its own, on both event loops."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or subprocess.run(["unshare", "--net", "--mount", "true"], check=False).returncode != 0,
    reason="needs root, for a network namespace of its own",
)

MAKE = 'mount -t sysfs sysfs /sys && ip link add va type veth peer name vb && exec "$0" -m tests.live.links "$@"'


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("what", ["seen", "routes", "overrun"])
def test_links(loop, what):
    done = subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-c", MAKE, sys.executable, loop, what],
        cwd=HERE, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
