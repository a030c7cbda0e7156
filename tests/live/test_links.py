"""Events of real network interfaces, in a network namespace of its own, on both event loops."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.namespaces import need_namespaces

HERE = Path(__file__).parents[2]

MAKE = 'mount -t sysfs sysfs /sys && ip link add va type veth peer name vb && exec "$0" -m tests.live.links "$@"'


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("what", ["seen", "healthy", "moved", "routes", "overrun"])
def test_links(loop, what):
    need_namespaces("--net", "--mount", tools=["ip", "nsenter"])
    done = subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-c", MAKE, sys.executable, loop, what],
        cwd=HERE, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
