"""What Kafka's ZstdCompressionTest asks of reading."""

import pytest

from engine.coding.compression import CompressionType, compress, decompress

DATA = b"data" * 256


@pytest.mark.conformance("ZstdCompressionTest.testCompressionDecompression")
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("level", [-131072, None, 22])
def test_compression_decompression(magic, level):
    data = compress(CompressionType.ZSTD, DATA, magic=magic, level=level)
    assert decompress(CompressionType.ZSTD, data, limit=len(DATA), magic=magic) == DATA
