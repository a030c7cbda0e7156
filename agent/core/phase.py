"""Where a resource stands with the kubelet."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias


class Phase(Enum):
    """The state of a resource, in the words that people and programs read."""

    WAITING = "waiting"
    REGISTERING = "registering"
    STREAMING = "streaming"


REFUSED = "the kubelet refused"  # how the reason of a resource begins that the kubelet does not want

Report: TypeAlias = Callable[[Phase, str], None]  # told each change of phase, with its reason
