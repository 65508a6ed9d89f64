"""What Kafka's Lz4CompressionTest asks."""

import itertools
import mmap
import random
from typing import NamedTuple

import pytest

from engine.coding.checksums import xxh32
from engine.coding.compression import LEVELS, Compression, CompressionType, compress, decompress
from engine.coding.lz4_frame import MAGIC, STORED, compress as compress_frame
from engine.errors import DecompressionError

LZ4 = CompressionType.LZ4
ENDS_EARLY = "stream ended prematurely"
DESCRIPTOR = "stream frame descriptor corrupted"
SIZES = (1000, 1 << 16, (1 << 10) * 96)
PAYLOADS = {
    "empty": b"",
    "onebyte": b"\x01",
    **{f"random-{size}": random.Random(0).randbytes(size) for size in SIZES},
    **{f"ones-{size}": b"\x01" * size for size in SIZES},
}


class Args(NamedTuple):
    """How a frame was written, and whether its reader looks at the header's checksum."""

    payload: bytes
    broken: bool
    ignore: bool
    block_hash: bool
    close: bool
    level: int

    def compressed(self) -> bytes:
        data = compress_frame(
            self.payload,
            broken_header_checksum=self.broken,
            block_hash=self.block_hash,
            level=self.level,
        )
        return data if self.close else data[:-4]

    @property
    def refused(self) -> bool:
        return self.broken and not self.ignore


ARGS = [
    Args(*args) for args in itertools.product(PAYLOADS.values(), *[(False, True)] * 4, LEVELS[LZ4])
]


def read(data: bytes | memoryview, args: Args) -> bytes:
    return decompress(LZ4, data, limit=1 << 20, magic=0 if args.ignore else 1)


def assert_decompresses(data: bytes | memoryview, args: Args) -> None:
    if not args.refused and args.close:
        assert read(data, args) == args.payload
        return
    with pytest.raises(
        DecompressionError, match=DESCRIPTOR if args.refused else ENDS_EARLY
    ) as raised:
        read(data, args)
    assert raised.value.partial == (b"" if args.refused else args.payload)


@pytest.mark.conformance("Lz4CompressionTest.testLz4FramingMagicV0")
def test_lz4_framing_magic_v0():
    data = compress(LZ4, b"abc", magic=0)
    assert data[6] == xxh32(data[:6]) >> 8 & 0xFF
    assert decompress(LZ4, data, limit=3, magic=0) == b"abc"


@pytest.mark.conformance("Lz4CompressionTest.testLz4FramingMagicV1")
def test_lz4_framing_magic_v1():
    data = compress(LZ4, b"abc", magic=1)
    assert data[6] == xxh32(data[4:6]) >> 8 & 0xFF
    assert decompress(LZ4, data, limit=3, magic=1) == b"abc"
    with pytest.raises(DecompressionError, match=DESCRIPTOR):
        decompress(LZ4, compress(LZ4, b"abc", magic=0), limit=3, magic=1)


@pytest.mark.conformance("Lz4CompressionTest.testCompressionDecompression")
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_compression_decompression(magic):
    data = compress(LZ4, b"data" * 256, magic=magic)
    assert data[:4] == MAGIC
    assert decompress(LZ4, data, limit=1024, magic=magic) == b"data" * 256


@pytest.mark.conformance("Lz4CompressionTest.testHeaderPrematureEnd")
@pytest.mark.parametrize("magic", [0, 1])
def test_header_premature_end(magic):
    for size in range(7):
        with pytest.raises(DecompressionError, match=ENDS_EARLY):
            decompress(LZ4, compress(LZ4, b"abc", magic=magic)[:size], limit=3, magic=magic)


@pytest.mark.conformance("Lz4CompressionTest.testNotSupported")
def test_not_supported():
    for args in ARGS:
        data = b"\x00" + args.compressed()[1:]
        with pytest.raises(DecompressionError, match="invalid magic bytes"):
            read(data, args)


@pytest.mark.conformance("Lz4CompressionTest.testBadFrameChecksum")
def test_bad_frame_checksum():
    for args in ARGS:
        data = bytearray(args.compressed())
        data[6] = 0xFF
        if args.ignore:
            assert_decompresses(data, args)
        else:
            with pytest.raises(DecompressionError, match=DESCRIPTOR):
                read(data, args)


@pytest.mark.conformance("Lz4CompressionTest.testBadBlockSize")
def test_bad_block_size():
    for args in ARGS:
        if not args.close or args.refused:
            continue
        data = bytearray(args.compressed())
        word = int.from_bytes(data[7:11], "little") & STORED | 1 << 24
        data[7:11] = word.to_bytes(4, "little")
        with pytest.raises(DecompressionError, match="exceeded max"):
            read(data, args)


@pytest.mark.conformance("Lz4CompressionTest.testArrayBackedBuffer")
def test_array_backed_buffer():
    for args in ARGS:
        assert_decompresses(bytearray(args.compressed()), args)


@pytest.mark.conformance("Lz4CompressionTest.testArrayBackedBufferSlice")
def test_array_backed_buffer_slice():
    for args in ARGS:
        data = args.compressed()
        for before, behind in ((12, 123), (12 + 42, 0)):
            buffer = bytes(before) + data + bytes(behind)
            assert_decompresses(memoryview(buffer)[before : before + len(data)], args)


@pytest.mark.conformance("Lz4CompressionTest.testDirectBuffer")
def test_direct_buffer():
    for args in ARGS:
        data = args.compressed()
        outside = mmap.mmap(-1, len(data) + 42)
        outside[42:] = data
        assert_decompresses(memoryview(outside)[42:], args)


@pytest.mark.conformance("Lz4CompressionTest.testSkip")
def test_skip():
    for args in ARGS:
        if not args.close or args.refused:
            continue
        decoded = memoryview(read(args.compressed(), args))
        rest = decoded[100:]
        assert len(decoded) - len(rest) == min(100, len(args.payload))
        last = rest[10000:]
        assert len(rest) - len(last) == min(10000, len(args.payload) - min(100, len(args.payload)))
        assert last == args.payload[10100:]


@pytest.mark.conformance("Lz4CompressionTest.testCompressionLevels")
def test_compression_levels():
    lowest, highest, _ = LEVELS[LZ4]
    for level in (lowest - 1, highest + 1):
        with pytest.raises(ValueError, match=f"not {level}"):
            Compression(LZ4, level)
    assert Compression(LZ4, lowest).level == lowest
    assert Compression(LZ4, highest).level == highest


@pytest.mark.conformance("Lz4CompressionTest.testCompression")
@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=list(PAYLOADS))
@pytest.mark.parametrize("level", LEVELS[LZ4])
def test_compression(payload, level):
    for broken, block_hash in itertools.product((False, True), repeat=2):
        made = compress_frame(
            payload, broken_header_checksum=broken, block_hash=block_hash, level=level
        )
        assert made[:4] == bytes([0x04, 0x22, 0x4D, 0x18])
        flags, sizes = made[4], made[5]
        assert (flags >> 6 & 3, flags & 3) == (1, 0)
        assert 4 <= sizes >> 4 & 7 <= 7
        assert (sizes & 15, sizes >> 7) == (0, 0)
        assert bool(flags >> 4 & 1) == block_hash
        end = 6 + (8 if flags >> 3 & 1 else 0)
        assert made[end] == xxh32(made[0 if broken else 4 : end]) >> 8 & 0xFF
        assert made[-4:] == bytes(4)
        assert decompress(LZ4, made, limit=1 << 20, magic=0 if broken else 1) == payload
