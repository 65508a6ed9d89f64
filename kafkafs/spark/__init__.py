"""Log directories as a data source of Spark.

Register it with `spark.dataSource.register(kafkafs.spark.KafkaLogDataSource)`, then use
`spark.read.format("kafkalog")`. PySpark is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkafs.spark.data_source import KafkaLogDataSource
    from kafkafs.spark.reading import read
    from kafkafs.spark.writing import write

__all__ = ["KafkaLogDataSource", "read", "write"]


def __getattr__(name: str) -> object:
    if name == "KafkaLogDataSource":
        from kafkafs.spark.data_source import KafkaLogDataSource

        return KafkaLogDataSource
    if name == "read":
        from kafkafs.spark.reading import read

        return read
    if name == "write":
        from kafkafs.spark.writing import write

        return write
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
