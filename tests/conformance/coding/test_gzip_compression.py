"""What Kafka's GzipCompressionTest asks."""

import pytest

from engine.coding.compression import LEVELS, Compression, CompressionType, compress, decompress
from engine.writing.log_config import LogConfig

DATA = b"data" * 256


@pytest.mark.conformance("GzipCompressionTest.testCompressionDecompression")
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("level", [1, None, 9])
def test_compression_decompression(magic, level):
    data = compress(CompressionType.GZIP, DATA, magic=magic, level=level)
    assert decompress(CompressionType.GZIP, data, limit=len(DATA), magic=magic) == DATA


GZIP = CompressionType.GZIP


@pytest.mark.conformance("GzipCompressionTest.testCompressionLevels")
def test_compression_levels():
    lowest, highest, _ = LEVELS[GZIP]
    for level in (lowest - 1, highest + 1):
        with pytest.raises(ValueError, match=f"not {level}"):
            Compression(GZIP, level)
    assert Compression(GZIP, lowest).level == lowest
    assert Compression(GZIP, highest).level == highest


@pytest.mark.conformance("GzipCompressionTest.testLevelValidator")
def test_level_validator():
    def validated(level):
        return LogConfig.from_properties({"compression.gzip.level": level}).gzip_level

    lowest, highest, default = LEVELS[GZIP]
    for level in (*range(lowest, highest + 1), default):
        assert validated(level) == level
    for level in (lowest - 1, highest + 1):
        with pytest.raises(ValueError, match=r"compression\.gzip\.level"):
            validated(level)
