"""The types and defaults of settings, the settings of brokers that stand for those of topics, and those that are secrets.

The facts are what a broker of 4.4.0 answers to DescribeConfigs.
"""

from __future__ import annotations

import re

_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST, _PASSWORD = 1, 2, 3, 5, 6, 7, 9
UNKNOWN_TYPE = 0
_NAMES = {
    _BOOLEAN: (
        "errors.deadletterqueue.copy.record.enable", "errors.deadletterqueue.group.enable",
        "preallocate", "remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable",
        "share.renew.acknowledge.enable", "unclean.leader.election.enable",
    ),
    _STRING: (
        "compression.type", "errors.deadletterqueue.topic.name", "message.timestamp.type", "share.auto.offset.reset",
        "share.isolation.level", "streams.assignor.name",
    ),
    _INT: (
        "compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "consumer.assignment.interval.ms",
        "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms", "index.interval.bytes",
        "internal.segment.bytes", "interval.ms", "max.decompressed.message.bytes", "max.message.bytes",
        "min.insync.replicas", "segment.bytes",
        "segment.index.bytes", "share.assignment.interval.ms", "share.delivery.count.limit",
        "share.heartbeat.interval.ms", "share.partition.max.record.locks", "share.record.lock.duration.ms",
        "share.session.timeout.ms", "streams.assignment.interval.ms", "streams.heartbeat.interval.ms",
        "streams.initial.rebalance.delay.ms", "streams.num.standby.replicas", "streams.session.timeout.ms",
    ),
    _LONG: (
        "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms", "local.retention.bytes",
        "local.retention.ms", "max.compaction.lag.ms", "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms", "min.compaction.lag.ms", "remote.copy.lag.bytes", "remote.copy.lag.ms", "retention.bytes", "retention.ms",
        "segment.jitter.ms", "segment.ms",
    ),
    _DOUBLE: ("min.cleanable.dirty.ratio",),
    _LIST: (
        "cleanup.policy", "follower.replication.throttled.replicas", "leader.replication.throttled.replicas", "match",
        "metrics", "streams.rack.aware.assignment.tags",
    ),
}  # fmt: skip
_TYPES = {name: kind for kind, names in _NAMES.items() for name in names}
_OF_BROKERS = {
    "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "preallocate": "log.preallocate",
    "remote.copy.lag.bytes": "log.remote.copy.lag.bytes",
    "remote.copy.lag.ms": "log.remote.copy.lag.ms",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
}
_SAME = (
    "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level",
    "max.decompressed.message.bytes", "min.insync.replicas", "unclean.leader.election.enable",
)  # fmt: skip
BROKER_NAMES = {name: name for name in _SAME} | _OF_BROKERS
"""Names of brokers' settings by the topics' settings that they are the default of."""
_LARGEST = str(2**63 - 1)
TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "errors.deadletterqueue.group.enable": "false",
    "file.delete.delay.ms": "60000",
    "flush.messages": _LARGEST,
    "flush.ms": _LARGEST,
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": _LARGEST,
    "max.decompressed.message.bytes": "2147483639",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": _LARGEST,
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.copy.lag.bytes": "-1",
    "remote.copy.lag.ms": "0",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
"""What a topic has if neither it nor the broker has a setting."""
_OWN_NAMES = (
    "errors.deadletterqueue.copy.record.enable", "errors.deadletterqueue.topic.name", "share.auto.offset.reset",
    "share.isolation.level", "share.renew.acknowledge.enable",
)  # fmt: skip
GROUP_DEFAULTS = {
    "consumer.assignment.interval.ms": "1000",
    "consumer.heartbeat.interval.ms": "5000",
    "consumer.session.timeout.ms": "45000",
    "errors.deadletterqueue.copy.record.enable": "false",
    "errors.deadletterqueue.topic.name": "",
    "share.assignment.interval.ms": "1000",
    "share.auto.offset.reset": "latest",
    "share.delivery.count.limit": "5",
    "share.heartbeat.interval.ms": "5000",
    "share.isolation.level": "read_uncommitted",
    "share.partition.max.record.locks": "2000",
    "share.record.lock.duration.ms": "30000",
    "share.renew.acknowledge.enable": "true",
    "share.session.timeout.ms": "45000",
    "streams.assignment.interval.ms": "1000",
    "streams.assignor.name": "sticky",
    "streams.heartbeat.interval.ms": "5000",
    "streams.initial.rebalance.delay.ms": "3000",
    "streams.num.standby.replicas": "0",
    "streams.rack.aware.assignment.tags": "",
    "streams.session.timeout.ms": "45000",
}
"""What a group has if neither it nor the broker has a setting."""
GROUP_BROKER_NAMES = {
    name: name if name in _OWN_NAMES else f"group.{name}" for name in GROUP_DEFAULTS
} | {"streams.assignor.name": "group.streams.assignors"}
"""Names of brokers' settings by the groups' settings that they are the default of."""
IN_OTHER_UNITS = ("flush.ms", "retention.ms", "segment.jitter.ms", "segment.ms")
"""Settings of topics whose default is that of a broker's setting in hours, or of none."""
_SECRET = re.compile(r".*(password|secret|jaas\.config|\.key|certificate\.chain|certificates)")


def is_secret(name: str) -> bool:
    """Return whether a broker's setting may hold a password or a key."""
    return _SECRET.fullmatch(name) is not None


def setting_type(name: str) -> int:
    """Return the type of a setting as answers state it."""
    return _PASSWORD if is_secret(name) else _TYPES.get(name, UNKNOWN_TYPE)
