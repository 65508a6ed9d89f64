"""Preparation of Spark's Python processes, once for each."""

from __future__ import annotations

import gc
import os
import sys
from functools import cache
from typing import IO, Any

import pyarrow as pa

from kafkafs.process_memory import keep_freed_memory

_EXIT_STATUS = 255
"""Exit status of PySpark's own worker."""


def make_ready() -> None:
    """Prepare this process for tasks."""
    spare_the_collector()
    keep_freed_memory()
    end_quietly()


@cache
def spare_the_collector() -> None:
    """Exempt all live objects from garbage collection, once in a process.

    Spark's worker collects after each task, over all objects of all modules: some 30 ms, more than a small task
    itself takes.
    """
    gc.freeze()


@cache
def end_quietly() -> None:
    """Let this worker exit silently when Spark has enough rows (`show`, `head`, `limit`).

    Spark then closes the pipe, and PySpark 4.3 prints the BrokenPipeError with its traceback. Do nothing if PySpark
    differs from the expected release.
    """
    worker = sys.modules.get("pyspark.worker")
    original = getattr(worker, "handle_worker_exception", None)
    if original is None:
        return

    def handle_worker_exception(error: BaseException, outfile: IO[bytes], *more: Any) -> None:  # noqa: ANN401
        if isinstance(error, BrokenPipeError | ConnectionResetError):
            os._exit(_EXIT_STATUS)
        original(error, outfile, *more)

    worker.handle_worker_exception = handle_worker_exception  # type: ignore[union-attr]


def spare_the_dicts() -> None:
    """Patch PySpark in this process to wrap batches without columns at no cost per row; results are the same.

    PySpark 4.3 wraps record batches into a struct column, without columns by way of `[{}] * rows`: 0.15 us a row, several
    times the cost of counting from batch headers. The same column can be made from the number of rows. Do nothing if
    PySpark differs from the expected release.
    """
    try:
        from pyspark.sql.conversion import ArrowBatchTransformer
    except ImportError:  # another release
        return
    wrap = getattr(ArrowBatchTransformer, "wrap_struct", None)
    if wrap is None or getattr(wrap, "spares_the_dicts", False):
        return

    def wrap_struct(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_columns or not batch.num_rows:
            return wrap(batch)
        rows = pa.StructArray.from_buffers(pa.struct([]), batch.num_rows, [None])
        return pa.RecordBatch.from_arrays([rows], ["_0"])

    wrap_struct.spares_the_dicts = True  # type: ignore[attr-defined]
    ArrowBatchTransformer.wrap_struct = staticmethod(wrap_struct)  # type: ignore[method-assign, unused-ignore]
