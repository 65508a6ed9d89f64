"""Rows of splits for tasks: readers of `kafkafs.table` with the options and the words of the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from engine.errors import CorruptRecordError, SourceError
from kafkafs.records.conditions.row_filters import KeyFilter, RowFilter
from kafkafs.spark.errors import OptionError, could_not_read, topics_recreated
from kafkafs.spark.source.options.read_options import ReadOptions
from kafkafs.spark.source.planning.volume import another_log_dir, not_visible
from kafkafs.table.batch_rows import BatchHeaderRows
from kafkafs.table.errors import (
    CorruptBatchError,
    LostRecordsError,
    OtherLogDirError,
    RecreatedTopicError,
)
from kafkafs.table.record_rows import RecordRows
from kafkafs.table.segment_rows import SegmentTotalRows
from kafkafs.table.splits.split import Split


class SplitReader:
    """Reader of splits with view=records.

    Args:
        schema: schema of the record batches.
        options: options of the query.
        wanted: filter on the records; by default that of the options.
    """

    def __init__(
        self, schema: pa.Schema, options: ReadOptions, wanted: RowFilter | None = None
    ) -> None:
        wanted = wanted or key_filter(options)
        self._rows = RecordRows(schema, options.rows, wanted, options.typed)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the wanted records of a split, and its holes with onCorrupt=row.

        Raises:
            DataLossError: the segment is gone, and failOnDataLoss is true.
            CorruptRecordError: the segment is damaged, and onCorrupt is fail.
            NotVisibleError: this host does not see the log dir, or sees another one there.
        """
        with _in_words_of_the_source(split):
            yield from self._rows.read(split)


class BatchReader:
    """Reader of splits with view=batches; see `SplitReader`."""

    def __init__(self, schema: pa.Schema, options: ReadOptions) -> None:
        self._rows = BatchHeaderRows(schema, options.rows)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the wanted batches of a split, and its holes with onCorrupt=row; raises as `SplitReader.read`."""
        with _in_words_of_the_source(split):
            yield from self._rows.read(split)


class SegmentReader:
    """Reader of splits of whole segments, with view=segments; see `SplitReader`."""

    def __init__(self, schema: pa.Schema, options: ReadOptions) -> None:
        self._rows = SegmentTotalRows(schema, options.rows)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the row of a segment; damage is counted, unless onCorrupt is fail. Raises as `SplitReader.read`."""
        with _in_words_of_the_source(split):
            yield from self._rows.read(split)


def key_filter(options: ReadOptions) -> KeyFilter | None:
    """Return the filter of keyEquals and keyPattern; None for every record.

    Raises:
        OptionError: there is a key, and the types of keys were not read.
    """
    if options.key is None and options.key_pattern is None:
        return None
    if options.key is not None and options.keys is None:
        raise OptionError("'keyEquals': the types of keys were not read")
    pattern = None if options.key_pattern is None else re.compile(options.key_pattern.encode())
    return KeyFilter(options.keys, pattern)


@contextmanager
def _in_words_of_the_source(split: Split) -> Iterator[None]:
    try:
        yield
    except LostRecordsError as error:
        raise could_not_read(error.partition, error.start, error.stop, error.why) from error
    except RecreatedTopicError as error:
        raise topics_recreated({error.partition: (error.before, error.now)}) from error
    except OtherLogDirError as error:
        raise another_log_dir(error.path, error.before, error.now) from error
    except SourceError as error:
        raise not_visible([split.source], error) from error
    except CorruptBatchError as error:
        raise CorruptRecordError(
            f"{error.reason} (onCorrupt=skip or row reads the good records)",
            path=error.path,
            position=error.position,
            expected=error.expected,
            found=error.found,
        ) from error
