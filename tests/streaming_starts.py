"""Streaming queries on a machine that may be busy: Spark gives a source's Python process ten seconds to start."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

TOO_SLOW = "Python worker failed to connect back"
PATIENCE = 400.0
"""Seconds; on a busy machine each of many starts may take more than Spark's ten."""


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query whose source is there: started again while only its process was too slow."""
    end = time.monotonic() + PATIENCE
    while True:
        query = start()
        while query.isActive and query.status["message"].startswith("Initializing"):
            time.sleep(0.05)
        if TOO_SLOW not in str(query.exception()) or time.monotonic() > end:
            return query
