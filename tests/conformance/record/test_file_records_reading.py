"""What Kafka's FileRecordsTest asks of reading. Positions are absolute here, also in slices of slices."""

import os
import threading
from pathlib import Path

import pytest

from engine.coding.compression import CompressionType
from engine.errors import KafkaStorageError
from engine.files.source_files import SourceRoot
from engine.record.file_records import FileRecords
from engine.record.record import Header
from engine.units import BatchPosition, FoundTimestamp
from tests.builders import Rec, any_batch, batch

MAX_INT = 2**31 - 1
VALUES = [b"abcd", b"efgh", b"ijkl"]


def one_each(values: list[bytes], base_offset: int = 0) -> bytes:
    return b"".join(batch([Rec(value)], base_offset + i) for i, value in enumerate(values))


class Log:
    """A file of batches in a source folder."""

    def __init__(self, root: SourceRoot, path: Path) -> None:
        self.root = root
        self.path = path
        self.write(one_each(VALUES))

    def write(self, data: bytes) -> None:
        self.path.write_bytes(data)

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as out:
            out.write(data)

    def records(self) -> FileRecords:
        return FileRecords(self.root.open(self.path.name))


@pytest.fixture
def log(tmp_path: Path):
    with SourceRoot(str(tmp_path)) as root:
        yield Log(root, tmp_path / "some.log")


def batches(records: FileRecords) -> list[bytes]:
    return [bytes(found.raw) for found in records.batches()]


def values(records: FileRecords) -> list[bytes | None]:
    return [record.value for record in records.records()]


@pytest.mark.conformance("FileRecordsTest.testOpenOversizeFile")
def test_open_oversize_file(log):
    os.truncate(log.path, MAX_INT + 5)
    with pytest.raises(KafkaStorageError, match=f"{MAX_INT + 5} bytes"):
        log.records()
    os.truncate(log.path, MAX_INT)
    assert log.records().size == MAX_INT


@pytest.mark.conformance("FileRecordsTest.testOutOfRangeSlice")
def test_out_of_range_slice(log):
    records = log.records()
    with pytest.raises(ValueError, match="is not within"):
        records.slice(records.size + 1, 15)
    assert records.slice(records.size, 15).size == 0


@pytest.mark.conformance("FileRecordsTest.testIterationOverPartialAndTruncation")
def test_iteration_over_partial_and_truncation(log):
    for size in (0, 2, 4, 5, 6):
        log.append(bytes(size))
        found = log.records().records()
        assert [next(found).value for _ in VALUES] == VALUES


@pytest.mark.conformance("FileRecordsTest.testSliceSizeLimitWithConcurrentWrite")
def test_slice_size_limit_with_concurrent_write(log):
    largest, wrong = 16384, []

    def read() -> None:
        size = 0
        while size < largest:
            records = log.records()
            size = records.size
            part = records.slice(0, size)
            inside = sum(len(data) for data in batches(part))
            if part.size != size or inside > size:
                wrong.append((size, part.size, inside))

    reader = threading.Thread(target=read)
    reader.start()
    while log.path.stat().st_size < largest:
        log.append(one_each(VALUES))
    reader.join(60)
    assert not reader.is_alive()
    assert wrong == []


@pytest.mark.conformance("FileRecordsTest.testIterationDoesntChangePosition")
def test_iteration_doesnt_change_position(log):
    records = log.records()
    os.lseek(records.file.fd, 7, os.SEEK_SET)
    assert values(records) == VALUES
    assert os.lseek(records.file.fd, 0, os.SEEK_CUR) == 7


@pytest.mark.conformance("FileRecordsTest.testRead")
def test_read(log):
    records = log.records()
    read = records.slice(0, records.size)
    assert read.size == records.size
    items = batches(records)
    assert batches(read) == items
    first, rest = len(items[0]), records.size - len(items[0])
    for part in (
        records.slice(first, rest),
        records.slice(first, records.size),
        records.slice(first, MAX_INT),
        records.slice(1, records.size - 1).slice(first, records.size),
        records.slice(1, records.size - 1).slice(first, MAX_INT),
    ):
        assert part.size == rest
        assert batches(part) == items[1:]
    read = records.slice(first, len(items[1]))
    assert read.size == len(items[1])
    assert batches(read) == [items[1]]


@pytest.mark.conformance("FileRecordsTest.testSearch")
def test_search(log):
    log.append(batch([Rec(b"test")], 50))
    records = log.records()
    sizes = [len(data) for data in batches(records)]
    second, fourth = sizes[0], sum(sizes[:3])
    assert records.search_for_offset(0, 0) == BatchPosition(0, 0, 0, sizes[0])
    assert records.search_for_offset(1, 0) == BatchPosition(1, 1, second, sizes[1])
    assert records.search_for_offset(1, second) == BatchPosition(1, 1, second, sizes[1])
    assert records.search_for_offset(3, fourth) == BatchPosition(50, 50, fourth, sizes[3])
    assert records.search_for_offset(50, fourth) == BatchPosition(50, 50, fourth, sizes[3])
    assert records.search_for_offset(51, 0) is None


@pytest.mark.conformance("FileRecordsTest.testIteratorWithLimits")
def test_iterator_with_limits(log):
    records = log.records()
    item = batches(records)[1]
    found = records.search_for_offset(1, 0)
    assert batches(records.slice(found.position, len(item))) == [item]
    assert batches(records.slice(found.position, len(item) - 1)) == []


@pytest.mark.conformance("FileRecordsTest.testSearchForTimestamp")
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_search_for_timestamp(log, magic):
    def made(timestamp: int, offset: int, leader_epoch: int) -> bytes:
        record = Rec(b"", b"", timestamp)
        if magic == 2:
            return batch([record], offset, leader_epoch=leader_epoch)
        return any_batch([record], offset, magic=magic)

    log.write(made(10, 5, 0) + made(11, 6, 1))
    records = log.records()
    first = FoundTimestamp(10, 5, 0 if magic == 2 else -1) if magic else None
    second = FoundTimestamp(11, 6, 1 if magic == 2 else -1) if magic else None
    assert records.search_for_timestamp(9, 0, 0) == first
    assert records.search_for_timestamp(10, 0, 0) == first
    assert records.search_for_timestamp(11, 0, 0) == second
    assert records.search_for_timestamp(12, 0, 0) is None


@pytest.mark.conformance("FileRecordsTest.testSliceForAlreadySlicedFileRecords")
def test_slice_for_already_sliced_file_records(log):
    log.write(one_each([*VALUES, b"mnopqr", b"stuv"]))
    records = log.records()
    items = batches(records)
    position = sum(len(item) for item in items[:3])
    sliced = records.slice(position, records.size - position)
    assert sliced.size == records.size - position
    assert batches(sliced) == items[3:]
    final = sliced.slice(position + len(items[3]), sliced.size - len(items[3]))
    assert final.size == sliced.size - len(items[3])
    assert batches(final) == items[4:]


@pytest.mark.conformance("FileRecordsTest.testConversion")
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_conversion(log, codec):
    offsets = [0, 2, 3, 9, 11, 15, 16, 17, 22, 24]
    texts = [
        b"hello",
        b"goodbye",
        b"hello again",
        b"goodbye for now",
        b"hello again",
        b"I sense indecision",
        b"what now",
        b"running out",
        b"ok, almost done",
        b"finally",
    ]
    headers = tuple((b"headerKey%d" % n, b"headerValue%d" % n) for n in (1, 2, 3))
    records = [
        Rec(text, b"k%d" % n, n, headers if n in (8, 10) else (), offset)
        for n, (offset, text) in enumerate(zip(offsets, texts, strict=True), 1)
    ]
    log.write(
        any_batch(records[:3], 0, codec, magic=0)
        + any_batch(records[3:6], 0, codec, magic=1)
        + any_batch(records[6:], 0, codec, magic=2)
    )
    found = list(log.records().records())
    assert [record.offset for record in found] == offsets
    assert [(record.key, record.value) for record in found] == [
        (record.key, record.value) for record in records
    ]
    assert [record.timestamp for record in found] == [-1, -1, -1, 4, 5, 6, 7, 8, 9, 10]
    assert [record.headers for record in found] == [
        tuple(Header(*header) for header in record.headers) for record in records
    ]


def spanning(log: Log, *spans: tuple[int, int]) -> tuple[FileRecords, list[BatchPosition]]:
    """A log whose batches reach from a first to a last offset, and where they are."""
    log.write(b"".join(batch([Rec(offset=last)], first) for first, last in spans))
    records = log.records()
    found = [
        BatchPosition(item.base_offset, item.last_offset, item.file_position, item.size)
        for item in records.batches()
    ]
    assert [item[:2] for item in found] == list(spans)
    return records, found


@pytest.mark.conformance("FileRecordsTest.testSearchForOffsetFromPosition1")
@pytest.mark.parametrize("base_offset", [5, 10])
def test_search_for_offset_from_position1(log, base_offset):
    records, (only,) = spanning(log, (base_offset, base_offset + 2))
    assert records.search_for_offset(5, 0) == only


@pytest.mark.conformance("FileRecordsTest.testSearchForOffsetFromPosition2")
def test_search_for_offset_from_position2(log):
    records, (only,) = spanning(log, (3, 5))
    assert records.search_for_offset(5, 0) == only


@pytest.mark.conformance("FileRecordsTest.testSearchForOffsetFromPosition3")
def test_search_for_offset_from_position3(log):
    records, (_, current) = spanning(log, (5, 12), (15, 20))
    assert records.search_for_offset(20, 0) == current


@pytest.mark.conformance("FileRecordsTest.testSearchForOffsetFromPosition4")
def test_search_for_offset_from_position4(log):
    records, (previous, _) = spanning(log, (5, 12), (15, 20))
    assert records.search_for_offset(10, 0) == previous


@pytest.mark.conformance("FileRecordsTest.testSearchForOffsetFromPosition5")
def test_search_for_offset_from_position5(log):
    records, _ = spanning(log, (5, 7), (8, 9))
    assert records.search_for_offset(10, 0) is None


@pytest.mark.conformance("FileRecordsTest.testSearchForOffsetFromPosition6")
@pytest.mark.parametrize("base_offset", [8, 10])
def test_search_for_offset_from_position6(log, base_offset):
    records, (_, second) = spanning(log, (5, 7), (base_offset, 12))
    assert records.search_for_offset(10, 0) == second


@pytest.mark.conformance("FileRecordsTest.testSearchForOffsetFromPosition7")
def test_search_for_offset_from_position7(log):
    records, (_, second) = spanning(log, (5, 10), (15, 20))
    assert records.search_for_offset(13, 0) == second
