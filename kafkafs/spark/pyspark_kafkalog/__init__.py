"""The package `pyspark_kafkalog`, in which Spark finds the data source "kafkalog" by itself.

A session imports every package `pyspark_…` on the first use of any data source, so this one imports nothing
before it is used. It is installed from inside `kafkafs.spark`, see pyproject.toml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceWriter
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """`format("kafkalog")` without `spark.dataSource.register`."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "kafkalog"

    def schema(self) -> StructType | str:
        """Return the columns when the user gives no schema."""
        schema: StructType | str = self._source().schema()
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        return self._source().reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a streaming query."""
        return self._source().streamReader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a log dir."""
        return self._source().writer(schema, overwrite)

    def _source(self) -> DataSource:
        from kafkafs.spark.data_source import KafkaLogDataSource

        return KafkaLogDataSource(self.options)
