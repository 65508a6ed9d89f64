"""Tuning of the C library's memory allocator."""

from __future__ import annotations

import ctypes
from functools import cache

MMAP_THRESHOLD = 32 << 20
"""Largest value that glibc accepts."""
TRIM_THRESHOLD = 64 << 20
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


@cache
def keep_freed_memory() -> None:
    """Have glibc keep up to TRIM_THRESHOLD bytes of freed memory. For commands that read a log from end to end.

    Otherwise the system provides and takes back each buffer of a few MiB page by page, which for large records takes
    more time than reading them. Does nothing where the C library is not glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD)
    mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD)
