"""Waiting longer after each failure, with a ceiling and jitter."""

from __future__ import annotations

from agent.core.struct import Struct, replace

STEADY_SECONDS = 10.0  # a stream that lived so long was a success


class Backoff(Struct):
    """Seconds to wait after a failure: `first`, then doubling up to `ceiling`; jitter takes off up to a fifth."""

    initial_s: float
    max_s: float
    failures: int = 0

    def add_failure(self) -> Backoff:
        """After one more failure."""
        return replace(self, failures=self.failures + 1)

    def reset(self) -> Backoff:
        """After a success that lasted."""
        return replace(self, failures=0)

    def compute_delay(self, jitter: float) -> float:
        """How long to wait now; 0 before any failure. `jitter` is a random number from 0 to 1."""
        if not self.failures:
            return 0.0
        longest = min(self.max_s, self.initial_s * 2.0 ** min(self.failures - 1, 32))
        return longest * (1.0 - 0.2 * jitter)
