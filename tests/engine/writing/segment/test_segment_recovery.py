"""Recovery in the kernel gives what looking at one batch after the other gives."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from engine.errors import (
    CorruptRecordError,
    InvalidRecordError,
    KafkaStorageError,
    OffsetOverflowError,
)
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.encoding.building import end_transaction_marker, records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT32, EpochEntry, TimestampOffset
from engine.writing.segment import segment_recovery
from engine.writing.segment.segment_recovery import recover
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import ProducerStateManager
from tests.builders import NO_PRODUCER, Producer, Rec, batch
from tests.conformance.writable_segments import PARTITION, create_segment, new_producer_state

BASE = 100


class MemoryCheckpoint:
    """Leader epochs that are written nowhere."""

    def read(self) -> list[EpochEntry]:
        return []

    def write(self, entries: Any) -> None:
        pass

    write_if_dir_exists = write


class Made(NamedTuple):
    """A batch to be: what kind, whose, when, how large and how far behind the one before."""

    kind: str
    producer: int
    producer_epoch: int
    leader_epoch: int
    timestamp: int
    size: int
    gap: int


MADE = st.builds(
    Made,
    kind=st.sampled_from(["plain", "plain", "idempotent", "idempotent", "transactional", "abort", "commit", "v0", "v1", "pair"]),
    producer=st.integers(1, 3),
    producer_epoch=st.sampled_from([0, 0, 0, 1]),
    leader_epoch=st.integers(-1, 3),
    timestamp=st.integers(-1, 60),
    size=st.sampled_from([0, 1, 20, 20, 300, 900]),
    gap=st.sampled_from([0, 0, 0, 5]),
)  # fmt: skip


def batch_of(made: Made, offset: int) -> MemoryRecords:
    if made.kind in ("abort", "commit"):
        kind = ControlRecordType.ABORT if made.kind == "abort" else ControlRecordType.COMMIT
        return end_transaction_marker(
            EndTransactionMarker(kind, 0),
            producer_id=made.producer,
            producer_epoch=made.producer_epoch,
            timestamp=max(made.timestamp, 0),
            base_offset=offset,
            partition_leader_epoch=made.leader_epoch,
        )
    record = SimpleRecord(value=bytes(made.size), timestamp=made.timestamp)
    if made.kind in ("v0", "v1"):
        magic = int(made.kind[1])
        return records_of(record, base_offset=offset, magic=magic)
    if made.kind in ("plain", "pair"):
        records = [record] * (2 if made.kind == "pair" else 1)
        return records_of(*records, base_offset=offset, partition_leader_epoch=made.leader_epoch)
    return records_of(
        record,
        base_offset=offset,
        producer_id=made.producer,
        producer_epoch=made.producer_epoch,
        base_sequence=offset,
        is_transactional=made.kind == "transactional",
        partition_leader_epoch=made.leader_epoch,
    )


def fill(segment: WritableSegment, made: list[Made]) -> None:
    offset = BASE
    for each in made:
        offset += each.gap
        records = batch_of(each, offset)
        (batch,) = list(records.batches())[-1:]
        segment.append(batch.last_offset, records)
        offset = batch.last_offset + 1


def plain_recovery(
    segment: WritableSegment, producers: ProducerStateManager, epochs: LeaderEpochFileCache
) -> int:
    """What Kafka does, a batch at a time."""
    segment.offset_index.reset()
    segment.time_index.reset()
    segment.txn_index.reset()
    largest = TimestampOffset(-1, segment.base_offset)
    valid_bytes = last_indexed = 0
    try:
        for batch in segment.log.batches():
            batch.ensure_valid()
            if not 0 <= batch.last_offset - segment.base_offset <= MAX_INT32:
                raise OffsetOverflowError("too far")
            if batch.max_timestamp > largest.timestamp:
                largest = TimestampOffset(batch.max_timestamp, batch.last_offset)
            if valid_bytes - last_indexed > segment.indexes.interval_bytes:
                segment.offset_index.append(batch.last_offset, valid_bytes)
                segment.time_index.maybe_append(*largest)
                last_indexed = valid_bytes
            valid_bytes += batch.size
            if batch.magic < 2:
                continue
            latest = epochs.latest_epoch
            if batch.leader_epoch >= 0 and (latest is None or batch.leader_epoch > latest):
                epochs.assign(batch.leader_epoch, batch.base_offset)
            if batch.producer_id >= 0:
                info = producers.prepare_update(batch.producer_id, AppendOrigin.REPLICATION)
                completed = info.append(batch)
                producers.update(info)
                if completed is not None:
                    last_stable = producers.last_stable_offset(completed)
                    segment.update_txn_index(completed, last_stable)
                    producers.complete_txn(completed)
            producers.update_map_end_offset(batch.last_offset + 1)
    except (CorruptRecordError, InvalidRecordError):
        pass
    segment.indexes.known_largest = largest
    truncated = segment.log.truncate_to(valid_bytes)
    segment.time_index.maybe_append(*largest, skip_full_check=True)
    return truncated


def outcome(folder: Path, recover: Any) -> dict[str, Any]:
    """All that a recovery leaves, or the error that it ends with."""
    segment = create_segment(folder, BASE, 250)
    producers = new_producer_state(folder)
    epochs = LeaderEpochFileCache(PARTITION, MemoryCheckpoint())
    facts: dict[str, Any] = {}
    try:
        facts["truncated"] = recover(segment, producers, epochs)
    except KafkaStorageError as error:
        facts["error"] = type(error)
    else:
        facts["times"] = list(segment.time_index)
        facts["offsets"] = list(segment.offset_index)
        facts["aborted"] = segment.txn_index.all_aborted_txns()
        facts["largest"] = segment.indexes.largest
        facts["size"] = segment.size
        facts["epochs"] = epochs.epoch_entries
        facts["map end"] = producers.map_end_offset
        facts["unstable"] = producers.first_unstable_offset
        facts["producers"] = {
            producer: (
                entry.producer_epoch,
                entry.coordinator_epoch,
                entry.last_timestamp,
                entry.current_txn_first_offset,
                list(entry.batches),
            )
            for producer, entry in producers.active_producers.items()
        }
    segment.close_handlers()
    return facts


def damage(path: Path, kind: str, seed: int) -> None:
    data = bytearray(path.read_bytes())
    rng = random.Random(seed)
    at = rng.randrange(len(data))
    if kind == "cut":
        data = data[:at]
    elif kind == "flip":
        data[at] ^= 1 << rng.randrange(8)
    elif kind == "garbage":
        data += bytes(rng.randrange(256) for _ in range(rng.randrange(100)))
    elif kind == "zeros":
        data += bytes(rng.randrange(2000))
    path.write_bytes(data)


@given(
    made=st.lists(MADE, min_size=1, max_size=40),
    kind=st.sampled_from(["none", "none", "cut", "flip", "garbage", "zeros"]),
    seed=st.integers(0, 10**6),
    chunk=st.sampled_from([64, 300, 1000, 4 * 1024 * 1024]),
    rows=st.sampled_from([1, 3, 1000]),
)
def test_rebuilding_by_chunks_is_rebuilding_by_batches(
    tmp_path_factory: pytest.TempPathFactory,
    made: list[Made],
    kind: str,
    seed: int,
    chunk: int,
    rows: int,
) -> None:
    folder = tmp_path_factory.mktemp("recovery")
    by_batches, by_chunks = folder / "batches", folder / "chunks"
    by_batches.mkdir()
    with create_segment(by_batches, BASE, 250) as segment:
        fill(segment, made)
        appended = list(segment.offset_index)
    damage(Path(segment.log.path), kind, seed)
    shutil.copytree(by_batches, by_chunks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_recovery, "CHUNK", chunk)
        patch.setattr(segment_recovery, "ROWS", rows)
        found = outcome(by_chunks, recover)
    assert found == outcome(by_batches, plain_recovery)
    if kind == "none" and "error" not in found:
        assert found["offsets"] == appended
        assert found["truncated"] == 0
    shutil.rmtree(folder)


def test_a_producer_with_many_batches_keeps_the_last_five(tmp_path: Path) -> None:
    with create_segment(tmp_path, 0) as segment:
        for offset in range(20):
            records = records_of(
                SimpleRecord(value=b"a", timestamp=offset),
                base_offset=offset,
                producer_id=7,
                producer_epoch=1,
                base_sequence=offset,
            )
            segment.append(offset, records)
        producers = new_producer_state(tmp_path)
        recover(segment, producers)
        entry = producers.last_entry(7)
        assert entry is not None
        assert [batch.last_sequence for batch in entry.batches] == [15, 16, 17, 18, 19]
        assert entry.last_timestamp == 19


def test_recovery_of_an_overflow_changes_no_batch(tmp_path: Path) -> None:
    with create_segment(tmp_path, 0) as segment:
        segment.append(0, records_of(SimpleRecord(value=b"a"), base_offset=0))
        far = records_of(SimpleRecord(value=b"b"), base_offset=MAX_INT32 + 1)
        segment.log.append(far)
        size = segment.size
        with pytest.raises(OffsetOverflowError, match=str(MAX_INT32 + 1)):
            recover(segment, new_producer_state(tmp_path))
        assert segment.size == size
        assert Path(segment.log.path).stat().st_size == size


def test_whoever_asks_is_told_before_bytes_are_cut_off(tmp_path: Path) -> None:
    with create_segment(tmp_path, 0) as segment:
        segment.append(0, records_of(SimpleRecord(value=b"a"), base_offset=0))
        sizes: list[int] = []

        def note() -> None:
            sizes.append(segment.size)

        assert recover(segment, new_producer_state(tmp_path), None, note) == 0
        assert sizes == []
        segment.log.append(MemoryRecords(b"not a batch"))
        assert recover(segment, new_producer_state(tmp_path), None, note) == 11
        assert sizes == [segment.size + 11]


@pytest.mark.parametrize("chunk", [64, 1000])
def test_a_batch_larger_than_a_chunk_is_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(segment_recovery, "CHUNK", chunk)
    with create_segment(tmp_path, 0) as segment:
        for offset in range(3):
            record = SimpleRecord(value=bytes(5000))
            segment.append(offset, records_of(record, base_offset=offset))
        assert recover(segment, new_producer_state(tmp_path)) == 0
        assert segment.read_next_offset() == 3


def test_a_marker_does_not_take_the_place_of_a_batch_that_is_kept(tmp_path: Path) -> None:
    with create_segment(tmp_path, 0) as segment:
        for offset in range(8):
            records = records_of(
                SimpleRecord(value=b"a"),
                base_offset=offset,
                producer_id=7,
                producer_epoch=0,
                base_sequence=offset,
                is_transactional=True,
            )
            segment.append(offset, records)
        marker = EndTransactionMarker(ControlRecordType.COMMIT, 3)
        segment.append(
            8,
            end_transaction_marker(
                marker, producer_id=7, producer_epoch=0, timestamp=5, base_offset=8
            ),
        )
        producers = new_producer_state(tmp_path)
        recover(segment, producers)
        entry = producers.last_entry(7)
        assert entry is not None
        assert [batch.last_sequence for batch in entry.batches] == [3, 4, 5, 6, 7]
        assert entry.coordinator_epoch == 3


def test_a_control_record_that_makes_no_sense_ends_the_log_behind_its_batch(tmp_path: Path) -> None:
    bad_key = b"\xff\xff\x00\x00"  # version -1
    with create_segment(tmp_path, 0) as segment:
        for offset in range(3):
            control = offset == 1
            data = batch(
                [Rec(b"a", key=bad_key if control else None)],
                offset,
                producer=Producer(id=7) if control else NO_PRODUCER,
                transactional=control,
                control=control,
            )
            segment.append(offset, MemoryRecords(data))
        producers = new_producer_state(tmp_path)
        assert recover(segment, producers) == len(data)
        assert segment.read_next_offset() == 2
        assert producers.map_end_offset == 1
