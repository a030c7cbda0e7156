"""Separate namespaces, made by unshare(1), for tests that would change the whole machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

import pytest


def need_namespaces(*kinds: str, tools: Sequence[str] = ()) -> None:
    """Skip unless `unshare` gives namespaces of these kinds (`--net`) here, and these programs are installed."""
    if os.geteuid():
        pytest.skip("needs root, for namespaces of its own")
    for tool in ("unshare", *tools):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    tried = subprocess.run(["unshare", *kinds, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no namespaces here: {tried.stderr.strip()}")
