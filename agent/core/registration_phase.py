"""Phases of the registration of a resource with the kubelet."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

from agent.core.reason import Reason


class Phase(Enum):
    """The state of a resource, in the words that people and programs read."""

    WAITING = "waiting"
    REGISTERING = "registering"
    STREAMING = "streaming"


PhaseListener: TypeAlias = Callable[[Phase, Reason], None]  # told each change of phase, with its reason
