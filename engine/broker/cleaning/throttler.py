"""Limit the rate of disk use."""

from __future__ import annotations

import math
import threading

from engine.clock import Clock

CHECK_INTERVAL_MS = 300


class Throttler:
    """Limits an average rate by sleeping; safe from several threads.

    Args:
        rate: units a second; infinity for no limit.
        clock: source of the time; sleeps.
        check_interval_ms: time between checks of the rate.
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
        """Count units, and sleep if the rate is too high."""
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
