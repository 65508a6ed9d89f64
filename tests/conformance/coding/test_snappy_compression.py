"""What Kafka's SnappyCompressionTest asks of reading."""

import pytest

from engine.coding.compression import CompressionType, compress, decompress

DATA = b"data" * 256


@pytest.mark.conformance("SnappyCompressionTest.testCompressionDecompression")
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_compression_decompression(magic):
    data = compress(CompressionType.SNAPPY, DATA, magic=magic)
    assert decompress(CompressionType.SNAPPY, data, limit=len(DATA), magic=magic) == DATA
