"""What Kafka's FileRawSnapshotTest asks of reading: a KRaft snapshot is a file of batches under a name of its own."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.files.file_names import kraft_checkpoint_name
from engine.files.source_files import SourceRoot
from engine.record.file_records import FileRecords
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
