"""Avro object container files of an export."""

from __future__ import annotations

from collections.abc import Sequence
from io import RawIOBase
from typing import IO, Any, cast

import pyarrow as pa

from kafkafs.export.file_columns import millisecond_columns
from kafkafs.forms.arrow.typed.retyped import retyped, with_leaves

_NEVER_NULL = ("partition", "offset", "timestamp", "timestampType")
_PLAIN: dict[pa.DataType, Any] = {
    pa.null(): "null",
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.uint32(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
}
_HEADERS = {
    "type": "array",
    "items": {
        "type": "record",
        "name": "Header",
        "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": ["null", "bytes"]}],
    },
}
_NAMESPACE = "kafkafs.export"
_UNITS = {"ms": "millis", "us": "micros", "ns": "nanos"}
_BLOCK = 256 * 1024


class AvroFile:
    """An Avro object container file."""

    def __init__(self, output: RawIOBase, compression: str) -> None:
        self._output = output
        self._compression = "null" if compression == "none" else compression
        self._writer: Any = None

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Write some records."""
        from fastavro.write import Writer

        for batch in batches:
            shown = millisecond_columns(batch)
            if self._writer is None:
                schema = avro_schema(shown.schema)
                # A stream of bytes; fastavro asks for nothing else.
                stream = cast("IO[bytes]", self._output)
                self._writer = Writer(stream, schema, self._compression, sync_interval=_BLOCK)
            for row in _with_numbers(shown).to_pylist(maps_as_pydicts="lossy"):
                self._writer.write(row)

    def close(self) -> None:
        """Write the last block, and close the file."""
        if self._writer is not None:
            self._writer.flush()
        self._output.close()


def _with_numbers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with numbers in place of times, which Python's types cannot all hold, and text as keys of maps."""
    columns = [
        retyped(each, with_leaves(each.type, _number, lambda _: pa.string()))
        for each in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _number(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_temporal(kind):
        return pa.int32() if kind.bit_width == pa.int32().bit_width else pa.int64()
    return kind


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """Return the Avro schema of an export's files."""
    fields = []
    for field in schema:
        kind: Any = ["null", _HEADERS]
        if field.name != "headers":
            is_nullable = field.name not in _NEVER_NULL
            named = _nullable if is_nullable else _avro_type
            kind = named(field.type, f"{_NAMESPACE}.{field.name}")
        fields.append({"name": field.name, "type": kind})
    return {"type": "record", "name": "Record", "namespace": _NAMESPACE, "fields": fields}


def _nullable(kind: pa.DataType, name: str) -> Any:  # noqa: ANN401 - the JSON of a schema
    found = _avro_type(kind, name)
    return found if found == "null" else ["null", found]


def _avro_type(kind: pa.DataType, name: str) -> Any:  # noqa: ANN401 - the JSON of a schema
    """Return the Avro type of an Arrow type.

    Args:
        kind: the Arrow type.
        name: full name of the record or fixed type, if it becomes one; what is in it is in the namespace of it.
    """
    if pa.types.is_struct(kind):
        fields = [
            {"name": each.name, "type": _nullable(each.type, f"{name}.{each.name}")}
            for each in kind
        ]
        return {"type": "record", "name": name, "fields": fields}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _nullable(kind.value_type, name)}
    if pa.types.is_map(kind):
        return {"type": "map", "values": _nullable(kind.item_type, name)}
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "fixed", "name": name, "size": kind.byte_width}
    if pa.types.is_decimal(kind):
        facts = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **facts}
    if pa.types.is_duration(kind):
        return "long"
    if pa.types.is_timestamp(kind):
        local = "" if kind.tz else "local-"
        return {"type": "long", "logicalType": f"{local}timestamp-{_UNITS[kind.unit]}"}
    return _PLAIN[kind]
