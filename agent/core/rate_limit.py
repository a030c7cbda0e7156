"""Rate limit of a stream: a token bucket, stored as one number."""

from __future__ import annotations

from agent.core.struct import Struct

BURST = 2  # messages that may follow each other at once after a quiet time
INTERVAL = 1 / 3  # seconds to earn one more
_MIN_DELAY_S = 1e-6  # seconds too few to wait for


class RateLimit(Struct):
    """Messages that one stream has sent, as a token bucket.

    A stream sends at most 5 messages in any second, and no message waits longer than 334 ms. Each message costs the
    kubelet a rewrite of its checkpoint with an fsync.

    full_at: monotonic seconds at which the bucket is full again.
    """

    full_at: float = float("-inf")

    def get_delay(self, current_time: float) -> float:
        """Return the seconds until a message may be sent."""
        delay_s = self.full_at - (BURST - 1) * INTERVAL - current_time
        return delay_s if delay_s > _MIN_DELAY_S else 0.0

    def add_message(self, current_time: float) -> RateLimit:
        """Return the rate limit after a message at this time."""
        return RateLimit(max(self.full_at, current_time) + INTERVAL)
