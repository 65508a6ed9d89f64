"""Configuration of a topic's log, with Kafka's defaults and bounds.

`LogConfig(...)` takes any numbers, so that tests can have segments of a few bytes;
`LogConfig.from_properties` takes a topic's properties by Kafka's names and checks them as a broker does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.coding.compression import CODEC_NAMES, CompressionType
from engine.record.attributes import TimestampType
from engine.units import MAX_INT32, MAX_INT64

MINUTE_MS = 60 * 1000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
SMALLEST_SEGMENT = 1024 * 1024
"""Smallest segment.bytes that a broker accepts; internal.segment.bytes, for tests, may be smaller."""

_CODECS = {
    "uncompressed" if codec is CompressionType.NONE else CODEC_NAMES[codec]: codec
    for codec in CompressionType
}
_TIMESTAMP_TYPES = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Configuration of one log. Sizes are bytes, times are milliseconds.

    Attributes:
        segment_size: bytes of a records file before the log rolls.
        segment_ms, segment_jitter_ms: age at which it rolls, and most of the random reduction of that age.
        max_index_size: most bytes of an index file.
        index_interval: bytes between two entries of an index.
        retention_size, retention_ms: most bytes and age of kept segments; -1 for no limit.
        max_message_size: bytes of the largest batch that a leader accepts.
        flush_interval, flush_ms: records and time after which a log is flushed.
        file_delete_delay_ms: time from the renaming of a deleted file to its removal.
        delete_retention_ms: time that tombstones stay in a compacted log.
        min_compaction_lag_ms, max_compaction_lag_ms: smallest and largest age of records at compaction.
        min_cleanable_ratio: dirty share of a log that is worth a cleaning.
        compact, delete: the cleanup policies.
        compression_type: "producer" to keep the producer's codec, or a codec's name, or "uncompressed".
        gzip_level, lz4_level, zstd_level: compression level of that codec.
        preallocate: whether a new records file is allocated at its full size.
        message_timestamp_type: the producer's or the broker's timestamps.
        message_timestamp_before_max_ms, message_timestamp_after_max_ms: most that a record's
            timestamp may be before and after the broker's clock.
        unclean_leader_election, min_insync_replicas: replication settings, not used here.
    """

    segment_size: int = 1024**3
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    max_index_size: int = 10 * 1024**2
    index_interval: int = 4096
    retention_size: int = -1
    retention_ms: int = 7 * DAY_MS
    max_message_size: int = 1024**2 + 12
    flush_interval: int = MAX_INT64
    flush_ms: int = MAX_INT64
    file_delete_delay_ms: int = MINUTE_MS
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = MAX_INT64
    min_cleanable_ratio: float = 0.5
    compact: bool = False
    delete: bool = True
    compression_type: str = "producer"
    gzip_level: int = -1
    lz4_level: int = 9
    zstd_level: int = 3
    preallocate: bool = False
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = MAX_INT64
    message_timestamp_after_max_ms: int = HOUR_MS
    unclean_leader_election: bool = False
    min_insync_replicas: int = 1

    @property
    def compression(self) -> tuple[CompressionType, int | None] | None:
        """Codec and level that a leader writes; None to keep the producer's codec."""
        if self.compression_type == "producer":
            return None
        codec = _CODECS[self.compression_type]
        levels = {
            CompressionType.GZIP: self.gzip_level,
            CompressionType.LZ4: self.lz4_level,
            CompressionType.ZSTD: self.zstd_level,
        }
        return codec, levels.get(codec)

    @property
    def max_segment_ms(self) -> int:
        """Age at which a segment rolls; a compacted log rolls in time for max.compaction.lag.ms."""
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def initial_file_size(self) -> int:
        """Bytes that are allocated for a new records file."""
        return self.segment_size if self.preallocate else 0

    def random_segment_jitter(self) -> int:
        """Return milliseconds to subtract from one segment's age limit, below both the jitter and the limit."""
        if not self.segment_jitter_ms:
            return 0
        return random.randrange(2**31) % min(self.segment_jitter_ms, self.segment_ms)

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> LogConfig:
        """Return the configuration in a topic's properties.

        Args:
            properties: values, or their text, by Kafka's names, as in {"segment.ms": "1000"}.

        Raises:
            ValueError: an unknown name, or a value that a broker refuses.
        """
        fields: dict[str, Any] = {}
        for name, value in properties.items():
            known = _PROPERTIES.get(name)
            if known is not None:
                fields[known.field] = known.parse(name, value)
            elif name == "cleanup.policy":
                fields.update(_policies(name, value))
            else:
                _pass_over(name, value)
        internal = properties.get("internal.segment.bytes")
        if internal is not None:
            fields["segment_size"] = _integer(-(2**31), MAX_INT32)(
                "internal.segment.bytes", internal
            )
        config = cls(**fields)
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            raise ValueError(
                f"min.compaction.lag.ms ({config.min_compaction_lag_ms}) is above"
                f" max.compaction.lag.ms ({config.max_compaction_lag_ms})"
            )
        return config


class _Property(NamedTuple):
    field: str
    parse: Callable[[str, object], Any]


def _refused(name: str, value: object, expected: str) -> ValueError:
    return ValueError(f"{name} must be {expected}, not {value!r}")


def _integer(least: int, most: int) -> Callable[[str, object], int]:
    def parse(name: str, value: object) -> int:
        expected = f"an integer from {least} to {most}"
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise _refused(name, value, expected)
        try:
            number = int(value)
        except ValueError:
            raise _refused(name, value, expected) from None
        if not least <= number <= most:
            raise _refused(name, value, expected)
        return number

    return parse


def _gzip_level(name: str, value: object) -> int:
    level = _integer(-1, 9)(name, value)
    if level == 0:
        raise _refused(name, value, "from 1 to 9, or -1")
    return level


def _ratio(name: str, value: object) -> float:
    expected = "a number from 0 to 1"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _refused(name, value, expected)
    try:
        number = float(value)
    except ValueError:
        raise _refused(name, value, expected) from None
    if not 0 <= number <= 1:
        raise _refused(name, value, expected)
    return number


def _boolean(name: str, value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise _refused(name, value, "true or false")
    return text == "true"


def _codec(name: str, value: object) -> str:
    text = str(value).strip()
    if text != "producer" and text not in _CODECS:
        raise _refused(name, value, f"one of {', '.join((*_CODECS, 'producer'))}")
    return text


def _timestamp_type(name: str, value: object) -> TimestampType:
    if isinstance(value, TimestampType) and value.label in _TIMESTAMP_TYPES:
        return value
    found = _TIMESTAMP_TYPES.get(str(value).strip())
    if found is None:
        raise _refused(name, value, " or ".join(_TIMESTAMP_TYPES))
    return found


def _policies(name: str, value: object) -> dict[str, bool]:
    parts = str(value).split(",") if not isinstance(value, list | tuple) else list(map(str, value))
    policies = [part.strip() for part in parts if part.strip()]
    if not set(policies) <= {"compact", "delete"}:
        raise _refused(name, value, "compact, delete, both with a comma between, or nothing")
    return {"compact": "compact" in policies, "delete": "delete" in policies}


def _pass_over(name: str, value: object) -> None:
    """Ignore properties that are checked but do not affect a local log."""
    if name == "remote.storage.enable":
        if _boolean(name, value):
            raise _refused(name, value, "false: there is no remote storage")
    elif name not in _WITHOUT_EFFECT:
        raise ValueError(f"no topic has a property {name}")


_INT = _integer(0, MAX_INT32)
_LONG = _integer(0, MAX_INT64)
_PROPERTIES = {
    "segment.bytes": _Property("segment_size", _integer(SMALLEST_SEGMENT, MAX_INT32)),
    "segment.ms": _Property("segment_ms", _integer(1, MAX_INT64)),
    "segment.jitter.ms": _Property("segment_jitter_ms", _LONG),
    "segment.index.bytes": _Property("max_index_size", _integer(4, MAX_INT32)),
    "index.interval.bytes": _Property("index_interval", _INT),
    "retention.bytes": _Property("retention_size", _integer(-MAX_INT64 - 1, MAX_INT64)),
    "retention.ms": _Property("retention_ms", _integer(-1, MAX_INT64)),
    "max.message.bytes": _Property("max_message_size", _INT),
    "flush.messages": _Property("flush_interval", _integer(1, MAX_INT64)),
    "flush.ms": _Property("flush_ms", _LONG),
    "file.delete.delay.ms": _Property("file_delete_delay_ms", _LONG),
    "delete.retention.ms": _Property("delete_retention_ms", _LONG),
    "min.compaction.lag.ms": _Property("min_compaction_lag_ms", _LONG),
    "max.compaction.lag.ms": _Property("max_compaction_lag_ms", _integer(1, MAX_INT64)),
    "min.cleanable.dirty.ratio": _Property("min_cleanable_ratio", _ratio),
    "compression.type": _Property("compression_type", _codec),
    "compression.gzip.level": _Property("gzip_level", _gzip_level),
    "compression.lz4.level": _Property("lz4_level", _integer(1, 17)),
    "compression.zstd.level": _Property("zstd_level", _integer(-131072, 22)),
    "preallocate": _Property("preallocate", _boolean),
    "message.timestamp.type": _Property("message_timestamp_type", _timestamp_type),
    "message.timestamp.before.max.ms": _Property("message_timestamp_before_max_ms", _LONG),
    "message.timestamp.after.max.ms": _Property("message_timestamp_after_max_ms", _LONG),
    "unclean.leader.election.enable": _Property("unclean_leader_election", _boolean),
    "min.insync.replicas": _Property("min_insync_replicas", _integer(1, MAX_INT32)),
}
_WITHOUT_EFFECT = frozenset(
    {
        "internal.segment.bytes",
        "local.retention.ms",
        "local.retention.bytes",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    }
)
