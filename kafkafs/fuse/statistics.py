"""Counters of the daemon: requests, errors and time per operation, in histograms of powers of two.

Cheap enough for each request: two clock reads and three additions. Written by trio's thread only; other threads
may read a request that is half counted.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from engine.json_facts import facts_of

BUCKETS = 54
"""Bucket n counts requests of [2^(n-1), 2^n) units of 1,024 ns; enough buckets for any duration."""


class OperationStatistics:
    """Counters of one operation; times in nanoseconds."""

    __slots__ = ("buckets", "errors", "nanoseconds", "slowest")

    def __init__(self) -> None:
        self.errors = 0
        self.nanoseconds = 0
        self.slowest = 0
        self.buckets = [0] * BUCKETS

    def add(self, nanoseconds: int) -> None:
        """Count one request."""
        self.buckets[(nanoseconds >> 10).bit_length()] += 1
        self.nanoseconds += nanoseconds
        if nanoseconds > self.slowest:
            self.slowest = nanoseconds

    @property
    def requests(self) -> int:
        """Number of requests."""
        return sum(self.buckets)

    def quantile(self, share: float) -> int:
        """Return an upper bound in µs for a share of the requests (0 to 1); 0 without requests."""
        wanted = share * self.requests
        seen = 0
        for bucket, count in enumerate(self.buckets):
            seen += count
            if count and seen >= wanted:
                return 1 << bucket
        return 0

    def facts(self) -> dict[str, Any]:
        """Return the counters for JSON."""
        requests = self.requests
        return {
            "requests": requests,
            "errors": self.errors,
            "meanMicroseconds": round(self.nanoseconds / requests / 1000, 1) if requests else 0,
            "p50Microseconds": self.quantile(0.5),
            "p99Microseconds": self.quantile(0.99),
            "slowestMicroseconds": self.slowest // 1000,
            "histogram": {
                f"<{1 << bucket}us": count for bucket, count in enumerate(self.buckets) if count
            },
        }


class Statistics:
    """Counters of all operations by name, and of errors."""

    def __init__(self) -> None:
        self.operations: defaultdict[str, OperationStatistics] = defaultdict(OperationStatistics)
        self.bytes_read = 0
        self.reads_at_once = 0
        self.reads_in_threads = 0
        self.unexpected_errors = 0
        self.damage_answers = 0
        self.interrupted_calls = 0

    def facts(self) -> dict[str, Any]:
        """Return the counters for JSON."""
        return {
            **facts_of(
                self,
                "bytes_read reads_at_once reads_in_threads interrupted_calls damage_answers "
                "unexpected_errors",
            ),
            "operations": {
                name: numbers.facts()
                for name, numbers in sorted(self.operations.items())
                if numbers.requests
            },
        }
