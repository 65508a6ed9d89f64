"""Columns of a frame that the sink takes, and conversion of record batches into one schema."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from engine.coding.compression import CompressionType
from engine.units import NO_TIMESTAMP, Timestamp
from kafkafs.spark.errors import OptionError
from kafkafs.spark.sink.arrow_spans import Column
from kafkafs.spark.sink.write_options import ASSIGN, KEEP, WriteOptions
from kafkafs.spark.source.columns import HEADERS, RECORDS

_TEXT: tuple[DataType, ...] = (StringType(), BinaryType())
_TYPES: dict[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "offset": (LongType(), IntegerType()),
    "key": _TEXT,
    "value": _TEXT,
    "headers": (HEADERS,),
    "timestamp": (TimestampType(), LongType()),
    "timestampType": (IntegerType(),),
    "leaderEpoch": (IntegerType(),),
    "codec": (StringType(),),
    "transaction": (StringType(),),
    "_corrupt": (StringType(),),
}
_LOG_APPEND_TIME = 1
_NAMES = {codec.name.lower(): int(codec) for codec in CompressionType}
HEADERS_ARROW = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORD_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_ARROW),
        ("offset", pa.int64()),  # null: assign one
        ("timestamp", pa.int64()),  # milliseconds; -1: none
        ("epoch", pa.int32()),  # -1: none
        ("codec", pa.int8()),
        ("append_time", pa.int8()),
    ]
)
"""Records before they are in batches; their topic and partition are kept apart."""


class RecordError(ValueError):
    """A row that cannot become a record; it ends the job."""


@dataclass(frozen=True, slots=True)
class FrameColumns:
    """Columns of a frame for the sink.

    Attributes:
        names: the used columns.
        keeps_offsets: whether records keep their offsets.
    """

    names: tuple[str, ...]
    keeps_offsets: bool


def check_frame(schema: StructType, options: WriteOptions) -> FrameColumns:
    """Return the used columns of a frame.

    Raises:
        OptionError: a column is missing, unknown, or of a wrong type; in the connector's words if it has some.
    """
    names = schema.names
    if "topic" not in names and options.topic is None:
        raise OptionError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting"
            " a topic."
        )
    if "value" not in names:
        raise OptionError("Required attribute 'value' not found")
    if len(set(names)) < len(names):
        raise OptionError(f"a column is there twice: {', '.join(names)}")
    for name in names:
        _check_type(name, schema[name].dataType)
    if options.offsets == KEEP and "offset" not in names:
        raise OptionError("offsets=keep needs the column 'offset'")
    if "partition" not in names and not options.partition_counts:
        raise OptionError(
            "numPartitions option required when no 'partition' attribute is present: the hash of the key"
            " chooses one of them"
        )
    keeps = "offset" in names and options.offsets != ASSIGN
    if keeps and "partition" not in names:
        raise OptionError("offsets belong to a partition: they need the column 'partition'")
    used = tuple(name for name in names if name in _TYPES)
    return FrameColumns(used, keeps)


def _check_type(name: str, found: DataType) -> None:
    if name not in _TYPES:
        if name in RECORDS:
            return
        raise OptionError(
            f"the sink knows no column {name!r}, only {', '.join(_TYPES)}: drop it or rename it"
        )
    if isinstance(found, TimestampNTZType):
        raise OptionError(
            f"{name} attribute is a timestamp without a time zone: cast it, which takes the session's zone"
        )
    if not any(_same_type(found, kind) for kind in _TYPES[name]):
        wanted = " or ".join(kind.simpleString() for kind in _TYPES[name])
        raise OptionError(
            f"{name} attribute unsupported type {found.simpleString()}. {name} must be a(n) {wanted}"
        )


def _same_type(found: DataType, wanted: DataType) -> bool:
    """Return whether two types are the same but for nullability and collation."""
    plain: str = wanted.simpleString()
    return re.sub(r"collate \w+", "", found.simpleString()) == plain


@dataclass(frozen=True, slots=True)
class FrameReader:
    """Converter of the record batches of one frame.

    Attributes:
        columns: used columns of the frame.
        options: options of the job.
        now: timestamp of records in ms, if there is no column.
    """

    columns: FrameColumns
    options: WriteOptions
    now: Timestamp

    def records(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows in RECORD_SCHEMA. Raises RecordError."""
        self._refuse_what_is_no_record(batch)
        timestamps = self._timestamps(batch)
        arrays = [
            _binary(batch, "key"),
            _binary(batch, "value"),
            self._headers(batch),
            self._offsets(batch),
            pa.array(timestamps),
            pa.array(self._epochs(batch)),
            pa.array(self._codecs(batch)),
            # A record without a timestamp has no append time.
            pa.array(self._append_times(batch) * (timestamps != NO_TIMESTAMP)),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)

    def topics(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the topic of each row. Raises RecordError for null."""
        if self.options.topic is not None:
            return pa.repeat(pa.scalar(self.options.topic), len(batch))
        topics = _column(batch, "topic")
        if topics.null_count:
            raise RecordError(
                "null topic present in the data. Use the topic option for setting a default topic."
            )
        return topics.cast(pa.string())

    def partitions(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the partition of each row, null where the key chooses; None without the column."""
        return _column(batch, "partition") if "partition" in self.columns.names else None

    def _has(self, name: str) -> bool:
        return name in self.columns.names

    def _refuse_what_is_no_record(self, batch: pa.RecordBatch) -> None:
        if self._has("_corrupt") and _column(batch, "_corrupt").null_count < len(batch):
            raise RecordError(
                "a row of a damaged place (_corrupt) is not a record: leave it out with"
                " where('_corrupt is null')"
            )
        if self._has("transaction"):
            fates = set(pc.unique(_column(batch, "transaction")).to_pylist())
            if fates - {None, "committed"}:
                raise RecordError(
                    "records of aborted or open transactions would become visible to all readers:"
                    ' leave them out with where("transaction is null or transaction ='
                    " 'committed'\"), or drop the column to write them"
                )

    def _headers(self, batch: pa.RecordBatch) -> pa.Array:
        if not self._has("headers"):
            return pa.nulls(len(batch), HEADERS_ARROW)
        return _column(batch, "headers").cast(HEADERS_ARROW)

    def _offsets(self, batch: pa.RecordBatch) -> pa.Array:
        if not self.columns.keeps_offsets:
            return pa.nulls(len(batch), pa.int64())
        offsets = _column(batch, "offset").cast(pa.int64())
        if offsets.null_count:
            raise RecordError("null offset present in the data; offsets=assign gives new ones")
        return offsets

    def _timestamps(self, batch: pa.RecordBatch) -> Column:
        if not self._has("timestamp"):
            return np.full(len(batch), self.now, np.int64)
        column = _column(batch, "timestamp")
        if pa.types.is_timestamp(column.type):
            # Floor division, as in Python: Arrow's cast truncates towards zero, or fails.
            micros = column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64())
            found: Column = micros.fill_null(NO_TIMESTAMP * 1000).to_numpy() // 1000
        else:
            found = column.fill_null(NO_TIMESTAMP).to_numpy()
        if (found < NO_TIMESTAMP).any():
            low = int(found.min())
            raise RecordError(
                f"Invalid timestamp: {low}. Timestamp should always be non-negative or null."
            )
        return found

    def _epochs(self, batch: pa.RecordBatch) -> Column:
        is_kept = self.columns.keeps_offsets and self.options.leader_epoch is None
        if not is_kept or not self._has("leaderEpoch"):
            return np.full(len(batch), self.options.leader_epoch or 0, np.int32)
        epochs: Column = _column(batch, "leaderEpoch").fill_null(-1).to_numpy()
        return epochs.clip(-1)

    def _codecs(self, batch: pa.RecordBatch) -> Column:
        if self.options.codec is not None or not self._has("codec"):
            return np.full(len(batch), int(self.options.codec or 0), np.int8)
        names = _column(batch, "codec").fill_null("none").dictionary_encode()
        try:
            numbers = [_NAMES[name] for name in names.dictionary.to_pylist()]
        except KeyError as error:
            raise RecordError(
                f"no codec is called {error}; there are {', '.join(_NAMES)}"
            ) from None
        codecs: Column = np.array(numbers, np.int8)[names.indices.to_numpy()]
        return codecs

    def _append_times(self, batch: pa.RecordBatch) -> Column:
        if not self._has("timestampType"):
            return np.zeros(len(batch), np.int8)
        kinds: Column = _column(batch, "timestampType").fill_null(0).to_numpy()
        is_append_time: Column = kinds == _LOG_APPEND_TIME
        return is_append_time.astype(np.int8)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.get_field_index(name))


def _binary(batch: pa.RecordBatch, name: str) -> pa.Array:
    place = batch.schema.get_field_index(name)
    if place < 0:
        return pa.nulls(len(batch), pa.binary())
    return batch.column(place).cast(pa.binary())
