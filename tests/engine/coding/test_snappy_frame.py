"""Snappy: xerial's streams, bare blocks, and lies about sizes."""

import cramjam
import pytest

from engine.coding.snappy_frame import HEADER, MAGIC, SnappyFrameError, compress, decompress

TEXT = b"".join(b"%d bottles, " % n for n in range(20_000))
LIMIT = 1 << 20


def raw(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def chunk(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def read(data: bytes, limit: int = LIMIT) -> bytes:
    out = bytearray()
    decompress(data, out, limit)
    return bytes(out)


def refused(data: bytes) -> str:
    with pytest.raises(SnappyFrameError) as raised:
        read(data)
    return str(raised.value)


def test_a_stream_of_chunks_comes_back():
    packed = compress(TEXT)
    assert packed.startswith(MAGIC)
    assert read(packed) == TEXT


def test_one_bare_block_comes_back():
    assert read(raw(TEXT)) == TEXT
    assert read(raw(b"a")) == b"a"


def test_streams_may_follow_each_other():
    assert read(compress(b"abc") + compress(TEXT) + compress(b"def")) == b"abc" + TEXT + b"def"


def test_a_stream_without_chunks_is_empty_and_loose_bytes_at_its_end_are_dropped():
    assert read(HEADER) == b""
    assert read(compress(b"abc") + b"\x00\x00\x01") == b"abc"


def test_an_older_writers_stream_is_read_and_version_zero_is_not():
    other = MAGIC + (7).to_bytes(4, "big") + (1).to_bytes(4, "big")
    assert read(other + chunk(raw(b"abc"))) == b"abc"
    assert "version 0" in refused(MAGIC + bytes(8) + chunk(raw(b"abc")))


def test_a_second_header_must_be_whole():
    assert "inside a stream header" in refused(compress(b"abc") + MAGIC)
    assert "without its magic" in refused(compress(b"abc") + MAGIC[:4] + bytes(12))


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x80\x00\x00\x00"])
def test_a_chunk_of_negative_size_is_refused(size):
    assert "a chunk of -" in refused(HEADER + size + raw(b"abc"))


@pytest.mark.parametrize("size", [b"\x7f\xff\xff\xff", b"\x00\x00\x00\x20"])
def test_a_chunk_past_the_end_is_refused(size):
    assert "ends after" in refused(HEADER + size + raw(b"abc"))


def test_a_block_that_claims_a_gibibyte_is_refused_before_anything_is_allocated():
    claim = b"\x80\x80\x80\x80\x04" + b"abc"
    with pytest.raises(OverflowError):
        read(claim)
    with pytest.raises(OverflowError):
        read(HEADER + chunk(claim))
    # Below the limit, but more than its bytes could ever make.
    assert "states 524288 bytes" in refused(b"\x80\x80\x20" + b"abc")


def test_a_block_without_a_size_or_with_bad_content_is_refused():
    assert "without its size" in refused(HEADER + chunk(b""))
    assert "without its size" in refused(b"\xff" * 8)
    assert refused(b"\x10" + b"\xff" * 10)


def test_chunks_together_do_not_pass_the_limit():
    packed = compress(TEXT)
    assert read(packed, len(TEXT)) == TEXT
    with pytest.raises(OverflowError):
        read(packed, len(TEXT) - 1)


def test_endless_empty_chunks_are_refused(monkeypatch):
    monkeypatch.setattr("engine.coding.snappy_frame.MAX_CHUNKS", 100)
    assert read(HEADER + chunk(b"\x00") * 99) == b""
    assert "more than 100 chunks" in refused(HEADER + chunk(b"\x00") * 200)


def test_a_writers_chunks_hold_32_kib_each():
    data = compress(TEXT)
    position, sizes = len(HEADER), []
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        made = bytes(cramjam.snappy.decompress_raw(data[position + 4 : position + 4 + size]))
        sizes.append(len(made))
        position += 4 + size
    whole, rest = divmod(len(TEXT), 32_768)
    assert sizes == [32_768] * whole + [rest]
