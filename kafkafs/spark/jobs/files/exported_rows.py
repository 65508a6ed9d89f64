"""Columns of an export's files, and the conversion of records to and from them.

Parquet has the connector's columns unchanged. In other formats `timestamp` is milliseconds since 1970, and `time` is
the same for people: ORC's own timestamps are a second off before 1970, also that of -1. JSON and CSV have no bytes:
a key or value is text if it is UTF-8, else base64, and a column beside it names the encoding. A null key has no
encoding, an empty one has, so that nothing is lost.

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
from kafkafs.spark.source.columns import CONNECTOR, DECODED, HEADERS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession

FORMATS = ("parquet", "orc", "json", "csv")
VALUES = ("text", "base64")
FOLDERS = ("topic", "date")
TEXT, BASE64 = VALUES
_OF_BYTES = ("parquet", "orc")
_LAST_SECOND = 253_402_300_799_999
"""End of year 9999, in milliseconds."""
_CSV_WRITES = {
    "header": "true",
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}
_WRITE_OPTIONS: dict[str, dict[str, str]] = {"csv": _CSV_WRITES}
_READ_OPTIONS: dict[str, dict[str, str]] = {
    "csv": {**_CSV_WRITES, "mode": "FAILFAST"},
    "json": {"mode": "FAILFAST"},
}
_PLAIN_TEXT_OF_CSV = r"^[^\x00-\x1f\x7f]*$"
"""Text without control characters: programs disagree about line ends inside CSV fields."""

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


def files_writer(
    records: DataFrame, form: str, values: str = TEXT, compression: str | None = None
) -> DataFrameWriter:
    """Return a writer of records to files in the folders `topic=…/date=…`, in the order of offsets.

    Args:
        records, form, values: as for `to_files`.
        compression: codec of the files; None for Spark's default.
    """
    options = {} if compression is None else {"compression": compression}
    # Without the sort, Spark sorts by folders alone, and may lose the order of offsets.
    ordered = to_files(records, form, values).sortWithinPartitions(*FOLDERS, "partition", "offset")
    writer = ordered.write.format(form).options(**_WRITE_OPTIONS.get(form, {}), **options)
    return writer.partitionBy(*FOLDERS)


def to_files(records: DataFrame, form: str, values: str = TEXT) -> DataFrame:
    """Convert records to the columns of a format, with the folders' columns at the end.

    Args:
        records: the connector's columns, `headers` and perhaps decoded columns; the session's time zone is UTC.
        form: one of FORMATS.
        values: form of bytes in JSON and CSV: "text" (base64 where bytes are not UTF-8), or "base64".
    """
    columns = {name: F.col(name) for name in _EXACT}
    if form != "parquet":
        columns |= _milliseconds(form)
    if form not in _OF_BYTES:
        columns |= _textual(form, values)
    chosen = [columns[name].alias(name) for name in file_schema(form).names]
    chosen += [F.col(name) for name in DECODED if name in records.columns]
    has_time = F.unix_millis("timestamp") != -1
    date = F.when(has_time, F.date_format("timestamp", "yyyy-MM-dd"))
    return records.select(*chosen, F.col("topic"), date.alias("date"))


def _milliseconds(form: str) -> dict[str, Column]:
    found = F.unix_millis("timestamp")
    time = F.col("timestamp")
    if form != "orc":
        time = F.date_format(time, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
    return {"timestamp": found, "time": F.when(found.between(0, _LAST_SECOND), time)}


def _textual(form: str, values: str) -> dict[str, Column]:
    columns = {}
    for name in ("key", "value"):
        encoding = _encoding(F.col(name), form, values)
        columns[f"{name}Encoding"] = encoding
        columns[name] = _encoded(F.col(name), encoding)
    headers = F.transform(F.col("headers"), lambda header: _header(header, values))
    columns["headers"] = F.to_json(headers) if form == "csv" else headers
    return columns


def _header(header: Column, values: str) -> Column:
    value = header["value"]
    encoding = _encoding(value, "json", values)
    return F.struct(
        header["key"].alias("key"),
        _encoded(value, encoding).alias("value"),
        encoding.alias("valueEncoding"),
    )


def _encoding(value: Column, form: str, values: str) -> Column:
    """Return TEXT or BASE64; null for null."""
    if values == BASE64:
        return F.when(value.isNotNull(), F.lit(BASE64))
    text = value.cast("string")
    is_text = F.is_valid_utf8(text)
    if form == "csv":
        is_text &= text.rlike(_PLAIN_TEXT_OF_CSV)
    return F.when(value.isNull(), F.lit(None)).when(is_text, F.lit(TEXT)).otherwise(F.lit(BASE64))


def _encoded(value: Column, encoding: Column) -> Column:
    return F.when(encoding == TEXT, value.cast("string")).otherwise(
        F.translate(F.base64(value), "\r\n", "")  # base64() inserts line ends
    )


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
