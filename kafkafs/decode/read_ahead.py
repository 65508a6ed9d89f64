"""Two threads that decode ahead; started at first use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def decode_soon(work: Callable[[], object]) -> None:
    """Run `work` in the background. Its exception is dropped: the reader of the result gets it again."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(2, thread_name_prefix="kafkafs-ahead")
        pool = _pool
    pool.submit(work)
