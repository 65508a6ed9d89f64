"""What Kafka's Lz4CompressionTest asks of writing."""

import itertools
import random

import pytest

from engine.coding.checksums import xxh32
from engine.coding.compression import LEVELS, Compression, CompressionType, decompress
from engine.coding.lz4_frame import compress

LZ4 = CompressionType.LZ4
SIZES = (1000, 1 << 16, (1 << 10) * 96)
PAYLOADS = {
    "empty": b"",
    "onebyte": b"\x01",
    **{f"random-{size}": random.Random(0).randbytes(size) for size in SIZES},
    **{f"ones-{size}": b"\x01" * size for size in SIZES},
}


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
        made = compress(payload, broken_header_checksum=broken, block_hash=block_hash, level=level)
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
