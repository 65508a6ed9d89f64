"""What Kafka's FileRawSnapshotTest asks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.broker.raft.raft_snapshot import (
    RaftSnapshotReader,
    RaftSnapshotWriter,
    SnapshotId,
    snapshot_path,
)
from engine.errors import StateError
from engine.files.file_names import kraft_checkpoint_name
from engine.files.source_files import SourceRoot
from engine.record.file_records import FileRecords
from engine.record.memory_records import MemoryRecords
from tests.builders import Rec, batch

NAME = kraft_checkpoint_name(10, 3)
Snapshot = Callable[[bytes], FileRecords]


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """Opens bytes as the snapshot that ends at offset 10 in epoch 3."""

    def opened(data: bytes) -> FileRecords:
        (tmp_path / NAME).write_bytes(data)
        return FileRecords(SourceRoot(str(tmp_path)).open(NAME))

    return opened


@pytest.mark.conformance("FileRawSnapshotTest.testWriteReadSnapshot")
def test_write_read_snapshot(snapshot: Snapshot) -> None:
    data = os.urandom(256)
    records = snapshot(data)
    assert records.size == 256
    buffer = bytearray(256)
    assert records.read_into(buffer, 0) == 256
    assert bytes(buffer) == data


@pytest.mark.conformance("FileRawSnapshotTest.testPartialWriteReadSnapshot")
def test_partial_write_read_snapshot(snapshot: Snapshot) -> None:
    data = bytes(range(256)) * 2
    records = snapshot(data)
    assert records.size == 512
    first, second = bytearray(260), bytearray(512 - 260)
    assert records.slice(0, 260).read_into(first, 0) == 260
    rest = records.slice(260, 512)
    assert rest.size == 512 - 260
    assert rest.read_into(second, 260) == 512 - 260
    assert bytes(first + second) == data


@pytest.mark.conformance("FileRawSnapshotTest.testBatchWriteReadSnapshot")
def test_batch_write_read_snapshot(snapshot: Snapshot) -> None:
    written = [[os.urandom(1024 // 4) for _ in range(4)] for _ in range(10)]
    records = snapshot(
        b"".join(
            batch([Rec(value) for value in values], base_offset=4 * i)
            for i, values in enumerate(written)
        )
    )
    batches = list(records.batches())
    assert len(batches) == 10
    for read, values in zip(batches, written, strict=True):
        read.ensure_valid()
        assert [record.value for record in read.records()] == values


@pytest.mark.conformance("FileRawSnapshotTest.testBufferWriteReadSnapshot")
def test_buffer_write_read_snapshot(snapshot: Snapshot) -> None:
    values = [os.urandom(256) for _ in range(40)]
    parts = [batch([Rec(value)], base_offset=i) for i, value in enumerate(values)]
    records = snapshot(b"".join(parts))
    assert records.size == sum(map(len, parts))
    found = [record.value for read in records.batches() for record in read.records()]
    assert found == values


ID = SnapshotId(10, 3)
BUFFER_SIZE = 256
NUMBER_OF_BATCHES = 10


def records_of(*values: bytes) -> MemoryRecords:
    return MemoryRecords(batch([Rec(value) for value in values]))


@pytest.mark.conformance("FileRawSnapshotTest.testWritingSnapshot")
def test_writing_snapshot(tmp_path):
    expected = 0
    with RaftSnapshotWriter.create(tmp_path, ID) as snapshot:
        assert snapshot.size == 0
        records = records_of(os.urandom(BUFFER_SIZE))
        for _ in range(NUMBER_OF_BATCHES):
            snapshot.append(records)
            expected += records.size
        assert snapshot.size == expected
        assert not os.path.exists(snapshot_path(tmp_path, ID))
        snapshot.freeze()
        assert snapshot.is_frozen
    assert [path.name for path in tmp_path.iterdir()] == [
        "00000000000000000010-0000000003.checkpoint"
    ]
    status = os.stat(snapshot_path(tmp_path, ID))
    assert status.st_size == expected
    assert status.st_mode & 0o777 == 0o444


def test_batches_that_were_written_are_read(tmp_path):
    written = [[os.urandom(BUFFER_SIZE) for _ in range(3)] for _ in range(NUMBER_OF_BATCHES)]
    with RaftSnapshotWriter.create(tmp_path, ID) as writer:
        for values in written:
            writer.append(records_of(*values))
        writer.freeze()
    with RaftSnapshotReader.open(tmp_path, ID) as reader:
        read = [[record.value for record in each.records()] for each in reader.records.batches()]
    assert read == written


def test_halves_that_were_written_are_read(tmp_path):
    data = bytes(records_of(b"foo").buffer)
    half = len(data) // 2
    with RaftSnapshotWriter.create(tmp_path, ID) as writer:
        writer.append(MemoryRecords(data[:half]))
        writer.append(MemoryRecords(data[half:]))
        writer.freeze()
    with RaftSnapshotReader.open(tmp_path, ID) as reader:
        assert reader.size == len(data)
        for part, position in ((data[:half], 0), (data[half:], half)):
            buffer = bytearray(len(part))
            assert reader.slice(position, len(part)).read_into(buffer, position) == len(part)
            assert buffer == part
        with pytest.raises(ValueError, match="is not within"):
            reader.slice(len(data) + 1, 1)


@pytest.mark.conformance("FileRawSnapshotTest.testAbortedSnapshot")
def test_aborted_snapshot(tmp_path):
    with RaftSnapshotWriter.create(tmp_path, SnapshotId(20, 2)) as snapshot:
        records = records_of(os.urandom(BUFFER_SIZE))
        for _ in range(NUMBER_OF_BATCHES):
            snapshot.append(records)
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.conformance("FileRawSnapshotTest.testAppendToFrozenSnapshot")
def test_append_to_frozen_snapshot(tmp_path):
    with RaftSnapshotWriter.create(tmp_path, ID) as snapshot:
        records = records_of(os.urandom(BUFFER_SIZE))
        for _ in range(NUMBER_OF_BATCHES):
            snapshot.append(records)
        snapshot.freeze()
        with pytest.raises(StateError, match=r"\(10, 3\) is frozen"):
            snapshot.append(records)
        with pytest.raises(StateError, match=r"\(10, 3\) is frozen"):
            snapshot.freeze()
    size = os.path.getsize(snapshot_path(tmp_path, ID))
    assert size == NUMBER_OF_BATCHES * records.size > BUFFER_SIZE * NUMBER_OF_BATCHES


@pytest.mark.conformance("FileRawSnapshotTest.testCreateSnapshotWithSameId")
def test_create_snapshot_with_same_id(tmp_path):
    for value in (b"first", b"second"):
        with RaftSnapshotWriter.create(tmp_path, SnapshotId(20, 2)) as snapshot:
            snapshot.append(records_of(value))
            snapshot.freeze()
        with RaftSnapshotReader.open(tmp_path, SnapshotId(20, 2)) as reader:
            assert [record.value for record in reader.records.records()] == [value]
    assert len(list(tmp_path.iterdir())) == 1
