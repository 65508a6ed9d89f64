"""What Kafka's GzipCompressionTest asks of reading."""

import pytest

from engine.coding.compression import CompressionType, compress, decompress

DATA = b"data" * 256


@pytest.mark.conformance("GzipCompressionTest.testCompressionDecompression")
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("level", [1, None, 9])
def test_compression_decompression(magic, level):
    data = compress(CompressionType.GZIP, DATA, magic=magic, level=level)
    assert decompress(CompressionType.GZIP, data, limit=len(DATA), magic=magic) == DATA
