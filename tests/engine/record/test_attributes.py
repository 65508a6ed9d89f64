"""Attribute bits, both ways."""

import itertools

import pytest

from engine.coding.compression import CompressionType
from engine.record.attributes import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
    codec_labels,
    compute_attributes,
    timestamp_type_of,
)

CREATE, APPEND = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("kind", [CREATE, APPEND])
def test_every_combination_reads_back(codec, kind):
    for flags in itertools.product((False, True), repeat=3):
        transactional, control, horizon = flags
        bits = compute_attributes(
            codec, kind, transactional=transactional, control=control, delete_horizon=horizon
        )
        assert bits & COMPRESSION_MASK == codec
        assert timestamp_type_of(bits) is kind
        masks = (TRANSACTIONAL_MASK, CONTROL_MASK, DELETE_HORIZON_MASK)
        assert tuple(bool(bits & mask) for mask in masks) == flags
        assert bits < 128


def test_attributes_need_a_timestamp_type():
    with pytest.raises(ValueError, match="need a timestamp type"):
        compute_attributes(timestamp_type=TimestampType.NO_TIMESTAMP_TYPE)


def test_labels_are_those_of_kafkas_tools():
    assert [kind.label for kind in TimestampType] == [
        "NoTimestampType",
        "CreateTime",
        "LogAppendTime",
    ]


def test_every_number_that_fits_the_codec_bits_has_a_label():
    known = ("none", "gzip", "snappy", "lz4", "zstd")
    assert codec_labels("codec {}") == (*known, "codec 5", "codec 6", "codec 7")
