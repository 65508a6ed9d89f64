"""What Kafka's ZstdCompressionTest asks."""

import pytest

from engine.coding.compression import LEVELS, Compression, CompressionType, compress, decompress

DATA = b"data" * 256


@pytest.mark.conformance("ZstdCompressionTest.testCompressionDecompression")
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("level", [-131072, None, 22])
def test_compression_decompression(magic, level):
    data = compress(CompressionType.ZSTD, DATA, magic=magic, level=level)
    assert decompress(CompressionType.ZSTD, data, limit=len(DATA), magic=magic) == DATA


ZSTD = CompressionType.ZSTD


@pytest.mark.conformance("ZstdCompressionTest.testCompressionLevels")
def test_compression_levels():
    lowest, highest, _ = LEVELS[ZSTD]
    for level in (lowest - 1, highest + 1):
        with pytest.raises(ValueError, match=f"not {level}"):
            Compression(ZSTD, level)
    assert Compression(ZSTD, lowest).level == lowest
    assert Compression(ZSTD, highest).level == highest
