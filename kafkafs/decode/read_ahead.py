"""Two threads that decode what will be asked for next; started at first use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def decode_soon(work: Callable[[], object]) -> None:
    """Do some work in the background; what it raises is dropped: whoever needs the result meets it."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(2, thread_name_prefix="kafkafs-ahead")
        pool = _pool
    pool.submit(work)
