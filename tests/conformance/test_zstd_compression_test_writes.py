"""What Kafka's ZstdCompressionTest asks of writing."""

import pytest

from engine.coding.compression import LEVELS, Compression, CompressionType

ZSTD = CompressionType.ZSTD


@pytest.mark.conformance("ZstdCompressionTest.testCompressionLevels")
def test_compression_levels():
    lowest, highest, _ = LEVELS[ZSTD]
    for level in (lowest - 1, highest + 1):
        with pytest.raises(ValueError, match=f"not {level}"):
            Compression(ZSTD, level)
    assert Compression(ZSTD, lowest).level == lowest
    assert Compression(ZSTD, highest).level == highest
