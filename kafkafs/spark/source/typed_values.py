"""Decoded keys and values in Spark's types of the newest schemas of a topic."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import DataType, StructType

from kafkafs.forms.arrow.typed.retyped import with_leaves
from kafkafs.forms.arrow.typed.typed_beside_bytes import TypedBesideBytes, Types, typed_as
from kafkafs.schemas.store import SchemaStore
from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.columns import DECODED, TYPED

_DIGITS = 38
"""Most digits of a decimal of Spark."""
_LIKE: dict[pa.DataType, pa.DataType] = {
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.null(): pa.string(),
}


def arrow_type(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type in which Spark takes a column: one that it can also write to Parquet."""
    return to_arrow_type(spark_type(kind), timezone="UTC")


def spark_type(kind: pa.DataType) -> DataType:
    """Return Spark's type for a column of an Arrow type."""
    return from_arrow_type(with_leaves(kind, _leaf))


def _leaf(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_time(kind) or pa.types.is_struct(kind):
        return pa.string()
    if pa.types.is_decimal(kind) and kind.precision > _DIGITS:
        return pa.string()
    return _LIKE.get(kind, kind)


def typed_values(
    topic: str, store: SchemaStore | None, schema: StructType | None = None
) -> TypedBesideBytes:
    """Return the typed columns of a topic.

    Args:
        topic: name of the topic.
        store: the schemas; None without any.
        schema: columns of a query, whose types are those of the newest schemas, or of earlier ones.

    Raises:
        OptionError: no schemas give types, or none of them those of the query.
    """
    try:
        if store is None:
            raise ValueError(f"no schema gives types to keys or values of {topic!r}")
        if schema is None:
            return TypedBesideBytes(topic, store, arrow_type)
        wanted = {name: schema[name].dataType for name in TYPED if name in schema.names}
        return typed_as(topic, store, arrow_type, lambda types: _are(wanted, types))
    except ValueError as error:
        raise OptionError(f"decode='columns': {error}: use decode='true' for JSON") from error


def _are(wanted: Mapping[str, DataType], types: Types) -> bool:
    shown = shown_types(types)
    return all(kind == shown.get(name, DECODED[name]) for name, kind in wanted.items())


def shown_types(types: Types) -> dict[str, DataType]:
    """Return the types of columns as Spark's."""
    return {name: from_arrow_type(kind) for name, kind in types.items()}
