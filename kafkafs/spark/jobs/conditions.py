"""Check of an SQL condition before any task starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.columns import CONNECTOR, HEADERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_condition(spark: SparkSession, where: str | None) -> None:
    """Raise OptionError for an invalid condition on the connector's columns and `headers`."""
    if where is None:
        return
    columns = CONNECTOR | {"headers": HEADERS}
    empty = spark.range(0).select(
        *[F.lit(None).cast(kind).alias(name) for name, kind in columns.items()]
    )
    try:
        _ = empty.where(where).schema
    except (AnalysisException, ParseException) as error:
        said = next(line for line in str(error).splitlines() if line.strip())
        raise OptionError(
            f"the condition is not valid: {said.partition(' SQLSTATE')[0]}"
        ) from error
