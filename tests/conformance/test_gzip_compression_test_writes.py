"""What Kafka's GzipCompressionTest asks of writing."""

import pytest

from engine.coding.compression import LEVELS, Compression, CompressionType

GZIP = CompressionType.GZIP


@pytest.mark.conformance("GzipCompressionTest.testCompressionLevels")
def test_compression_levels():
    lowest, highest, _ = LEVELS[GZIP]
    for level in (lowest - 1, highest + 1):
        with pytest.raises(ValueError, match=f"not {level}"):
            Compression(GZIP, level)
    assert Compression(GZIP, lowest).level == lowest
    assert Compression(GZIP, highest).level == highest
