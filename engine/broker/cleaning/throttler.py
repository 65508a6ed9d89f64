"""Slowing down whatever would otherwise take all of a disk."""

from __future__ import annotations

import math
import threading

from engine.clock import Clock

CHECK_INTERVAL_MS = 300


class Throttler:
    """Lets so much through in a second, on average, by sleeping. Threads may share it.

    Args:
        rate: units a second; infinity for any number.
        clock: tells the time and sleeps.
        check_interval_ms: how long to count before looking at the rate.
    """

    def __init__(
        self, rate: float, clock: Clock, check_interval_ms: int = CHECK_INTERVAL_MS
    ) -> None:
        self.rate = rate
        self._clock = clock
        self._check_interval_ms = check_interval_ms
        self._lock = threading.Lock()
        self._since = clock.now_ms()
        self._seen = 0.0

    def maybe_throttle(self, units: float) -> None:
        """Count units that went through, and sleep if they were too many."""
        if math.isinf(self.rate):
            return
        with self._lock:
            self._seen += units
            elapsed = self._clock.now_ms() - self._since
            if elapsed <= self._check_interval_ms or not self._seen:
                return
            too_early = round(self._seen / self.rate * 1000 - elapsed)
            if too_early > 0:
                self._clock.sleep(too_early)
            self._since = self._clock.now_ms()
            self._seen = 0.0
