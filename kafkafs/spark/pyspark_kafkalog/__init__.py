"""The data source "kafkalog" where Spark looks for one by itself: installed as the package `pyspark_kafkalog`.

A session that is asked for its first data source imports every package `pyspark_…` that it finds, so this one
brings in nothing before it is used. It is installed from inside `kafkafs.spark`, see pyproject.toml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceWriter
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """What `format("kafkalog")` is without `spark.dataSource.register`."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "kafkalog"

    def schema(self) -> StructType | str:
        """The columns without a schema of the user's."""
        schema: StructType | str = self._source().schema()
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads a batch query."""
        return self._source().reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Reads a streaming query."""
        return self._source().streamReader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Writes a frame as a log dir."""
        return self._source().writer(schema, overwrite)

    def _source(self) -> DataSource:
        from kafkafs.spark.data_source import KafkaLogDataSource

        return KafkaLogDataSource(self.options)
