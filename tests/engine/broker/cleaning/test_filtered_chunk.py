"""A chunk filtered by columns comes out as `record_filter` makes it from records, byte for byte."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from engine import kernel
from engine.broker.cleaning import filtered_chunk
from engine.broker.cleaning.batch_filter import BatchFilter, LastRecord
from engine.broker.cleaning.chunks import PlainRun, chunks_of
from engine.broker.cleaning.cleaned_transactions import CleanedTransactionMetadata
from engine.broker.cleaning.cleaner_stats import CleanerStats
from engine.broker.cleaning.filtered_chunk import filter_chunk
from engine.broker.cleaning.record_filter import FilterResult, filter_to
from engine.coding.compression import CompressionType
from engine.errors import CorruptRecordError, InvalidRecordError
from engine.index.offset_map import HashedOffsetMap
from engine.record.attributes import TimestampType
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.file_records import FileRecords
from engine.record.memory_records import MemoryRecords
from engine.record.record import Header
from tests import builders
from tests.builders import Rec
from tests.conformance.log_cleaning import FakeOffsetMap
from tests.counted_calls import calls_of

NOW = 1_700_000_000_000
KEYS = [None, b"", b"a", b"b", b"c"]


class File:
    """Bytes that are read by position."""

    path = "00000000000000000000.log"

    def __init__(self, data: bytes) -> None:
        self.data = data

    def size(self) -> int:
        return len(self.data)

    def read_at(self, position: int, size: int) -> bytes:
        return self.data[position : position + size]


def file_of(data: bytes) -> FileRecords:
    return FileRecords(File(data))


@pytest.fixture(params=["compiled", "python"])
def each_kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    before = kernel.name
    kernel.use(request.param)
    yield
    kernel.use(before)


records = st.builds(
    SimpleRecord,
    st.sampled_from(KEYS),
    st.one_of(st.none(), st.binary(max_size=20)),
    st.integers(NOW, NOW + 1000),
    st.lists(st.just(Header(b"h", b"v")), max_size=1),
)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches of every kind that a cleaner meets, with gaps between their offsets."""
    made, offset = [], 0
    for _ in range(draw(st.integers(1, 6))):
        magic = draw(st.sampled_from([0, 1, 2, 2, 2, 2]))
        codec = draw(st.sampled_from([CompressionType.NONE, CompressionType.LZ4]))
        inside = draw(st.lists(records, min_size=1, max_size=6))
        if magic < 2:
            inside = [record._replace(headers=()) for record in inside]
        kind = draw(st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]))
        producer = draw(st.sampled_from([-1, 5])) if magic == 2 else -1
        made.append(
            records_of(
                *inside,
                base_offset=offset,
                magic=magic,
                compression=codec,
                timestamp_type=kind if magic else TimestampType.CREATE_TIME,
                log_append_time=NOW + 5000,
                producer_id=producer,
                producer_epoch=0 if producer > 0 else -1,
                base_sequence=offset if producer > 0 else -1,
                is_transactional=producer > 0 and draw(st.booleans()),
            )
        )
        offset += len(inside) + draw(st.integers(0, 3))
    return b"".join(bytes(part.buffer) for part in made)


def filter_of(data: bytes, *, upper_bound: int, latest: int, now: int = NOW) -> BatchFilter:
    """A new one that knows the keys of all offsets up to `latest`."""
    offset_map = FakeOffsetMap(1000)
    for record in MemoryRecords(data).records():
        if record.key is not None and record.offset <= latest:
            offset_map.put(record.key, record.offset)
    offset_map.latest_offset = latest
    return BatchFilter(
        current_time=now,
        delete_retention_ms=1000,
        offset_map=offset_map,
        transactions=CleanedTransactionMetadata(),
        last_records={5: LastRecord(latest, 0)},
        high_watermark=upper_bound,
        retains_legacy_deletes=True,
        stats=CleanerStats(),
    )


def facts(result: FilterResult) -> tuple[object, ...]:
    return (
        bytes(result.output),
        result.messages_read,
        result.bytes_read,
        result.messages_retained,
        result.bytes_retained,
        result.max_offset,
        result.max_timestamp,
        result.offset_of_max_timestamp,
    )


def by_columns(data: bytes, by: BatchFilter, size: int) -> FilterResult:
    whole = FilterResult()
    for chunk in chunks_of(file_of(data), 0, size):
        part = filter_chunk(chunk, by)
        whole.output += part.output
        whole.messages_read += part.messages_read
        whole.bytes_read += part.bytes_read
        if part.output:
            whole.add(
                part.max_timestamp,
                part.offset_of_max_timestamp,
                part.max_offset,
                part.messages_retained,
                part.bytes_retained,
            )
    return whole


@pytest.mark.usefixtures("each_kernel")
@given(logs(), st.integers(0, 30), st.sampled_from([17, 100, 10_000]))
def test_columns_and_records_give_the_same_batches(data: bytes, latest: int, size: int) -> None:
    # The end is that of a batch of magic 2, since no other is kept empty.
    ends = [batch.next_offset for batch in MemoryRecords(data).batches() if batch.magic == 2]
    bound = ends[-1] if ends else 1000
    first, second = (filter_of(data, upper_bound=bound, latest=latest) for _ in range(2))
    once = by_columns(data, first, size)
    assert facts(once) == facts(filter_to(MemoryRecords(data).batches(), second))
    assert first.stats == second.stats
    # Again after the horizons that this has set.
    left = bytes(once.output)
    later = [
        filter_of(left, upper_bound=bound, latest=latest, now=NOW + passed)
        for passed in (999, 999, 1000, 1000)
    ]
    for by, also in (later[:2], later[2:]):
        expected = filter_to(MemoryRecords(left).batches(), also)
        assert facts(by_columns(left, by, size)) == facts(expected)


@pytest.mark.parametrize(("passed", "is_kept"), [(-1, True), (0, False), (1, False)])
def test_tombstones_and_markers_go_at_their_delete_horizon(passed: int, is_kept: bool) -> None:
    tombstone = builders.batch([Rec(None, b"a", NOW)], delete_horizon=NOW)
    commit = Rec(b"\0\0\0\0\0\0", b"\0\0\0\1", NOW)
    marker = builders.batch([commit], control=True, transactional=True, delete_horizon=NOW)

    def kept(data: bytes, *, in_columns: bool) -> bool:
        by = filter_of(data, upper_bound=1000, latest=5, now=NOW + passed)
        if in_columns:
            return by_columns(data, by, 1000).messages_retained == 1
        return filter_to(MemoryRecords(data).batches(), by).messages_retained == 1

    for data in (tombstone, marker):
        assert [kept(data, in_columns=each) for each in (False, True)] == [is_kept] * 2


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize("size", [65_536, 70_000, 200_000])
def test_a_batch_of_several_lz4_blocks_is_compressed_again_as_by_records(size: int) -> None:
    noise = random.Random(size).randbytes(size)
    fields = [(b"a", noise), (b"a", b"v" * size), (b"b", noise)]
    inside = (SimpleRecord(key, value, NOW) for key, value in fields)
    data = bytes(records_of(*inside, compression=CompressionType.LZ4).buffer)
    first, second = (filter_of(data, upper_bound=9, latest=2) for _ in range(2))
    made = by_columns(data, first, 1000)
    assert made.messages_retained == 2
    assert facts(made) == facts(filter_to(MemoryRecords(data).batches(), second))


def test_a_hashed_map_keeps_what_a_map_of_keys_keeps() -> None:
    data = b"".join(
        bytes(records_of(SimpleRecord(b"%d" % (n % 7), b"v"), base_offset=n).buffer)
        for n in range(40)
    )
    exact = filter_of(data, upper_bound=40, latest=30)
    hashed = filter_of(data, upper_bound=40, latest=30)
    hashed.offset_map = HashedOffsetMap(24 * 10)
    for record in MemoryRecords(data).records():
        if record.offset <= 30:
            hashed.offset_map.put(record.key or b"", record.offset)
    left = by_columns(data, exact, 1000)
    assert facts(by_columns(data, hashed, 1000)) == facts(left)
    assert left.messages_retained == 7 + 9


def test_a_batch_of_a_wrong_checksum_stops_the_cleaning() -> None:
    data = bytearray(builders.batch([Rec(b"v", b"k")]) + builders.batch([Rec(b"w", b"k")], 1))
    data[-1] ^= 1
    with pytest.raises(CorruptRecordError, match=r"checksum.* in 0+\.log at byte \d+"):
        by_columns(bytes(data), filter_of(b"", upper_bound=9, latest=9), 1000)


def test_a_batch_that_does_not_decode_stops_the_cleaning() -> None:
    data = builders.batch([Rec(b"v", b"k")], record_count=2)
    with pytest.raises(InvalidRecordError):
        by_columns(data, filter_of(b"", upper_bound=9, latest=9), 1000)


@pytest.mark.parametrize("cut", [1, 60, 61, 75])
def test_a_file_that_ends_within_a_batch_stops_the_cleaning(cut: int) -> None:
    one = builders.batch([Rec(b"value of some bytes", b"k")])
    data = one + builders.batch([Rec(b"value of some bytes", b"k")], 1)[:cut]
    with pytest.raises(CorruptRecordError, match="longer than the rest of its file"):
        by_columns(data, filter_of(b"", upper_bound=9, latest=9), 1000)


@pytest.mark.parametrize("size", [1, 17, 61, 80, 300, 10_000])
def test_chunks_of_any_size_hold_all_batches(size: int) -> None:
    data = b"".join(builders.batch([Rec(bytes(n * 10), b"k")], n) for n in range(20))
    found, sizes = [], []
    for chunk in chunks_of(file_of(data), 0, size):
        sizes.append(chunk.size)
        for part in chunk.parts():
            is_run = isinstance(part, PlainRun)
            found += part.rows["base_offset"].tolist() if is_run else [part[1].base_offset]
    assert sum(sizes) == len(data)
    assert found == list(range(20))
    assert max(sizes) <= max(size, 300)


def plain_log(*, batches: int, codec: CompressionType = CompressionType.NONE) -> bytes:
    """Batches of ten records, each with its own key."""
    made = bytearray()
    for base in range(0, 10 * batches, 10):
        inside = (SimpleRecord(b"key-%d" % at, b"value", NOW) for at in range(base, base + 10))
        made += records_of(*inside, base_offset=base, compression=codec).buffer
    return bytes(made)


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.LZ4])
def test_no_batch_is_written_anew_where_nothing_goes(
    codec: CompressionType, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = plain_log(batches=50, codec=codec)
    by = filter_of(data, upper_bound=500, latest=499)
    monkeypatch.setattr(filtered_chunk, "rewrite", None)
    monkeypatch.setattr(filtered_chunk, "filter_to", None)
    assert by_columns(data, by, 10**6).output == data


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.LZ4])
def test_a_plain_batch_costs_no_call_of_its_own(codec: CompressionType) -> None:
    counts = []
    for batches in (50, 500):
        data = plain_log(batches=batches, codec=codec)
        by = filter_of(data, upper_bound=10 * batches, latest=10 * batches - 1)
        for key in range(0, 10 * batches, 3):
            by.offset_map.put(b"key-%d" % key, 10 * batches)  # so that each batch loses records
        by.offset_map = hashed(by.offset_map, data)
        chunk = next(chunks_of(file_of(data), 0, 10**6))
        counts.append(calls_of(lambda chunk=chunk, by=by: filter_chunk(chunk, by), with_c=True))
    assert counts[0] == counts[1]
    assert 40 <= counts[0] <= 160


def hashed(known: HashedOffsetMap, data: bytes) -> HashedOffsetMap:
    """A map of the same offsets that asks the kernel."""
    made = HashedOffsetMap(1 << 20)
    for record in MemoryRecords(data).records():
        assert record.key is not None
        made.put(record.key, known.get(record.key))
    made.latest_offset = known.latest_offset
    return made
