"""What a process does with memory that it has freed."""

from __future__ import annotations

import ctypes
from functools import cache

MMAP_THRESHOLD = 32 << 20
"""The largest that glibc takes."""
TRIM_THRESHOLD = 64 << 20
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


@cache
def keep_freed_memory() -> None:
    """Have the C library keep up to TRIM_THRESHOLD bytes of what is freed, for who reads a log from end to end.

    Else each buffer of a few MiB comes from the system anew and goes back to it, page by page: of large records that
    takes more time than reading them. Does nothing where the C library is not glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD)
    mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD)
