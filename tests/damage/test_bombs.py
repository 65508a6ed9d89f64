"""Faults 48 to 60: bytes that ask for more memory or time than they are worth.

Each log is read by a child process that may take 256 MiB more than an idle one; that the bound holds whatever
the bytes claim is what is tested, and that the records around them are served.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from engine.budgets import Budgets, MiB
from engine.coding.compression import CompressionType, compress
from tests.builders import batch, patched, record_body, sized
from tests.damage.cases import (
    AFTER,
    AT,
    GOOD_VALUES,
    START,
    VICTIM,
    around,
    behind,
    good,
    int32,
    log_dir,
    records,
)
from tests.damage.reader import Look
from tests.damage.survey import Survey

KERNELS = ["compiled", "python"]
NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionType
RECORDS = "t-0/records/00000000000000000000.jsonl"
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def packed(codec: CompressionType, payload: bytes, count: int = 3) -> bytes:
    """A batch at offsets 6 to 8 whose compressed records are these bytes."""
    return batch(
        [],
        6,
        codec,
        section=payload,
        record_count=count,
        last_offset_delta=2,
        base_timestamp=START,
        max_timestamp=START,
    )


def rle_blocks(count: int, size: int = 128 * 1024) -> bytes:
    """Zstd blocks of 4 bytes that each give `size` zeros; the last one ends the frame."""
    words = [(size << 3 | 1 << 1 | (number == count - 1)) for number in range(count)]
    return b"".join(word.to_bytes(3, "little") + b"\x00" for word in words)


def zstd_frame(blocks: bytes, *, window_log: int = 17, content_size: int | None = None) -> bytes:
    head = struct.pack("<I", 0xFD2FB528)
    if content_size is None:
        return head + bytes([0x00, (window_log - 10) << 3]) + blocks
    return head + bytes([0xC0, (window_log - 10) << 3]) + struct.pack("<Q", content_size) + blocks


def raw_block(data: bytes) -> bytes:
    return (len(data) << 3 | 1).to_bytes(3, "little") + data


PLAIN = b"".join(sized(record_body(n, 0, b"k", b"x%d" % n)) for n in range(3))
LZ4_HEAD = b"\x04\x22\x4d\x18"


def lz4_frame(flags: int, sizes: int, blocks: bytes, content_size: bytes = b"") -> bytes:
    from engine.coding.checksums import xxh32

    descriptor = bytes([flags, sizes]) + content_size
    return LZ4_HEAD + descriptor + bytes([xxh32(descriptor) >> 8 & 0xFF]) + blocks


def lz4_block(data: bytes, size: int | None = None) -> bytes:
    """A stored block, that may state another size."""
    return struct.pack("<I", (len(data) if size is None else size) | 0x80000000) + data


BOMBS: dict[str, tuple[bytes, str]] = {
    # name: the batch, the kind of its error
    "048-94-bytes-to-2.75-MiB": (packed(ZSTD, zstd_frame(rle_blocks(22))), "invalid_record"),
    "048-1-MiB-to-32-GiB": (packed(ZSTD, zstd_frame(rle_blocks(262_144))), "limit"),
    "048-many-frames": (packed(ZSTD, zstd_frame(rle_blocks(600)) * 40), "limit"),
    "049-content-size-1-TiB": (
        packed(ZSTD, zstd_frame(raw_block(PLAIN), content_size=2**40)),
        "decompression",
    ),
    "049-content-size-2^63": (
        packed(ZSTD, zstd_frame(raw_block(PLAIN), content_size=2**63)),
        "decompression",
    ),
    "050-window-2-GiB": (
        packed(ZSTD, zstd_frame(raw_block(PLAIN), window_log=31)),
        "decompression",
    ),
    "050-window-1-TiB": (
        packed(ZSTD, zstd_frame(raw_block(PLAIN), window_log=40)),
        "decompression",
    ),
    "051-snappy-claims-1-GiB": (packed(SNAPPY, b"\x80\x80\x80\x80\x04" + PLAIN), "limit"),
    "051-snappy-claims-4-GiB": (packed(SNAPPY, b"\xff\xff\xff\xff\x0f" + PLAIN), "limit"),
    "051-xerial-chunk-claims-1-GiB": (
        packed(SNAPPY, XERIAL + int32(20) + b"\x80\x80\x80\x80\x04" + b"x" * 15),
        "limit",
    ),
    "052-xerial-chunk-of-2-GiB": (
        packed(SNAPPY, XERIAL + int32(2**31 - 1) + PLAIN),
        "decompression",
    ),
    "052-xerial-chunk-below-0": (packed(SNAPPY, XERIAL + int32(-1) + PLAIN), "decompression"),
    "053-gzip-1000-to-1": (packed(GZIP, compress(GZIP, bytes(300 * MiB))), "limit"),
    "053-gzip-empty-members": (packed(GZIP, compress(GZIP, b"") * 100_000), "decompression"),
    "053-gzip-endless-name": (
        packed(GZIP, b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * MiB),
        "decompression",
    ),
    "054-lz4-block-above-its-maximum": (
        packed(LZ4, lz4_frame(0x60, 0x40, lz4_block(bytes(70_000)) + bytes(4))),
        "decompression",
    ),
    "054-lz4-block-of-2-GiB": (
        packed(LZ4, lz4_frame(0x60, 0x70, lz4_block(PLAIN, 2**31 - 1))),
        "decompression",
    ),
    "054-lz4-reserved-flag": (
        packed(LZ4, lz4_frame(0x62, 0x40, lz4_block(PLAIN) + bytes(4))),
        "decompression",
    ),
    "054-lz4-reserved-size": (
        packed(LZ4, lz4_frame(0x60, 0x30, lz4_block(PLAIN) + bytes(4))),
        "decompression",
    ),
    "054-lz4-empty-blocks-without-end": (
        packed(LZ4, lz4_frame(0x60, 0x40, (struct.pack("<I", 1) + b"\x00") * 200_000)),
        "decompression",
    ),
}


def parsed(found: Survey) -> tuple[list[Any], list[dict[str, Any]]]:
    """The values and the errors of the one segment."""
    facts = [json.loads(line) for line in found.files[RECORDS].splitlines()]
    errors = [fact["error"] for fact in facts if "error" in fact]
    return [fact["value"] for fact in facts if "value" in fact], errors


@pytest.mark.parametrize("case", BOMBS)
def test_faults_048_to_054_a_bomb_is_an_error_at_its_place(
    tmp_path: Path, look: Look, case: str
) -> None:
    bomb, kind = BOMBS[case]
    found = look(around(tmp_path, bomb), only=[RECORDS, "t-0/offset/6", "t-0/offset/9"])
    values, errors = parsed(found)
    assert values == GOOD_VALUES
    assert [(error["kind"], error["position"], error["length"]) for error in errors] == [
        (kind, AT, len(bomb))
    ]
    assert list(found.refused) == ["t-0/offset/6"]
    assert found.seconds < 60


@pytest.mark.parametrize(
    "payload",
    [
        zstd_frame(raw_block(PLAIN), window_log=27),
        zstd_frame(raw_block(PLAIN), content_size=len(PLAIN)),
    ],
    ids=["050-window-128-MiB", "049-content-size-right"],
)
def test_faults_049_050_what_kafka_reads_is_read_in_little_memory(
    tmp_path: Path, look: Look, payload: bytes
) -> None:
    found = look(around(tmp_path, packed(ZSTD, payload)))
    assert found.values() == [*GOOD_VALUES[:6], "x0", "x1", "x2", *GOOD_VALUES[6:]]
    assert found.peak < 64 * MiB


@pytest.mark.parametrize("stated", [0, 5, 2**40, 2**64 - 1])
def test_fault_054_the_content_size_of_a_frame_makes_no_room(
    tmp_path: Path, look: Look, stated: int
) -> None:
    frame = lz4_frame(0x68, 0x40, lz4_block(PLAIN) + bytes(4), struct.pack("<Q", stated))
    found = look(around(tmp_path, packed(LZ4, frame)))
    assert found.values() == [*GOOD_VALUES[:6], "x0", "x1", "x2", *GOOD_VALUES[6:]]
    assert found.peak < 32 * MiB


@pytest.mark.parametrize("over", [-1, 0, 1])
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_fault_048_the_limit_is_exact(
    tmp_path: Path, look: Look, codec: CompressionType, over: int
) -> None:
    one = sized(record_body(0, 0, b"k", b"v" * 3000))
    found = look(
        around(tmp_path, packed(codec, compress(codec, one), 1)),
        budgets=Budgets(inflated_bytes=len(one) + over),
    )
    assert [error["kind"] for error in found.errors()] == (["limit"] if over < 0 else [])


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_fault_055_the_limit_of_records_is_exact(tmp_path: Path, look: Look, over: int) -> None:
    bad = batch(records(6, *(f"x{number}" for number in range(9))), 6)
    found = look(behind(tmp_path, bad), budgets=Budgets(records_per_batch=9 + over))
    assert len(found.values()) == 6 + min(9, 9 + over)
    assert [error["kind"] for error in found.errors()] == (["limit"] if over < 0 else [])


def test_fault_055_86_bytes_of_1000_records(tmp_path: Path, look: Look) -> None:
    section = sized(record_body(0, 0, b"", b"")) * 1000
    small = batch([], 6, ZSTD, section=compress(ZSTD, section), record_count=1000, max_timestamp=-1)
    assert len(small) < 100
    found = look(behind(tmp_path, small))
    assert found.offsets() == [0, 1, 2, 3, 4, 5, *[6] * 1000]


def test_fault_055_a_million_records_in_700_bytes_are_streamed(tmp_path: Path, look: Look) -> None:
    if look.kernel == "python":  # type: ignore[attr-defined]
        pytest.skip("a million lines take the Python kernel a minute; the way there is the same")
    section = sized(record_body(0, 0, b"", b"")) * 1_000_000
    small = batch([], 6, ZSTD, section=compress(ZSTD, section), record_count=1_000_000)
    assert len(small) < 800
    # Two threads may have the batch decoded at once: the one that reads on ahead, and a look-up.
    found = look(
        behind(tmp_path, small), only=["t-0/offset", "t-0/offset/6", RECORDS], memory=512 * MiB
    )
    assert found.sizes[RECORDS] > 100 * MiB
    assert found.names["t-0/offset"] == ["README.txt", "earliest", "latest", f"{0:020}"]
    assert found.files["t-0/offset/6"].count(b"\n") == 1


def test_fault_055_many_offsets_in_a_batch_are_not_listed(tmp_path: Path, look: Look) -> None:
    section = b"".join(sized(record_body(number, 0, None, None)) for number in range(20_000))
    large = batch(
        [],
        6,
        ZSTD,
        section=compress(ZSTD, section),
        record_count=20_000,
        last_offset_delta=19_999,
    )
    paths = ["t-0/offset", "t-0/offset/6", "t-0/offset/7000", "t-0/offset/20005"]
    found = look(behind(tmp_path, large), only=[*paths, "t-0/offset/19999..20003"])
    assert found.names["t-0/offset"] == ["README.txt", "earliest", "latest", f"{0:020}"]
    assert [len(found.files[path].splitlines()) for path in paths[1:]] == [1, 1, 1]
    assert found.files["t-0/offset/19999..20003"].count(b"\n") == 4


def test_fault_056_names_and_sizes_inflate_nothing(tmp_path: Path) -> None:
    """What `find` and `ls -l` ask: the answer may be a guess, and costs no decoding."""
    from engine.log.log_directory import open_source
    from kafkafs.tree.node import Directory, File
    from kafkafs.tree.tree import Tree

    bomb = packed(ZSTD, zstd_frame(rle_blocks(262_144)))
    log_dir(tmp_path, [bomb] * 20)
    tree = Tree(open_source(str(tmp_path)))
    for folder in ("t-0/records", "t-0/committed", "t-0/segments"):
        node = tree.resolve(folder)
        assert isinstance(node, Directory)
        for entry in node.entries():
            attrs = tree.follow(node.lookup(entry.name)).attrs()
            assert attrs.size > 0
            assert attrs.exact == (folder == "t-0/segments")
    assert isinstance(tree.resolve(RECORDS), File)
    assert not tree.context.chunks.bytes


def test_fault_056_a_reader_that_goes_away_ends_the_work(tmp_path: Path) -> None:
    from engine.log.log_directory import open_source
    from kafkafs.tree.errors import Cancelled
    from kafkafs.tree.tree import Tree

    log_dir(tmp_path, [good("a", 3 * number) for number in range(20_000)])
    tree = Tree(open_source(str(tmp_path)))
    asked = 0

    def gone() -> bool:
        nonlocal asked
        asked += 1
        return asked > 1

    node: Any = tree.resolve(RECORDS)
    with pytest.raises(Cancelled):
        node.open(gone)
    assert asked == 2
    assert node.open().size > 5 * MiB


def test_fault_057_many_partitions_and_segments_need_few_descriptors(
    tmp_path: Path, look: Look
) -> None:
    for number in range(150):
        log_dir(tmp_path, [good("a", 0)], name=f"t-{number}")
    for number in range(150):
        log_dir(tmp_path, [good("a", 3 * number)], 3 * number, name="many-0")
    folders = [f"t-{number}/records/{0:020}.jsonl" for number in range(150)]
    segments = [f"many-0/records/{3 * number:020}.jsonl" for number in range(150)]
    # 64 descriptors are fewer than the cache would like: running out of them empties it.
    found = look(tmp_path, files=64, only=[*folders, *segments, "many-0/offset/300"])
    assert not found.refused
    assert all(found.files[path].count(b"\n") == 3 for path in folders + segments)


@pytest.mark.parametrize("size", [2**31 - 1, 2**31 + 5, 2**43])
def test_fault_058_a_sparse_file_is_read_by_its_data(tmp_path: Path, look: Look, size: int) -> None:
    behind(tmp_path, b"")
    log = tmp_path / "t-0" / f"{0:020}.log"
    try:
        with log.open("r+b") as file:
            file.truncate(size)
    except OSError:
        pytest.skip("no file here can be so large")
    found = look(tmp_path, only=[RECORDS, "t-0/offset/5", "t-0/state/offsets.json"])
    assert found.files[RECORDS].count(b"\n") == 6
    assert found.json("t-0/state/offsets.json")["logEndOffset"] == 6
    assert found.seconds < 5


def test_fault_058_a_batch_behind_2_gib_of_hole_is_found(tmp_path: Path, look: Look) -> None:
    behind(tmp_path, b"")
    log = tmp_path / "t-0" / f"{0:020}.log"
    with log.open("r+b") as file:
        file.seek(2**31 + 4097)
        file.write(VICTIM)
    found = look(tmp_path, only=[RECORDS, "t-0/offset/8"])
    values, (error,) = parsed(found)
    assert values == [*GOOD_VALUES[:6], "x0", "x1", "x2"]
    assert (error["kind"], error["position"]) == ("zeros", AT)
    assert error["position"] + error["length"] == 2**31 + 4097
    assert found.seconds < 5


def test_fault_059_a_batch_above_the_limit_is_passed_over(tmp_path: Path, look: Look) -> None:
    behind(tmp_path, b"")
    size = 300 * MiB
    log = tmp_path / "t-0" / f"{0:020}.log"
    with log.open("r+b") as file:
        file.seek(AT)
        file.write(patched(VICTIM, 8, int32(size - 12)))
        file.seek(AT + size)
        file.write(b"".join(AFTER))
    found = look(tmp_path, only=[RECORDS, "t-0/offset/9", "t-0/offset/6"])
    values, (error,) = parsed(found)
    assert values == GOOD_VALUES
    assert (error["kind"], error["position"]) == ("batch_too_large", AT)
    assert error["length"] == size
    assert json.loads(found.files["t-0/offset/9"])["value"] == "c0"
    assert "6" in found.refused["t-0/offset/6"]


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_fault_059_a_large_value_is_read_by_range(
    tmp_path: Path, look: Look, codec: CompressionType
) -> None:
    if look.kernel == "python":  # type: ignore[attr-defined]
        pytest.skip("20 MiB of text take the Python kernel long; the way there is the same")
    large = batch(records(6, "v" * (20 * MiB)), 6, codec)
    found = look(behind(tmp_path, large), only=[RECORDS, "t-0/offset/6", "t-0/offset/6.value"])
    assert found.sizes["t-0/offset/6.value"] == 20 * MiB
    assert found.sizes["t-0/offset/6"] > 20 * MiB
    assert found.peak < 220 * MiB


VALUES = {
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep-objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "open": b"[" * 100_000,
    "number": b'{"n":' + b"9" * 200_000 + b"}",
    "exponent": b'{"n":1e999999999}',
    "surrogate": b'{"s":"\\ud800"}',
    "surrogate-bytes": b'{"s":"\xed\xa0\x80"}',
    "infinity": b"[Infinity,NaN]",
    "comment": b"[1] // no",
    "duplicate-keys": b'{"a":1,"a":2}',
}


@pytest.mark.parametrize("case", VALUES)
def test_fault_060_json_that_asks_too_much_is_text(tmp_path: Path, look: Look, case: str) -> None:
    value = VALUES[case]
    found = look(behind(tmp_path, batch([*records(6, "x0")[:0], _record(value)], 6)))
    shown = found.lines()[6]
    assert shown.count(b"\n") == 1
    assert found.files["t-0/offset/6.value"] == value if "t-0/offset/6.value" in found.files else 1
    fact = json.loads(shown, parse_int=str, parse_float=str)
    is_embedded = case in ("exponent", "duplicate-keys")
    assert (fact.get("valueEncoding") == "json") == is_embedded
    assert found.seconds < 10


def _record(value: bytes) -> Any:
    from tests.builders import Rec

    return Rec(value, b"k", START + 6000)
