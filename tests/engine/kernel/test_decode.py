"""Records to columns: what each magic and codec holds, what is refused and what is kept; by both kernels."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import cramjam
import numpy as np
import pytest
import zstandard
from hypothesis import given, strategies as st

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding.compression import CompressionType, compress
from engine.coding.varint import encode_varint
from engine.columns.batch_table import Problem
from engine.columns.columns import Columns
from engine.kernel import compiled
from engine.record.attributes import TimestampType
from tests import builders, fixtures_data
from tests.builders import Producer, Rec
from tests.engine.kernel.kernels import decoded, each_kernel, facts, table_of

NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionType
APPEND_TIME = TimestampType.LOG_APPEND_TIME
NOW = 1_700_000_000_000
optional_bytes = st.one_of(st.none(), st.binary(max_size=300))
int64 = st.integers(-(2**63), 2**63 - 1)
records = st.lists(
    st.builds(
        Rec,
        value=optional_bytes,
        key=optional_bytes,
        timestamp=int64,
        headers=st.lists(st.tuples(st.binary(max_size=9), optional_bytes), max_size=3),
        offset=st.none(),
    ),
    max_size=8,
)
each_codec = pytest.mark.parametrize("codec", CompressionType, ids=lambda codec: codec.name)
each_library = pytest.mark.parametrize("with_libraries", [True, False], ids=["fast", "fallback"])


@pytest.fixture
def with_libraries(request: pytest.FixtureRequest) -> Iterator[None]:
    compiled.use_libraries(request.param)
    yield
    compiled.use_libraries(True)


def expected(given: list[Rec], base_offset: int) -> list[tuple[object, ...]]:
    return [
        (base_offset + i, record.timestamp, record.key, record.value, tuple(record.headers))
        for i, record in enumerate(given)
    ]


def problems(columns: Columns) -> list[tuple[int, Problem, int]]:
    return [(problem.row, problem.code, problem.record_index) for problem in columns.problems]


# What is right


@each_kernel
@each_codec
@given(given=records, base_offset=st.integers(0, 2**62))
def test_records_come_out_as_they_went_in(
    kernel: ModuleType, codec: CompressionType, given: list[Rec], base_offset: int
) -> None:
    batch = builders.batch(given, base_offset, codec if given else NONE)
    columns = decoded(kernel, batch)
    assert columns.problems == []
    assert facts(columns) == expected(given, base_offset)
    assert columns.next_row == 1


@each_kernel
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4], ids=lambda codec: codec.name)
@given(given=records.filter(bool), base_offset=st.integers(0, 2**62))
def test_messages_come_out_as_they_went_in(
    kernel: ModuleType, magic: int, codec: CompressionType, given: list[Rec], base_offset: int
) -> None:
    plain = [record._replace(headers=()) for record in given]
    columns = decoded(kernel, builders.message_set(plain, base_offset, codec, magic=magic))
    shown = plain if magic else [record._replace(timestamp=-1) for record in plain]
    assert columns.problems == []
    assert facts(columns) == expected(shown, base_offset)


@each_kernel
def test_batches_of_all_kinds_share_one_arena_and_name_their_rows(kernel: ModuleType) -> None:
    batches = [
        builders.any_batch(
            [Rec(b"%d of %s" % (i, codec.name.encode())) for i in range(3)],
            3 * n,
            codec,
            magic=magic,
        )
        for n, (codec, magic) in enumerate(
            [(NONE, 2), (ZSTD, 2), (NONE, 1), (GZIP, 1), (LZ4, 0), (SNAPPY, 2), (NONE, 2)]
        )
    ]
    columns = decoded(kernel, b"".join(batches))
    assert columns.offset.tolist() == list(range(21))
    words = [columns.value(i) for i in range(21)]
    assert words[0] == b"0 of NONE"
    assert words[17] == b"2 of SNAPPY"
    assert (
        columns.row.tolist()
        == [0] * 3 + [1] * 3 + [2, 3, 4] + [5] * 3 + [6] * 3 + [7] * 3 + [8] * 3
    )


@each_kernel
def test_batches_that_are_not_compressed_are_not_copied(kernel: ModuleType) -> None:
    data = builders.batch([Rec(b"value", b"key")])
    columns = decoded(kernel, data)
    assert columns.arena.obj is data
    start = int(columns.value_start[0])
    assert data[start : start + int(columns.value_size[0])] == b"value"


@each_kernel
def test_some_rows_of_a_table_whose_file_does_not_start_with_the_buffer(kernel: ModuleType) -> None:
    data = b"".join(builders.batch([Rec(b"%d" % n)], n) for n in range(5))
    table = table_of(data, start_position=10**12)
    columns = kernel.decode(data, table, 1, 4, start_position=10**12)
    assert facts(columns) == [(n, NOW, None, b"%d" % n, ()) for n in (1, 2, 3)]
    assert columns.row.tolist() == [1, 2, 3]
    assert len(kernel.decode(data, table, 2, 2, start_position=10**12)) == 0


@each_kernel
def test_null_and_empty_stay_different(kernel: ModuleType) -> None:
    columns = decoded(
        kernel, builders.batch([Rec(None, b""), Rec(b"", None, headers=[(b"", None), (b"", b"")])])
    )
    assert (columns.key_size.tolist(), columns.value_size.tolist()) == ([0, -1], [-1, 0])
    assert columns.headers_count.tolist() == [0, 2]
    assert [header.value for header in columns.headers(1)] == [None, b""]


@each_kernel
def test_under_log_append_time_the_batchs_timestamp_is_every_records(kernel: ModuleType) -> None:
    given = [Rec(b"a", timestamp=5), Rec(b"b", timestamp=6)]
    when = {"timestamp_type": APPEND_TIME, "log_append_time": 77}
    assert decoded(kernel, builders.batch(given, **when)).timestamp.tolist() == [77, 77]
    wrapped = builders.message_set(given, 0, GZIP, **when)
    inner_create_time = builders.wrapper(
        [builders.message(n, None, b"", timestamp=5) for n in range(2)],
        *(1, GZIP),
        timestamp=77,
        timestamp_type=APPEND_TIME,
    )
    for data in (wrapped, inner_create_time):
        assert decoded(kernel, data).timestamp.tolist() == [77, 77]


@each_kernel
def test_a_delete_horizon_is_what_timestamps_count_from(kernel: ModuleType) -> None:
    batch = builders.batch([Rec(b"a", timestamp=NOW)], delete_horizon=NOW + 5000)
    assert decoded(kernel, batch).timestamp.tolist() == [NOW]


@each_kernel
def test_timestamps_wrap_as_in_java(kernel: ModuleType) -> None:
    record = builders.record_body(0, 5, None, b"")
    batch = builders.batch([Rec()], base_timestamp=2**63 - 3, section=builders.sized(record))
    assert decoded(kernel, batch).timestamp.tolist() == [-(2**63) + 2]


@each_kernel
@pytest.mark.parametrize(
    ("base", "deltas", "found"),
    [
        (-1, [0, 1], [-1, -1]),
        (0, [0, 1], [0, 1]),
        (2**31 - 2, [0, 1, 2, 3], [2**31 - 2, 2**31 - 1, 0, 1]),
        (5, [-1, -6], [-(2**31) + 4, 2**31 - 1]),  # Java's overflow
        (2**31 - 1, [2**31 - 1], [2**31 - 2]),
    ],
)
def test_sequences_count_with_the_offsets_and_wrap(
    kernel: ModuleType, base: int, deltas: list[int], found: list[int]
) -> None:
    section = b"".join(
        builders.sized(builders.record_body(delta, 0, None, b"")) for delta in deltas
    )
    batch = builders.batch(
        [Rec()] * len(deltas),
        producer=Producer(id=1, sequence=base),
        section=section,
        last_offset_delta=2**31 - 1,
    )
    assert decoded(kernel, batch).sequence.tolist() == found


@each_kernel
def test_offsets_may_have_gaps_repeat_or_lie_below_the_base(kernel: ModuleType) -> None:
    """As compaction leaves them, and as Kafka takes them."""
    deltas = [7, 7, -2, 2**31 - 1]
    section = b"".join(
        builders.sized(builders.record_body(delta, 0, None, b"")) for delta in deltas
    )
    batch = builders.batch([Rec()] * 4, 100, section=section, last_offset_delta=2**31 - 1)
    assert decoded(kernel, batch).offset.tolist() == [100 + delta for delta in deltas]


@each_kernel
def test_an_empty_batch_that_compaction_kept_has_no_records_and_no_problem(
    kernel: ModuleType,
) -> None:
    columns = decoded(kernel, builders.empty_batch(10, 20) + builders.batch([Rec(b"a")], 21))
    assert (columns.offset.tolist(), columns.problems) == ([21], [])


@each_kernel
def test_columns_cannot_be_written(kernel: ModuleType) -> None:
    columns = decoded(kernel, builders.batch([Rec(b"a")]))
    with pytest.raises(ValueError, match="read-only"):
        columns.offset[0] = 1


@each_kernel
@pytest.mark.parametrize("kind", fixtures_data.WITH_TRUTH)
def test_the_records_of_real_brokers_are_those_that_consumers_saw(
    kernel: ModuleType, kind: str
) -> None:
    for partition in fixtures_data.truth_partitions(kind):
        seen = {}
        for path in fixtures_data.logs(kind, partition):
            data = path.read_bytes()
            table = table_of(data)
            columns = kernel.decode(data, table, 0, len(table), start_position=0)
            assert (columns.problems, columns.next_row) == ([], len(table))
            seen |= {found[0]: found[1:] for found in facts(columns)}
        for record in fixtures_data.truth_records(kind, partition):
            headers = tuple((name.encode(), value) for name, value in record.headers)
            when = record.timestamp if record.timestamp_type else -1
            assert seen[record.offset] == (when, record.key, record.value, headers)


# Codecs' framings


@each_kernel
@pytest.mark.parametrize("with_libraries", [True, False], ids=["fast", "fallback"], indirect=True)
@pytest.mark.usefixtures("with_libraries")
class TestFramings:
    """What writers other than Kafka's own put into batches."""

    def check(self, kernel: ModuleType, codec: CompressionType, section: bytes) -> None:
        batch = builders.batch(GIVEN, 0, codec, section=section)
        columns = decoded(kernel, batch)
        assert columns.problems == []
        assert facts(columns) == expected(GIVEN, 0)

    def test_snappy_as_one_bare_block(self, kernel: ModuleType) -> None:
        self.check(kernel, SNAPPY, bytes(cramjam.snappy.compress_raw(PLAIN)))

    def test_snappy_in_several_chunks(self, kernel: ModuleType) -> None:
        head = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
        blocks = [
            bytes(cramjam.snappy.compress_raw(PLAIN[i : i + 1000]))
            for i in range(0, len(PLAIN), 1000)
        ]
        chunks = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
        self.check(kernel, SNAPPY, head + chunks)

    def test_gzip_in_several_members_with_bytes_behind_the_last(self, kernel: ModuleType) -> None:
        members = compress(GZIP, PLAIN[:500]) + compress(GZIP, b"") + compress(GZIP, PLAIN[500:])
        for behind in (b"", b"\0", b"garbage, more than a member's header has", b"\x1f\x8b"):
            self.check(kernel, GZIP, members + behind)

    def test_zstd_in_several_frames(self, kernel: ModuleType) -> None:
        self.check(kernel, ZSTD, compress(ZSTD, PLAIN[:500]) + compress(ZSTD, PLAIN[500:]))

    def test_zstd_that_states_its_content_size(self, kernel: ModuleType) -> None:
        for options in ({}, {"write_checksum": True}, {"level": 19}, {"write_content_size": False}):
            self.check(kernel, ZSTD, zstandard.ZstdCompressor(**options).compress(PLAIN))

    def test_lz4_with_every_flag(self, kernel: ModuleType) -> None:
        for linked in (False, True):
            for flags in range(0, 0x20, 4):
                self.check(kernel, LZ4, lz4_frame(PLAIN, flags, linked=linked))

    def test_lz4_stored_blocks_and_what_follows_the_frame(self, kernel: ModuleType) -> None:
        frame = lz4_frame(PLAIN, 0, stored=True)
        self.check(kernel, LZ4, frame)
        self.check(kernel, LZ4, frame + b"anything")


GIVEN = [Rec(b"value %d " % i * (i % 5), b"k%d" % i, timestamp=NOW + i) for i in range(200)]
PLAIN = builders.records_section(GIVEN, 0, NOW)


def lz4_frame(data: bytes, flags: int, *, linked: bool = False, stored: bool = False) -> bytes:
    """A frame with the flags 4 (content hash), 8 (content size) and 16 (block hashes)."""
    hashed = compiled.checksum
    descriptor = bytes([0x40 | (0 if linked else 0x20) | flags, 0x40])
    if flags & 8:
        descriptor += struct.pack("<Q", len(data))
    out = b"\x04\x22\x4d\x18" + descriptor + bytes([hashed("xxh32", descriptor) >> 8 & 0xFF])
    for start in range(0, len(data), 2000):
        plain = data[start : start + 2000]
        # A block that copies from nothing before it is a sound linked block too.
        block = plain if stored else bytes(cramjam.lz4.compress_block(plain, store_size=False))
        out += struct.pack("<I", len(block) | (0x80000000 if stored else 0)) + block
        if flags & 16:
            out += struct.pack("<I", hashed("xxh32", block))
    out += bytes(4)
    return out + (struct.pack("<I", hashed("xxh32", data)) if flags & 4 else b"")


@each_kernel
def test_lz4_blocks_may_copy_from_the_blocks_before(kernel: ModuleType) -> None:
    copy = builders.sized(builders.record_body(0, 0, None, b"x" * 40))
    first = bytes([len(copy) - 15 | 0]) if len(copy) < 15 else bytes([0xF0, len(copy) - 15])
    blocks = [first + copy]
    # No literal, then all of the first block but its last byte again, then that byte as a literal.
    blocks.append(
        bytes([0x0F])
        + struct.pack("<H", len(copy))
        + bytes([len(copy) - 1 - 19])
        + b"\x10"
        + copy[-1:]
    )
    out = b"\x04\x22\x4d\x18\x40\x40" + bytes([compiled.checksum("xxh32", b"\x40\x40") >> 8 & 0xFF])
    out += b"".join(struct.pack("<I", len(block)) + block for block in blocks) + bytes(4)
    columns = decoded(kernel, builders.batch([Rec()] * 2, 0, LZ4, section=out))
    assert columns.problems == []
    assert [columns.value(i) for i in range(2)] == [b"x" * 40] * 2


@each_kernel
def test_only_magic_0_may_have_a_wrong_lz4_header_checksum(kernel: ModuleType) -> None:
    given = [Rec(b"a")]
    for magic in (0, 1):
        good = builders.message_set(given, 0, LZ4, magic=magic)
        assert decoded(kernel, good).problems == []
    for magic, shown in ((0, 1), (1, 0)):
        inner = builders.message(0, None, b"a", magic=magic)
        frame = bytearray(compress(LZ4, inner))
        frame[6] ^= 1
        bad = builders.message(0, None, bytes(frame), magic=magic, attributes=LZ4)
        columns = decoded(kernel, bad)
        assert len(columns) == shown
        assert problems(columns) == ([] if shown else [(0, Problem.DECOMPRESSION, 0)])


# What is damaged: the records before it are kept


def record(**fields: int | bytes) -> bytes:
    """A record with single fields replaced by raw bytes."""
    parts = {
        "attributes": b"\0",
        "timestamp": b"\0",
        "offset": b"\0",
        "key": b"\1",
        "value": encode_varint(2) + b"vv",
        "headers": b"\0",
    }
    length = fields.pop("length", None)
    assert not fields.keys() - parts.keys()
    body = b"".join((parts | fields).values())  # type: ignore[arg-type]
    return (encode_varint(len(body)) if length is None else length) + body  # type: ignore[operator]


LONG = b"\x80\x80\x80\x80\x80\x01"
BROKEN_RECORDS = {
    "length of six bytes": record(length=LONG),
    "length below zero": record(length=encode_varint(-1)),
    "length zero": record(length=encode_varint(0)),
    "length too small": record(length=encode_varint(5)),
    "length of 2^30": record(length=encode_varint(2**30)),
    "length beyond the fields": record(length=encode_varint(10)) + b"\0\0",
    "length short of the fields": record(length=encode_varint(7)),
    "timestamp of eleven bytes": record(timestamp=b"\x80" * 10 + b"\0"),
    "offset of six bytes": record(offset=LONG),
    "key of 2^30 bytes": record(key=encode_varint(2**30)),
    "value of 2^30 bytes": record(value=encode_varint(2**30)),
    "value beyond the record": record(value=encode_varint(3) + b"v"),
    "headers below zero": record(headers=encode_varint(-1)),
    "headers of 2^30": record(headers=encode_varint(2**30)),
    "header without a key": record(headers=b"\2" + encode_varint(-1) + b"\1"),
    "header key beyond the record": record(headers=b"\2" + encode_varint(9) + b"k"),
    "header value beyond the record": record(headers=b"\2\2k" + encode_varint(9)),
    "header cut off": record(headers=b"\2\2k"),
}


@each_kernel
@pytest.mark.parametrize("codec", [NONE, ZSTD], ids=lambda codec: codec.name)
@pytest.mark.parametrize("broken", BROKEN_RECORDS.values(), ids=BROKEN_RECORDS)
def test_records_before_a_broken_one_are_kept(
    kernel: ModuleType, codec: CompressionType, broken: bytes
) -> None:
    section = compress(codec, record() + record(offset=b"\2") + broken + record() * 2)
    batch = builders.batch([Rec()] * 5, 40, codec, section=section)
    columns = decoded(kernel, batch + builders.batch([Rec(b"next")], 50))
    assert columns.offset.tolist() == [40, 41, 50]
    assert problems(columns) == [(0, Problem.INVALID_RECORD, 2)]
    assert columns.problems[0].detail


@each_kernel
@each_codec
def test_a_count_that_is_not_the_number_of_records_is_noted(
    kernel: ModuleType, codec: CompressionType
) -> None:
    for count, shown, code in (
        (0, 0, Problem.LEFTOVER_BYTES),
        (2, 2, Problem.LEFTOVER_BYTES),
        (4, 3, Problem.RECORD_COUNT),
        (2**31 - 1, 3, Problem.RECORD_COUNT),
    ):
        batch = builders.batch([Rec(b"v")] * 3, 5, codec, record_count=count)
        columns = decoded(kernel, batch)
        assert columns.offset.tolist() == [5, 6, 7][:shown]
        assert problems(columns) == [(0, code, shown)]


@each_kernel
@pytest.mark.parametrize("field", ["record_count", "last_offset_delta"])
@pytest.mark.parametrize("value", [-1, -(2**31)])
def test_a_header_that_contradicts_itself_has_no_records(
    kernel: ModuleType, field: str, value: int
) -> None:
    batch = builders.batch([Rec(b"v")], 5, **{field: value})
    columns = decoded(kernel, batch + builders.batch([Rec(b"next")], 6))
    assert columns.offset.tolist() == [6]
    assert problems(columns) == [(0, Problem.INVALID_HEADER, 0)]


@each_kernel
@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_named(kernel: ModuleType, codec: int) -> None:
    for data in (
        builders.batch([Rec(b"v")], attributes=codec),
        builders.message(0, None, b"v", attributes=codec),
    ):
        columns = decoded(kernel, data)
        assert problems(columns) == [(0, Problem.UNKNOWN_CODEC, 0)]
        assert str(codec) in columns.problems[0].detail


@each_kernel
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=lambda codec: codec.name)
def test_records_before_the_end_of_a_cut_payload_are_kept(
    kernel: ModuleType, codec: CompressionType
) -> None:
    given = [Rec(struct.pack(">I", i * i * 2654435761 % 2**32) * 30) for i in range(3000)]
    section = compress(codec, builders.records_section(given, 0, NOW))
    whole = expected(given, 0)
    for size in (1, len(section) // 2, len(section) - 9, len(section) - 1):
        batch = builders.batch(given, 0, codec, section=section[:size])
        columns = decoded(kernel, batch)
        found = facts(columns)
        assert found == whole[: len(found)]
        assert problems(columns) == [(0, Problem.DECOMPRESSION, len(found))]
        if size >= len(section) - 9 and codec is not SNAPPY:
            assert len(found) > 2000


@each_kernel
def test_of_a_damaged_wrapper_only_messages_whose_offset_is_known_are_kept(
    kernel: ModuleType,
) -> None:
    """Offsets inside magic 1 count from the last message, which is lost; inside magic 0 they are absolute."""
    given = [Rec(struct.pack(">I", i * i * 2654435761 % 2**32) * 30) for i in range(3000)]
    for magic, some_kept in ((0, True), (1, False)):
        inner = b"".join(
            builders.message(i, None, record.value, magic=magic) for i, record in enumerate(given)
        )
        section = compress(GZIP, inner, magic=magic)[:-20]
        columns = decoded(
            kernel, builders.message(2999, None, section, magic=magic, attributes=GZIP)
        )
        assert problems(columns) == [(0, Problem.DECOMPRESSION, len(columns))]
        assert (len(columns) > 100) == some_kept
        assert columns.offset.tolist() == list(range(len(columns)))


# Wrappers


def wrapped(messages: list[bytes], offset: int, *, magic: int = 1) -> bytes:
    return builders.wrapper(messages, offset, GZIP, magic=magic)


@each_kernel
def test_offsets_inside_a_wrapper_of_magic_1_count_from_its_last_message(
    kernel: ModuleType,
) -> None:
    inner = [builders.message(n, None, b"%d" % n) for n in (0, 2, 5)]
    assert decoded(kernel, wrapped(inner, 105)).offset.tolist() == [100, 102, 105]
    absolute = [builders.message(n, None, b"") for n in (100, 102, 105)]
    assert decoded(kernel, wrapped(absolute, 105)).offset.tolist() == [100, 102, 105]
    assert decoded(kernel, wrapped(inner, 0)).offset.tolist() == [0, 2, 5]  # old librdkafka
    old = [builders.message(n, None, b"", magic=0) for n in (7, 9)]
    assert decoded(kernel, wrapped(old, 9, magic=0)).offset.tolist() == [7, 9]


@each_kernel
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (builders.message(3, None, None, attributes=GZIP), "null value"),
        (wrapped([], 3), "no messages"),
        (wrapped([builders.message(9, None, b"")], 3), "offset 3"),
        (builders.message(3, None, compress(ZSTD, b""), attributes=ZSTD), "codec 4"),
        (wrapped([wrapped([builders.message(0, None, b"")], 0)], 3), "compressed itself"),
        (wrapped([builders.patched(builders.message(0, None, b""), 16, b"\2")], 3), "magic 2"),
        (
            wrapped([builders.patched(builders.message(0, None, b""), 8, b"\0\0\0\x0d")], 3),
            "13 bytes",
        ),
        (wrapped([builders.patched(builders.message(0, b"k", b""), 26, b"\x7f")], 3), "a key of"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrapper_that_breaks_the_format_is_refused(
    kernel: ModuleType, data: bytes, words: str
) -> None:
    columns = decoded(kernel, data)
    assert len(columns) == 0
    assert problems(columns) == [(0, Problem.INVALID_RECORD, 0)]
    assert words in columns.problems[0].detail


@each_kernel
def test_a_message_cut_off_at_the_end_of_a_set_is_dropped_as_kafka_does(
    kernel: ModuleType,
) -> None:
    inner = [builders.message(0, None, b"a"), builders.message(1, None, b"b")[:-1]]
    columns = decoded(kernel, wrapped(inner, 7))
    assert (columns.offset.tolist(), columns.problems) == ([7], [])


@each_kernel
@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_whose_fields_pass_its_end_is_refused(kernel: ModuleType, magic: int) -> None:
    good = builders.message(3, b"key", b"value", magic=magic)
    key_at = 18 + 8 * magic
    for place in (key_at, key_at + 7):
        for size in (b"\x7f\xff\xff\xff", b"\0\0\0\x20"):
            columns = decoded(kernel, builders.resealed(builders.patched(good, place, size)))
            assert problems(columns) == [(0, Problem.INVALID_RECORD, 0)]


# Budgets


def budgets(**fields: int) -> Budgets:
    return dataclasses.replace(DEFAULT_BUDGETS, **fields)


@each_kernel
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=lambda codec: codec.name)
def test_inflated_bytes_are_bounded_to_the_byte(kernel: ModuleType, codec: CompressionType) -> None:
    given = [Rec(b"x" * 5000) for _ in range(20)]
    size = len(builders.records_section(given, 0, NOW))
    batch = builders.batch(given, 0, codec)
    for limit, shown in ((size + 1, 20), (size, 20), (size - 1, 0), (0, 0)):
        columns = decoded(kernel, batch, budgets=budgets(inflated_bytes=limit))
        assert len(columns) == shown
        assert problems(columns) == ([] if shown else [(0, Problem.LIMIT, 0)])


@each_kernel
@pytest.mark.parametrize("codec", [NONE, ZSTD], ids=lambda codec: codec.name)
def test_records_of_a_batch_are_bounded(kernel: ModuleType, codec: CompressionType) -> None:
    batch = builders.batch([Rec(b"")] * 10, 0, codec)
    for limit in (9, 10, 11):
        columns = decoded(kernel, batch, budgets=budgets(records_per_batch=limit))
        assert len(columns) == min(limit, 10)
        assert problems(columns) == ([] if limit >= 10 else [(0, Problem.LIMIT, 9)])
    wrapper = builders.message_set([Rec(b"")] * 10, 0, GZIP, magic=0)
    assert len(decoded(kernel, wrapper, budgets=budgets(records_per_batch=9))) == 9


@each_kernel
def test_headers_of_a_record_are_bounded(kernel: ModuleType) -> None:
    batch = builders.batch([Rec(b""), Rec(b"", headers=[(b"k", b"v")] * 10), Rec(b"")])
    for limit in (9, 10):
        columns = decoded(kernel, batch, budgets=budgets(headers_per_record=limit))
        assert problems(columns) == ([] if limit == 10 else [(0, Problem.LIMIT, 1)])
        assert len(columns) == (3 if limit == 10 else 1)


@each_kernel
def test_what_would_take_too_much_memory_at_once_is_decoded_in_parts(kernel: ModuleType) -> None:
    data = b"".join(builders.batch([Rec(b"x" * 1000)] * 3, 3 * n, ZSTD) for n in range(10))
    table = table_of(data)
    offsets: list[int] = []
    row = parts = 0
    while row < len(table):
        columns = kernel.decode(data, table, row, len(table), start_position=0, enough=7000)
        assert row < columns.next_row <= row + 3
        offsets += columns.offset.tolist()
        row, parts = columns.next_row, parts + 1
    assert offsets == list(range(30))
    assert parts >= 4


# The callers' mistakes


@each_kernel
@pytest.mark.parametrize("rows", [(-1, 1), (0, 3), (2, 1)])
def test_rows_outside_the_table_are_refused(kernel: ModuleType, rows: tuple[int, int]) -> None:
    data = builders.batch([Rec(b"a")]) * 2
    with pytest.raises(ValueError, match="not in the batch table"):
        kernel.decode(data, table_of(data), *rows, start_position=0)


@each_kernel
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("position", -1),
        ("position", 2**62),
        ("size", 10**6),
        ("size", -1),
        ("size", 60),
        ("magic", 3),
    ],
)
def test_a_row_that_does_not_lie_in_the_buffer_is_refused(
    kernel: ModuleType, field: str, value: int
) -> None:
    data = builders.batch([Rec(b"a")])
    table = table_of(data)
    table[field] = value
    for call in (
        lambda: kernel.decode(data, table, 0, 1, start_position=0),
        lambda: kernel.contains(data, table, 0, 1, b"a", start_position=0),
    ):
        with pytest.raises(ValueError, match="is outside the buffer"):
            call()


def test_a_table_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="rows have another size"):
        compiled.decode(b"", np.zeros(3, np.uint8), 0, 0, start_position=0)


# Threads and libraries


def test_threads_do_not_disturb_each_other() -> None:
    datas = [
        b"".join(builders.batch([Rec(b"%s %d" % (codec.name.encode(), i))] * 50, 50 * i, codec) for i in range(40))
        for codec in CompressionType
    ]  # fmt: skip
    alone = [facts(decoded(compiled, data)) for data in datas]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda n: facts(decoded(compiled, datas[n % 5])), range(60)))
    assert all(found == alone[n % 5] for n, found in enumerate(together))


@each_codec
def test_without_the_codecs_libraries_the_records_are_the_same(codec: CompressionType) -> None:
    batch = builders.batch([Rec(b"value %d" % i) for i in range(100)], 0, codec)
    fast = facts(decoded(compiled, batch))
    compiled.use_libraries(False)
    try:
        assert facts(decoded(compiled, batch)) == fast
    finally:
        compiled.use_libraries(True)


@each_kernel
@pytest.mark.parametrize(("outer", "inside"), [(1, 0), (0, 1)])
def test_a_wrapper_around_messages_of_the_other_magic_is_read_as_kafka_reads_it(
    kernel: ModuleType, outer: int, inside: int
) -> None:
    # What an old cleaner wrote (KAFKA-4298): the wrapper's magic decides offsets, the message's its layout.
    start = 0 if outer == 1 else 50
    messages = [
        builders.message(start + i, b"k%d" % i, b"v%d" % i, magic=inside, timestamp=NOW + i)
        for i in range(9)
    ]
    data = builders.wrapper(messages, 58, GZIP, magic=outer, timestamp=NOW)
    columns = kernel.decode(data, table_of(data), 0, 1, start_position=0)
    assert columns.problems == []
    assert columns.offset.tolist() == list(range(50, 59))
    assert columns.timestamp.tolist() == [NOW + i if inside == 1 else -1 for i in range(9)]
    assert [columns.value(i) for i in range(9)] == [b"v%d" % i for i in range(9)]
