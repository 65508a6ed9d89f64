"""Messages of magic 0 and 1, Kafka's formats before 0.11, one by one or wrapped.

A message is an offset, a size and the body: CRC-32 of the rest, magic, attributes, in magic 1 a
timestamp, key and value (an int32 length, -1 for null, and the bytes). A message with a codec in
its attributes is a wrapper: its value is a compressed run of messages. Inner offsets of magic 0 are
absolute; in a wrapper of magic 1 they count from the wrapper's first message, and the wrapper's own
offset is that of its last one (0 from some librdkafka: then they are absolute). The timestamp of a
wrapper of magic 1 with log append time is that of all its messages.

Logs may have wrappers with inner messages of the other magic (KAFKA-4298): the wrapper's magic
decides how offsets count, the inner message's magic its layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding.checksums import crc32
from engine.coding.compression import CompressionType
from engine.coding.fixed_width import read_int32
from engine.coding.varint import to_int64
from engine.errors import (
    CorruptRecordError,
    DecompressionError,
    InvalidRecordError,
    LimitExceededError,
)
from engine.record.attributes import TimestampType, timestamp_type_of
from engine.record.batch_body import BatchBody
from engine.record.batch_frame import (
    CRC_COVERS_FROM,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MESSAGE_HEADERS,
    SMALLEST_BATCH,
    SMALLEST_LENGTH,
    MessageHeader0,
)
from engine.record.record import Record
from engine.units import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)


class LegacyRecordBatch(BatchBody):
    """A message of magic 0 or 1 with its inner messages; see `RecordBatch`.

    Never copies the buffer; every call of `records` starts from the first record. Threads may share it.
    """

    __slots__ = ("_base_offset", "timestamp")

    header: MessageHeader0

    # Not in these formats; only decoding gives the number of records.
    record_count = None
    producer_id = NO_PRODUCER_ID
    producer_epoch = NO_PRODUCER_EPOCH
    base_sequence = NO_SEQUENCE
    last_sequence = NO_SEQUENCE
    leader_epoch = NO_PARTITION_LEADER_EPOCH
    is_transactional = False
    is_control = False
    delete_horizon_ms = None

    def _read_header(self) -> MessageHeader0:
        header = MESSAGE_HEADERS[0].unpack(self._view)
        if header.magic not in (0, 1):
            raise CorruptRecordError(
                "the magic of a message is unknown",
                path=self.path,
                position=self.file_position,
                expected="0 or 1",
                found=header.magic,
            )
        self.timestamp = NO_TIMESTAMP
        """The message's own timestamp; -1 for magic 0."""
        if header.magic == 1:
            self.timestamp = MESSAGE_HEADERS[1].unpack(self._view).timestamp
        self._base_offset: int | None = None
        return header

    def __repr__(self) -> str:
        return f"<message of magic {self.magic} at {self.file_position}: offset {self.last_offset}>"

    @property
    def computed_crc(self) -> int:
        """CRC-32 of the bytes that the checksum covers."""
        return crc32(self.raw[CRC_COVERS_FROM[self.magic] :])

    @property
    def timestamp_type(self) -> TimestampType:
        """Type of the timestamp; magic 0 has none."""
        if self.header.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        return timestamp_type_of(self.header.attributes)

    @property
    def base_offset(self) -> int:
        """First record's offset. A wrapper is decompressed for it, once; its keys and values may be anything.

        Raises as `records` does.
        """
        if self._base_offset is None:
            self._base_offset = (
                _Wrapper(self, DEFAULT_BUDGETS).first_offset()
                if self.is_compressed
                else self.last_offset
            )
        return self._base_offset

    @property
    def last_offset(self) -> int:
        """Offset that the header states."""
        return self.header.offset

    @property
    def next_offset(self) -> int:
        """Offset after the last."""
        return self.header.offset + 1

    @property
    def max_timestamp(self) -> int:
        """Message's own timestamp; -1 for magic 0."""
        return self.timestamp

    def ensure_valid(self) -> None:
        """Check the size and the checksum. Raises CorruptRecordError."""
        if self.size - LOG_OVERHEAD < SMALLEST_LENGTH:
            raise CorruptRecordError(
                "the message is too small for a checksum, sizes and flags",
                path=self.path,
                position=self.file_position,
                expected=f"at least {SMALLEST_LENGTH} bytes",
                found=self.size - LOG_OVERHEAD,
            )
        self.check_crc(self.computed_crc, "message")

    def key(self) -> bytes | None:
        """Return the message's own key. Raises InvalidRecordError when it is not within the message."""
        return self._key_and_value()[0]

    def value(self) -> bytes | None:
        """Return the message's own value; a wrapper's is the compressed run. Raises as `key` does."""
        return self._key_and_value()[1]

    def records(self, budgets: Budgets = DEFAULT_BUDGETS) -> Iterator[Record]:
        """Yield the message itself, or its inner messages; raises as those of magic 2."""
        for _, record in self.messages(budgets):
            yield record

    def messages(
        self, budgets: Budgets = DEFAULT_BUDGETS
    ) -> Iterator[tuple[LegacyRecordBatch, Record]]:
        """Yield the records, each with the message that holds it and has its own magic and checksum."""
        self.check_size(budgets)
        if self.is_compressed:
            yield from _Wrapper(self, budgets).messages()
        else:
            yield self, self.record_at(self.last_offset, self.timestamp, self.timestamp_type, 0)

    def record_at(self, offset: int, timestamp: int, kind: TimestampType, index: int) -> Record:
        """Return the message's key and value as the record with this offset, timestamp and index.

        Raises InvalidRecordError when they are not within the message.
        """
        try:
            key, value = self._key_and_value()
        except InvalidRecordError as error:
            error.index = index
            raise self.at(error) from None
        return Record(
            offset, timestamp, kind, key, value, size=self.size - LOG_OVERHEAD, index=index
        )

    def _key_and_value(self) -> tuple[bytes | None, bytes | None]:
        message = self.raw
        key, position = _sized(message, MESSAGE_HEADERS[self.magic].size)
        value, _ = _sized(message, position)
        return key, value


T = TypeVar("T")


class _Wrapper:
    """The messages inside a message with a codec; see the module for their offsets and timestamps."""

    def __init__(self, wrapper: LegacyRecordBatch, budgets: Budgets) -> None:
        self._wrapper = wrapper
        self._budgets = budgets
        self._has_relative_offsets = wrapper.magic == 1 and wrapper.last_offset != 0

    def messages(self) -> Iterator[tuple[LegacyRecordBatch, Record]]:
        """Yield each inner message with its record, then raise the error that ended the run, if any."""
        return self._each(
            lambda inner, offset, index: (
                inner,
                inner.record_at(offset, *self._timestamp_of(inner), index),
            )
        )

    def first_offset(self) -> int:
        """Return the offset of the first inner message."""
        self._wrapper.check_size(self._budgets)
        return next(self._each(lambda _, offset, __: offset))

    def _each(self, made_of: Callable[[LegacyRecordBatch, int, int], T]) -> Iterator[T]:
        wrapper = self._wrapper
        if wrapper.compression is CompressionType.ZSTD:
            raise wrapper.invalid("a wrapper cannot be compressed with zstd")
        try:
            value = wrapper.value()
        except InvalidRecordError as error:
            raise wrapper.at(error) from None
        if value is None:
            raise wrapper.invalid("a wrapper has a null value")
        damage: DecompressionError | None = None
        try:
            inflated = wrapper.inflate(value, self._budgets)
        except DecompressionError as error:
            # Relative offsets count back from the last message, which is lost.
            if self._has_relative_offsets:
                raise
            inflated, damage = error.partial, error
        try:
            yield from self._made(memoryview(inflated), made_of, is_whole=damage is None)
        except (InvalidRecordError, LimitExceededError):
            if damage is None:
                raise
        if damage is not None:
            raise damage

    def _made(
        self,
        run: memoryview,
        made_of: Callable[[LegacyRecordBatch, int, int], T],
        *,
        is_whole: bool,
    ) -> Iterator[T]:
        base = self._base_of(run) if self._has_relative_offsets else 0
        index = -1
        for index, inner in enumerate(self._inner_messages(run)):
            if inner.is_compressed:
                raise self._wrapper.invalid(
                    "a message inside a wrapper is compressed itself", index
                )
            yield made_of(inner, to_int64(base + inner.last_offset), index)
        if index < 0 and is_whole:
            raise self._wrapper.invalid("a wrapper has no messages inside")

    def _inner_messages(self, run: memoryview) -> Iterator[LegacyRecordBatch]:
        """Yield the inner messages; as in Kafka, a message that is cut off at the end does not count."""
        wrapper = self._wrapper
        position = index = 0
        while True:
            try:
                inner = _inner_message(run, position)
            except CorruptRecordError as error:
                raise wrapper.invalid(error.reason, index, found=error.found) from None
            if inner is None:
                return
            if index == self._budgets.records_per_batch:
                raise wrapper.at(
                    LimitExceededError(
                        f"the wrapper has more than {index} messages", limit="records_per_batch"
                    )
                )
            inner.file_position, inner.path = wrapper.file_position, wrapper.path
            yield inner
            position += inner.size
            index += 1

    def _base_of(self, run: memoryview) -> int:
        """Return the base of relative offsets: the wrapper's offset is the last inner message's."""
        last = None
        for inner in self._inner_messages(run):
            last = inner.last_offset
        if last is None:
            return 0
        end = self._wrapper.last_offset
        if end < last:
            raise self._wrapper.invalid(
                "the offset of a wrapper is below that of its last message",
                expected=f"0, or at least {last}",
                found=end,
            )
        return end - last

    def _timestamp_of(self, inner: LegacyRecordBatch) -> tuple[int, TimestampType]:
        """Return the timestamp of an inner message, and its type."""
        wrapper = self._wrapper
        if inner.magic == 0:
            return NO_TIMESTAMP, TimestampType.NO_TIMESTAMP_TYPE
        if wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return wrapper.timestamp, wrapper.timestamp_type
        return inner.timestamp, wrapper.timestamp_type


def _inner_message(run: memoryview, position: int) -> LegacyRecordBatch | None:
    """Return the message at a position of a decompressed run; None at the end or where the last is cut off.

    Raises:
        CorruptRecordError: the message's size is too small or its magic is not 0 or 1.
    """
    if len(run) - position < LOG_OVERHEAD:
        return None
    size = read_int32(run, position + LENGTH_POSITION)
    if size < SMALLEST_LENGTH:
        raise CorruptRecordError("a message inside a wrapper is too small", found=size)
    if size > len(run) - position - LOG_OVERHEAD:
        return None
    if run[position + MAGIC_POSITION] == 1 and size < SMALLEST_BATCH[1] - LOG_OVERHEAD:
        raise CorruptRecordError("a message inside a wrapper is too small", found=size)
    return LegacyRecordBatch(run[position : position + LOG_OVERHEAD + size])


def _sized(message: memoryview, position: int) -> tuple[bytes | None, int]:
    """Return the bytes after an int32 length (None for a negative one) and the position after them."""
    start = position + 4
    if start > len(message):
        raise InvalidRecordError("a message ends inside its sizes")
    size = read_int32(message, position)
    if size < 0:
        return None, start
    if size > len(message) - start:
        raise InvalidRecordError(
            "the key or value of a message is longer than the message",
            expected=f"at most {len(message) - start}",
            found=size,
        )
    return bytes(message[start : start + size]), start + size
