"""The data source "kafkalog", for PySpark's Python data source API.

Filters are never pushed down: PySpark 4.3 reuses the partitions that it planned for one scan of a frame in the next
scan of the same frame, which loses rows even if Spark applies all filters itself (see
`tests/kafkafs/spark/test_canaries.py`). Options and the schema narrow a read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from engine.budgets import MiB
from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.columns import check_schema, schema_of
from kafkafs.spark.source.options.read_options import (
    FROM_EARLIEST,
    UP_TO_LATEST,
    ReadOptions,
    parse_options,
)
from kafkafs.spark.source.planning.batch_plan import for_counting, plan_batch, tasks_of
from kafkafs.spark.source.rows import BatchReader, SegmentReader, SplitReader
from kafkafs.spark.source.schemas import types_of, with_schemas
from kafkafs.spark.source.worker_process import make_ready, spare_the_dicts
from kafkafs.table.splits.split import Split

logger = logging.getLogger(__name__)

HINT_BYTES = 512 * MiB
"""Bytes that a frame must read to get a hint about narrowing."""


class KafkaLogDataSource(DataSource):
    """`spark.dataSource.register(KafkaLogDataSource)`, then `spark.read.format("kafkalog")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "kafkalog"

    def schema(self) -> StructType:
        """Return the columns when the user gives no schema."""
        # Spark does not say whether this is a batch or a stream; only a batch has ending options or a moment.
        names = [name.lower() for name in self.options]
        is_batch = "at" in names or any(name.startswith("ending") for name in names)
        options = parse_options(self.options, streaming=not is_batch)
        return schema_of(options, types_of(options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        options = parse_options(self.options)
        check_schema(schema, options)
        return KafkaLogReader(schema, with_schemas(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a new log dir; existing data is never overwritten, whatever the mode."""
        from kafkafs.spark.sink.log_writer import KafkaLogWriter
        from kafkafs.spark.sink.write_options import parse_write_options

        return KafkaLogWriter(schema, parse_write_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a streaming query."""
        from kafkafs.spark.streaming.stream_reader import KafkaLogStreamReader

        options = parse_options(self.options, streaming=True)
        if options.view != "records":
            raise OptionError(
                f"view={options.view!r} is for batch queries: use view='records' in a stream"
            )
        check_schema(schema, options)
        return KafkaLogStreamReader(schema, options)


@dataclass
class SplitPartition(InputPartition):
    """The splits of one task, pickled by Spark."""

    splits: tuple[Split, ...]


class KafkaLogReader(DataSourceReader):
    """Batch reader: plans splits in the driver and reads them in tasks.

    Args:
        schema: columns to read.
        options: checked options.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the splits of each task, sorted by partition and offset.

        Raises:
            OptionError, DataLossError, SourceError: see `plan_batch`.
        """
        if self._options.ignored:
            logger.warning(
                "ignored in a batch without a broker: %s", ", ".join(self._options.ignored)
            )
        options = self._options if self._schema.fields else for_counting(self._options)
        splits = plan_batch(options)
        self._hint(sum(split.size for split in splits))
        return [SplitPartition(task) for task in tasks_of(splits, options)]

    def _hint(self, size: int) -> None:
        """Log once for a frame that options could narrow a large read."""
        options = self._options
        limits = (options.start, options.end, options.key, options.key_pattern)
        is_whole = limits == (FROM_EARLIEST, UP_TO_LATEST, None, None)
        if size >= HINT_BYTES and is_whole and "value" in self._schema.names:
            logger.warning(
                "kafkalog: each use of this frame reads %.1f GiB: where() and select() do not narrow that. Options"
                " do (startingOffsets, startingTimestamp, assign, keyEquals, …), and .schema(…) or columns=[…] reads"
                " only some columns; columns=[] is the fastest count()",
                size / 1024**3,
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        if not isinstance(partition, SplitPartition):
            return iter(())  # without splits Spark still runs one task
        if not self._schema.fields:
            spare_the_dicts()
        return self._rows(partition)

    def _rows(self, partition: SplitPartition) -> Iterator[pa.RecordBatch]:
        make_ready()
        schema = to_arrow_schema(self._schema, timezone="UTC")
        reader = _READERS[self._options.view](schema, self._options)
        for split in partition.splits:
            yield from reader.read(split)


_READERS: dict[str, type[SplitReader | BatchReader | SegmentReader]] = {
    "records": SplitReader,
    "batches": BatchReader,
    "segments": SegmentReader,
}
