"""zstd frames, beside a library that inflates them piece by piece: same content, same bytes before any damage."""

import random

import pytest
import zstandard

from engine.coding.zstd_frame import MAX_BLOCKS, ZstdFrameError, compress, decompress

SOME = random.Random(3)
TEXT = b"".join(b'{"id":%d,"city":"Oslo"}\n' % SOME.randrange(10**9) for _ in range(40_000))
LIMIT = 4 << 20
CHECKED = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)
MAGIC = b"\x28\xb5\x2f\xfd"
LAST, STORED, REPEATED, RESERVED = 1, 0 << 1, 1 << 1, 3 << 1


def flushed(parts: list[bytes]) -> bytes:
    """Return a frame with a block for each part, and a checksum."""
    writer = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    made = [
        writer.compress(part) + writer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for part in parts
    ]
    return b"".join(made) + writer.flush()


def block(flags: int, size: int, data: bytes) -> bytes:
    return (size << 3 | flags).to_bytes(3, "little") + data


def inflated(data: bytes, limit: int = LIMIT) -> tuple[bytes, str | None]:
    """Return what comes out, and the error."""
    out = bytearray()
    try:
        decompress(data, out, limit)
    except ZstdFrameError as error:
        return bytes(out), str(error)
    return bytes(out), None


def streamed(data: bytes) -> bytes:
    """Return what zstandard gives before an error or the end of the data."""
    reader, out = zstandard.ZstdDecompressor().decompressobj(), b""
    try:
        for start in range(0, len(data), 64):
            out += reader.decompress(data[start : start + 64])
    except zstandard.ZstdError:
        pass
    return out


@pytest.mark.parametrize("data", [b"", b"x", TEXT])
def test_frames_are_those_of_a_streaming_writer(data):
    writer = zstandard.ZstdCompressor(3).compressobj()
    assert compress(data) == writer.compress(data) + writer.flush()
    assert inflated(compress(data, 19)) == (data, None)


@pytest.mark.parametrize("options", [{}, {"write_checksum": True}, {"write_content_size": False}])
@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_791, 65_792, len(TEXT)])
def test_frames_with_every_header_are_read(options, size):
    packed = zstandard.ZstdCompressor(**options).compress(TEXT[:size])
    assert inflated(packed) == (TEXT[:size], None)
    assert inflated(packed * 2, 2 * size) == (2 * TEXT[:size], None)


@pytest.mark.parametrize("packed", [compress(TEXT), CHECKED, flushed([TEXT[:9000]] * 30)])
def test_a_cut_or_damage_leaves_all_blocks_before_it(packed):
    for _ in range(60):
        end = SOME.randrange(5, len(packed))
        made, error = inflated(packed[:end])
        assert (made, error) == (streamed(packed[:end]), "zstd: ends inside a frame")
        broken = bytearray(packed)
        broken[end] ^= 1 << SOME.randrange(8)
        made, _ = inflated(bytes(broken))
        assert made.startswith(streamed(packed[: end - 3]))


def test_damage_leaves_all_blocks_before_it_also_small_ones():
    packed = flushed([TEXT[:50]] * 20)
    for _ in range(60):
        place = SOME.randrange(5, len(packed))
        broken = bytearray(packed)
        broken[place] ^= 1 << SOME.randrange(8)
        made, _ = inflated(bytes(broken))
        assert made.startswith(streamed(packed[: place - 3]))


def test_a_wrong_checksum_is_damage():
    made, error = inflated(CHECKED[:-1] + bytes([CHECKED[-1] ^ 1]))
    assert (made, error) == (TEXT, "zstd: Restored data doesn't match checksum")


def test_blocks_that_might_not_fit_are_inflated_to_the_limit():
    parts = [b"%d," % number for number in range(100)]
    packed, text = flushed(parts), b"".join(parts)
    assert inflated(packed, len(text)) == (text, None)
    for limit in (0, 1, len(text) - 1):
        with pytest.raises(OverflowError):
            inflated(packed, limit)
    broken = packed[:-1] + bytes([packed[-1] ^ 1])
    made, error = inflated(broken, 99 * 128 * 1024)
    assert error == "zstd: Restored data doesn't match checksum"
    assert text.startswith(made)
    assert len(made) > 100
    assert inflated(broken, len(text))[0] == text


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (MAGIC, "ends inside a frame"),
        (MAGIC[:3], "ends inside a frame"),
        (b"\x50\x2a\x4d\x18\x03\x00\x00\x00ab", "ends inside a frame"),
        (b"\x50\x2a\x4d\x18\x03", "ends inside a frame"),
        (b"noise" * 9, "no frame starts here"),
        (MAGIC + b"\x00\x58" + block(RESERVED | LAST, 1, b"a"), "a block of an unknown kind"),
        (MAGIC + b"\x00\x58" + block(STORED, 0, b"") * (MAX_BLOCKS + 1), f"more than {MAX_BLOCKS} blocks"),
        (MAGIC + b"\x00\x90" + block(STORED | LAST, 0, b""), "Frame requires too much memory for decoding"),
        (MAGIC + b"\x01\x58\x07" + block(STORED | LAST, 0, b""), "Dictionary mismatch"),
        (MAGIC + b"\x02\x58\xff\xff" + block(STORED | LAST, 0, b""), "Dictionary mismatch"),
        (MAGIC + b"\x03\x58" + b"\xff" * 4 + block(STORED | LAST, 0, b""), "Dictionary mismatch"),
        (MAGIC + b"\x41\x58\x07\xff\xff" + block(STORED | LAST, 0, b""), "Dictionary mismatch"),
        (b"noise", "no frame starts here"),
        (MAGIC + b"\x00\x58\x06", "ends inside a frame"),
        (MAGIC + b"\x00\x58\x06\x00", "ends inside a frame"),
    ],
)  # fmt: skip
def test_what_no_writer_makes_is_named(data, error):
    assert inflated(data) == (b"", f"zstd: {error}")


@pytest.mark.parametrize("second", [MAGIC + b"\x00", b"\x50\x2a\x4d\x18\x03\x00\x00\x00"])
def test_a_second_frame_cut_anywhere_leaves_the_first(second):
    for end in range(1, len(second) + 1):
        assert inflated(compress(TEXT) + second[:end]) == (TEXT, "zstd: ends inside a frame")


def test_a_skippable_frame_may_be_empty():
    assert inflated(b"\x50\x2a\x4d\x18\x00\x00\x00\x00") == (b"", None)
    assert inflated(compress(TEXT) + b"\x5f\x2a\x4d\x18\x00\x00\x00\x00") == (TEXT, None)


def test_a_frame_may_state_both_its_window_and_its_size():
    size = (1000 - 256).to_bytes(2, "little")
    packed = MAGIC + b"\x40\x58" + size + block(REPEATED | LAST, 1000, b"a")
    assert inflated(packed) == (b"a" * 1000, None)


def test_the_blocks_of_a_frame_are_bounded(monkeypatch):
    monkeypatch.setattr("engine.coding.zstd_frame.MAX_BLOCKS", 2)
    two = block(STORED, 1, b"a") + block(STORED | LAST, 1, b"b")
    assert inflated(MAGIC + b"\x00\x58" + two) == (b"ab", None)
    three = block(STORED, 1, b"a") + two
    assert inflated(MAGIC + b"\x00\x58" + three) == (b"aa", "zstd: more than 2 blocks")


def test_repeated_bytes_are_counted_as_what_they_inflate_to():
    packed = MAGIC + b"\x00\x58" + block(REPEATED | LAST, 1000, b"a")
    assert inflated(packed, 1000) == (b"a" * 1000, None)
    with pytest.raises(OverflowError):
        inflated(packed, 999)


def test_the_default_level_is_3():
    assert compress(TEXT) == compress(TEXT, 3)
    assert compress(TEXT) not in (compress(TEXT, 2), compress(TEXT, 4))


def test_a_frame_may_state_its_size_in_8_bytes():
    head = MAGIC + bytes([0xE0]) + (5).to_bytes(8, "little")
    whole = head + block(1, 5, b"hello")
    assert inflated(whole) == (b"hello", None)
    assert inflated(whole + whole) == (b"hellohello", None)
