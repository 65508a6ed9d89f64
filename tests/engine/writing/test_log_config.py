"""A topic's properties as a broker takes and refuses them."""

from __future__ import annotations

import pytest

from engine.coding.compression import CompressionType
from engine.record.attributes import TimestampType
from engine.units import MAX_INT32, MAX_INT64
from engine.writing.log_config import LogConfig


def test_a_topic_without_properties_has_the_brokers_defaults() -> None:
    config = LogConfig.from_properties({})
    assert config == LogConfig()
    assert (config.segment_size, config.max_index_size) == (1073741824, 10485760)
    assert (config.segment_ms, config.retention_ms, config.retention_size) == (
        604800000,
        604800000,
        -1,
    )
    assert (config.max_message_size, config.index_interval) == (1048588, 4096)
    assert (config.delete, config.compact, config.compression) == (True, False, None)
    assert config.initial_file_size == 0


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("segment.bytes", "1048576", "segment_size", 1048576),
        ("internal.segment.bytes", 72, "segment_size", 72),
        ("segment.ms", " 1 ", "segment_ms", 1),
        ("retention.ms", "-1", "retention_ms", -1),
        ("retention.bytes", "-5", "retention_size", -5),
        ("segment.index.bytes", 4, "max_index_size", 4),
        ("flush.messages", "1", "flush_interval", 1),
        ("cleanup.policy", "compact, delete", "compact", True),
        ("cleanup.policy", ["compact"], "delete", False),
        ("cleanup.policy", "", "delete", False),
        ("min.cleanable.dirty.ratio", "0.25", "min_cleanable_ratio", 0.25),
        ("preallocate", "TRUE", "preallocate", True),
        ("message.timestamp.type", "LogAppendTime", "message_timestamp_type", TimestampType.LOG_APPEND_TIME),
        ("message.timestamp.type", TimestampType.CREATE_TIME, "message_timestamp_type", TimestampType.CREATE_TIME),
        ("compression.gzip.level", -1, "gzip_level", -1),
        ("remote.storage.enable", "false", "segment_size", 1073741824),
        ("local.retention.ms", "-2", "retention_ms", 604800000),
    ],
)  # fmt: skip
def test_a_value_is_taken(name: str, value: object, field: str, expected: object) -> None:
    assert getattr(LogConfig.from_properties({name: value}), field) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment.bytes", 1048575),
        ("segment.bytes", MAX_INT32 + 1),
        ("segment.bytes", "1 MiB"),
        ("segment.bytes", True),
        ("segment.ms", 0),
        ("segment.index.bytes", 3),
        ("retention.ms", -2),
        ("flush.messages", 0),
        ("index.interval.bytes", -1),
        ("max.compaction.lag.ms", 0),
        ("min.cleanable.dirty.ratio", 1.5),
        ("min.cleanable.dirty.ratio", "half"),
        ("min.cleanable.dirty.ratio", True),
        ("cleanup.policy", "shred"),
        ("compression.type", "none"),
        ("compression.type", "GZIP"),
        ("compression.gzip.level", 0),
        ("compression.lz4.level", 18),
        ("compression.zstd.level", 23),
        ("message.timestamp.type", "Now"),
        ("message.timestamp.type", TimestampType.NO_TIMESTAMP_TYPE),
        ("preallocate", "yes"),
        ("remote.storage.enable", "true"),
        ("segment.size", 5),
    ],
)
def test_a_value_that_a_broker_refuses_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        LogConfig.from_properties({name: value})


def test_lags_that_contradict_each_other_are_refused() -> None:
    lags = {"min.compaction.lag.ms": 5, "max.compaction.lag.ms": 4}
    with pytest.raises(ValueError, match=r"min\.compaction\.lag\.ms"):
        LogConfig.from_properties(lags)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"compression.type": "uncompressed"}, (CompressionType.NONE, None)),
        ({"compression.type": "snappy"}, (CompressionType.SNAPPY, None)),
        ({"compression.type": "gzip", "compression.gzip.level": 9}, (CompressionType.GZIP, 9)),
        ({"compression.type": "lz4"}, (CompressionType.LZ4, 9)),
        ({"compression.type": "zstd"}, (CompressionType.ZSTD, 3)),
    ],
)
def test_a_codec_comes_with_its_level(
    properties: dict[str, object], expected: tuple[CompressionType, int | None]
) -> None:
    assert LogConfig.from_properties(properties).compression == expected


def test_a_compacted_log_rolls_in_time_for_its_largest_lag() -> None:
    assert LogConfig(segment_ms=100, max_compaction_lag_ms=7).max_segment_ms == 100
    assert LogConfig(segment_ms=100, max_compaction_lag_ms=7, compact=True).max_segment_ms == 7
    assert LogConfig(segment_ms=100, compact=True).max_segment_ms == 100


def test_the_jitter_stays_below_its_bound_and_the_segments_age() -> None:
    assert LogConfig().random_segment_jitter() == 0
    for bound, age in ((5, MAX_INT64), (1000, 3)):
        config = LogConfig(segment_jitter_ms=bound, segment_ms=age)
        found = {config.random_segment_jitter() for _ in range(300)}
        assert found == set(range(min(bound, age)))


def test_a_preallocated_file_takes_the_whole_segment() -> None:
    assert LogConfig(preallocate=True, segment_size=99).initial_file_size == 99
