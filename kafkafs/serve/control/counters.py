"""Counters of a server: requests and their times by API, connections, bytes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from kafkafs.fuse.statistics import OperationStatistics


class Counters:
    """Counters of all connections. Written by trio's thread only.

    Attributes:
        open: connections.
        most_open: the most that were open at the same time.
        accepted, refused: connections that were served, or that were too many.
        malformed: connections that were closed for bytes that are no request.
        failed_logins: logins that proved nothing.
        too_slow: connections that were closed as their client took too long.
        unexpected_errors: connections that a bug of the server ended.
        bytes_sent: bytes of answers.
        operations: requests by the name of their API; a Fetch takes as long as it waits for records.
    """

    def __init__(self) -> None:
        self.open = 0
        self.most_open = 0
        self.accepted = 0
        self.refused = 0
        self.malformed = 0
        self.failed_logins = 0
        self.too_slow = 0
        self.unexpected_errors = 0
        self.bytes_sent = 0
        self.operations: defaultdict[str, OperationStatistics] = defaultdict(OperationStatistics)

    def enter(self) -> None:
        """Count a connection that is served."""
        self.open += 1
        self.accepted += 1
        self.most_open = max(self.most_open, self.open)

    def leave(self) -> None:
        """Count the end of a connection."""
        self.open -= 1

    def facts(self) -> dict[str, Any]:
        """Return the counters for JSON."""
        return {
            "connections": self.open,
            "mostConnections": self.most_open,
            "acceptedConnections": self.accepted,
            "refusedConnections": self.refused,
            "malformedRequests": self.malformed,
            "failedLogins": self.failed_logins,
            "tooSlowClients": self.too_slow,
            "unexpectedErrors": self.unexpected_errors,
            "bytesSent": self.bytes_sent,
            "operations": {
                name: numbers.facts() for name, numbers in sorted(self.operations.items())
            },
        }
