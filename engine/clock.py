"""The current time, passed as an argument so that the same calls write the same bytes."""

from __future__ import annotations

import time
from typing import Protocol

from engine.units import Timestamp


class Clock(Protocol):
    """A wall clock in milliseconds since 1970, with a wait."""

    def now_ms(self) -> Timestamp:
        """Return the current time."""

    def sleep(self, milliseconds: int) -> None:
        """Wait for a number of milliseconds."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> Timestamp:
        """Return the current time."""
        return time.time_ns() // 1_000_000

    def sleep(self, milliseconds: int) -> None:
        """Wait for a number of milliseconds."""
        time.sleep(milliseconds / 1000)


SYSTEM_CLOCK = SystemClock()
