"""Faults 1 to 26: the frames and headers of batches.

A damaged batch costs its own records, an error line at its place says so, and everything around it is served.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import Rec, batch, patched, resealed
from tests.damage.cases import (
    AFTER,
    ALL_VALUES,
    AT,
    BEFORE,
    GOOD_VALUES,
    VICTIM,
    around,
    behind,
    good,
    int32,
    int64,
    log_dir,
    records,
)
from tests.damage.reader import Look
from tests.damage.survey import Survey

KERNELS = ["compiled", "python"]
LENGTH, EPOCH, MAGIC, CRC, ATTRIBUTES = 8, 12, 16, 17, 21
LAST_DELTA, BASE_TIME, MAX_TIME, PRODUCER, COUNT = 23, 27, 35, 43, 57


def assert_only_the_victim_is_lost(found: Survey, kind: str) -> None:
    """An error line of this kind at the victim's place; all other records are there."""
    assert found.values() == GOOD_VALUES
    error, *more = found.errors()
    assert (error["kind"], error["position"]) == (kind, AT)
    assert not more or more[0]["position"] == AT + error["length"]
    assert AT + sum(each["length"] for each in found.errors()) == AT + len(VICTIM)
    assert error["file"] == "t-0/00000000000000000000.log"
    assert (error["firstOffset"], error["lastOffset"]) == (6, 8)
    lines = found.lines()
    place = next(i for i, line in enumerate(lines) if line.startswith(b'{"error":'))
    assert place == 6


# -- the length


@pytest.mark.parametrize("size", [1, 11, 12, 16, 17, 40, 60])
def test_fault_001_a_torn_header_ends_the_log(tmp_path: Path, look: Look, size: int) -> None:
    found = look(behind(tmp_path, VICTIM[:size]))
    assert found.values() == GOOD_VALUES[:6]
    (error,) = found.errors()
    assert (error["kind"], error["position"], error["length"]) == ("torn_tail", AT, size)
    assert found.json("t-0/state/offsets.json")["logEndOffset"] == 6


@pytest.mark.parametrize("length", [len(VICTIM) - 11, len(VICTIM), 5000, 2**31 - 1])
def test_fault_002_a_length_past_the_end_is_a_torn_tail_that_says_what_was_claimed(
    tmp_path: Path, look: Look, length: int
) -> None:
    found = look(behind(tmp_path, patched(VICTIM, LENGTH, int32(length))))
    assert found.values() == GOOD_VALUES[:6]
    (error,) = found.errors()
    assert (error["kind"], error["position"]) == ("torn_tail", AT)
    assert (error["length"], error["found"]) == (len(VICTIM), length)


@pytest.mark.parametrize("length", [5000, 2**31 - 1])
def test_fault_002_a_length_past_the_end_hides_nothing_that_follows(
    tmp_path: Path, look: Look, length: int
) -> None:
    found = look(around(tmp_path, patched(VICTIM, LENGTH, int32(length))))
    assert_only_the_victim_is_lost(found, "bad_length")


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 1, 13])
def test_fault_003_a_length_below_any_batch(tmp_path: Path, look: Look, length: int) -> None:
    found = look(around(tmp_path, patched(VICTIM, LENGTH, int32(length))))
    assert_only_the_victim_is_lost(found, "bad_length")
    assert found.errors()[0]["found"] == length


@pytest.mark.parametrize("length", [14, 22, 48])
def test_fault_004_a_length_below_its_own_header(tmp_path: Path, look: Look, length: int) -> None:
    found = look(around(tmp_path, patched(VICTIM, LENGTH, int32(length))))
    assert_only_the_victim_is_lost(found, "bad_length")


@pytest.mark.parametrize("more", [-1, 1, len(AFTER[0]), -20])
def test_faults_005_006_a_length_that_is_a_little_off(
    tmp_path: Path, look: Look, more: int
) -> None:
    found = look(around(tmp_path, patched(VICTIM, LENGTH, int32(len(VICTIM) - 12 + more))))
    assert_only_the_victim_is_lost(found, "crc_mismatch")


# -- the magic and the checksum


@pytest.mark.parametrize("magic", [3, 4, 32, 127, 128, 255])
def test_fault_007_an_unknown_magic_is_not_taken_for_2(
    tmp_path: Path, look: Look, magic: int
) -> None:
    found = look(around(tmp_path, patched(VICTIM, MAGIC, bytes([magic]))))
    assert_only_the_victim_is_lost(found, "unknown_magic")
    assert found.errors()[0]["found"] == int.from_bytes([magic], "big", signed=True)


@pytest.mark.parametrize("magic", [0, 1])
def test_fault_008_an_old_magic_on_a_new_batch(tmp_path: Path, look: Look, magic: int) -> None:
    found = look(around(tmp_path, patched(VICTIM, MAGIC, bytes([magic]))))
    assert found.values() == GOOD_VALUES
    assert found.kinds() == [("crc_mismatch", AT)]


@pytest.mark.parametrize(
    "place",
    [CRC, ATTRIBUTES, LAST_DELTA, BASE_TIME, MAX_TIME, PRODUCER, COUNT, 61, len(VICTIM) - 1],
)
def test_fault_009_a_wrong_checksum_says_both(tmp_path: Path, look: Look, place: int) -> None:
    bad = patched(VICTIM, place, bytes([VICTIM[place] ^ 0x40]))
    found = look(around(tmp_path, bad))
    assert found.values() == GOOD_VALUES
    (error,) = found.errors()
    assert (error["kind"], error["position"], error["length"]) == ("crc_mismatch", AT, len(VICTIM))
    assert error["expected"] == int.from_bytes(bad[CRC : CRC + 4], "big")
    assert error["found"] == int.from_bytes(resealed(bad)[CRC : CRC + 4], "big")


def test_fault_009_no_way_leads_to_a_batch_of_the_wrong_checksum(
    tmp_path: Path, look: Look
) -> None:
    # With indexes this time: what they point at is checked like everything else.
    log_dir(tmp_path, [*BEFORE, VICTIM, *AFTER])
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.write_bytes(patched(log.read_bytes(), AT + 70, b"\xff"))
    found = look(tmp_path)
    assert found.values() == GOOD_VALUES
    for path in ("t-0/time/2023-11-14/records.jsonl", "t-0/committed/00000000000000000000.jsonl"):
        assert found.files[path].count(b'"crc_mismatch"') == 1
        assert found.files[path].count(b"\n") == 13


# -- the base offset


@pytest.mark.parametrize("base", [7, 100, 2**31 - 4])
def test_fault_010_a_base_offset_that_is_too_high_hides_nothing_that_follows(
    tmp_path: Path, look: Look, base: int
) -> None:
    suspects = range(base, base + 3)
    found = look(around(tmp_path, patched(VICTIM, 0, int64(base))), suspects=suspects)
    assert [value for value in found.values() if value[0] != "x"] == GOOD_VALUES
    (error,) = found.errors()
    assert error["kind"] == "offset_order"
    assert error["position"] in (AT, AT + len(VICTIM))


@pytest.mark.parametrize("base", [-1, -(2**63), -(2**31)])
def test_fault_011_a_negative_base_offset(tmp_path: Path, look: Look, base: int) -> None:
    found = look(around(tmp_path, patched(VICTIM, 0, int64(base))))
    assert found.values() == GOOD_VALUES
    (error,) = found.errors()
    assert (error["kind"], error["position"], error["found"]) == ("bad_offsets", AT, base)


@pytest.mark.parametrize("base", [0, 3, 4])
def test_fault_012_a_batch_whose_offsets_go_back_is_noted_and_left_out(
    tmp_path: Path, look: Look, base: int
) -> None:
    found = look(around(tmp_path, patched(VICTIM, 0, int64(base))))
    assert found.values() == GOOD_VALUES
    assert found.offsets() == [*range(6), *range(9, 15)]
    assert found.kinds() == [("offset_order", AT)]


def test_fault_012_the_same_batch_twice(tmp_path: Path, look: Look) -> None:
    found = look(around(tmp_path, VICTIM + VICTIM))
    assert found.kinds() == [("offset_order", AT + len(VICTIM))]
    assert found.offsets() == [*range(15)]


def test_fault_013_a_jump_of_2_to_the_40_costs_nothing(tmp_path: Path, look: Look) -> None:
    far = 2**40
    behind(tmp_path, good("x", far) + good("y", far + 3))
    found = look(tmp_path)
    assert found.values() == [*GOOD_VALUES[:6], "x0", "x1", "x2", "y0", "y1", "y2"]
    assert found.json("t-0/state/offsets.json")["logEndOffset"] == far + 6
    assert found.seconds < 5


@pytest.mark.parametrize("base", [2**63 - 1, 2**63 - 2, 2**63 - 3, 2**62])
def test_fault_014_offsets_near_the_end_of_the_numbers(
    tmp_path: Path, look: Look, base: int
) -> None:
    suspects = range(base, base + 3)
    found = look(around(tmp_path, patched(VICTIM, 0, int64(base))), suspects=suspects)
    assert [value for value in found.values() if value[0] != "x"] == GOOD_VALUES
    assert [error["position"] for error in found.errors()] in ([AT], [AT + len(VICTIM)])


@pytest.mark.parametrize(
    ("base", "is_served"), [(2**63 - 2, False), (2**63 - 3, False), (2**63 - 4, True)]
)
def test_fault_014_a_segment_that_begins_near_the_end_of_the_numbers(
    tmp_path: Path, look: Look, base: int, is_served: bool
) -> None:
    log_dir(tmp_path, [batch(records(0, "x0", "x1", "x2"), base)], base)
    found = look(tmp_path)
    assert found.offsets() == ([base, base + 1, base + 2] if is_served else [])
    assert found.kinds() == ([] if is_served else [("bad_offsets", 0)])


# -- what the header says about the records


@pytest.mark.parametrize("delta", [-1, -(2**31)])
def test_fault_015_a_last_offset_below_the_first(tmp_path: Path, look: Look, delta: int) -> None:
    bad = resealed(patched(VICTIM, LAST_DELTA, int32(delta)))
    found = look(around(tmp_path, bad))
    assert found.values() == GOOD_VALUES
    (error,) = found.errors()
    assert (error["kind"], error["position"]) == ("bad_offsets", AT)


def test_fault_016_a_batch_that_spans_all_offsets_is_its_records(
    tmp_path: Path, look: Look
) -> None:
    wide = resealed(patched(VICTIM, LAST_DELTA, int32(2**31 - 1)))
    found = look(behind(tmp_path, wide))
    assert found.offsets() == list(range(9))
    assert not found.errors()
    assert found.json("t-0/state/offsets.json")["logEndOffset"] == 6 + 2**31
    assert found.files["t-0/offset/latest"] == b"8"
    assert found.seconds < 5


@pytest.mark.parametrize("epoch", [-5, -1, 2**31 - 1])
def test_fault_017_any_leader_epoch_is_shown_as_it_is(
    tmp_path: Path, look: Look, epoch: int
) -> None:
    found = look(around(tmp_path, patched(VICTIM, EPOCH, int32(epoch))))
    assert found.values() == ALL_VALUES
    assert {fact["leaderEpoch"] for fact in found.records()[6:9]} == {epoch}
    assert not found.errors()


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_fault_018_a_count_below_zero(tmp_path: Path, look: Look, count: int) -> None:
    found = look(around(tmp_path, resealed(patched(VICTIM, COUNT, int32(count)))))
    assert found.values() == GOOD_VALUES
    assert found.kinds() == [("invalid_header", AT)]


@pytest.mark.parametrize(("count", "kind"), [(4, "record_count"), (2, "leftover_bytes")])
def test_fault_019_a_count_that_is_off_costs_no_record_that_can_be_read(
    tmp_path: Path, look: Look, count: int, kind: str
) -> None:
    found = look(around(tmp_path, resealed(patched(VICTIM, COUNT, int32(count)))))
    shown = min(count, 3)
    assert found.values() == [*GOOD_VALUES[:6], *["x0", "x1", "x2"][:shown], *GOOD_VALUES[6:]]
    assert found.kinds() == [(kind, AT)]
    place = [b'{"error":' in line for line in found.lines()].index(True)
    assert place == 6 + shown


@pytest.mark.parametrize("count", [100_000_000, 2**31 - 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_faults_020_021_a_huge_count_makes_no_room(
    tmp_path: Path, look: Look, codec: int, count: int
) -> None:
    bad = batch(records(6, "x0", "x1", "x2"), 6, _codec(codec), record_count=count)
    found = look(around(tmp_path, bad))
    assert found.values() == ALL_VALUES
    assert found.kinds() == [("record_count", AT)]
    assert found.peak < 64 << 20
    assert found.seconds < 5


def test_fault_022_records_that_the_count_denies(tmp_path: Path, look: Look) -> None:
    found = look(around(tmp_path, resealed(patched(VICTIM, COUNT, int32(0)))))
    assert found.values() == GOOD_VALUES
    assert found.kinds() == [("leftover_bytes", AT)]


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_fault_023_an_unknown_codec_is_named_and_its_bytes_can_be_had(
    tmp_path: Path, look: Look, codec: int
) -> None:
    bad = resealed(patched(VICTIM, ATTRIBUTES, bytes([0, codec])))
    found = look(around(tmp_path, bad))
    assert found.values() == GOOD_VALUES
    (error,) = found.errors()
    assert (error["kind"], error["position"]) == ("unknown_codec", AT)
    assert str(codec) in error["reason"]
    assert found.files["t-0/segments/00000000000000000000.log"][AT : AT + len(bad)] == bad


@pytest.mark.parametrize("bits", [0x0080, 0x4000, 0x7F80])
def test_fault_024_reserved_attribute_bits_are_accepted(
    tmp_path: Path, look: Look, bits: int
) -> None:
    found = look(around(tmp_path, resealed(patched(VICTIM, ATTRIBUTES, bits.to_bytes(2, "big")))))
    assert found.values() == ALL_VALUES
    assert not found.errors()


def test_fault_025_a_control_bit_on_data_shows_an_unknown_control_type(
    tmp_path: Path, look: Look
) -> None:
    found = look(around(tmp_path, resealed(patched(VICTIM, ATTRIBUTES, b"\x00\x20"))))
    assert [value for value in found.values() if value not in GOOD_VALUES] == ["x0", "x1", "x2"]
    shown = [fact for fact in found.records() if "control" in fact]
    assert len(shown) == 3
    assert found.values(view="committed") == GOOD_VALUES


def test_fault_025_a_transactional_bit_without_a_producer(tmp_path: Path, look: Look) -> None:
    found = look(around(tmp_path, resealed(patched(VICTIM, ATTRIBUTES, b"\x00\x10"))))
    assert found.values() == ALL_VALUES


@pytest.mark.parametrize("newest", [-5, 2**63 - 1, -(2**63)])
def test_fault_026_any_max_timestamp(tmp_path: Path, look: Look, newest: int) -> None:
    bad = resealed(patched(VICTIM, MAX_TIME, int64(newest)))
    found = look(around(tmp_path, bad), but_for=("time",))
    assert found.values() == ALL_VALUES
    assert not found.errors()


@pytest.mark.parametrize("when", [-5, 2**63 - 1, -(2**63), 2**62])
def test_fault_026_any_timestamp_is_a_number(tmp_path: Path, look: Look, when: int) -> None:
    found = look(around(tmp_path, batch([Rec(b"x0", timestamp=when)], 6)))
    shown = next(fact for fact in found.records() if fact["value"] == "x0")
    assert (shown["timestamp"], shown["time"]) == (when, None)


def _codec(number: int):
    from engine.coding.compression import CompressionType

    return CompressionType(number)
