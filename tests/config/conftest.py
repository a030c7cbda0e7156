"""A configuration directory from a few texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agent.config.load import Configuration, load


@pytest.fixture
def configure(tmp_path: Path) -> Callable[[Mapping[str, str]], Configuration]:
    """Writes files (`resources.d/a.toml`: text) and loads them, with the shipped classes."""

    def write_and_load(files: Mapping[str, str]) -> Configuration:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return load(str(tmp_path))

    return write_and_load
