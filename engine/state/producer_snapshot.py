"""Producer snapshots (.snapshot): state of each producer just before the offset in the name.

Big-endian: version (int16, 1), CRC-32C of all that follows (uint32), number of entries (int32), entries of
46 bytes. See ProducerSnapshot and ProducerStateManager in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from engine.coding.checksums import crc32c
from engine.coding.layout import Int16, Int32, Int64, Layout, UInt32
from engine.errors import CorruptSnapshotError
from engine.state.producer_state_entry import BatchMetadata, ProducerStateEntry

CURRENT_VERSION = 1


class SnapshotHeader(NamedTuple):
    """First 10 bytes of the file."""

    version: Int16
    crc: UInt32
    entry_count: Int32


class SnapshotEntry(NamedTuple):
    """A producer's entry as in the file; -1 for no batch and for no transaction."""

    producer_id: Int64
    producer_epoch: Int16
    last_sequence: Int32
    last_offset: Int64
    offset_delta: Int32
    timestamp: Int64
    coordinator_epoch: Int32
    current_txn_first_offset: Int64


HEADER = Layout(SnapshotHeader)
ENTRY = Layout(SnapshotEntry)
_CHECKED_FROM = HEADER.position_of("entry_count")
_COUNT = HEADER.field_struct("entry_count")


class ProducerSnapshot:
    """Reader and writer of the format; not instantiated."""

    @staticmethod
    def parse(data: bytes, path: str | None = None) -> list[ProducerStateEntry]:
        """Return the producers of a snapshot. Raises CorruptSnapshotError."""
        return list(ProducerSnapshot.iterate(data, path))

    @staticmethod
    def iterate(data: bytes, path: str | None = None) -> Iterator[ProducerStateEntry]:
        """Yield the producers one by one, for very large snapshots; the file is checked before the first."""
        return map(_state, _entries(data, path))

    @staticmethod
    def render(producers: Iterable[ProducerStateEntry]) -> bytes:
        """Return the snapshot of these producers, in this order."""
        entries = b"".join(ENTRY.pack(_entry(producer)) for producer in producers)
        counted = _COUNT.pack(len(entries) // ENTRY.size) + entries
        header = SnapshotHeader(CURRENT_VERSION, crc32c(counted), 0)
        return HEADER.pack(header)[:_CHECKED_FROM] + counted


def _entries(data: bytes, path: str | None) -> Iterator[SnapshotEntry]:
    if len(data) < HEADER.size:
        raise CorruptSnapshotError(
            "the snapshot is cut",
            path=path,
            expected=f"at least {HEADER.size} bytes",
            found=f"{len(data)} bytes",
        )
    header = HEADER.unpack(data)
    if header.version != CURRENT_VERSION:
        raise CorruptSnapshotError(
            "the version is unknown",
            path=path,
            position=0,
            expected=CURRENT_VERSION,
            found=header.version,
        )
    computed = crc32c(memoryview(data)[_CHECKED_FROM:])
    if computed != header.crc:
        raise CorruptSnapshotError(
            "the checksum is wrong", path=path, expected=header.crc, found=computed
        )
    end = HEADER.size + header.entry_count * ENTRY.size
    if header.entry_count < 0 or end > len(data):
        raise CorruptSnapshotError(
            "the number of entries is not the stated one",
            path=path,
            position=_CHECKED_FROM,
            expected=f"{header.entry_count} entries",
            found=f"{(len(data) - HEADER.size) // ENTRY.size}",
        )
    return ENTRY.iter_unpack(memoryview(data)[HEADER.size : end])


def _state(entry: SnapshotEntry) -> ProducerStateEntry:
    batches = []
    if entry.last_offset >= 0:
        batches.append(
            BatchMetadata(
                entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp
            )
        )
    first = entry.current_txn_first_offset
    return ProducerStateEntry(
        entry.producer_id,
        entry.producer_epoch,
        entry.coordinator_epoch,
        entry.timestamp,
        first if first >= 0 else None,
        batches,
    )


def _entry(producer: ProducerStateEntry) -> SnapshotEntry:
    first = producer.current_txn_first_offset
    return SnapshotEntry(
        producer.producer_id,
        producer.producer_epoch,
        producer.last_sequence,
        producer.last_data_offset,
        producer.last_offset_delta,
        producer.last_timestamp,
        producer.coordinator_epoch,
        -1 if first is None else first,
    )
