"""Build batches of any magic and codec as Kafka's writer does.

A builder makes one batch of magic 2 or one wrapper of magic 0 or 1; without a codec it makes one
message of magic 0 or 1 per record. Records are encoded as they are appended; `close` compresses
them and writes the header.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from engine.coding.compression import Compression, CompressionType
from engine.coding.layout import Buffer
from engine.coding.varint import to_int32
from engine.errors import StateError
from engine.record.attributes import TimestampType, compute_attributes
from engine.record.batch_frame import CURRENT_MAGIC, BatchHeader
from engine.record.encoding.batch_encoding import (
    check_producer,
    encode_batch,
    encode_message,
    message_attributes,
)
from engine.record.encoding.record_section import RecordSection
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.record.record import Header, Record
from engine.units import (
    MAX_INT32,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Offset,
    Timestamp,
)


class RecordsInfo(NamedTuple):
    """Largest timestamp of the built batches, and the last offset of the first batch with that timestamp."""

    max_timestamp: Timestamp
    offset_of_max_timestamp: Offset


class BatchBuilder:
    """Builder of a batch; as a context manager it closes itself.

    Args:
        magic: 0, 1 or 2.
        compression, level: the codec, and its level or None for Kafka's default.
        timestamp_type: timestamp type of all records; ignored by magic 0, which has none.
        base_offset: base offset of the batch, and offset of the first record unless it is given.
        log_append_time: timestamp of all records with LOG_APPEND_TIME.
        producer_id, producer_epoch, base_sequence: the producer; -1 for none.
        is_transactional, is_control_batch: of magic 2 only.
        partition_leader_epoch: of magic 2 only.
        write_limit: limit in bytes for `is_full` and `has_room_for`; appends ignore it.
        delete_horizon_ms: time when tombstones may be removed, base of the timestamp deltas if set;
            None or -1 for none.
        initial: bytes in `buffer` before the built batch.

    Raises:
        ValueError: the magic does not have these fields, or the level is unknown.
    """

    def __init__(
        self,
        *,
        magic: int = CURRENT_MAGIC,
        compression: CompressionType = CompressionType.NONE,
        level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        base_offset: Offset = 0,
        log_append_time: Timestamp = NO_TIMESTAMP,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control_batch: bool = False,
        partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
        write_limit: int | None = None,
        delete_horizon_ms: Timestamp | None = None,
        initial: Buffer = b"",
    ) -> None:
        if magic not in (0, 1, CURRENT_MAGIC):
            raise ValueError(f"records of magic {magic}")
        if magic > 0 and timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
            raise ValueError("records of magic 1 and 2 need a timestamp type")
        horizon = NO_TIMESTAMP if delete_horizon_ms is None else delete_horizon_ms
        if magic < CURRENT_MAGIC:
            for refused, what in (
                (is_transactional, "transactions"),
                (is_control_batch, "control records"),
                (compression is CompressionType.ZSTD, "zstd"),
                (horizon != NO_TIMESTAMP, "delete horizon"),
            ):
                if refused:
                    raise ValueError(f"records of magic {magic} have no {what}")
        self.magic = magic
        self.compression = Compression(compression, level)
        self.timestamp_type = timestamp_type
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional
        self.is_control_batch = is_control_batch
        self.partition_leader_epoch = partition_leader_epoch
        self.write_limit = MAX_INT32 if write_limit is None else write_limit
        self.delete_horizon_ms = horizon if horizon >= 0 else None
        self.compression_ratio = 1.0
        """Bytes written for records divided by their bytes before compression; set by `close`."""
        self.estimated_compression_ratio = 1.0
        self._initial = initial
        self._section = RecordSection(magic, self.compression, base_offset, self.delete_horizon_ms)
        self._attributes = message_attributes(magic, CompressionType.NONE, timestamp_type)
        self._built: MemoryRecords | None = None
        self._is_aborted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and not self._is_aborted:
            self.close()

    # Appending

    def append(
        self,
        timestamp: Timestamp,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header] = (),
    ) -> None:
        """Append a record at the next offset. Raises as `append_with_offset` does."""
        self._append(self._section.next_offset, timestamp, key, value, headers, is_control=False)

    def append_with_offset(
        self,
        offset: Offset,
        timestamp: Timestamp,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header] = (),
    ) -> None:
        """Append a record.

        Raises:
            ValueError: the offset is not above the last or too far from the base, the timestamp is negative
                and not -1, there are headers before magic 2, or this is a control batch.
            StateError: the builder is closed.
        """
        self._append(offset, timestamp, key, value, headers, is_control=False)

    def append_record(self, record: SimpleRecord | Record) -> None:
        """Append a record: one that was read at its own offset, another one at the next offset."""
        key, value, headers = record.key, record.value, record.headers
        if isinstance(record, Record):
            is_control, offset = self.is_control_batch, record.offset
        else:
            is_control, offset = False, self._section.next_offset
        self._append(offset, record.timestamp, key, value, headers, is_control=is_control)

    def append_unchecked_with_offset(
        self, offset: Offset, record: SimpleRecord, *, magic: int | None = None
    ) -> None:
        """Append without a check of the offset order, to build batches of a broken writer.

        Args:
            magic: a different magic for a message of magic 0 or 1.
        """
        key, value, timestamp = record.key, record.value, record.timestamp
        if self.magic == CURRENT_MAGIC:
            self._section.add_record(offset, timestamp, key, value, record.headers)
            return
        kind, inner = TimestampType.CREATE_TIME, self.magic if magic is None else magic
        attributes = message_attributes(inner, CompressionType.NONE, kind)
        self._section.add_message(inner, offset, timestamp, key, value, attributes)

    @property
    def next_offset(self) -> Offset:
        """Offset of the next record."""
        return self._section.next_offset

    @property
    def record_count(self) -> int:
        """Number of records appended so far."""
        return self._section.count

    def _append(
        self,
        offset: Offset,
        timestamp: Timestamp,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header],
        *,
        is_control: bool,
    ) -> None:
        if is_control is not self.is_control_batch:
            raise ValueError("a batch cannot mix control records and other records")
        section = self._section
        last = section.last_offset
        if last is not None and offset <= last:
            raise ValueError(f"the offset {offset} is not above the last one, {last}")
        if timestamp < NO_TIMESTAMP:
            raise ValueError(f"the timestamp {timestamp} is negative")
        if self.magic == CURRENT_MAGIC:
            section.add_record(offset, timestamp, key, value, headers)
            return
        if headers:
            raise ValueError(f"records of magic {self.magic} have no headers")
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            timestamp = self.log_append_time
        section.add_message(self.magic, offset, timestamp, key, value, self._attributes)

    # Room

    @property
    def uncompressed_bytes_written(self) -> int:
        """Bytes of the header and of the records before compression."""
        return self._section.uncompressed_size

    @property
    def estimated_size(self) -> int:
        """Estimated bytes of the result; exact without a codec and once closed."""
        return self._estimated_bytes if self._built is None else self._built.size

    @property
    def is_full(self) -> bool:
        """Whether the builder accepts no more: closed, or with a record and at the write limit."""
        if self._section.is_closed:
            return True
        return self._section.count > 0 and self.write_limit <= self._estimated_bytes

    def has_room_for(
        self,
        timestamp: Timestamp,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header] = (),
    ) -> bool:
        """Return whether the batch stays below the write limit with this record; True for the first record."""
        if self.is_full:
            return False
        if self._section.count == 0:
            return True
        size = self._section.size_of_next(timestamp, key, value, headers)
        return self.write_limit >= self._estimated_bytes + size

    @property
    def _estimated_bytes(self) -> int:
        return self._section.estimated_size(self.estimated_compression_ratio)

    # Closing

    @property
    def is_closed(self) -> bool:
        """Whether the builder was closed."""
        return self._built is not None

    @property
    def info(self) -> RecordsInfo:
        """Largest timestamp and its offset: for a single batch the last offset, as followers see it too."""
        section = self._section
        last = section.next_offset - 1
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            offset = last if section.is_one_batch else self.base_offset
            return RecordsInfo(self.log_append_time, offset)
        if section.max_timestamp == NO_TIMESTAMP:
            return RecordsInfo(NO_TIMESTAMP, -1)
        offset = last if section.is_one_batch else section.offset_of_max_timestamp
        return RecordsInfo(section.max_timestamp, offset)

    def set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        """Set the producer. Raises StateError once closed, since a sent batch must not change."""
        if self.is_closed:
            raise StateError("the producer of a closed batch does not change")
        self._set_producer(producer_id, producer_epoch, base_sequence, is_transactional)

    def reopen_and_rewrite_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        """Rewrite the header with another producer at the next `close`. Raises StateError after `abort`."""
        if self._is_aborted:
            raise StateError("an aborted batch is not opened again")
        self._built = None
        self._set_producer(producer_id, producer_epoch, base_sequence, is_transactional)

    def _set_producer(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional

    def override_last_offset(self, last_offset: Offset) -> None:
        """Set a last offset that no record has. Raises StateError once closed."""
        if self.is_closed:
            raise StateError("the last offset of a closed batch does not change")
        self._section.last_offset = last_offset

    def close_for_appends(self) -> None:
        """Accept no more records; the header may still change."""
        self._section.close()

    def abort(self) -> None:
        """Discard the appended records; `buffer` has only its initial bytes."""
        self._section.discard()
        self._built = None
        self._is_aborted = True

    def close(self) -> None:
        """Complete the batch. May be called twice.

        Raises:
            StateError: the builder was aborted.
            ValueError: no batch can have this producer state.
        """
        if self._is_aborted:
            raise StateError("an aborted batch is not closed")
        if self._built is not None:
            return
        check_producer(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            is_transactional=self.is_transactional,
            is_control=self.is_control_batch,
        )
        if self.producer_id != NO_PRODUCER_ID and self.magic < CURRENT_MAGIC:
            raise ValueError(f"records of magic {self.magic} have no producers")
        compressed = self._section.close()
        if self._section.count == 0:
            self._built = MemoryRecords(b"")
            return
        if self.magic == CURRENT_MAGIC:
            self._built = MemoryRecords(encode_batch(self._header(), compressed))
        elif self.compression.type is not CompressionType.NONE:
            self._built = MemoryRecords(self._wrapper(compressed))
        else:
            self._built = MemoryRecords(bytearray(compressed))
        if self._section.is_one_batch:
            self.compression_ratio = len(compressed) / len(self._section.data)

    def build(self) -> MemoryRecords:
        """Return the batches in a writable buffer. Raises as `close` does."""
        self.close()
        assert self._built is not None
        return self._built

    @property
    def buffer(self) -> bytes:
        """Initial bytes, and the built batches once closed."""
        return bytes(self._initial) + (b"" if self._built is None else self._built.buffer)

    def _header(self) -> BatchHeader:
        section = self._section
        is_append_time = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        return BatchHeader(
            base_offset=self.base_offset,
            length=0,
            partition_leader_epoch=self.partition_leader_epoch,
            magic=self.magic,
            crc=0,
            attributes=compute_attributes(
                self.compression.type,
                self.timestamp_type,
                transactional=self.is_transactional,
                control=self.is_control_batch,
                delete_horizon=self.delete_horizon_ms is not None,
            ),
            last_offset_delta=to_int32((section.last_offset or 0) - self.base_offset),
            base_timestamp=NO_TIMESTAMP
            if section.base_timestamp is None
            else section.base_timestamp,
            max_timestamp=self.log_append_time if is_append_time else section.max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            record_count=section.count,
        )

    def _wrapper(self, compressed: Buffer) -> bytearray:
        section = self._section
        is_append_time = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        timestamp = self.log_append_time if is_append_time else section.max_timestamp
        attributes = message_attributes(self.magic, self.compression.type, self.timestamp_type)
        offset = section.last_offset or 0
        return bytearray(
            encode_message(self.magic, offset, timestamp, None, compressed, attributes)
        )
