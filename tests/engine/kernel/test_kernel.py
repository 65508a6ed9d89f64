"""Batches: walking, finding, locating, and the search over slots; by both kernels."""

from __future__ import annotations

import inspect
import os
import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding import checksums
from engine.columns.batch_table import BATCH_ROW, HeaderStop, Stop
from engine.errors import CorruptRecordError, LimitExceededError
from engine.kernel import compiled
from engine.record.attributes import TimestampType
from tests import builders, fixtures_data
from tests.builders import Producer, Rec
from tests.engine.kernel.kernels import KERNELS, each_kernel, table_of

THREE = builders.values("a", "b", "c")


def walked(
    module: ModuleType, data: bytes, *, rows: int = 10, start: int = 0, **options: object
) -> tuple[np.ndarray, int, Stop]:
    table = np.zeros(rows, BATCH_ROW.dtype)
    filled, consumed, stop = module.walk(data, table, start, 1000, True, **options)
    return table[:filled], consumed, Stop(stop)


def fields(row: np.void) -> dict[str, int]:
    return {name: int(row[name]) for name in BATCH_ROW.dtype.names or () if "pad" not in name}


# Walking


@each_kernel
def test_a_row_has_every_field_of_a_header(kernel: ModuleType) -> None:
    data = builders.batch(
        THREE,
        70,
        builders.CompressionType.GZIP,
        producer=Producer(id=9, epoch=3, sequence=11),
        transactional=True,
        leader_epoch=5,
    )
    table, consumed, stop = walked(kernel, data)
    assert (consumed, stop) == (len(data), Stop.NEED_MORE)
    assert fields(table[0]) == {
        "position": 1000,
        "base_offset": 70,
        "last_offset": 72,
        "base_timestamp": 1_700_000_000_000,
        "max_timestamp": 1_700_000_000_002,
        "producer_id": 9,
        "size": len(data),
        "leader_epoch": 5,
        "base_sequence": 11,
        "record_count": 3,
        "crc": int.from_bytes(data[17:21], "big"),
        "attributes": 0x11,
        "producer_epoch": 3,
        "magic": 2,
        "crc_ok": 1,
    }


@each_kernel
@pytest.mark.parametrize(("magic", "timestamp"), [(0, -1), (1, 1_700_000_000_000)])
def test_a_legacy_message_is_a_row_without_producer_and_count(
    kernel: ModuleType, magic: int, timestamp: int
) -> None:
    table, _, _ = walked(kernel, builders.message(8, b"k", b"v", magic=magic))
    row = fields(table[0])
    assert (row["base_offset"], row["last_offset"], row["magic"], row["crc_ok"]) == (8, 8, magic, 1)
    assert row["base_timestamp"] == row["max_timestamp"] == timestamp
    for name in ("producer_id", "producer_epoch", "base_sequence", "record_count", "leader_epoch"):
        assert row[name] == -1


@each_kernel
def test_rows_follow_one_another_from_any_start(kernel: ModuleType) -> None:
    batches = [builders.any_batch([Rec(b"v")], offset, magic=offset % 3) for offset in range(6)]
    table, consumed, stop = walked(kernel, b"??" + b"".join(batches) + b"\0" * 16, start=2)
    assert table["base_offset"].tolist() == list(range(6))
    assert table["position"].tolist() == [1000 + sum(map(len, batches[:i])) for i in range(6)]
    assert (consumed, stop) == (sum(map(len, batches)), Stop.NEED_MORE)


@each_kernel
def test_a_full_table_stops_the_walk_before_the_next_batch(kernel: ModuleType) -> None:
    data = builders.batch(THREE) * 3
    table, consumed, stop = walked(kernel, data, rows=2)
    assert (len(table), consumed, stop) == (2, len(data) // 3 * 2, Stop.TABLE_FULL)


@each_kernel
@pytest.mark.parametrize(
    ("change", "end"),
    [
        ({}, 3),
        ({"crc_ok": 0}, 1),
        ({"base_offset": -1}, 1),
        ({"last_offset": 11}, 1),
        ({"last_offset": 2**63 - 1}, 1),
        ({"base_offset": 2}, 1),
        ({"last_offset": 20}, 2),
    ],
    ids=str,
)
def test_good_rows_end_before_a_bad_batch_and_before_offsets_go_back(
    kernel: ModuleType, change: dict[str, int], end: int
) -> None:
    table = np.zeros(3, BATCH_ROW.dtype)
    table["base_offset"], table["last_offset"], table["crc_ok"] = [0, 12, 20], [2, 19, 29], 1
    for name, value in change.items():
        table[name][1] = value
    assert kernel.good_rows(table, 0, 3) == end
    assert kernel.good_rows(table.tobytes(), 0, 3) == end
    assert kernel.good_rows(table, 2, 3) == 3
    for first, last in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(ValueError, match="not in the batch table"):
            kernel.good_rows(table, first, last)


@each_kernel
def test_a_batch_cut_anywhere_needs_more(kernel: ModuleType) -> None:
    for whole in (builders.batch(THREE), builders.message(0, None, None, magic=0)):
        for size in range(len(whole)):
            table, consumed, stop = walked(kernel, whole[:size])
            assert (len(table), consumed, stop) == (0, 0, Stop.NEED_MORE)


@each_kernel
@pytest.mark.parametrize(("magic", "smallest"), [(0, 14), (1, 22), (2, 49)], ids=["v0", "v1", "v2"])
def test_a_length_below_the_smallest_of_its_magic_is_too_small(
    kernel: ModuleType, magic: int, smallest: int
) -> None:
    data = builders.any_batch([Rec(b"x" * 99)], magic=magic)
    for length in (-(2**31), -1, 0, 13, smallest - 1):
        broken = builders.patched(data, 8, struct.pack(">i", length))
        assert walked(kernel, broken)[2] is Stop.LENGTH_TOO_SMALL
    exact = builders.patched(data, 8, struct.pack(">i", smallest))
    assert walked(kernel, exact, rows=1)[0]["size"].tolist() == [smallest + 12]


@each_kernel
@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_an_unknown_magic_stops_the_walk(kernel: ModuleType, magic: int) -> None:
    good = builders.batch(THREE)
    data = good + builders.patched(good, 16, bytes([magic]))
    table, consumed, stop = walked(kernel, data)
    assert (len(table), consumed, stop) == (1, len(good), Stop.UNKNOWN_MAGIC)


@each_kernel
def test_a_length_above_the_budget_is_too_large_whether_or_not_it_is_there(
    kernel: ModuleType,
) -> None:
    data = builders.batch(THREE)
    assert walked(kernel, data, largest=len(data))[2] is Stop.NEED_MORE
    assert walked(kernel, data, largest=len(data) - 1)[2] is Stop.TOO_LARGE
    huge = builders.patched(data, 8, struct.pack(">i", 2**31 - 1))
    assert walked(kernel, huge)[2] is Stop.TOO_LARGE


@each_kernel
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_any_flipped_bit_behind_the_checksum_shows_in_crc_ok(
    kernel: ModuleType, magic: int
) -> None:
    data = builders.any_batch([Rec(b"value", b"key")], 3, magic=magic)
    covered = range(21 if magic == 2 else 17, len(data))
    for place in covered:
        broken = builders.patched(data, place, bytes([data[place] ^ 4]))
        table, _, _ = walked(kernel, broken)
        assert table["crc_ok"].tolist() == [0]


@each_kernel
def test_without_the_check_crc_ok_says_nothing(kernel: ModuleType) -> None:
    table = np.zeros(1, BATCH_ROW.dtype)
    kernel.walk(builders.batch(THREE), table, 0, 0, False)
    assert table["crc_ok"].tolist() == [0]


@each_kernel
def test_last_offsets_wrap_as_in_java(kernel: ModuleType) -> None:
    data = builders.batch(THREE, 2**63 - 2)
    assert walked(kernel, data)[0]["last_offset"].tolist() == [-(2**63)]


@each_kernel
def test_a_start_outside_the_buffer_is_the_callers_mistake(kernel: ModuleType) -> None:
    for start in (-1, 4):
        with pytest.raises(ValueError, match="not in the buffer"):
            walked(kernel, b"abc", start=start)


@each_kernel
def test_every_batch_that_real_brokers_wrote_is_whole_and_right(kernel: ModuleType) -> None:
    for kind in fixtures_data.KINDS:
        for partition in fixtures_data.partitions(kind):
            for path in fixtures_data.logs(kind, partition):
                data = path.read_bytes()
                table, consumed, _ = walked(kernel, data, rows=len(data) // 26 + 1)
                assert table["crc_ok"].all()
                torn = kind == "crashed"
                assert consumed == len(data) or torn, path


# Finding the next batch


@each_kernel
def test_the_next_batch_is_found_behind_anything(kernel: ModuleType) -> None:
    for magic in (0, 1, 2):
        batch = builders.any_batch([Rec(b"value")], 40, magic=magic)
        for noise in (b"", b"\0", b"\0" * 61, b"\xff" * 30, bytes(range(256)), batch[1:]):
            assert kernel.find_batch(noise + batch, 0, 0, 0) == len(noise)


@each_kernel
def test_a_batch_must_prove_itself_to_be_found(kernel: ModuleType) -> None:
    batch = builders.batch([Rec(b"value")], 40)
    assert kernel.find_batch(batch, 0, 0, 40) == 0
    assert kernel.find_batch(batch, 0, 0, 41) == -1  # base offset too low
    assert kernel.find_batch(batch, 1, 0, 0) == -1
    assert kernel.find_batch(batch[:-1], 0, 0, 0) == -1  # not whole
    assert kernel.find_batch(batch, 0, 0, 0, largest=len(batch) - 1) == -1
    assert kernel.find_batch(builders.patched(batch, len(batch) - 1, b"\1"), 0, 0, 0) == -1
    for field in ("last_offset_delta", "record_count"):
        broken = builders.batch([Rec(b"value")], 40, **{field: -1})
        assert kernel.find_batch(broken, 0, 0, -(2**63)) == -1
    assert kernel.find_batch(b"", 0, 0, 0) == -1


def test_bytes_that_look_like_batches_everywhere_do_not_stall_the_search() -> None:
    """Each second byte starts what may be a batch of 128 KiB: summing them all would take minutes."""
    noise = b"\0\2" * (1 << 18)
    for magic in (0, 1, 2):
        batch = builders.any_batch([Rec(os.urandom(700))], 2**61, magic=magic)
        for tail in (b"", b"\0\2" * 100_000):
            found = compiled.find_batch(noise + batch + tail, 0, 0, 2**60 if not tail else 0)
            assert found == len(noise)


# Locating


class Log:
    """A records file with three batches, one of each magic in turn."""

    def __init__(self, folder: Path) -> None:
        sizes = (10, 700, 40, 5, 3000, 20)
        self.batches = [
            builders.any_batch([Rec(b"x" * size)] * (3 if n % 3 == 2 else 1), 10 * n, magic=n % 3)
            for n, size in enumerate(sizes)
        ]
        self.positions = [sum(map(len, self.batches[:n])) for n in range(len(sizes) + 1)]
        self.size = self.positions[-1]
        path = folder / "log"
        path.write_bytes(b"".join(self.batches))
        self.fd = os.open(path, os.O_RDWR)

    def last_offset(self, n: int) -> int:
        return 10 * n + (2 if n % 3 == 2 else 0)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@each_kernel
@pytest.mark.parametrize("room", [256, 700, 1 << 16])
def test_an_offset_is_located_in_the_first_batch_that_reaches_it(
    kernel: ModuleType, log: Log, room: int
) -> None:
    scratch = bytearray(room)
    for target in range(log.last_offset(5) + 1):
        n = next(n for n in range(6) if log.last_offset(n) >= target)
        start = log.positions[max(n - 3, 0)]
        found = kernel.locate(log.fd, start, log.size, target, scratch)
        size = len(log.batches[n])
        assert found[:5] == (log.positions[n], size, 10 * n, log.last_offset(n), n % 3)
        if size <= room:
            assert scratch[found[5] : found[5] + size] == log.batches[n]
        else:
            assert found[5] == -1


@each_kernel
def test_nothing_is_located_beyond_the_end(kernel: ModuleType, log: Log) -> None:
    scratch = bytearray(1 << 16)
    assert kernel.locate(log.fd, 0, log.size, 53, scratch) is None
    assert kernel.locate(log.fd, log.size, log.size, 0, scratch) is None
    assert kernel.locate(log.fd, 0, 0, 0, scratch) is None
    for cut in (1, 20, 100, 3000):  # a batch that reaches beyond the end is not there
        assert kernel.locate(log.fd, 0, log.positions[5] - cut, 50, scratch) is None
    os.ftruncate(log.fd, log.positions[5] + 20)  # the file became shorter than its stated end
    assert kernel.locate(log.fd, 0, log.size + 1, 50, scratch) is None


@each_kernel
@pytest.mark.parametrize(
    ("place", "new", "words"),
    [
        (8, struct.pack(">i", 13), "too small"),
        (8, struct.pack(">i", 14), "too small"),
        (8, struct.pack(">i", -5), "too small"),
        (16, b"\x03", "unknown magic"),
    ],
)
def test_a_broken_frame_on_the_way_is_an_error_with_its_position(
    kernel: ModuleType, log: Log, place: int, new: bytes, words: str
) -> None:
    os.pwrite(log.fd, new, log.positions[2] + place)
    with pytest.raises(CorruptRecordError, match=words) as caught:
        kernel.locate(log.fd, 0, log.size, 50, bytearray(300))
    assert caught.value.position == log.positions[2]
    assert kernel.locate(log.fd, 0, log.size, 10, bytearray(300)) is not None


@each_kernel
def test_a_length_beyond_the_end_is_no_batch_and_one_above_the_budget_an_error(
    kernel: ModuleType, log: Log
) -> None:
    scratch = bytearray(300)
    with pytest.raises(LimitExceededError):
        kernel.locate(log.fd, 0, log.size, 50, scratch, largest=2000)
    os.pwrite(log.fd, struct.pack(">i", 2**31 - 1), log.positions[4] + 8)
    assert kernel.locate(log.fd, 0, log.size, 50, scratch) is None


@each_kernel
def test_what_the_system_says_is_passed_on(kernel: ModuleType, log: Log) -> None:
    os.close(log.fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        kernel.locate(log.fd, 0, log.size, 0, bytearray(300))
    with pytest.raises(ValueError, match="scratch"):
        kernel.locate(log.fd, 0, log.size, 0, bytearray(255))


# Headers


EVERYTHING = (0, 2**63 - 1)


class Headers:
    """A records file of batches of three records each, from offset 5 on with a gap of two between batches."""

    def __init__(self, folder: Path) -> None:
        self.bases = [5, 10, 15, 20]
        made = [builders.batch([Rec(b"v" * 100)] * 3, base) for base in self.bases]
        self.size = len(made[0])
        path = folder / "log"
        path.write_bytes(b"".join(made))
        self.fd = os.open(path, os.O_RDWR)

    def count(self, kernel: ModuleType, wanted: tuple[int, int] = EVERYTHING, **other: Any) -> Any:
        given = {"position": 0, "end": 4 * self.size, "following": 0, "part_stop": 100, "odd": 0}
        given |= {"most": 100} | other
        budgets = given.pop("budgets", DEFAULT_BUDGETS)
        names = ("position", "end", "following", "part_stop")
        before = [given[name] for name in names]
        return kernel.count_headers(
            self.fd, *before, wanted, given["odd"], given["most"], budgets=budgets
        )


@pytest.fixture
def headers(tmp_path: Path) -> Headers:
    return Headers(tmp_path)


@each_kernel
def test_records_are_counted_by_headers(kernel: ModuleType, headers: Headers) -> None:
    size = headers.size
    assert headers.count(kernel) == (4, 12, 4 * size, 23, HeaderStop.DONE)
    assert headers.count(kernel, most=2) == (2, 6, 2 * size, 13, HeaderStop.DONE)
    assert headers.count(kernel, most=0) == (0, 0, 0, 0, HeaderStop.DONE)
    second = {"position": size, "following": 10}
    assert headers.count(kernel, **second) == (3, 9, 4 * size, 23, HeaderStop.DONE)
    assert headers.count(kernel, (10, 18)) == (4, 6, 4 * size, 23, HeaderStop.DONE)


@each_kernel
@pytest.mark.parametrize("wanted", [(11, 100), (12, 100), (5, 12), (5, 11)])
def test_a_batch_across_a_bound_of_the_wanted_offsets_is_left(
    kernel: ModuleType, headers: Headers, wanted: tuple[int, int]
) -> None:
    counted = 3 * (wanted[0] == 5)
    assert headers.count(kernel, wanted) == (1, counted, headers.size, 8, HeaderStop.CROSSES)


@each_kernel
@pytest.mark.parametrize(
    ("place", "new"),
    [
        (0, struct.pack(">q", 7)),
        (0, struct.pack(">q", 98)),
        (0, struct.pack(">q", 2**63 - 1)),
        (8, struct.pack(">i", 48)),
        (8, struct.pack(">i", -1)),
        (8, struct.pack(">i", 2**31 - 1)),
        (16, b"\x01"),
        (16, b"\x03"),
        (21, struct.pack(">h", 5)),
        (21, struct.pack(">h", 16)),
        (23, struct.pack(">i", -1)),
        (23, struct.pack(">i", 1)),
        (57, struct.pack(">i", -1)),
        (57, struct.pack(">i", 4)),
    ],
)
def test_a_header_that_is_impossible_or_has_a_refused_bit_ends_the_walk(
    kernel: ModuleType, headers: Headers, place: int, new: bytes
) -> None:
    os.pwrite(headers.fd, new, headers.size + place)
    assert headers.count(kernel, odd=16) == (1, 3, headers.size, 8, HeaderStop.ODD)


@each_kernel
def test_a_batch_beyond_a_bound_ends_the_walk(kernel: ModuleType, headers: Headers) -> None:
    size = headers.size
    third = (3, 9, 3 * size, 18, HeaderStop.ODD)
    assert headers.count(kernel, end=4 * size - 1) == third
    assert headers.count(kernel, part_stop=22) == third
    assert headers.count(kernel, part_stop=23)[0] == 4
    assert headers.count(kernel, budgets=Budgets(batch_bytes=size - 1))[0] == 0
    assert headers.count(kernel, budgets=Budgets(batch_bytes=size))[0] == 4
    assert headers.count(kernel, budgets=Budgets(records_per_batch=2))[0] == 0
    os.ftruncate(headers.fd, 3 * size + 60)  # the file became shorter than its stated end
    assert headers.count(kernel) == third
    os.close(headers.fd)
    assert headers.count(kernel) == (0, 0, 0, 0, HeaderStop.ODD)


@each_kernel
def test_control_batches_have_no_records_of_users(kernel: ModuleType, headers: Headers) -> None:
    os.pwrite(headers.fd, struct.pack(">h", 0x30), headers.size + 21)
    assert headers.count(kernel) == (4, 9, 4 * headers.size, 23, HeaderStop.DONE)
    assert headers.count(kernel, (11, 100)) == (4, 6, 4 * headers.size, 23, HeaderStop.DONE)
    assert headers.count(kernel, odd=16)[-1] == HeaderStop.ODD


# Slots


@each_kernel
@given(
    keys=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40),
    padding=st.integers(0, 2),
    repeat=st.sampled_from([1, 300]),
    is_wide=st.booleans(),
    data=st.data(),
)
def test_floor_slot_is_the_last_slot_that_is_not_above_the_target(
    kernel: ModuleType,
    keys: list[int],
    padding: int,
    repeat: int,
    is_wide: bool,
    data: st.DataObject,
) -> None:
    keys = sorted(keys * repeat)
    target = data.draw(st.one_of(st.sampled_from(keys or [0]), st.integers(-(2**63), 2**63 - 1)))
    form, size = (">q", 8) if is_wide else (">i", 4)
    slots = b"".join(b"\xff" * padding + struct.pack(form, key) + b"\xee" * 3 for key in keys)
    expected = max((n for n, key in enumerate(keys) if key <= target), default=-1)
    arguments = (slots, len(keys), padding + size + 3, padding, is_wide, target)
    assert kernel.floor_slot(*arguments) == expected


@each_kernel
@given(slots=st.binary(min_size=8, max_size=400), target=st.integers(-(2**31), 2**31))
def test_floor_slot_ends_on_unsorted_slots_too(
    kernel: ModuleType, slots: bytes, target: int
) -> None:
    count = len(slots) // 8
    assert -1 <= kernel.floor_slot(slots, count, 8, 0, False, target) < count


@each_kernel
@pytest.mark.parametrize(
    "shape",
    [(3, 8, 0, True), (2, 0, 0, True), (2, 8, 1, True), (2, 8, 5, False), (1, 8, -1, False)],
)
def test_slots_outside_the_buffer_are_refused(
    kernel: ModuleType, shape: tuple[int, int, int, bool]
) -> None:
    with pytest.raises(ValueError, match="slots"):
        kernel.floor_slot(bytes(16), *shape, 0)


# Checksums and choice


@given(data=st.binary(max_size=200), size=st.integers(0, 20_000))
def test_the_kernels_checksums_are_those_of_the_packages(data: bytes, size: int) -> None:
    data = (data * (size // (len(data) + 1) + 1))[:size]
    assert compiled.checksum("crc32c", data) == checksums.crc32c(data)
    assert compiled.checksum("crc32", data) == checksums.crc32(data)
    assert compiled.checksum("xxh32", data) == checksums.xxh32(data)


def test_without_the_instruction_crc32c_comes_from_tables() -> None:
    for size in (0, 1, 7, 8, 9, 255, 767, 768, 6144, 20_001):
        data = os.urandom(size)
        assert compiled.checksum("crc32c by table", data) == checksums.crc32c(data)


def test_the_kernel_in_use_can_be_chosen() -> None:
    before = kernel.name
    try:
        for name, module in KERNELS.items():
            kernel.use(name)
            assert (kernel.name, kernel.walk, kernel.decode) == (name, module.walk, module.decode)
            # Lines pass through the mask and the decoder of their options.
            assert inspect.unwrap(kernel.lines) is module.lines
            assert inspect.unwrap(kernel.column_lines) is module.column_lines
        with pytest.raises(ValueError, match="no kernel"):
            kernel.use("fast")
    finally:
        kernel.use(before)
    assert before == "compiled"
    assert kernel.is_compiled()


def test_both_kernels_see_the_same_rows_in_what_real_brokers_wrote() -> None:
    for partition in fixtures_data.partitions("legacy"):
        for path in fixtures_data.logs("legacy", partition):
            data = path.read_bytes()
            tables = [walked(module, data, rows=5000) for module in KERNELS.values()]
            assert tables[0][0].tolist() == tables[1][0].tolist()
            assert tables[0][1:] == tables[1][1:]


def test_log_append_time_is_an_attribute_of_the_row() -> None:
    batch = builders.batch(
        THREE, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=1_800_000_000_000
    )
    row = table_of(batch)[0]
    assert (int(row["attributes"]), int(row["max_timestamp"])) == (8, 1_800_000_000_000)
