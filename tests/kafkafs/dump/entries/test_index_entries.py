"""Indexes in a dump: their entries, and what the log has against them."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest

from tests import builders
from tests.builders import Aborted, patched, values
from tests.kafkafs.dump.dumped import Dumped, dump

BATCHES = [builders.batch(values(*"abcde", timestamp=1000 * at), 5 * at) for at in range(20)]
SIZE = len(BATCHES[0])
OFFSETS = [(5 * at + 4, SIZE * at) for at in range(1, 20, 4)]
TIMES = [(1000 * at + 4, 5 * at + 4) for at in range(1, 20, 4)]
STEM = "00000000000000000000"


class Segment:
    """A segment whose indexes are written as a test asks."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / f"{STEM}.log"
        self.index = folder / f"{STEM}.index"
        self.time_index = folder / f"{STEM}.timeindex"
        self.log.write_bytes(b"".join(BATCHES))
        self.write(OFFSETS, TIMES)

    def write(
        self, offsets: list[tuple[int, int]] = OFFSETS, times: list[tuple[int, int]] = TIMES
    ) -> None:
        self.index.write_bytes(builders.offset_index(offsets))
        self.time_index.write_bytes(builders.time_index(times))


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    return Segment(tmp_path)


def entries(found: Dumped) -> list[str]:
    return found.lines[1:]


def test_sound_indexes_are_printed_without_a_complaint(segment: Segment) -> None:
    found = dump([segment.index, segment.time_index])
    assert [line for line in found.lines if not line.startswith("Dumping")] == [
        *(f"offset: {offset} position: {position}" for offset, position in OFFSETS),
        *(f"timestamp: {timestamp} offset: {offset}" for timestamp, offset in TIMES),
    ]
    assert (found.err, found.status) == ("", 0)


def test_verifying_prints_no_entries(segment: Segment) -> None:
    segment.write([(6, SIZE)], [(1, 9)])
    found = dump([segment.index, segment.time_index], "--verify-index-only")
    assert all(line.startswith("Dumping") for line in found.lines)
    assert found.err.count("\n") == 4


def test_an_offset_that_is_not_the_batchs_is_a_mismatch_newest_first(segment: Segment) -> None:
    segment.write([(8, SIZE), (20, 4 * SIZE), (29, 5 * SIZE)])
    found = dump(segment.index)
    assert found.err.splitlines() == [
        f"Mismatches in :{segment.index}",
        "  Index offset: 20, log offset: 24",
        "  Index offset: 8, log offset: 9",
    ]
    assert found.status == 1


@pytest.mark.parametrize(
    ("position", "sentence"),
    [
        (SIZE + 3, "Found record size"),
        (20 * SIZE, "no batch at position"),
        (9_999_999, "Slice from position 9999999 exceeds end position"),
        (-1, "Invalid position: -1"),
    ],
)
def test_a_position_that_leads_to_no_batch_is_said_and_the_rest_is_checked(
    segment: Segment, position: int, sentence: str
) -> None:
    segment.write([(9, position), (20, 4 * SIZE)])
    found = dump(segment.index)
    assert sentence in found.err or "no whole batch at position" in found.err
    assert "  Index offset: 20, log offset: 24" in found.err
    assert len(entries(found)) == 2
    assert found.status == 1


def test_a_batch_above_the_size_that_is_allowed_counts_as_not_there(segment: Segment) -> None:
    found = dump(segment.index, "--max-message-size", str(SIZE - 1))
    assert found.err.count("no whole batch") == len(OFFSETS)


def test_entries_end_at_the_padding(segment: Segment) -> None:
    for path in (segment.index, segment.time_index):
        path.write_bytes(path.read_bytes() + bytes(240))
    found = dump([segment.index, segment.time_index])
    assert len(found.lines) == 2 + len(OFFSETS) + len(TIMES)
    assert found.status == 0


def test_an_index_of_zeros_only_is_not_compared(segment: Segment) -> None:
    segment.index.write_bytes(bytes(80))
    segment.time_index.write_bytes(bytes(120))
    found = dump([segment.index, segment.time_index])
    assert found.lines[1] == "offset: 0 position: 0"
    assert found.lines[3] == "timestamp: 0 offset: 0"
    assert (found.err, found.status) == ("", 0)


def test_an_empty_index_is_said_to_be(segment: Segment) -> None:
    segment.write([], [])
    found = dump([segment.index, segment.time_index])
    assert found.lines[1] == f"{segment.index} is empty."
    assert found.status == 0


def test_without_the_log_entries_are_printed_and_not_compared(segment: Segment) -> None:
    segment.log.unlink()
    found = dump([segment.index, segment.time_index])
    assert len(found.lines) == 2 + len(OFFSETS) + len(TIMES)
    assert found.err.count("does not exist: entries are not compared") == 2
    assert found.status == 1


def test_a_time_index_is_checked_without_the_offset_index(segment: Segment) -> None:
    segment.index.unlink()
    segment.write(times=[(1004, 9), (5, 44)])
    segment.index.unlink()
    found = dump(segment.time_index)
    assert "  Index timestamp: 5, log timestamp: 8004" in found.err
    assert not segment.index.exists()


def test_what_is_wrong_with_times_is_told_in_three_lists(segment: Segment) -> None:
    segment.write(times=[(1004, 9), (900, 14), (3004, 18), (9000, 200)])
    found = dump(segment.time_index)
    assert found.err.splitlines() == [
        f"Found timestamp mismatch in :{segment.time_index}",
        "  Index timestamp: 900, log timestamp: 2004",
        f"Found out of order timestamp in :{segment.time_index}",
        "  Index timestamp: 900, Previously indexed timestamp: 1004",
        f"The following indexed offsets are not found in :{segment.time_index}",
        "Indexed offset: 18, found log offset: 19",
        "Indexed offset: 200, found log offset: -1",
    ]
    assert found.status == 1


def test_a_length_that_is_no_multiple_is_said(segment: Segment) -> None:
    for path in (segment.index, segment.time_index):
        path.write_bytes(path.read_bytes() + b"xyz")
    sane = dump([segment.index, segment.time_index], "--index-sanity-check")
    assert "found 43 bytes which is neither positive nor a multiple of 8" in sane.err
    assert "found 63 bytes which is neither positive nor a multiple of 12" in sane.err
    found = dump([segment.index, segment.time_index])
    assert found.err == sane.err
    assert len(found.lines) == 2 + len(OFFSETS) + len(TIMES)
    assert found.status == sane.status == 1


def test_the_sanity_check_looks_at_the_ends_alone(segment: Segment) -> None:
    segment.write([(9, 12345), (14, SIZE)], [(5, 9), (5, 1)])
    found = dump([segment.index, segment.time_index], "--index-sanity-check")
    assert [line for line in found.lines if not line.startswith("Dumping")] == [
        f"{segment.index} passed sanity check.",
        f"{segment.time_index} passed sanity check.",
    ]


def test_the_sanity_check_finds_ends_that_go_back(segment: Segment) -> None:
    segment.write([(9, 0), (-3, SIZE)], [(7, 9), (5, 14)])
    found = dump([segment.index, segment.time_index], "--index-sanity-check")
    assert "the last offset is -3 which is less than the base offset 0" in found.err
    assert "the last timestamp is 5 which is less than the first timestamp 7" in found.err
    segment.write([], [(7, 9), (8, -2)])
    found = dump(segment.time_index, "--index-sanity-check")
    assert "the last offset is -2 which is less than the first offset 0" in found.err


def test_aborted_transactions_are_listed_whatever_their_version(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000100.txnindex"
    aborted = [Aborted(7, 100, 110, 95), Aborted(8, 105, 120, 95, version=3), Aborted(9, 1, 2, 0)]
    path.write_bytes(builders.transaction_index(aborted) + b"cut")
    found = dump(path)
    assert entries(found) == [
        f"version: {each.version} producerId: {each.producer_id} firstOffset: {each.first_offset}"
        f" lastOffset: {each.last_offset} lastStableOffset: {each.last_stable_offset}"
        for each in aborted
    ]
    assert "Unexpected aborted transaction version 3" in found.err
    assert "is less than start offset 100" in found.err
    assert "found 105 bytes which is neither positive nor a multiple of 34" in found.err
    assert found.status == 1


def test_a_batch_that_does_not_decode_is_said_at_its_entry(segment: Segment) -> None:
    log = b"".join(BATCHES)
    segment.log.write_bytes(patched(log, SIZE + 22, b"\x07"))
    found = dump(segment.time_index)
    assert "unknown codec 7" in found.err
    assert len(entries(found)) == len(TIMES)


@pytest.mark.parametrize("has_index", [True, False])
def test_the_time_of_a_check_grows_with_the_entries(tmp_path: Path, has_index: bool) -> None:
    def seconds(count: int) -> float:
        folder = tmp_path / str(count)
        folder.mkdir()
        one = builders.batch(values("v", timestamp=0), 0)
        made = Segment(folder)
        parts = [struct.pack(">q", at) + one[8:] for at in range(count)]
        made.log.write_bytes(b"".join(parts))
        made.write(
            [(at, at * len(one)) for at in range(1, count)], [(0, at) for at in range(count)]
        )
        if not has_index:
            made.index.unlink()
        start = time.process_time()
        found = dump(made.time_index, "--verify-index-only")
        assert "Indexed offset" not in found.err
        return time.process_time() - start

    few, many = seconds(1000), seconds(8000)
    assert many < 8 * 4 * few + 0.5
