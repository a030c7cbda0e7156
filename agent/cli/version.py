"""Print the version of device-agent, Python and the kernel."""

from __future__ import annotations

import argparse
import platform

from agent import __version__


def add(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""
    del parser


def run(arguments: argparse.Namespace) -> int:
    """Print the version. Return the exit code."""
    del arguments
    print(
        f"device-agent {__version__} (Python {platform.python_version()}, {platform.release()}, {platform.machine()})"
    )
    return 0
