"""Where a resource stands with the kubelet."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """The state of a resource; human-face.md has the words."""

    WAITING = "waiting"
    REGISTERING = "registering"
    STREAMING = "streaming"
