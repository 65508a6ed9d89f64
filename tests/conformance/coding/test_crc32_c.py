"""What Kafka's Crc32CTest asks."""

import pytest

from engine.coding.checksums import crc32c


@pytest.mark.conformance("Crc32CTest.testValue")
def test_value():
    assert crc32c(b"Some String") == 608512271
