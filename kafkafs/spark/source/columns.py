"""Columns of the source: names, Spark's types, and the check of a schema."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafkafs.forms.arrow.arrow_columns import (
    CORRUPT,
    LEFTOVER,
    RECORD_FIELDS,
    USUAL,
)
from kafkafs.forms.arrow.decoded_rows import DECODED_FIELDS
from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.options.read_options import ReadOptions

RECORDS: dict[str, DataType] = {
    name: from_arrow_type(kind) for name, kind in RECORD_FIELDS.items() if name != LEFTOVER
}
"""All columns of view=records: those of tables, without records that a broker set aside."""

HEADERS = RECORDS["headers"]

CONNECTOR = {name: RECORDS[name] for name in USUAL if name != "headers"}
"""Columns of spark-sql-kafka-0-10, in its order; includeHeaders adds `headers`."""

DECODED = {name: RECORDS[name] for name in DECODED_FIELDS}
"""Columns of decode=true; with decode=columns some have other types."""

TYPED = ("decodedKey", "decodedValue")
"""Columns that have the types of schemas with decode=columns."""

WITH_TYPES = (*TYPED, "keyNote", "valueNote")
"""Columns of decode=columns; those of schemas cost far more than typed columns."""

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
"""Columns of view=batches. A value that a batch lacks is null."""

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
"""Columns of view=segments, for whole segments. `records` and the timestamps (smallest base timestamp, largest timestamp)
leave out control batches.
"""

VIEWS = {"records": RECORDS, "batches": BATCHES, "segments": SEGMENTS}


def schema_of(options: ReadOptions, typed: Mapping[str, DataType] | None = None) -> StructType:
    """Return the schema of the source when the user gives none.

    Args:
        options: the options.
        typed: types of decoded columns that are not JSON, for decode=columns.
    """
    if options.view != "records":
        names = list(VIEWS[options.view])
        if options.view == "batches" and options.on_corrupt != "row":
            names.remove(CORRUPT)
    else:
        names = list(CONNECTOR)
        names += ["headers"] * options.include_headers
        names += [] if not options.decode else WITH_TYPES if options.has_types else DECODED
        names += [CORRUPT] * (options.on_corrupt == "row")
    known = {**VIEWS[options.view], **(typed or {})}
    return StructType([StructField(name, known[name]) for name in names])


def check_schema(schema: StructType, options: ReadOptions) -> None:
    """Check that the source has the columns of a schema, with these types; `with_schemas` checks those of schemas.

    Raises:
        OptionError: a column is unknown, twice there, not nullable, or has another type.
    """
    known = VIEWS[options.view]
    for name in schema.names:
        if name not in known:
            raise OptionError(
                f"view {options.view!r} has no column {name!r}; it has {', '.join(known)}"
            )
        if name in DECODED and known is RECORDS and not options.decode:
            raise OptionError(f"column {name!r} needs decode='true'")
        asked = schema[name].dataType
        is_typed = options.has_types and name in TYPED
        if asked != known[name] and not is_typed:
            raise OptionError(
                f"column {name!r} is {known[name].simpleString()}, not {asked.simpleString()}"
            )
        if not schema[name].nullable:
            raise OptionError(f"column {name!r} can be null: remove NOT NULL from the schema")
    if len(set(schema.names)) < len(schema.names):
        raise OptionError(f"a column is there twice: {', '.join(schema.names)}")
