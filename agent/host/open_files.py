"""How many files this process has open, and may have (RLIMIT_NOFILE, getrlimit(2)). Sockets are files, too."""

from __future__ import annotations

import os
import resource
from math import inf

LEAST_LIMIT = 64  # with less an agent cannot even begin: libraries, sockets, a connection to each side
SHORTAGE_SHARE = 0.8  # of what may be open, from where on it is said

_OPEN = "/proc/self/fd"


def get_limit() -> float:
    """How many may be open at once."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return inf if limit == resource.RLIM_INFINITY else limit  # which is -1


def describe_shortage() -> str:
    """That few more may be opened, in words; empty if there is room."""
    limit = get_limit()
    if limit == inf:
        return ""
    try:
        open_count = len(os.listdir(_OPEN))
    except OSError:  # one more is needed to count them
        return f"all of the {limit:,} files that may be open at once are"
    return (
        f"{open_count:,} of the {limit:,} files that may be open at once are"
        if open_count >= limit * SHORTAGE_SHARE
        else ""
    )
