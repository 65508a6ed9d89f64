"""What Kafka's LogCleanerTest asks of reading."""

import pytest

from engine.coding.compression import CompressionType
from engine.record.attributes import TimestampType
from engine.record.memory_records import MemoryRecords
from tests.builders import message, wrapper


@pytest.mark.conformance("LogCleanerTest.testClientHandlingOfCorruptMessageSet")
def test_client_handling_of_corrupt_message_set():
    # A wrapper of magic 1 around messages of magic 0, as an old cleaner wrote it (KAFKA-4298).
    keys, first = range(1, 10), 50
    inside = [
        message(place, str(key).encode(), str(first + place).encode(), magic=0)
        for place, key in enumerate(keys)
    ]
    data = wrapper(inside, first + len(keys) - 1, CompressionType.GZIP, magic=1, timestamp=-1)
    found = list(MemoryRecords(data).records())
    assert [record.offset for record in found] == [int(record.value or b"") for record in found]
    assert [record.offset for record in found] == list(range(50, 59))
    assert {record.timestamp_type for record in found} == {TimestampType.NO_TIMESTAMP_TYPE}
    assert {record.timestamp for record in found} == {-1}
