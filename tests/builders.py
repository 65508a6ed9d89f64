"""Bytes for tests: records, batches of every magic and codec, and the files of a segment.

Everything here only packs; what comes out is as right or as wrong as the arguments. Defaults are those of
Kafka's own writer. `patched` and `resealed` break and re-checksum what the others made.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from engine.coding.checksums import crc32, crc32c
from engine.coding.compression import CompressionType, compress
from engine.coding.varint import encode_varint, encode_varlong
from engine.errors import CorruptRecordError
from engine.record.attributes import TimestampType, compute_attributes
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.record_batch import RecordBatch

BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
NONE = CompressionType.NONE
CREATE_TIME = TimestampType.CREATE_TIME
LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME
CODECS = tuple(CompressionType)


class Rec(NamedTuple):
    """A record to be written; `offset` None means: the one after the record before."""

    value: bytes | None = b""
    key: bytes | None = None
    timestamp: int = 1_700_000_000_000
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    offset: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """Who wrote a batch."""

    id: int
    epoch: int = 0
    sequence: int = -1


NO_PRODUCER = Producer(id=-1, epoch=-1, sequence=-1)


def values(*texts: str, timestamp: int = 1_700_000_000_000) -> list[Rec]:
    """Records with these values and timestamps one millisecond apart."""
    return [Rec(text.encode(), timestamp=timestamp + i) for i, text in enumerate(texts)]


# Magic 2


def sized(data: bytes | None) -> bytes:
    """A varint length and the bytes; null is length -1."""
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


def record_body(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[bytes, bytes | None]] = (),
) -> bytes:
    """A record of magic 2 without its length."""
    parts = [b"\x00", encode_varlong(timestamp_delta), encode_varint(offset_delta)]
    parts += [sized(key), sized(value), encode_varint(len(headers))]
    for name, content in headers:
        parts += [sized(name), sized(content)]
    return b"".join(parts)


def records_section(records: Sequence[Rec], base_offset: int, base_timestamp: int) -> bytes:
    """The records of a batch, not compressed."""
    return b"".join(
        sized(
            record_body(
                offset - base_offset,
                _int64(record.timestamp - base_timestamp),
                record.key,
                record.value,
                record.headers,
            )
        )
        for offset, record in zip(_offsets(records, base_offset), records, strict=True)
    )


def batch(
    records: Sequence[Rec],
    base_offset: int = 0,
    codec: CompressionType = NONE,
    *,
    producer: Producer = NO_PRODUCER,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = 0,
    timestamp_type: TimestampType = CREATE_TIME,
    log_append_time: int = -1,
    delete_horizon: int | None = None,
    section: bytes | None = None,
    **header: int,
) -> bytes:
    """A batch of magic 2.

    Args:
        records: what is in it; offsets left out count on from `base_offset`.
        base_offset: of the batch; a record may have a larger one, as after compaction.
        codec: of the records.
        producer, transactional, control, leader_epoch, timestamp_type: as the header has them.
        log_append_time: the batch's max timestamp under LOG_APPEND_TIME.
        delete_horizon: stands in for the base timestamp, with its attribute bit.
        section: bytes to use after the header instead of the records'.
        header: fields of the header to override (`magic`, `attributes`, `last_offset_delta`,
            `base_timestamp`, `max_timestamp`, `record_count`, `length`, `crc`).
    """
    base_timestamp = records[0].timestamp if records else -1
    if delete_horizon is not None:
        base_timestamp = delete_horizon
    base_timestamp = header.pop("base_timestamp", base_timestamp)
    if timestamp_type is LOG_APPEND_TIME:
        max_timestamp = log_append_time
    else:
        max_timestamp = max((record.timestamp for record in records), default=-1)
    if section is None:
        section = compress(codec, records_section(records, base_offset, base_timestamp))
    attributes = compute_attributes(
        codec,
        timestamp_type,
        transactional=transactional,
        control=control,
        delete_horizon=delete_horizon is not None,
    )
    fields = {
        "base_offset": base_offset,
        "length": 49 + len(section),
        "leader_epoch": leader_epoch,
        "magic": 2,
        "crc": None,
        "attributes": attributes,
        "last_offset_delta": max(_offsets(records, base_offset), default=base_offset) - base_offset,
        "base_timestamp": base_timestamp,
        "max_timestamp": max_timestamp,
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "base_sequence": producer.sequence,
        "record_count": len(records),
    }
    assert not header.keys() - fields.keys(), header
    fields |= header
    crc = fields["crc"]
    made = BATCH_HEADER.pack(*(fields | {"crc": 0}).values()) + section
    return resealed(made) if crc is None else patched(made, 17, struct.pack(">I", crc))


def empty_batch(
    base_offset: int = 0,
    last_offset: int = 0,
    *,
    producer: Producer = NO_PRODUCER,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = 0,
    timestamp_type: TimestampType = CREATE_TIME,
    timestamp: int = -1,
) -> bytes:
    """What compaction leaves of a batch whose records are gone: the header, to keep the producer's state."""
    return batch(
        [],
        base_offset,
        producer=producer,
        transactional=transactional,
        control=control,
        leader_epoch=leader_epoch,
        timestamp_type=timestamp_type,
        last_offset_delta=last_offset - base_offset,
        max_timestamp=timestamp,
    )


def control_batch(
    kind: int,
    value: bytes | None,
    base_offset: int = 0,
    *,
    producer: Producer = NO_PRODUCER,
    transactional: bool = False,
    leader_epoch: int = 0,
    timestamp: int = 1_700_000_000_000,
    key_version: int = 0,
) -> bytes:
    """A control batch of one record of any type."""
    record = Rec(value, struct.pack(">hh", key_version, kind), timestamp)
    return batch(
        [record],
        base_offset,
        producer=producer,
        transactional=transactional,
        control=True,
        leader_epoch=leader_epoch,
    )


def end_marker(
    base_offset: int,
    producer: Producer,
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    leader_epoch: int = 0,
    timestamp: int = 1_700_000_000_000,
) -> bytes:
    """The batch that ends a transaction."""
    kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
    return control_batch(
        kind,
        EndTransactionMarker(kind, coordinator_epoch).value(),
        base_offset,
        producer=dataclasses.replace(producer, sequence=-1),
        transactional=True,
        leader_epoch=leader_epoch,
        timestamp=timestamp,
    )


# Magic 0 and 1


def message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int = 1,
    timestamp: int = 1_700_000_000_000,
    attributes: int = 0,
    crc: int | None = None,
) -> bytes:
    """One message of magic 0 or 1 with its offset and size."""
    body = struct.pack(">bB", magic, attributes)
    if magic:
        body += struct.pack(">q", timestamp)
    for data in (key, value):
        body += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    crc = crc32(body) if crc is None else crc
    return struct.pack(">qiI", offset, len(body) + 4, crc) + body


def wrapper(
    messages: Iterable[bytes],
    offset: int,
    codec: CompressionType,
    *,
    magic: int = 1,
    timestamp: int = 1_700_000_000_000,
    timestamp_type: TimestampType = CREATE_TIME,
) -> bytes:
    """A compressed message of magic 0 or 1 around others, which are taken as they are."""
    attributes = int(codec) | (8 if timestamp_type is LOG_APPEND_TIME else 0)
    content = compress(codec, b"".join(messages), magic=magic)
    return message(offset, None, content, magic=magic, timestamp=timestamp, attributes=attributes)


def message_set(
    records: Sequence[Rec],
    base_offset: int = 0,
    codec: CompressionType = NONE,
    *,
    magic: int = 1,
    timestamp_type: TimestampType = CREATE_TIME,
    log_append_time: int = -1,
) -> bytes:
    """Records as Kafka's writer puts them in magic 0 or 1: single messages, or one wrapper."""
    offsets = _offsets(records, base_offset)
    append_time = timestamp_type is LOG_APPEND_TIME
    relative = base_offset if codec and magic else 0
    bit = 8 if append_time and magic else 0
    messages = [
        message(
            offset - relative,
            record.key,
            record.value,
            magic=magic,
            timestamp=log_append_time if append_time else record.timestamp,
            attributes=bit,
        )
        for offset, record in zip(offsets, records, strict=True)
    ]
    if not codec:
        return b"".join(messages)
    newest = max(record.timestamp for record in records)
    return wrapper(
        messages,
        offsets[-1],
        codec,
        magic=magic,
        timestamp=log_append_time if append_time else newest,
        timestamp_type=timestamp_type if magic else CREATE_TIME,
    )


def any_batch(
    records: Sequence[Rec], base_offset: int = 0, codec: CompressionType = NONE, *, magic: int = 2
) -> bytes:
    """Records in the format of a magic."""
    if magic == 2:
        return batch(records, base_offset, codec)
    return message_set(records, base_offset, codec, magic=magic)


# Breaking things


def patched(data: bytes, position: int, new: bytes) -> bytes:
    """The same bytes with some overwritten."""
    return data[:position] + new + data[position + len(new) :]


def resealed(data: bytes) -> bytes:
    """One batch of any magic with its checksum made right again."""
    if data[16] < 2:
        return patched(data, 12, struct.pack(">I", crc32(data[16:])))
    return patched(data, 17, struct.pack(">I", crc32c(data[21:])))


# Files


class SnapshotEntry(NamedTuple):
    """A producer's entry in a .snapshot file."""

    producer_id: int
    producer_epoch: int = 0
    last_sequence: int = 0
    last_offset: int = 0
    offset_delta: int = 0
    timestamp: int = 1_700_000_000_000
    coordinator_epoch: int = -1
    current_transaction_first_offset: int = -1


class Aborted(NamedTuple):
    """An entry of a .txnindex file."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    version: int = 0


def offset_index(entries: Iterable[tuple[int, int]], base_offset: int = 0) -> bytes:
    """A .index file of (offset, position) pairs."""
    return b"".join(struct.pack(">ii", offset - base_offset, at) for offset, at in entries)


def time_index(entries: Iterable[tuple[int, int]], base_offset: int = 0) -> bytes:
    """A .timeindex file of (timestamp, offset) pairs."""
    return b"".join(struct.pack(">qi", when, offset - base_offset) for when, offset in entries)


def transaction_index(entries: Iterable[Aborted]) -> bytes:
    """A .txnindex file."""
    return b"".join(struct.pack(">hqqqq", entry.version, *entry[:4]) for entry in entries)


def producer_snapshot(entries: Sequence[SnapshotEntry], *, version: int = 1) -> bytes:
    """A .snapshot file."""
    body = struct.pack(">i", len(entries))
    body += b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", version, crc32c(body)) + body


def segment_files(
    batches: Sequence[bytes],
    base_offset: int = 0,
    *,
    index_interval: int = 4096,
    aborted: Sequence[Aborted] = (),
    snapshot: Sequence[SnapshotEntry] | None = None,
) -> dict[str, bytes]:
    """A segment's files by name, indexed as a broker does it while it appends and when it closes.

    Args:
        batches: whole batches (or messages), one each.
        base_offset: of the segment.
        index_interval: bytes between index entries.
        aborted: entries of the transaction index, which is there only when there are some.
        snapshot: entries of the producer snapshot at the base offset; None for no such file.
    """
    positions: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    newest, at, since = (-1, base_offset), 0, 0
    for data in batches:
        if since > index_interval:
            positions.append((last_offset(data), at))
            times += _newer(newest, times)
            since = 0
        newest = max(newest, (max_timestamp(data), last_offset(data)), key=lambda pair: pair[0])
        at += len(data)
        since += len(data)
    times += _newer(newest, times)
    stem = f"{base_offset:020}"
    files = {
        stem + ".log": b"".join(batches),
        stem + ".index": offset_index(positions, base_offset),
        stem + ".timeindex": time_index(times, base_offset),
    }
    if aborted:
        files[stem + ".txnindex"] = transaction_index(aborted)
    if snapshot is not None:
        files[stem + ".snapshot"] = producer_snapshot(snapshot)
    return files


def write_segment(
    folder: Path,
    batches: Sequence[bytes],
    base_offset: int = 0,
    *,
    index_interval: int = 4096,
    aborted: Sequence[Aborted] = (),
    snapshot: Sequence[SnapshotEntry] | None = None,
) -> Path:
    """Write a segment's files below a folder, which is made when it is not there; the .log's path."""
    folder.mkdir(parents=True, exist_ok=True)
    files = segment_files(
        batches,
        base_offset,
        index_interval=index_interval,
        aborted=aborted,
        snapshot=snapshot,
    )
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder / f"{base_offset:020}.log"


def last_offset(data: bytes) -> int:
    """The last offset that a batch's or message's header states."""
    offset: int = struct.unpack_from(">q", data)[0]
    if data[16] < 2:
        return offset
    delta: int = struct.unpack_from(">i", data, 23)[0]
    return offset + delta


def max_timestamp(data: bytes) -> int:
    """The largest timestamp that a batch's or message's header states; -1 for magic 0."""
    if data[16] == 0:
        return -1
    stated: int = struct.unpack_from(">q", data, 18 if data[16] == 1 else 35)[0]
    return stated


def is_valid(batch: RecordBatch) -> bool:
    """Whether a batch's size and checksum are right."""
    try:
        batch.ensure_valid()
    except CorruptRecordError:
        return False
    return True


def _newer(newest: tuple[int, int], times: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The entry that a time index would add: only for a timestamp above its last."""
    last = times[-1][0] if times else -1
    return [newest] if newest[0] > last else []


def _offsets(records: Sequence[Rec], base_offset: int) -> list[int]:
    offsets: list[int] = []
    following = base_offset
    for record in records:
        offsets.append(following if record.offset is None else record.offset)
        following = offsets[-1] + 1
    return offsets


def _int64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63
