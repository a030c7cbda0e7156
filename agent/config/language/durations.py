"""Durations: a number and its unit."""

from __future__ import annotations

import re

DURATION = r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m|h|d)"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str) -> float | None:
    """Return the seconds of `50ms`, `1.5s`, `10m`, `2h` or `1d`. Return None for any other text."""
    match = re.fullmatch(DURATION, text)
    return float(match[1]) * _SECONDS[match[2]] if match else None
