"""Columns of an export's files, and the conversion of these to records.

Parquet has the connector's columns unchanged. In other formats `timestamp` is milliseconds since 1970, and `time` is
the same for people: ORC's own timestamps are a second off before 1970, also that of -1. JSON and CSV have no bytes:
a key or value is text if it is UTF-8, else base64, and a column beside it names the encoding. A null key has no
encoding, an empty one has, so that nothing is lost.

No export writes JSON any more; that of earlier ones is read.

In every format `topic` and `date` (of the timestamp, UTC; null without one) are folders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.columns import CONNECTOR, HEADERS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS = ("parquet", "orc", "json", "csv")
FOLDERS = ("topic", "date")
TEXT, BASE64 = "text", "base64"
_OF_BYTES = ("parquet", "orc")
_READ_OPTIONS: dict[str, dict[str, str]] = {
    "csv": {
        "header": "true",
        "escape": '"',
        "ignoreLeadingWhiteSpace": "false",
        "ignoreTrailingWhiteSpace": "false",
        "mode": "FAILFAST",
    },
    "json": {"mode": "FAILFAST"},
}

_TEXT_HEADERS = ArrayType(
    StructType(
        [
            StructField("key", StringType()),
            StructField("value", StringType()),
            StructField("valueEncoding", StringType()),
        ]
    )
)
_EXACT: dict[str, DataType] = {
    "partition": CONNECTOR["partition"],
    "offset": CONNECTOR["offset"],
    "timestamp": CONNECTOR["timestamp"],
    "timestampType": CONNECTOR["timestampType"],
    "key": CONNECTOR["key"],
    "value": CONNECTOR["value"],
    "headers": HEADERS,
}
_MILLISECONDS: dict[str, DataType] = {
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": LongType(),
    "time": TimestampType(),
    "timestampType": IntegerType(),
    "key": CONNECTOR["key"],
    "value": CONNECTOR["value"],
    "headers": HEADERS,
}
_TEXTUAL: dict[str, DataType] = {
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": LongType(),
    "time": StringType(),
    "timestampType": IntegerType(),
    "key": StringType(),
    "keyEncoding": StringType(),
    "value": StringType(),
    "valueEncoding": StringType(),
    "headers": _TEXT_HEADERS,
}


def file_schema(form: str) -> StructType:
    """Return the columns of a format's files, without the folders."""
    columns = {"parquet": _EXACT, "orc": _MILLISECONDS}.get(form, _TEXTUAL)
    if form == "csv":
        columns = columns | {"headers": StringType()}
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def check_form(form: str) -> None:
    """Raise OptionError if there is no such format."""
    if form not in FORMATS:
        raise OptionError(f"no such format: {form!r}; there are {', '.join(FORMATS)}")


def from_files(frame: DataFrame, form: str) -> DataFrame:
    """Convert the columns of a format back: the connector's columns and `headers`."""
    columns = {name: F.col(name) for name in (*CONNECTOR, "headers")}
    if form != "parquet":
        columns["timestamp"] = F.timestamp_millis("timestamp")
    if form not in _OF_BYTES:
        for name in ("key", "value"):
            columns[name] = _decoded(F.col(name), F.col(f"{name}Encoding"))
        headers = F.col("headers")
        if form == "csv":
            headers = F.from_json(headers, _TEXT_HEADERS, {"mode": "FAILFAST"})
        columns["headers"] = F.transform(
            headers,
            lambda header: F.struct(
                header["key"].alias("key"),
                _decoded(header["value"], header["valueEncoding"]).alias("value"),
            ),
        )
    return frame.select(*[columns[name].alias(name) for name in (*CONNECTOR, "headers")])


def _decoded(value: Column, encoding: Column) -> Column:
    text = F.coalesce(value, F.lit(""))
    return (
        F.when(encoding == TEXT, text.cast("binary"))
        .when(encoding == BASE64, F.unbase64(text))
        .when(
            encoding.isNotNull(),
            F.raise_error(F.concat(F.lit("not an encoding of an export: "), encoding)).cast(
                "binary"
            ),
        )
    )


def read_files(spark: SparkSession, path: str, form: str) -> DataFrame:
    """Read the records in the folders `topic=…/date=…` of an export: the connector's columns and `headers`.

    Args:
        spark: session.
        path: export, or a folder of the same layout.
        form: one of FORMATS.

    Raises:
        OptionError: there is no such format.
    """
    check_form(form)
    schema = file_schema(form)
    for folder in FOLDERS:
        schema = schema.add(folder, StringType())
    reader = spark.read.format(form).schema(schema).options(**_READ_OPTIONS.get(form, {}))
    return from_files(reader.load(path), form)
