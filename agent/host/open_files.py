"""Open files of this process and their limit (RLIMIT_NOFILE, getrlimit(2)). Sockets count as files."""

from __future__ import annotations

import os
import resource
from math import inf

LEAST_LIMIT = 64  # with a lower limit the agent cannot start: libraries, sockets, connections
SHORTAGE_SHARE = 0.8  # share of the limit from which the shortage is reported

_OPEN = "/proc/self/fd"


def get_limit() -> float:
    """Return how many files may be open at once."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return inf if limit == resource.RLIM_INFINITY else limit  # RLIM_INFINITY is -1


def describe_shortage() -> str:
    """Return a text if few more files can be opened, else an empty string."""
    limit = get_limit()
    if limit == inf:
        return ""
    try:
        open_count = len(os.listdir(_OPEN))
    except OSError:  # counting needs one more open file
        return f"all of the {limit:,} files that may be open at once are"
    return (
        f"{open_count:,} of the {limit:,} files that may be open at once are"
        if open_count >= limit * SHORTAGE_SHARE
        else ""
    )
