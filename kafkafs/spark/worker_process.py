"""What tasks do once in each of Spark's Python processes."""

from __future__ import annotations

import gc
from functools import cache

from kafkafs.process_memory import keep_freed_memory


def make_ready() -> None:
    """Everything of this module that is for all tasks."""
    spare_the_collector()
    keep_freed_memory()


@cache
def spare_the_collector() -> None:
    """Take all that is alive out of garbage collection, once in a process.

    Spark's worker collects after each task, over all objects of all modules: some 30 ms, which small tasks do not
    take for themselves.
    """
    gc.freeze()
