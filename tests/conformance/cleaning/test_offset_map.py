"""What Kafka's OffsetMapTest asks."""

import pytest

from engine.index.offset_map import HashedOffsetMap

MEMORY_SIZE = 4096


def key(number: int) -> bytes:
    return str(number).encode()


def filled() -> tuple[HashedOffsetMap, int]:
    """A full map of 37, 38, …, and the first number that is not in it."""
    offsets = HashedOffsetMap(MEMORY_SIZE)
    number = 37
    while offsets.size < offsets.slots:
        offsets.put(key(number), number)
        number += 1
    return offsets, number


@pytest.mark.parametrize("items", [10, 100, 1000, 5000])
@pytest.mark.conformance("OffsetMapTest.testBasicValidation")
def test_basic_validation(items):
    offsets = HashedOffsetMap(items * 48)
    for number in range(items):
        offsets.put(key(number), number)
    assert [offsets.get(key(number)) for number in range(items)] == list(range(items))


@pytest.mark.conformance("OffsetMapTest.testClear")
def test_clear():
    offsets = HashedOffsetMap(MEMORY_SIZE)
    for number in range(10):
        offsets.put(key(number), number)
    assert [offsets.get(key(number)) for number in range(10)] == list(range(10))
    offsets.clear()
    assert [offsets.get(key(number)) for number in range(10)] == [-1] * 10


@pytest.mark.conformance("OffsetMapTest.testGetWhenFull")
def test_get_when_full():
    offsets, following = filled()
    assert offsets.get(key(following)) == -1
    assert offsets.get(key(following - 1)) == following - 1


@pytest.mark.conformance("OffsetMapTest.testUpdateLatestOffset")
def test_update_latest_offset():
    offsets, following = filled()
    assert offsets.get(key(following - 1)) == following - 1
    offsets.latest_offset = 40
    assert offsets.get(key(40)) == 40
    assert offsets.latest_offset == 40


@pytest.mark.conformance("OffsetMapTest.testLatestOffset")
def test_latest_offset():
    offsets, following = filled()
    assert offsets.latest_offset == following - 1


@pytest.mark.conformance("OffsetMapTest.testUtilization")
def test_utilization():
    offsets = HashedOffsetMap(MEMORY_SIZE)
    assert offsets.utilization == 0.0
    number = 37
    while offsets.size < offsets.slots:
        offsets.put(key(number), number)
        assert offsets.utilization == offsets.size / offsets.slots
        number += 1
    assert offsets.utilization == 1.0
