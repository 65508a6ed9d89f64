"""Codecs: both ways, cut, damaged, and bounded whatever the bytes claim."""

import contextlib
import gzip
import itertools
import random
import re
import sys
import tracemalloc
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, strategies as st

from engine import kernel
from engine.coding import codec_libraries, compression, lz4_frame, snappy_frame, zstd_frame
from engine.coding.compression import (
    MAX_MEMBERS,
    Compression,
    CompressionType,
    compress,
    decompress,
)
from engine.coding.zstd_frame import MAX_FRAMES
from engine.errors import DecompressionError, LimitExceededError, UnsupportedCodecError

NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionType
PACKED = (GZIP, SNAPPY, LZ4, ZSTD)
LIMIT = 1 << 20
TEXT = b"".join(b'{"id":%d,"city":"Oslo"}\n' % n for n in range(5000))
MIXED = TEXT + random.Random(1).randbytes(70_000)

every_codec = pytest.mark.parametrize("codec", PACKED)


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, MIXED], ids=["none", "one", "text", "mixed"])
def test_what_is_compressed_comes_back_from_any_kind_of_buffer(codec, data):
    for magic in (0, 1, 2):
        packed = compress(codec, memoryview(data), magic=magic)
        for buffer in (packed, bytearray(packed), memoryview(packed)):
            assert decompress(codec, buffer, limit=LIMIT, magic=magic) == data


@pytest.mark.parametrize("codec", CompressionType)
def test_the_limit_is_the_largest_size_that_comes_out(codec):
    packed = compress(codec, MIXED)
    assert decompress(codec, packed, limit=len(MIXED)) == MIXED
    for limit in (0, 1, 1000, len(MIXED) - 1):
        with pytest.raises(LimitExceededError) as raised:
            decompress(codec, packed, limit=limit)
        assert raised.value.limit == "inflated_bytes"


@every_codec
def test_data_cut_anywhere_gives_what_came_before_the_cut(codec):
    text = TEXT[:3000]
    packed = compress(codec, text)
    # A snappy stream may end between two chunks, and this has one.
    ends = range(20 if codec is SNAPPY else 1, len(packed))
    sizes = []
    for end in ends:
        with pytest.raises(DecompressionError) as raised:
            decompress(codec, packed[:end], limit=LIMIT)
        partial = raised.value.partial
        assert text.startswith(partial)
        sizes.append(len(partial))
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_damage_late_in_a_batch_keeps_what_came_before_it(codec):
    packed = compress(codec, MIXED)
    broken = packed[:-50_000] + b"\xff" * 50_000
    with pytest.raises(DecompressionError) as raised:
        decompress(codec, broken, limit=LIMIT)
    assert raised.value.partial.startswith(MIXED[:30_000])


@every_codec
@given(data=st.data())
def test_any_bytes_give_data_or_a_known_error(codec, data):
    packed = bytearray(compress(codec, TEXT[:2000]))
    for _ in range(data.draw(st.integers(0, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    packed += data.draw(st.binary(max_size=8))
    with contextlib.suppress(DecompressionError, LimitExceededError):
        decompress(codec, packed, limit=5000)


@every_codec
@given(noise=st.binary(max_size=64))
def test_noise_gives_data_or_a_known_error(codec, noise):
    with contextlib.suppress(DecompressionError, LimitExceededError):
        decompress(codec, noise, limit=5000)


def peak(codec: CompressionType, packed: bytes, limit: int) -> int:
    """The most bytes that Python held while a bomb was refused."""
    tracemalloc.start()
    try:
        with pytest.raises((LimitExceededError, DecompressionError)):
            decompress(codec, packed, limit=limit)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@every_codec
def test_a_bomb_costs_no_more_than_the_limit_and_a_little(codec):
    bomb = compress(codec, bytes(64 << 20))
    assert peak(codec, bomb, 1 << 20) < 40 << 20


def test_zstd_blocks_of_one_repeated_byte_stop_at_the_limit():
    block = (131072 << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    bomb = b"\x28\xb5\x2f\xfd\x00\x58" + block * 250_000
    assert peak(ZSTD, bomb, 64 << 20) < 160 << 20


def test_a_zstd_frame_that_claims_a_huge_content_or_window_allocates_nothing():
    head = b"\x28\xb5\x2f\xfd"
    huge_content = head + b"\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00"
    huge_window = head + b"\x00" + bytes([(31 - 10) << 3]) + b"\x01\x00\x00"
    for packed in (huge_content, huge_window):
        assert peak(ZSTD, packed, LIMIT) < 1 << 20


@pytest.mark.parametrize("count", [1, 2, 7])
def test_gzip_members_and_zstd_frames_follow_each_other(count):
    parts = [b"%d," % n * 100 for n in range(count)]
    packed = b"".join(gzip.compress(part) for part in parts)
    assert decompress(GZIP, packed, limit=LIMIT) == b"".join(parts)
    packed = b"".join(zstandard.ZstdCompressor().compress(part) for part in parts)
    assert decompress(ZSTD, packed, limit=LIMIT) == b"".join(parts)
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    assert decompress(ZSTD, skippable + packed + skippable, limit=LIMIT) == b"".join(parts)


def test_what_stands_behind_the_last_gzip_member_is_not_read():
    packed = gzip.compress(TEXT)
    for rest in (b"\x00", bytes(100), b"\x1f\x8b\x08", b"noise" * 10):
        assert decompress(GZIP, packed + rest, limit=LIMIT) == TEXT


def test_what_stands_behind_the_last_zstd_frame_is_damage():
    with pytest.raises(DecompressionError) as raised:
        decompress(ZSTD, compress(ZSTD, TEXT) + b"noise", limit=LIMIT)
    assert raised.value.partial == TEXT


@pytest.mark.parametrize(
    ("codec", "empty", "most"),
    [(GZIP, gzip.compress(b""), 1024), (ZSTD, compress(ZSTD, b""), 1024)],
)
def test_endless_empty_parts_are_refused(codec, empty, most):
    assert decompress(codec, empty * most, limit=LIMIT) == b""
    with pytest.raises(DecompressionError, match=f"more than {most}"):
        decompress(codec, empty * (most + 1), limit=LIMIT)


def test_a_gzip_checksum_that_is_wrong_gives_all_that_was_inflated():
    packed = bytearray(gzip.compress(TEXT))
    packed[-6] ^= 1
    with pytest.raises(DecompressionError) as raised:
        decompress(GZIP, packed, limit=LIMIT)
    assert raised.value.partial == TEXT


def test_damaged_gzip_of_few_bytes_loses_none_before_the_damage():
    packed = gzip.compress(TEXT[:2000])
    for place in range(20, 60):
        broken = bytearray(packed)
        broken[place] ^= 0xFF
        expected, member = b"", zlib.decompressobj(31)
        with contextlib.suppress(zlib.error):
            for at in range(len(broken)):
                expected += member.decompress(broken[at : at + 1])
        with pytest.raises(DecompressionError) as raised:
            decompress(GZIP, broken, limit=LIMIT)
        assert raised.value.partial == expected


def test_a_snappy_block_that_states_too_much_is_above_the_limit():
    for data, limit in ((b"\x80\x80\x80\x80\x08\x00", LIMIT), (compress(SNAPPY, b"x" * 101), 100)):
        with pytest.raises(LimitExceededError):
            decompress(SNAPPY, data, limit=limit)


@pytest.mark.parametrize("data", [TEXT, MIXED[-70_000:]], ids=["text", "noise"])
def test_the_limit_of_zstd_is_of_all_frames_together(data):
    packed = compress(ZSTD, data) * 2
    assert decompress(ZSTD, packed, limit=2 * len(data)) == 2 * data
    with pytest.raises(LimitExceededError):
        decompress(ZSTD, packed, limit=2 * len(data) - 1)


def test_the_limits_on_parts_are_those_of_the_kernel():
    text = (Path(kernel.__file__).parent / "c" / "codecs.h").read_text()
    most = {name: int(number) for name, number in re.findall(r"#define KFS_MOST_(\w+) (\d+)", text)}
    assert most["PARTS"] == MAX_MEMBERS == MAX_FRAMES
    assert (
        most["BLOCKS"] == zstd_frame.MAX_BLOCKS == lz4_frame.MAX_BLOCKS == snappy_frame.MAX_CHUNKS
    )


def test_no_data_is_an_error_but_for_zstd():
    for codec in (GZIP, SNAPPY, LZ4):
        with pytest.raises(DecompressionError):
            decompress(codec, b"", limit=LIMIT)
    assert decompress(ZSTD, b"", limit=LIMIT) == b""


@pytest.mark.parametrize("codec", [SNAPPY, LZ4, ZSTD])
def test_a_missing_package_is_named(monkeypatch, codec):
    packed = compress(codec, TEXT)
    monkeypatch.delattr(codec_libraries, "cramjam", raising=False)
    monkeypatch.setitem(sys.modules, "cramjam", None)
    for call in (lambda: decompress(codec, packed, limit=LIMIT), lambda: compress(codec, TEXT)):
        with pytest.raises(UnsupportedCodecError, match="pip install cramjam"):
            call()


def test_codecs_have_kafkas_numbers():
    for number, codec in enumerate((NONE, GZIP, SNAPPY, LZ4, ZSTD)):
        assert codec == number
        assert decompress(codec, compress(codec, b"x"), limit=1) == b"x"


def test_levels_change_the_size_and_not_the_content():
    for codec, levels in ((GZIP, (1, 9)), (ZSTD, (-5, 19))):
        sizes = []
        for level in levels:
            packed = compress(codec, TEXT, level=level)
            assert decompress(codec, packed, limit=LIMIT) == TEXT
            sizes.append(len(packed))
        assert all(small < large for large, small in itertools.pairwise(sizes))


@pytest.mark.parametrize("level", [None, 1, 3, 9, 12, 17])
@pytest.mark.parametrize("data", [MIXED, b"", b"\x01", b"a" * 65536, MIXED[-65536:]])
def test_lz4_comes_back_from_every_level(level, data):
    made = compress(LZ4, data, level=level)
    assert decompress(LZ4, made, limit=LIMIT) == data


def test_the_slow_levels_of_lz4_find_more_than_the_default():
    sizes = [len(compress(LZ4, TEXT, level=level)) for level in (12, 3, 9)]
    assert sizes[0] < sizes[1] < sizes[2]
    for beyond, level in ((1, 3), (17, 12)):
        assert compress(LZ4, TEXT, level=beyond) == compress(LZ4, TEXT, level=level)
    assert compress(LZ4, TEXT, level=9) == compress(LZ4, TEXT)


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (NONE, 1),
        (SNAPPY, 1),
        (GZIP, 0),
        (GZIP, -2),
        (GZIP, 10),
        (LZ4, 0),
        (LZ4, 18),
        (ZSTD, 23),
        (ZSTD, -131073),
    ],
)
def test_a_level_that_a_codec_has_not_is_refused(codec, level):
    with pytest.raises(ValueError, match=codec.name.lower()):
        Compression(codec, level)


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (GZIP, -1),
        (GZIP, 1),
        (GZIP, 9),
        (LZ4, 1),
        (LZ4, 17),
        (ZSTD, -131072),
        (ZSTD, 22),
        (NONE, None),
    ],
)
def test_a_level_that_a_codec_has_is_taken(codec, level):
    assert Compression(codec, level).level == level


def test_lz4_has_blocks_of_64_kibibytes():
    noise = random.Random(2).randbytes(65536 + 1)
    made = compress(LZ4, noise)
    stored = [made[7:11], made[11 + 65536 : 15 + 65536], made[-4:]]
    assert [int.from_bytes(size, "little") for size in stored] == [2**31 + 65536, 2**31 + 1, 0]


def test_gzip_without_a_level_is_level_6():
    assert compress(GZIP, TEXT) == compress(GZIP, TEXT, level=6)
    assert compress(GZIP, TEXT) != compress(GZIP, TEXT, level=1)


def test_bytes_after_a_member_are_the_next_from_18_bytes_on():
    begun = b"\x1f\x8b\x08" + bytes(14)
    assert decompress(GZIP, gzip.compress(TEXT) + begun, limit=LIMIT) == TEXT
    with pytest.raises(DecompressionError):
        decompress(GZIP, gzip.compress(TEXT) + begun + b"\0", limit=LIMIT)
    assert decompress(GZIP, gzip.compress(TEXT) + bytes(100), limit=LIMIT) == TEXT


def test_members_of_a_batch_are_bounded(monkeypatch):
    monkeypatch.setattr(compression, "MAX_MEMBERS", 2)
    assert decompress(GZIP, gzip.compress(TEXT) * 2, limit=LIMIT) == TEXT * 2
    with pytest.raises(DecompressionError, match="more than 2 members"):
        decompress(GZIP, gzip.compress(TEXT) * 3, limit=LIMIT)


def test_snappy_begins_as_javas_and_is_never_empty():
    assert compress(SNAPPY, b"x")[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    with pytest.raises(DecompressionError, match="no data"):
        decompress(SNAPPY, b"", limit=LIMIT)
