"""A log's dump after damage: what Kafka would have printed, and everything behind it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from engine.coding.compression import CompressionType
from tests import builders
from tests.builders import NONE, Rec, patched, resealed, values
from tests.kafkafs.dump.dumped import Dumped, dump

NAME = "00000000000000000010.log"
FIRST, SECOND, THIRD = (
    builders.batch(values(f"{letter}0", f"{letter}1"), base)
    for letter, base in (("a", 10), ("b", 12), ("c", 14))
)


def dumped(
    tmp_path: Path, *parts: bytes, name: str = NAME, options: tuple[str, ...] = ()
) -> Dumped:
    path = tmp_path / name
    path.write_bytes(b"".join(parts))
    return dump(path, *(options or ("--print-data-log",)))


def payloads(found: Dumped) -> list[str]:
    return [line.partition("payload: ")[2] for line in found.lines if line.startswith("|")]


def test_a_wrong_checksum_is_said_in_the_batchs_line(tmp_path: Path) -> None:
    broken = patched(SECOND, 17, b"\0\0\0\0")
    found = dumped(tmp_path, FIRST, broken, THIRD)
    assert [line[-13:] for line in found.lines if line[0] == "b"] == [
        *("isvalid: true", "svalid: false", "isvalid: true"),
    ]
    assert payloads(found) == ["a0", "a1", "b0", "b1", "c0", "c1"]
    assert (found.err, found.status) == ("", 1)


def test_bytes_that_do_not_inflate_cost_their_batch_only(tmp_path: Path) -> None:
    zipped = builders.batch(values("b0", "b1"), 12, CompressionType.GZIP)
    broken = patched(zipped, 75, b"\xff\xff\xff")
    found = dumped(tmp_path, FIRST, broken, THIRD)
    assert "Failed to decompress record stream" in found.err
    assert f"batch at byte {len(FIRST)}," in found.err
    assert payloads(found)[-2:] == ["c0", "c1"]
    assert found.status == 1


@pytest.mark.parametrize("length", [2**31 - 1, 100_000, -5, 13])
def test_a_length_that_is_wrong_hides_nothing(tmp_path: Path, length: int) -> None:
    broken = patched(SECOND, 8, struct.pack(">i", length))
    found = dumped(tmp_path, FIRST, broken, THIRD)
    assert f"Found {len(broken)} invalid bytes at position {len(FIRST)} of {NAME}" in found.lines
    assert payloads(found) == ["a0", "a1", "c0", "c1"]
    if length < 14:
        assert f"Found record size {length} smaller than minimum record overhead (14)" in found.err
    assert found.status == 1


def test_a_length_that_leads_into_the_next_batch_hides_nothing(tmp_path: Path) -> None:
    longer = struct.pack(">i", len(SECOND) - 12 + 7)
    found = dumped(tmp_path, FIRST, patched(SECOND, 8, longer), THIRD)
    assert payloads(found) == ["a0", "a1", "b0", "b1", "c0", "c1"]
    stated, real = len(SECOND) + 7, len(SECOND)
    assert f"states {stated} bytes, the next one begins after {real} " in found.err


def test_a_torn_end_is_said_as_kafka_says_it(tmp_path: Path) -> None:
    found = dumped(tmp_path, FIRST, SECOND[:30])
    assert found.lines[-1] == f"Found 30 invalid bytes at the end of {NAME}"
    assert payloads(found) == ["a0", "a1"]
    assert found.status == 1


def test_zeros_at_the_end_are_no_finding(tmp_path: Path) -> None:
    found = dumped(tmp_path, FIRST, bytes(100))
    assert found.lines[-1] == f"Found 100 invalid bytes at the end of {NAME}"
    assert "Found record size 0 smaller than minimum record overhead (14) in file" in found.err
    assert found.status == 0


def test_a_format_that_is_not_known_is_read_as_the_newest(tmp_path: Path) -> None:
    found = dumped(tmp_path, FIRST, patched(SECOND, 16, b"\x07"), THIRD)
    assert " magic: 7 " in found.lines[5]
    assert payloads(found) == ["a0", "a1", "b0", "b1", "c0", "c1"]
    assert "unknown format" in found.err
    assert found.status == 1


def test_a_codec_that_is_not_known_costs_its_records_only(tmp_path: Path) -> None:
    broken = resealed(patched(SECOND, 22, b"\x07"))
    found = dumped(tmp_path, FIRST, broken, THIRD)
    assert any(" compresscodec: unknown(7) " in line for line in found.lines)
    assert "Unknown compression type id" in found.err
    assert payloads(found) == ["a0", "a1", "c0", "c1"]


@pytest.mark.parametrize(
    ("count", "sentence"),
    [(1, "records still remaining in file"), (3, "premature EOF reached")],
)
def test_a_record_count_that_is_wrong_costs_no_record_that_is_there(
    tmp_path: Path, count: int, sentence: str
) -> None:
    broken = resealed(patched(SECOND, 57, struct.pack(">i", count)))
    found = dumped(tmp_path, broken, THIRD, name="00000000000000000012.log")
    assert sentence in found.err
    assert payloads(found) == [*["b0", "b1"][:count], "c0", "c1"]


def test_offsets_that_do_not_follow_are_told_at_the_end(tmp_path: Path) -> None:
    found = dumped(tmp_path, FIRST, THIRD, SECOND)
    assert found.err.splitlines() == [
        f"Non-consecutive offsets in {tmp_path}/{NAME}",
        "  11 is followed by 14",
        "  15 is followed by 12",
    ]
    assert found.status == 1


def test_a_gap_alone_is_no_finding(tmp_path: Path) -> None:
    found = dumped(tmp_path, FIRST, THIRD)
    assert "  11 is followed by 14" in found.err
    assert found.status == 0


def test_a_segment_that_begins_above_0_follows_nothing(tmp_path: Path) -> None:
    assert dumped(tmp_path, FIRST, SECOND).err == ""


def test_a_name_that_is_no_number_is_said_and_the_log_is_dumped(tmp_path: Path) -> None:
    found = dumped(tmp_path, FIRST, name="copy.log")
    assert 'For input string: "copy"' in found.err
    assert payloads(found) == ["a0", "a1"]


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".swap"])
def test_segments_on_their_way_in_or_out_are_dumped(tmp_path: Path, suffix: str) -> None:
    found = dumped(tmp_path, FIRST, name=NAME + suffix)
    assert "Log starting offset: 10" in found.lines
    assert payloads(found) == ["a0", "a1"]


def test_only_batches_are_shown_without_an_option(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(FIRST + SECOND)
    assert [line.split(":")[0] for line in dump(path).lines] == [
        *(f"Dumping {tmp_path}/{NAME}", "Log starting offset", "baseOffset", "baseOffset"),
    ]


def test_max_bytes_ends_quietly_between_batches(tmp_path: Path) -> None:
    size = str(len(FIRST) + len(SECOND) + 10)
    options = ("--deep-iteration", "--max-bytes", size)
    found = dumped(tmp_path, FIRST, SECOND, THIRD, options=options)
    assert sum(line.startswith("baseOffset") for line in found.lines) == 2
    assert (found.err, found.status) == ("", 0)
    assert "invalid" not in found.out.decode()


def test_control_records_are_told_and_their_bytes_left_out(tmp_path: Path) -> None:
    marker = builders.end_marker(10, builders.Producer(id=5, epoch=1), commit=False)
    unknown = builders.control_batch(99, b"?", 11)
    broken = builders.control_batch(1, b"", 12)
    found = dumped(tmp_path, marker, unknown, broken)
    lines = [line for line in found.lines if line.startswith("|")]
    assert lines[0].endswith("headerKeys: [] endTxnMarker: ABORT coordinatorEpoch: 0")
    assert lines[1].endswith("headerKeys: [] controlType: UNKNOWN(99)")
    assert lines[2].endswith("headerKeys: []")
    assert "end marker is too short" in found.err
    assert found.status == 1


def test_messages_of_old_formats_have_checksums_of_their_own(tmp_path: Path) -> None:
    records = [Rec(b"v0", b"k"), Rec(b"v1")]
    inner = [builders.message(at, r.key, r.value) for at, r in enumerate(records)]
    inner[1] = patched(inner[1], 12, b"\0\0\0\0")
    found = dumped(tmp_path, builders.wrapper(inner, 11, CompressionType.GZIP))
    crc = int.from_bytes(inner[0][12:16], "big")
    assert found.lines[-2:] == [
        (
            "| offset: 10 CreateTime: 1700000000000 keySize: 1 valueSize: 2"
            f" isValid: true crc: {crc} key: k payload: v0"
        ),
        (
            "| offset: 11 CreateTime: 1700000000000 keySize: -1 valueSize: 2"
            " isValid: false crc: 0 payload: v1"
        ),
    ]


def test_a_size_below_zero_is_null_and_shown_as_it_is(tmp_path: Path) -> None:
    broken = patched(builders.message(10, b"k", b"v"), 31, b"\x80\0\0\7")
    found = dumped(tmp_path, broken)
    assert " keySize: 1 valueSize: -2147483641 isValid: false " in found.lines[-1]
    assert found.lines[-1].endswith(" key: k")


def test_a_wrapper_that_does_not_inflate_costs_itself_only(tmp_path: Path) -> None:
    sound = builders.message_set(values("x", "y"), 10, CompressionType.GZIP)
    broken = resealed(patched(sound, 60, b"\xff\xff\xff\xff"))
    after = builders.message_set(values("z"), 12, NONE)
    found = dumped(tmp_path, broken, after)
    assert "Failed to decompress record stream" in found.err
    assert payloads(found)[-1] == "z"
