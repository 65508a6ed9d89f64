"""What Kafka's FileRawSnapshotTest asks of writing, and of reading what was written."""

from __future__ import annotations

import os

import pytest

from engine.broker.raft.raft_snapshot import (
    RaftSnapshotReader,
    RaftSnapshotWriter,
    SnapshotId,
    snapshot_path,
)
from engine.errors import StateError
from engine.record.memory_records import MemoryRecords
from tests.builders import Rec, batch

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
