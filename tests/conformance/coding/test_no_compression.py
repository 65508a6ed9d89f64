"""What Kafka's NoCompressionTest asks of reading."""

import pytest

from engine.coding.compression import CompressionType, compress, decompress

DATA = b"data" * 256


@pytest.mark.conformance("NoCompressionTest.testCompressionDecompression")
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_compression_decompression(magic):
    data = compress(CompressionType.NONE, DATA, magic=magic)
    assert decompress(CompressionType.NONE, data, limit=len(DATA), magic=magic) == DATA
    assert data == DATA
