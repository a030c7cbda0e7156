"""Pacing: when the next message of a stream may be sent. A token bucket, held as one number."""

from __future__ import annotations

from agent.core.struct import Struct

BURST = 2  # messages that may follow each other at once after a quiet time
INTERVAL = 1 / 3  # seconds to earn one more
_MIN_DELAY_S = 1e-6  # seconds too few to wait for


class RateLimit(Struct):
    """What one stream has sent so far, as far as it matters.

    At most 5 messages in any second, and none waits longer than 334 ms: each costs the kubelet a rewrite of its
    checkpoint with an fsync.

    full_at: when the bucket is full again.
    """

    full_at: float = float("-inf")

    def get_delay(self, current_time: float) -> float:
        """Seconds until a message may be sent."""
        delay_s = self.full_at - (BURST - 1) * INTERVAL - current_time
        return delay_s if delay_s > _MIN_DELAY_S else 0.0

    def add_message(self, current_time: float) -> RateLimit:
        """After a message at that moment."""
        return RateLimit(max(self.full_at, current_time) + INTERVAL)
