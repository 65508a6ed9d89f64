"""What tasks do once in each of Spark's Python processes."""

from __future__ import annotations

import gc
import os
import sys
from functools import cache
from typing import IO, Any

import pyarrow as pa

from kafkafs.process_memory import keep_freed_memory

_NOBODY_LISTENS = 255
"""What PySpark's worker exits with."""


def make_ready() -> None:
    """Everything of this module that is for all tasks."""
    spare_the_collector()
    keep_freed_memory()
    end_quietly()


@cache
def spare_the_collector() -> None:
    """Take all that is alive out of garbage collection, once in a process.

    Spark's worker collects after each task, over all objects of all modules: some 30 ms, which small tasks do not
    take for themselves.
    """
    gc.freeze()


@cache
def end_quietly() -> None:
    """Have this worker end without a word when Spark has all the rows that it wants (`show`, `head`, `limit`).

    Spark closes the pipe then, and PySpark 4.3 prints the BrokenPipeError with its traceback. Does nothing where
    PySpark is not as expected.
    """
    worker = sys.modules.get("pyspark.worker")
    tell = getattr(worker, "handle_worker_exception", None)
    if tell is None:
        return

    def handle_worker_exception(error: BaseException, outfile: IO[bytes], *more: Any) -> None:  # noqa: ANN401
        if isinstance(error, BrokenPipeError | ConnectionResetError):
            os._exit(_NOBODY_LISTENS)
        tell(error, outfile, *more)

    worker.handle_worker_exception = handle_worker_exception  # type: ignore[union-attr]


def spare_the_dicts() -> None:
    """Let this process wrap batches without columns at no cost per row; no result is another.

    PySpark 4.3 puts what a source yields into a struct column, by way of `[{}] * rows` where there are no columns:
    0.15 us a row, several times what counting takes from batch headers. The same column can be had from a number.
    Does nothing where PySpark is not as expected.
    """
    try:
        from pyspark.sql.conversion import ArrowBatchTransformer
    except ImportError:  # of another release
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
