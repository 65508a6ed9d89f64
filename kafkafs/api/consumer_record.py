"""Records as Python objects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import repeat
from typing import Any, NamedTuple

from engine.lines.line_decoder import BARE, DecodedField, LineDecoder, Pair
from engine.lines.record_line import internal_decoder
from engine.record.attributes import TIMESTAMP_TYPE_MASK, TimestampType
from engine.record.fate import STATES
from engine.record.record import Header
from engine.units import Offset, Timestamp
from kafkafs.api.moments import datetime_of
from kafkafs.api.notebook import html_table
from kafkafs.records.decoded import json_of
from kafkafs.records.rows import Rows


class Decoded(NamedTuple):
    """Key and value of a record as Python objects: None, str, dict, list, or bytes that are no text."""

    key: Any
    value: Any


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A record as a consumer gets it.

    Attributes:
        topic, partition, offset: place of the record.
        key, value: bytes; None for null.
        headers: (key, value) in order; a key may be there twice.
        timestamp: milliseconds since 1970; -1 without one.
        timestamp_type: "CreateTime", "LogAppendTime" or "NoTimestampType".
        leader_epoch: epoch of the leader that wrote the record; -1 if unknown.
        producer_id, producer_epoch, sequence: of an idempotent producer; -1 without one.
        transaction: "committed", "aborted" or "open"; None outside of a transaction.
    """

    topic: str
    partition: int
    offset: Offset
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: Timestamp
    timestamp_type: str
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    sequence: int
    transaction: str | None
    _decoder: LineDecoder | None = field(default=None, repr=False, compare=False)

    @property
    def time(self) -> datetime | None:
        """The timestamp in UTC; None without one, and for one before the year 1 or after 9999."""
        return datetime_of(self.timestamp)

    def decoded(self, decoder: LineDecoder | None = None) -> Decoded:
        """Return key and value as the record line shows them.

        JSON objects and arrays become dicts and lists, other text str.

        Args:
            decoder: by default that of the source for the topic. A copy from a pickle has none but for Kafka's own
                topics.
        """
        decoder = decoder or self._decoder or internal_decoder(self.topic)
        shown = BARE
        if decoder is not None:
            headers = [Header(name.encode(), value) for name, value in self.headers]
            shown = decoder.shown(self.key, self.value, headers, self.timestamp)
        return Decoded(*map(_object_of, (self.key, self.value), shown))

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the fields, key and value decoded."""
        shown: dict[str, object] = {
            each.name: getattr(self, each.name) for each in fields(self)[:-1]
        }
        shown.update(self.decoded()._asdict(), time=self.time)
        caption = f"{self.topic}-{self.partition}, offset {self.offset}"
        return html_table(caption, ("field", "value"), shown.items())

    def __reduce__(self) -> tuple[Any, ...]:
        given = tuple(getattr(self, each.name) for each in fields(self) if each.init)
        return ConsumerRecord, given[:-1]


class ShownFields(LineDecoder):
    """Decoder of one masked record: gives the key and the value that were decoded before they were masked."""

    def __init__(self, key: DecodedField | None, value: DecodedField | None) -> None:
        self._fields = key, value

    def fields(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp: Timestamp,
    ) -> Pair:
        """Return the record's fields."""
        return self._fields


def consumer_records(rows: Rows) -> Iterator[ConsumerRecord]:
    """Yield the records of some rows."""
    if not len(rows):
        return
    decoders: Iterator[LineDecoder | None] = repeat(rows.decoder)
    if rows.fields is not None:
        decoders = map(ShownFields, *rows.fields)
    columns, table = rows.columns, rows.table
    arena = columns.arena
    topic, partition = rows.partition
    kinds = [_timestamp_type(int(row["magic"]), int(row["attributes"])) for row in table]
    epochs, ids = table["leader_epoch"].tolist(), table["producer_id"].tolist()
    producer_epochs = table["producer_epoch"].tolist()
    states = None if rows.fates is None else [STATES[fate] for fate in rows.fates.tolist()]
    names = ("offset", "timestamp", "sequence", "row", "key_start", "key_size", "value_start",
              "value_size", "headers_count")  # fmt: skip
    numbers = (rows.numbers(name).tolist() for name in names)
    for (index, offset, timestamp, sequence, row, key_at, key_size, value_at, value_size,
         headers) in zip(rows.indices.tolist(), *numbers, strict=True):  # fmt: skip
        yield ConsumerRecord(
            topic,
            partition,
            offset,
            None if key_size < 0 else bytes(arena[key_at : key_at + key_size]),
            None if value_size < 0 else bytes(arena[value_at : value_at + value_size]),
            tuple(
                (each.key.decode("utf-8", "replace"), each.value) for each in columns.headers(index)
            )
            if headers
            else (),
            timestamp,
            kinds[row],
            epochs[row],
            ids[row],
            producer_epochs[row],
            sequence,
            None if states is None else states[row],
            next(decoders),
        )


def _timestamp_type(magic: int, attributes: int) -> str:
    if magic == 0:
        return TimestampType.NO_TIMESTAMP_TYPE.label
    is_append_time = attributes & TIMESTAMP_TYPE_MASK
    return (TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME).label


def _object_of(data: bytes | None, shown: DecodedField | None) -> Any:  # noqa: ANN401
    text = json_of(data, shown)
    return data if text is None else json.loads(text)
