"""A data source of batches that were built before: what Spark takes for rows of this schema when a source takes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

BATCH = 10_000
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp,"
    " timestampType int"
)


class FloorDataSource(DataSource):
    """Options: tasks, rows of each, and the sizes of key and value."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: object) -> DataSourceReader:
        numbers = {name: int(text) for name, text in self.options.items()}
        return FloorReader(numbers["tasks"], numbers["rows"], numbers["key"], numbers["value"])


@dataclass
class FloorReader(DataSourceReader):
    """Sends the same batch over and over."""

    tasks: int
    rows: int
    key: int
    value: int

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(task) for task in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = self.batch()
        whole, rest = divmod(self.rows, BATCH)
        for _ in range(whole):
            yield batch
        if rest:
            yield batch.slice(0, rest)

    def batch(self) -> pa.RecordBatch:
        """Rows of the connector's schema."""
        stamps = pa.array(range(BATCH), pa.int64()).cast(pa.timestamp("us", "UTC"))
        columns = {
            "key": pa.array([b"k" * self.key] * BATCH, pa.binary()),
            "value": pa.array([b"v" * self.value] * BATCH, pa.binary()),
            "topic": pa.array(["plain-100b"] * BATCH, pa.string()),
            "partition": pa.array([0] * BATCH, pa.int32()),
            "offset": pa.array(range(BATCH), pa.int64()),
            "timestamp": stamps,
            "timestampType": pa.array([0] * BATCH, pa.int32()),
        }
        return pa.RecordBatch.from_pydict(columns)
