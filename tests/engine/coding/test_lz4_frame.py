"""LZ4 frames: every flag, linked blocks, and what a walker of frames must refuse."""

import random

import cramjam
import pytest

from engine.coding.checksums import xxh32
from engine.coding.lz4_frame import MAGIC, STORED, Lz4FrameError, compress, decompress

TEXT = b"".join(b"%d bottles, " % n for n in range(20_000))
LIMIT = 1 << 20


def header(flags: int, sizes: int = 0x40, content_size: bytes = b"") -> bytes:
    descriptor = bytes([flags, sizes]) + content_size
    return MAGIC + descriptor + bytes([xxh32(descriptor) >> 8 & 0xFF])


def block(data: bytes, *, stored: bool = False) -> bytes:
    return (len(data) | (STORED if stored else 0)).to_bytes(4, "little") + data


END = bytes(4)


def read(data: bytes, limit: int = LIMIT) -> bytes:
    out = bytearray()
    decompress(data, out, limit, check_header=True)
    return bytes(out)


def refused(data: bytes) -> str:
    with pytest.raises(Lz4FrameError) as raised:
        read(data)
    return str(raised.value)


@pytest.mark.parametrize("code", [4, 5, 6, 7])
@pytest.mark.parametrize("block_hash", [False, True])
def test_every_block_size_with_and_without_hashes(code, block_hash):
    data = compress(TEXT, block_size_code=code, block_hash=block_hash)
    assert read(data) == TEXT


def test_blocks_that_look_back_into_earlier_ones_are_read():
    data = bytes(cramjam.lz4.compress(TEXT))
    assert data[4] & 0x20 == 0
    assert read(data) == TEXT
    mixed = random.Random(3).randbytes(100_000) + b"\x00" * 100_000
    assert read(bytes(cramjam.lz4.compress(mixed))) == mixed


def test_a_block_that_looks_back_may_not_look_further_than_there_is_or_64_kib():
    linked = header(0x40)
    literal_then_match = bytes([0x10, 0x41, 0x02, 0x00, 0x00])
    assert "a match 2 bytes back" in refused(linked + block(literal_then_match) + END)
    back_to_itself = bytes([0x10, 0x41, 0x00, 0x00, 0x00])
    assert "a match 0 bytes back" in refused(linked + block(back_to_itself) + END)
    before = block(b"x" * 0x10000, stored=True)
    assert read(linked + before + block(bytes([0x00, 0xFF, 0xFF]) + bytes([0x10, 0x79])) + END) == (
        b"x" * (0x10000 + 4) + b"y"
    )


def test_a_match_repeats_what_it_makes_itself():
    for token, expected in ((0x20, b"ABABAB"), (0x21, b"ABABABA"), (0x26, b"AB" * 6)):
        data = header(0x40) + block(bytes([token]) + b"AB\x02\x00") + END
        assert read(data) == read(data, len(expected)) == expected
        with pytest.raises(OverflowError):
            read(data, len(expected) - 1)


def test_a_block_with_its_size_in_front_is_none_as_in_kafka():
    for store_size in (False, True):
        packed = bytes(cramjam.lz4.compress_block(TEXT[:40_000], store_size=store_size))
        data = header(0x60) + block(packed) + END
        if store_size:
            refused(data)
        else:
            assert read(data) == TEXT[:40_000]


def test_a_block_with_its_size_in_front_is_none_also_where_it_begins_as_a_block():
    # As a block, this is 18 literals, and a match that is longer than any block.
    content = bytes(11) + bytes([0x01, 0x00, 0x1F, 0x41, 0x01, 0x00]) + b"\xff" * 990 + b"\0"
    literals = bytes([0xF0, 0xFF, 0xFF, 0xFF, len(content) - 15 - 3 * 255]) + content
    data = header(0x60) + block(len(content).to_bytes(4, "little") + literals) + END
    assert bytes(cramjam.lz4.decompress_block(literals, output_len=len(content))) == content
    assert "content's size in front" in refused(data)


def test_a_block_that_only_seems_to_have_its_size_in_front_is_read():
    # 15 literals, which are the rest of a size of 240 and a block of 240 bytes
    literals = bytes.fromhex("0000 1f410100d570") + b"abcdefg"
    assert read(header(0x60) + block(b"\xf0\x00" + literals) + END) == literals
    zeros = bytes([0x34, 0, 0, 0, 3, 0]) + bytes([0xF0, 26 - 1]) + b"x" * 40
    made = read(header(0x60) + block(zeros) + END)
    assert (len(made), made[:11]) == (51, bytes(11))
    exact = bytes([0x33, 0, 0, 0, 3, 0]) + bytes([0xF0, 26]) + b"x" * 41
    assert read(header(0x60) + block(exact) + END) == bytes(10) + b"x" * 41


@pytest.mark.parametrize("cut", [1, 2])
def test_a_linked_block_that_ends_early_is_refused(cut):
    whole = bytes([0x1F, 0x41, 0x01, 0x00, 0x00])
    assert read(header(0x40) + block(whole) + END) == b"A" * 20
    assert read(header(0x40) + block(whole + bytes([0x10, 0x42])) + END) == b"A" * 20 + b"B"
    assert "ended prematurely" in refused(header(0x40) + block(whole[:-cut]) + END)


def test_a_linked_block_does_not_pass_the_limit():
    run = bytes([0x1F, 0x41, 0x01, 0x00]) + b"\xff" * 200 + b"\x00"
    packed = header(0x40) + block(run + bytes([0x10, 0x42])) + END
    assert len(read(packed)) == 1 + 15 + 4 + 200 * 255 + 1
    with pytest.raises(OverflowError):
        read(packed, 50_000)
    with pytest.raises(OverflowError):
        read(header(0x40) + block(bytes([0x50]) + b"abcde") + END, 4)
    assert "literals past the end" in refused(header(0x40) + block(bytes([0x50]) + b"abc") + END)


def test_a_block_may_not_inflate_to_more_than_the_frame_allows():
    too_much = bytes(cramjam.lz4.compress_block(bytes(70_000), store_size=False))
    assert refused(header(0x60) + block(too_much) + END)


@pytest.mark.parametrize("flags", [0x61, 0x62, 0x20, 0xA0, 0xE0])
def test_reserved_flags_and_other_versions_are_refused(flags):
    assert "frame flags" in refused(header(flags) + END)


@pytest.mark.parametrize("sizes", [0x00, 0x30, 0x41, 0xC0])
def test_block_size_codes_that_do_not_exist_are_refused(sizes):
    assert "block size byte" in refused(header(0x60, sizes) + END)


def test_a_stated_content_size_is_not_believed():
    for stated in (0, 5, 1 << 62):
        data = header(0x68, 0x40, stated.to_bytes(8, "little")) + block(b"hello", stored=True) + END
        assert read(data) == b"hello"
    assert "ended prematurely" in refused(data[:12])


def test_a_hash_of_the_content_is_passed_over_but_must_be_there():
    data = header(0x64) + block(b"hello", stored=True) + END
    assert read(data + b"\x01\x02\x03\x04") == b"hello"
    assert "ended prematurely" in refused(data + b"\x01\x02\x03")


def test_a_wrong_block_hash_is_refused():
    data = header(0x70) + block(b"hello", stored=True)
    assert read(data + xxh32(b"hello").to_bytes(4, "little") + END) == b"hello"
    assert "block checksum mismatch" in refused(data + bytes(4) + END)
    assert "ended prematurely" in refused(data + bytes(3))


def test_what_stands_behind_the_end_mark_is_not_read():
    assert read(compress(b"hello") + b"noise") == b"hello"


def test_nothing_of_a_stored_block_that_is_cut_is_read():
    out = bytearray()
    with pytest.raises(Lz4FrameError, match="ended prematurely"):
        decompress(header(0x60) + block(b"hello", stored=True)[:-1], out, LIMIT, check_header=True)
    assert out == b""


def test_six_bytes_are_enough_to_see_that_it_is_no_frame():
    assert "invalid magic" in refused(b"noise!")
    assert "ended prematurely" in refused(b"noise")
    assert "ended prematurely" in refused(header(0x60)[:6])


def test_damage_is_not_taken_for_a_block_above_the_limit():
    broken = header(0x60) + block(b"\x50abc") + END
    with pytest.raises(Lz4FrameError):
        read(broken, 1 << 16)
    with pytest.raises(OverflowError):
        read(broken, (1 << 16) - 1)


def test_stored_blocks_do_not_pass_the_limit():
    with pytest.raises(OverflowError):
        read(header(0x60) + block(b"hello", stored=True) + END, 4)


def test_endless_empty_blocks_are_refused(monkeypatch):
    monkeypatch.setattr("engine.coding.lz4_frame.MAX_BLOCKS", 100)
    nothing = block(b"\x00")
    assert read(header(0x60) + nothing * 99 + END) == b""
    assert "more than 100 blocks" in refused(header(0x60) + nothing * 200 + END)


def test_levels_are_those_from_3_to_12():
    some = random.Random(2)
    words = [bytes(some.choices(b"abcdefghij", k=some.randint(3, 9))) for _ in range(2000)]
    text = b" ".join(some.choices(words, k=9000))
    at = {level: compress(text, level=level) for level in (1, 3, 4, 11, 12, 17)}
    assert at[1] == at[3] != at[4]
    assert at[11] != at[12] == at[17]
