"""The columns of the source: their names, Spark's types, and which of them a schema asks for."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.options.read_options import ReadOptions

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
CORRUPT = "_corrupt"

CONNECTOR: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
}
"""What spark-sql-kafka-0-10 gives, in its order; `headers` with includeHeaders."""

RECORDS: dict[str, DataType] = {
    **CONNECTOR,
    "headers": HEADERS,
    "leaderEpoch": IntegerType(),
    "producerId": LongType(),
    "producerEpoch": IntegerType(),
    "sequence": IntegerType(),
    "transaction": StringType(),
    "codec": StringType(),
    "segment": LongType(),
    "batchPosition": LongType(),
    CORRUPT: StringType(),
}
"""Everything that a schema can ask for in view=records."""

BATCHES: dict[str, DataType] = {
    "topic": StringType(),
    "partition": IntegerType(),
    "segment": LongType(),
    "position": LongType(),
    "size": IntegerType(),
    "baseOffset": LongType(),
    "lastOffset": LongType(),
    "records": IntegerType(),
    "baseTimestamp": TimestampType(),
    "maxTimestamp": TimestampType(),
    "timestampType": IntegerType(),
    "magic": IntegerType(),
    "codec": StringType(),
    "leaderEpoch": IntegerType(),
    "producerId": LongType(),
    "producerEpoch": IntegerType(),
    "baseSequence": IntegerType(),
    "isTransactional": BooleanType(),
    "isControl": BooleanType(),
    "deleteHorizon": TimestampType(),
    "transaction": StringType(),
    "crc": LongType(),
    CORRUPT: StringType(),
}
"""A batch in view=batches. What it has none of is null."""

SEGMENTS: dict[str, DataType] = {
    "topic": StringType(),
    "partition": IntegerType(),
    "segment": LongType(),
    "file": StringType(),
    "size": LongType(),
    "batches": LongType(),
    "records": LongType(),
    "controlBatches": LongType(),
    "firstOffset": LongType(),
    "lastOffset": LongType(),
    "minTimestamp": TimestampType(),
    "maxTimestamp": TimestampType(),
    "damagedBytes": LongType(),
    "damagedPlaces": LongType(),
}
"""A segment in view=segments, whole. `records` are those of batches that are no control batches, and so are the
timestamps: the smallest base timestamp, the largest of all."""

VIEWS = {"records": RECORDS, "batches": BATCHES, "segments": SEGMENTS}


def schema_of(options: ReadOptions) -> StructType:
    """What the source gives when no schema was asked for."""
    if options.view != "records":
        names = list(VIEWS[options.view])
        if options.view == "batches" and options.on_corrupt != "row":
            names.remove(CORRUPT)
    else:
        names = list(CONNECTOR)
        names += ["headers"] * options.include_headers
        names += [CORRUPT] * (options.on_corrupt == "row")
    known = VIEWS[options.view]
    return StructType([StructField(name, known[name]) for name in names])


def check_schema(schema: StructType, options: ReadOptions) -> None:
    """Refuse a schema that asks for columns which are not there, or of another type.

    Raises:
        OptionError: so it does.
    """
    known = VIEWS[options.view]
    for name in schema.names:
        if name not in known:
            raise OptionError(
                f"view {options.view!r} has no column {name!r}; it has {', '.join(known)}"
            )
        asked = schema[name].dataType
        if asked != known[name]:
            raise OptionError(
                f"column {name!r} is {known[name].simpleString()}, and not {asked.simpleString()}"
            )
        if not schema[name].nullable:
            raise OptionError(f"column {name!r} can be null: leave NOT NULL out of the schema")
    if len(set(schema.names)) < len(schema.names):
        raise OptionError(f"a column comes twice: {', '.join(schema.names)}")
