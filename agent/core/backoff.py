"""Waiting longer after each failure, with a ceiling and jitter."""

from __future__ import annotations

from agent.core.struct import Struct, replace

STEADY_SECONDS = 10.0  # a stream that lived so long was a success


class Backoff(Struct):
    """Delays after failures, in seconds: `initial_s`, then doubled up to `max_s`. Jitter removes up to a fifth."""

    initial_s: float
    max_s: float
    failures: int = 0

    def add_failure(self) -> Backoff:
        """Return the backoff after one more failure."""
        return replace(self, failures=self.failures + 1)

    def reset(self) -> Backoff:
        """Return the backoff after a success that lasted."""
        return replace(self, failures=0)

    def compute_delay(self, jitter: float) -> float:
        """Return the delay in seconds; 0 without a failure. `jitter` is a random number from 0 to 1."""
        if not self.failures:
            return 0.0
        longest = min(self.max_s, self.initial_s * 2.0 ** min(self.failures - 1, 32))
        return longest * (1.0 - 0.2 * jitter)
