"""Batches of magic 2, Kafka's format since 0.11.

A header of 61 bytes, then the records, perhaps compressed together. A record is a varint length and, all
zigzag: attributes (one unused byte), timestamp delta, offset delta, key, value (a length, -1 for null, and
the bytes), and a count of headers with their keys (never null) and values. The CRC-32C covers everything
from the attributes on: base offset, length, leader epoch and magic can change without breaking it, which is
how a broker stamps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding.checksums import crc32c
from engine.coding.varint import read_varint, read_varlong, to_int32, to_int64
from engine.errors import (
    CorruptRecordError,
    DecompressionError,
    InvalidRecordError,
    LimitExceededError,
)
from engine.record.attributes import (
    DELETE_HORIZON_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
    is_control,
    timestamp_type_of,
)
from engine.record.batch_body import BatchBody
from engine.record.batch_frame import CRC_COVERS_FROM, CURRENT_MAGIC, HEADER, BatchHeader
from engine.record.record import Header, Record
from engine.units import MAX_INT32, NO_SEQUENCE


class PartialRecord(NamedTuple):
    """A record with only the sizes of its key and value (-1 for null)."""

    offset: int
    timestamp: int
    sequence: int
    key_size: int
    value_size: int
    size: int


class RecordFields(NamedTuple):
    """Positions of the parts of an encoded record in its buffer; sizes are -1 for null."""

    timestamp_delta: int
    offset_delta: int
    key_position: int
    key_size: int
    value_position: int
    value_size: int
    header_count: int
    headers_position: int
    size: int
    """Bytes of the record without its length prefix."""
    end: int
    """Position of the next record."""


T = TypeVar("T")
Make = Callable[[memoryview, RecordFields, int], T]


def increment_sequence(sequence: int, by: int) -> int:
    """Return a producer's sequence number advanced by `by`; it wraps from 2^31-1 to 0."""
    if sequence > to_int32(MAX_INT32 - by):
        return to_int32(by - (MAX_INT32 - sequence) - 1)
    return to_int32(sequence + by)


def decrement_sequence(sequence: int, by: int) -> int:
    """Return a producer's sequence number moved back by `by`; it wraps from 0 to 2^31-1."""
    if sequence < by:
        return to_int32(MAX_INT32 - (by - sequence) + 1)
    return sequence - by


class DefaultRecordBatch(BatchBody):
    """A batch of magic 2 over its bytes; see `RecordBatch`.

    Never copies the buffer; every call of `records` starts from the first record. Threads may share it.
    """

    __slots__ = ()

    header: BatchHeader

    def _read_header(self) -> BatchHeader:
        return HEADER.unpack(self._view)

    def __repr__(self) -> str:
        header = self.header
        return (
            f"<batch of magic {header.magic} at {self.file_position}: "
            f"offsets {self.base_offset} to {self.last_offset}, {header.record_count} records>"
        )

    @property
    def computed_crc(self) -> int:
        """CRC-32C of the bytes that the checksum covers."""
        return crc32c(self.raw[CRC_COVERS_FROM[CURRENT_MAGIC] :])

    @property
    def timestamp_type(self) -> TimestampType:
        """Type of the timestamps."""
        return timestamp_type_of(self.header.attributes)

    @property
    def base_offset(self) -> int:
        """First offset; compaction may have removed its record."""
        return self.header.base_offset

    @property
    def last_offset(self) -> int:
        """Last offset, inclusive; compaction may have removed its record."""
        return to_int64(self.header.base_offset + self.header.last_offset_delta)

    @property
    def next_offset(self) -> int:
        """Offset after the last."""
        return self.last_offset + 1

    @property
    def base_timestamp(self) -> int:
        """Base of the timestamp deltas: the first record's timestamp, or the delete horizon."""
        return self.header.base_timestamp

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp; with LOG_APPEND_TIME the timestamp of all records."""
        return self.header.max_timestamp

    @property
    def record_count(self) -> int:
        """Number of records that the header states."""
        return self.header.record_count

    @property
    def producer_id(self) -> int:
        """Id of the idempotent or transactional producer, or -1."""
        return self.header.producer_id

    @property
    def producer_epoch(self) -> int:
        """Producer's epoch, or -1."""
        return self.header.producer_epoch

    @property
    def base_sequence(self) -> int:
        """Producer's sequence number of the first record, or -1."""
        return self.header.base_sequence

    @property
    def last_sequence(self) -> int:
        """Producer's sequence number of the last record, or -1."""
        if self.header.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.header.base_sequence, self.header.last_offset_delta)

    @property
    def leader_epoch(self) -> int:
        """Epoch of the leader that wrote the batch, or -1."""
        return self.header.partition_leader_epoch

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.header.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        """Whether the records are control records."""
        return is_control(self.magic, self.header.attributes)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time after which the cleaner may remove the batch's tombstones; None if not set."""
        if self.header.attributes & DELETE_HORIZON_MASK:
            return self.header.base_timestamp
        return None

    def ensure_valid(self) -> None:
        """Check the size and the checksum. Raises CorruptRecordError."""
        if self.size < HEADER.size:
            raise CorruptRecordError(
                "the batch is smaller than its header",
                path=self.path,
                position=self.file_position,
                expected=f"at least {HEADER.size} bytes",
                found=self.size,
            )
        self.check_crc(self.computed_crc, "batch")

    def records(self, budgets: Budgets = DEFAULT_BUDGETS) -> Iterator[Record]:
        """Yield the records, in order.

        Records before damage come first, then the error: InvalidRecordError, DecompressionError,
        LimitExceededError or UnsupportedCodecError.
        """
        leader_epoch, timestamp_type = self.header.partition_leader_epoch, self.timestamp_type
        place_of = self._placing()

        def make(view: memoryview, fields: RecordFields, index: int) -> Record:
            headers: tuple[Header, ...] = ()
            if fields.header_count:
                headers = read_headers(view, fields, budgets.headers_per_record)
            offset, timestamp, sequence = place_of(fields)
            return Record(
                offset,
                timestamp,
                timestamp_type,
                _bytes_at(view, fields.key_position, fields.key_size),
                _bytes_at(view, fields.value_position, fields.value_size),
                headers,
                sequence,
                leader_epoch,
                fields.size,
                index,
            )

        return self._walk(make, budgets)

    def records_without_values(self, budgets: Budgets = DEFAULT_BUDGETS) -> Iterator[PartialRecord]:
        """Yield the records with only the sizes of keys and values; raises as `records` does."""
        place_of = self._placing()

        def make(view: memoryview, fields: RecordFields, _: int) -> PartialRecord:
            read_headers(view, fields, budgets.headers_per_record)
            sizes = fields.key_size, fields.value_size, fields.size
            return PartialRecord(*place_of(fields), *sizes)

        return self._walk(make, budgets)

    def inflated(self, budgets: Budgets = DEFAULT_BUDGETS) -> memoryview:
        """Return the encoded records, decompressed.

        Raises:
            DecompressionError, LimitExceededError, UnsupportedCodecError: they do not decompress.
        """
        view, damage = self._inflated(budgets)
        if damage is not None:
            raise damage
        return view

    def _placing(self) -> Callable[[RecordFields], tuple[int, int, int]]:
        """Return a function from a record's fields to its offset, timestamp and sequence number."""
        base_offset, base_timestamp = self.header.base_offset, self.header.base_timestamp
        base_sequence, max_timestamp = self.header.base_sequence, self.header.max_timestamp
        append_time = self.timestamp_type is TimestampType.LOG_APPEND_TIME

        def place_of(fields: RecordFields) -> tuple[int, int, int]:
            delta = fields.offset_delta
            timestamp = (
                max_timestamp if append_time else to_int64(base_timestamp + fields.timestamp_delta)
            )
            sequence = (
                NO_SEQUENCE if base_sequence < 0 else increment_sequence(base_sequence, delta)
            )
            return to_int64(base_offset + delta), timestamp, sequence

        return place_of

    def _walk(self, make: Make[T], budgets: Budgets) -> Iterator[T]:
        """Yield `make` of each record, then raise the error that ended the records, if any."""
        count = self.header.record_count
        if count < 0 or self.header.last_offset_delta < 0:
            what = "record count" if count < 0 else "last offset delta"
            raise self.invalid(f"the {what} is negative")
        if count == 0:
            return
        view, damage = self._inflated(budgets)
        position = index = 0
        try:
            while index < count:
                if index == budgets.records_per_batch:
                    raise LimitExceededError(
                        f"the batch has more than {index} records", limit="records_per_batch"
                    )
                if position == len(view):
                    raise InvalidRecordError("the batch has fewer records than it states")
                fields = read_record(view, position)
                made = make(view, fields, index)
                position = fields.end
                yield made
                index += 1
            if position < len(view):
                raise InvalidRecordError("bytes follow the last record of the batch")
        except (InvalidRecordError, LimitExceededError) as error:
            if damage is not None:
                raise damage from None
            if isinstance(error, InvalidRecordError):
                error.index = index
            raise self.at(error) from None
        if damage is not None:
            raise damage

    def _inflated(self, budgets: Budgets) -> tuple[memoryview, DecompressionError | None]:
        """Return the records' bytes, and the error if they are incomplete."""
        self.check_size(budgets)
        section = self.raw[HEADER.size :]
        try:
            return memoryview(self.inflate(section, budgets)), None
        except DecompressionError as error:
            return memoryview(error.partial), error


def read_record(view: memoryview, position: int) -> RecordFields:
    """Take one encoded record apart, without its headers.

    Raises:
        InvalidRecordError: the record is not within the buffer, or a part not within the record.
    """
    try:
        size, start = read_varint(view, position)
        if not 0 <= size <= len(view) - start:
            raise InvalidRecordError(
                "a record does not fit its batch",
                expected=f"0 to {len(view) - start} bytes",
                found=size,
            )
        end = start + size
        timestamp_delta, at = read_varlong(view, start + 1)
        offset_delta, at = read_varint(view, at)
        key_size, key_position = read_varint(view, at)
        value_size, value_position = read_varint(view, key_position + max(0, key_size))
        count, at = read_varint(view, value_position + max(0, value_size))
    except (IndexError, ValueError):
        raise InvalidRecordError("a record's structure is broken") from None
    if at > end:
        raise InvalidRecordError("the fields of a record are longer than the record")
    if not 0 <= count <= end - at:
        raise InvalidRecordError(
            "a record's number of headers is impossible",
            expected=f"0 to {end - at}",
            found=count,
        )
    if count == 0 and at != end:
        raise InvalidRecordError(
            "a record is longer than its fields", expected=size, found=at - start
        )
    return RecordFields(
        timestamp_delta,
        offset_delta,
        key_position,
        max(-1, key_size),
        value_position,
        max(-1, value_size),
        count,
        at,
        size,
        end,
    )


def read_headers(view: memoryview, fields: RecordFields, most: int) -> tuple[Header, ...]:
    """Return the headers of a record read by `read_record`.

    Raises:
        InvalidRecordError: a key is null, or the headers do not end where the record does.
        LimitExceededError: there are more than `most`.
    """
    if fields.header_count == 0:
        return ()
    if fields.header_count > most:
        raise LimitExceededError(
            f"a record has {fields.header_count} headers", limit="headers_per_record"
        )
    headers: list[Header] = []
    position, end = fields.headers_position, fields.end
    view = view[:end]
    try:
        for _ in range(fields.header_count):
            key_size, position = read_varint(view, position)
            if key_size < 0:
                raise InvalidRecordError("the key of a header is null", found=key_size)
            key = _bytes_at(view, position, key_size)
            value_size, position = read_varint(view, position + key_size)
            headers.append(Header(key or b"", _bytes_at(view, position, value_size)))
            position += max(0, value_size)
    except (IndexError, ValueError):
        raise InvalidRecordError("the headers of a record are broken") from None
    if position != end:
        raise InvalidRecordError(
            "the headers of a record do not end where it does", expected=end, found=position
        )
    return tuple(headers)


def _bytes_at(view: memoryview, position: int, size: int) -> bytes | None:
    return None if size < 0 else bytes(view[position : position + size])
