"""Decoded keys and values as columns of the Arrow types of a topic's newest schemas.

A value of an older Avro schema is read by Avro's rules of resolution, a Protobuf message by the numbers of its fields. A
value that does not fit is null, and the column
`keyNote` or `valueNote` says why; a null without a note was null in the log.

Programs read the values that begin alike, or have the same headers, all at once. What a program refuses is decoded
alone: the decoders in Python have the value, or the words for what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.lines.line_decoder import DecodedField
from kafkafs.forms.arrow.typed.avro_column import AvroColumn
from kafkafs.forms.arrow.typed.plain_column import PlainColumn, arrow_type
from kafkafs.forms.arrow.typed.typed_column import TOO_LARGE, Made, Read, TypedColumn, misfit
from kafkafs.forms.arrow.typed_values import TypedValues
from kafkafs.records.rows import Rows
from kafkafs.schemas.decoders.avro import AvroDecoder
from kafkafs.schemas.decoders.cache import make_decoder
from kafkafs.schemas.decoders.limits import MOST_COST
from kafkafs.schemas.decoders.value_decoder import Payloads, ValueDecoder
from kafkafs.schemas.errors import SchemaFileError, UndecodableError
from kafkafs.schemas.framing import Message
from kafkafs.schemas.programs import extension
from kafkafs.schemas.schema import SchemaKind
from kafkafs.schemas.store import SchemaStore
from kafkafs.schemas.topic_decoder import SameFrame, TopicSchemas

_SIDES = ("key", "value")
_MOST_PROGRAMS = 64
_MOST_BYTES = 16 * 1024 * 1024
"""Bytes of a column that are made at once, and of the JSON of values that are decoded alone."""
_FIELD_COST = 200
_REFUSED, _TOO_LARGE = 2, 3
"""States of values that the extension did not read."""
_NO_SCHEMA = "the bytes name no schema"
_FIRST: Message = (0,)


def typed_columns(topic: str, store: SchemaStore, *, nanoseconds: bool = False) -> TypedColumns:
    """Return the columns of a topic's keys and values, as far as they have a type, or their newest schemas are Avro or Protobuf.

    Args:
        topic: name of the topic.
        store: the schemas.
        nanoseconds: whether times of Protobuf are in nanoseconds.

    Raises:
        ValueError: neither keys nor values have such a schema or type, or one has no Arrow type.
        SchemaFileError: a schema lacks the message that a mapping names.
    """
    found: dict[str, TypedColumn] = {}
    for name in _SIDES:
        is_key = name == "key"
        kind = store.type_of(topic, is_key=is_key)
        if kind is not None and kind.name is not None:
            plain = arrow_type(kind)
            if plain is not None:
                found[name] = PlainColumn(plain)
            continue
        schema = store.newest(topic, is_key=is_key)
        if schema is None or schema.kind is SchemaKind.JSON_SCHEMA:
            continue
        given = store.bare(topic, is_key=is_key)
        message: Message = store.message_of_columns(topic, is_key=is_key)
        if given is not None:
            message = given[0].message or _FIRST
        try:
            found[name] = _column(make_decoder(schema, store), message, nanoseconds=nanoseconds)
        except UndecodableError as error:
            if isinstance(message, str):
                raise SchemaFileError(f"{error}, which a mapping names", schema.name) from error
            raise ValueError(f"{schema.name}: {error}") from error
    if not found:
        raise ValueError(
            f"no Avro or Protobuf schema of keys or values of {topic!r} is known, and no type"
        )
    return TypedColumns(found)


def _column(decoder: ValueDecoder, message: Message, *, nanoseconds: bool) -> TypedColumn:
    """Return the column of a schema; of Protobuf it has a message, None for the main one."""
    if isinstance(decoder, AvroDecoder):
        return AvroColumn(decoder.schema)
    # Imported here: it needs google.protobuf.
    from kafkafs.forms.arrow.typed.protobuf_column import ProtobufColumn
    from kafkafs.schemas.decoders.protobuf import ProtobufDecoder

    assert isinstance(decoder, ProtobufDecoder)
    return ProtobufColumn(decoder, message or decoder.main_message(), nanoseconds=nanoseconds)


class _Side(NamedTuple):
    """Keys or values of the first of some rows.

    Attributes:
        array: the values.
        notes: why some are null, or what is odd about them, by place.
    """

    array: pa.Array
    notes: dict[int, str]


class TypedColumns(TypedValues):
    """The columns of a topic's keys and values that have a type. Thread-safe.

    Args:
        columns: by "key" and "value".
    """

    def __init__(self, columns: Mapping[str, TypedColumn]) -> None:
        self._columns = columns

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The Arrow types of the columns."""
        return {name: column.type for name, column in self._columns.items()}

    def made(self, names: Collection[str]) -> list[str]:
        """Return those columns of a table that `batches` makes: keys and values, and the notes on them."""
        own = (each for name in self._columns for each in (name, f"{name}Note"))
        return [name for name in own if name in names]

    def batches(
        self, rows: Rows, names: Collection[str]
    ) -> Iterator[tuple[Rows, dict[str, pa.Array]]]:
        """Yield rows with the columns that are made of them, in parts of about 16 MiB, unless one value is larger.

        Args:
            rows: rows; not none.
            names: names of a table's columns.
        """
        wanted = set(self.made(names))
        while len(rows):
            sides = {
                name: _side(column, rows, is_key=name == "key")
                for name, column in self._columns.items()
                if not wanted.isdisjoint((name, f"{name}Note"))
            }
            count = min((len(side.array) for side in sides.values()), default=len(rows))
            found: dict[str, pa.Array] = {}
            for name, side in sides.items():
                found[name] = side.array.slice(0, count)
                if f"{name}Note" in wanted:
                    found[f"{name}Note"] = _column_of(side.notes, count)
            yield rows.some(slice(0, count)), found
            rows = rows.some(slice(count, None))


def _column_of(notes: Mapping[int, str], count: int) -> pa.Array:
    """Return the notes on the first rows as a column."""
    if not notes:
        return pa.nulls(count, pa.string())
    return pa.array([notes.get(place) for place in range(count)], pa.string())


def _side(column: TypedColumn, rows: Rows, *, is_key: bool) -> _Side:
    """Return the keys or values of the first rows, at least of one."""
    decoder = rows.decoder
    assert isinstance(decoder, TopicSchemas)
    columns, indices = rows.columns, rows.indices
    sizes = (columns.key_size if is_key else columns.value_size)[indices]
    if extension is None:
        return _with_others(column, None, sizes >= 0, rows, is_key=is_key)
    fields, frames, alone = decoder.same_frames(columns, indices, is_key=is_key)
    starts, lengths = fields.starts.copy(), np.full(len(rows), -1, np.int64)
    programs: list[object] = []
    which = np.full(len(rows), -1, np.int32)
    for frame in frames:
        payloads = frame.payloads(fields)
        for part, skipped, program in _reads(column, frame, payloads):
            chosen = frame.rows[part]
            if program is None or len(programs) == _MOST_PROGRAMS:
                alone[chosen] = True
                continue
            which[chosen] = len(programs)
            starts[chosen] = payloads.starts[part] + skipped
            lengths[chosen] = payloads.sizes[part] - skipped
            programs.append(program)
    parts, states = extension.read_columns(
        column.shapes, programs, which, fields.arena, starts, lengths, MOST_COST, _MOST_BYTES
    )
    count = len(states)
    is_left_out = (which[:count] >= 0) & (lengths[:count] < 0)
    alone = alone[:count] | is_left_out | (states == _REFUSED)
    notes = dict.fromkeys(
        np.flatnonzero((which[:count] < 0) & ~alone & (sizes[:count] >= 0)).tolist(), _NO_SCHEMA
    )
    notes |= dict.fromkeys(np.flatnonzero(states == _TOO_LARGE).tolist(), misfit(TOO_LARGE))
    made = _Side(column.tree.array(parts), notes)
    return _with_others(column, made, alone, rows, is_key=is_key) if alone.any() else made


def _reads(column: TypedColumn, frame: SameFrame, payloads: Payloads) -> list[Read]:
    """Return how the payloads of a frame are read, each alone if no program can be made."""
    try:
        return list(column.reads(frame, payloads))
    except Exception:  # noqa: BLE001 - each value says why it does not fit
        return [Read(np.flatnonzero(payloads.sizes >= 0), 0, None)]


def _with_others(
    column: TypedColumn,
    made: _Side | None,
    alone: npt.NDArray[np.bool_],
    rows: Rows,
    *,
    is_key: bool,
) -> _Side:
    """Return values with those that are decoded alone; up to the first that has more than all may have.

    Args:
        column: the column.
        made: the other values, and null for these; None if there are no others.
        alone: which rows are decoded alone.
        rows: the rows.
        is_key: whether the column has the keys.
    """
    places = np.flatnonzero(alone).tolist()
    values: list[Made] = []
    found_notes: list[str | None] = []
    count, cost = len(alone), 0
    for place in places:
        field = _field(rows, place, is_key=is_key)
        values.append(column.made_of(field))
        found_notes.append(_NO_SCHEMA if field is None else field.note)
        cost += _FIELD_COST + len(b"" if field is None else field.text or b"") + values[-1].cost
        if cost > _MOST_BYTES:
            count = place + 1
            break
    own, misfits = column.array_of(values)
    places = places[: len(values)]
    notes = {} if made is None else {at: note for at, note in made.notes.items() if at < count}
    for number, (place, found) in enumerate(zip(places, found_notes, strict=True)):
        both = "; ".join(note for note in (found, misfits.get(number)) if note)
        if both:
            notes[place] = both
    others = pa.nulls(count, column.type) if made is None else made.array.slice(0, count)
    if own.null_count == len(own):
        return _Side(others, notes)
    order = np.arange(count)
    order[places] = count + np.arange(len(places))
    return _Side(pa.concat_arrays([others, own]).take(pa.array(order)), notes)


def _field(rows: Rows, place: int, *, is_key: bool) -> DecodedField | None:
    """Return a decoded key or value, which is not null."""
    decoder, columns, index = rows.decoder, rows.columns, int(rows.indices[place])
    assert isinstance(decoder, TopicSchemas)
    data = columns.key(index) if is_key else columns.value(index)
    assert data is not None
    timestamp = int(columns.timestamp[index])
    return decoder.field(data, columns.headers(index), timestamp, is_key=is_key)
