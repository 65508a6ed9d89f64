"""Logs in folders marked -delete, until their files are removed."""

from __future__ import annotations

import logging
from collections import deque

from engine.broker.log.unified_log import UnifiedLog
from engine.clock import Clock
from engine.errors import KafkaStorageError
from engine.units import Timestamp

logger = logging.getLogger(__name__)


class LogDeletions:
    """Queue of logs to delete; safe from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[tuple[UnifiedLog, Timestamp]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, log: UnifiedLog) -> None:
        """Delete a log after the delay."""
        self._waiting.append((log, self._clock.now_ms()))

    def delete_due(self, delay_ms: int) -> int:
        """Delete the logs past the delay; return the milliseconds until the next call.

        A log that cannot be deleted stays until the log dir is opened again.
        """
        while self._waiting:
            log, since = self._waiting[0]
            wait = since + delay_ms - self._clock.now_ms()
            if wait > 0:
                return wait
            self._waiting.popleft()
            try:
                log.delete()
                logger.info("deleted %s", log.folder)
            except (OSError, KafkaStorageError):
                logger.exception("%s is not deleted", log.folder)
                log.close_handlers()
        return max(delay_ms, 1)

    def close(self) -> None:
        """Close the files of waiting logs; their folders stay."""
        while self._waiting:
            self._waiting.popleft()[0].close_handlers()
