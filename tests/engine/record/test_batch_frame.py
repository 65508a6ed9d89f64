"""Sizes and positions of the parts of a batch's frame, by magic."""

import pytest

from engine.record.batch_frame import (
    CRC_COVERS_FROM,
    CRC_POSITION,
    CURRENT_MAGIC,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    SMALLEST_BATCH,
    SMALLEST_LENGTH,
)


def test_every_frame_begins_with_offset_and_length_and_has_the_magic_at_one_place():
    assert (LENGTH_POSITION, LOG_OVERHEAD, MAGIC_POSITION, CURRENT_MAGIC) == (8, 12, 16, 2)


@pytest.mark.parametrize(
    ("magic", "crc", "covers_from", "smallest"), [(0, 12, 16, 26), (1, 12, 16, 34), (2, 17, 21, 61)]
)
def test_the_checksum_is_where_kafka_has_it(magic, crc, covers_from, smallest):
    assert CRC_POSITION[magic] == crc
    assert CRC_COVERS_FROM[magic] == covers_from
    assert SMALLEST_BATCH[magic] == smallest


def test_no_other_magic_is_known():
    assert set(CRC_POSITION) == set(CRC_COVERS_FROM) == set(SMALLEST_BATCH) == {0, 1, 2}
    assert SMALLEST_LENGTH == 14
