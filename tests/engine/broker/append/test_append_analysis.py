"""The first look at batches: the facts are those that the batches themselves tell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from engine import kernel
from engine.broker.append.append_analysis import (
    AppendTerms,
    analyze,
    analyze_one_by_one,
    batch_of,
    facts_of,
)
from engine.coding.compression import CompressionType
from engine.errors import (
    CorruptRecordError,
    DamagedFileError,
    InvalidRecordError,
    KafkaStorageError,
    OffsetsOutOfOrderError,
)
from engine.kernel import python
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.units import TopicPartition
from engine.writing.state.append_origin import AppendOrigin
from tests.conformance.unified_log_steps import joined, rec

FOLLOWER = AppendTerms(AppendOrigin.REPLICATION, 10, assigns_offsets=False, ignores_size=True)
PARTITION = TopicPartition("t", 0)
KINDS = [
    (magic, codec)
    for magic, codec in itertools.product((0, 1, 2), CompressionType)
    if magic == 2 or codec is not CompressionType.ZSTD
]

compiled = pytest.importorskip("engine.kernel.compiled")


@pytest.fixture(params=["compiled", "python"])
def each_kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    before = kernel.name
    kernel.use(request.param)
    yield
    kernel.use(before)


def some_batch(kind: tuple[int, CompressionType], base: int, count: int) -> MemoryRecords:
    magic, codec = kind
    records = [SimpleRecord(b"k", b"v" * n, -1 if magic == 0 else 1000 + n) for n in range(count)]
    producer = {"producer_id": base, "producer_epoch": 1, "base_sequence": 2} if magic == 2 else {}
    return records_of(
        *records,
        base_offset=base,
        magic=magic,
        compression=codec,
        partition_leader_epoch=base % 7 if magic == 2 else -1,
        **producer,
    )


BATCHES = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=6
)


@given(BATCHES)
def test_facts_are_those_of_the_batches(
    parts: list[tuple[tuple[int, CompressionType], int, int]],
) -> None:
    end, batches = 0, []
    for kind, gap, count in parts:
        batches.append(some_batch(kind, end + gap, count))
        end += gap + count
    records = joined(*batches)
    found = list(facts_of(records))
    expected = list(records.batches())
    assert len(found) == len(expected)
    for facts, batch in zip(found, expected, strict=True):
        assert facts.position == batch.file_position
        for name in [
            "size",
            "magic",
            "crc",
            "codec_id",
            "last_offset",
            "leader_epoch",
            "max_timestamp",
            "producer_id",
        ]:
            assert getattr(facts, name) == getattr(batch, name)
        assert facts.base_offset == (batch.base_offset if batch.magic == 2 else -1)
        assert bytes(batch_of(records, facts).raw) == bytes(batch.raw)

    info, run = analyze(records, FOLLOWER, PARTITION, max_message_size=0, log_start_offset=4)
    assert run.heads == [(each.last_offset, each.max_timestamp, each.size) for each in found]
    assert run.has_producer == any(each.producer_id > -1 for each in found)
    assert info.valid_bytes == records.size
    assert info.last_offset == end - 1
    assert info.log_start_offset == 4
    assert info.max_timestamp == max(batch.max_timestamp for batch in expected)
    assert info.first_or_last_offset_of_first_batch == (
        expected[0].base_offset if expected[0].magic == 2 else expected[0].last_offset
    )


@given(BATCHES, st.data())
def test_one_changed_byte_is_found_or_is_no_part_of_what_the_checksum_covers(
    parts: list[tuple[tuple[int, CompressionType], int, int]], data: st.DataObject
) -> None:
    kind = parts[0][0]
    original = bytes(some_batch(kind, 3, 1).buffer)
    place = data.draw(st.integers(0, len(original) - 1))
    damaged = bytearray(original)
    damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        info, run = analyze(
            MemoryRecords(bytes(damaged)),
            FOLLOWER,
            PARTITION,
            max_message_size=0,
            log_start_offset=0,
        )
    except DamagedFileError:
        return
    except OffsetsOutOfOrderError:
        assert place < 8, "a negative offset"
        return
    is_offset_or_epoch = place < 8 or (kind[0] == 2 and 12 <= place < 16)
    assert is_offset_or_epoch or not run.heads
    assert run.heads or info.valid_bytes == 0


def test_an_unknown_codec_is_refused() -> None:
    damaged = bytearray(records_of(rec("a")).buffer)
    damaged[22] |= 7
    records = MemoryRecords(bytes(damaged))
    with pytest.raises((CorruptRecordError, InvalidRecordError)):
        analyze(records, FOLLOWER, PARTITION, max_message_size=0, log_start_offset=0)


def test_batches_after_one_of_a_later_epoch_are_left_out_whatever_their_epoch() -> None:
    parts = [
        records_of(rec("x"), base_offset=offset, partition_leader_epoch=epoch)
        for offset, epoch in enumerate((9, 11, 9, 10))
    ]
    info, run = analyze(joined(*parts), FOLLOWER, PARTITION, max_message_size=0, log_start_offset=0)
    assert [last for last, _, _ in run.heads] == [0]
    assert (info.last_offset, info.valid_bytes) == (0, parts[0].size)


TERMS = [
    FOLLOWER,
    FOLLOWER._replace(leader_epoch=3),
    AppendTerms(AppendOrigin.RAFT_LEADER, 5, assigns_offsets=False),
    AppendTerms(AppendOrigin.CLIENT, 5, assigns_offsets=True),
    AppendTerms(AppendOrigin.COORDINATOR, 5, assigns_offsets=True),
]


@st.composite
def appends(draw: st.DrawFn) -> bytes:
    """Batches of magic 2 most often, perhaps with some bytes changed, left out or repeated."""
    parts, end = [], draw(st.integers(0, 1))
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from([*KINDS, *[(2, codec) for codec in CompressionType] * 3]))
        count = draw(st.integers(1, 3))
        parts.append(bytes(some_batch(kind, end, count).buffer))
        end += draw(st.sampled_from([0, count, count, count, count + 2]))
    data = bytearray(b"".join(parts))
    for _ in range(draw(st.sampled_from([0, 0, 1]))):
        place = draw(st.integers(0, min(len(data) - 1, 130)))
        data[place] = draw(st.sampled_from([0, 1, 2, 7, 127, 128, 255]))
    cut = draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))
    return bytes(data[:cut])


@pytest.mark.usefixtures("each_kernel")
@given(appends(), st.sampled_from(TERMS), st.sampled_from([100, 150, 10_000]))
def test_batches_at_once_and_one_by_one_give_the_same_analysis_or_error(
    data: bytes, terms: AppendTerms, most: int
) -> None:
    results = []
    for look in (analyze, analyze_one_by_one):
        try:
            info, run = look(
                MemoryRecords(data), terms, PARTITION, max_message_size=most, log_start_offset=4
            )
        except KafkaStorageError as error:
            results.append((type(error), str(error)))
            continue
        starts = [
            start
            for place, start in enumerate(run.epochs)
            if start[0] != run.epochs[place - 1][0] or not place
        ]
        results.append((info, run.heads, starts, run.has_producer))
    assert results[0] == results[1]


@given(appends())
def test_both_kernels_know_the_same_facts(data: bytes) -> None:
    assert compiled.batch_facts(data) == python.batch_facts(data)


def test_facts_are_about_whole_usual_batches() -> None:
    one, two = (
        bytes(records_of(rec("x"), base_offset=base, partition_leader_epoch=3).buffer)
        for base in (5, 6)
    )
    size = len(one)
    stamp = next(MemoryRecords(one).batches()).max_timestamp
    for module in (compiled, python):
        found = module.batch_facts(one + two)
        heads = [(5, stamp, size), (6, found.heads[1][1], size)]
        assert found == (2 * size, size, 5, 6, found.max_timestamp, 0, 0, False, heads, [(3, 5)])
        assert module.batch_facts(one + two[:-1])[:4] == (size, size, 5, 5)
        assert module.batch_facts(one + two[:11]).size == size
        assert module.batch_facts(one + two[:12]) is None, "a frame without its magic is checked"
        for unusual in (b"", one[:-1], two + one, one + one, one + bytes(61)):
            assert module.batch_facts(unusual) is None
