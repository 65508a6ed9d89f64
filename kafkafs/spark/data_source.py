"""The data source "kafkalog", for PySpark's Python data source API.

Filters are never pushed down here: PySpark 4.3 keeps what one scan of a frame pushed for the next scan of the
same frame, which gives wrong rows. What is read is said by options and by the schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kafkafs.spark.columns import check_schema, schema_of
from kafkafs.spark.errors import OptionError
from kafkafs.spark.offset_ranges import resolve_batch
from kafkafs.spark.options import ReadOptions, parse_options
from kafkafs.spark.partition_choice import choose
from kafkafs.spark.source_paths import open_paths
from kafkafs.spark.split_reader import SplitReader
from kafkafs.spark.splits import Split, plan, split_ranges


class KafkaLogDataSource(DataSource):
    """`spark.dataSource.register(KafkaLogDataSource)`, then `spark.read.format("kafkalog")`."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "kafkalog"

    def schema(self) -> StructType:
        """The columns without a schema of the user's."""
        # Batch or stream is not said here, and each takes what the other refuses: whichever fits.
        has_an_end = any(name.lower().startswith("ending") for name in self.options)
        return schema_of(parse_options(self.options, streaming=not has_an_end))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads a batch query."""
        options = parse_options(self.options)
        check_schema(schema, options)
        return KafkaLogReader(schema, options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Reads a streaming query."""
        from kafkafs.spark.streaming.stream_reader import KafkaLogStreamReader

        options = parse_options(self.options, streaming=True)
        if options.view != "records":
            raise OptionError(f"view={options.view!r} is for batch queries: a stream is of records")
        check_schema(schema, options)
        return KafkaLogStreamReader(schema, options)


@dataclass
class SplitPartition(InputPartition):
    """A split as Spark hands it to a task."""

    split: Split


class KafkaLogReader(DataSourceReader):
    """Plans splits in the driver and reads them in tasks.

    Args:
        schema: the columns that are wanted.
        options: checked.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """A task for each split, the largest first.

        Raises:
            OptionError, DataLossError, SourceError: see `resolve_batch` and `open_paths`.
        """
        return [SplitPartition(split) for split in plan_batch(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        if not isinstance(partition, SplitPartition):
            return iter(())  # Spark makes one task of nothing where there is no split
        schema = to_arrow_schema(self._schema, timezone="UTC")
        return SplitReader(schema, self._options).read(partition.split)


def plan_batch(options: ReadOptions) -> list[Split]:
    """The splits of a batch query, the largest first."""
    source = open_paths(options.paths)
    try:
        logs = choose(source.partitions(), options.choice, internal=options.internal)
        views = {partition: log.view() for partition, log in logs.items()}
        ranges = split_ranges(resolve_batch(views, options), options)
        splits = [
            split
            for wanted in ranges
            for split in plan(views[wanted.partition], wanted, options.split_bytes)
        ]
    finally:
        source.close()
    return sorted(splits, key=lambda split: -split.size)
